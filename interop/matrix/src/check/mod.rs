//! The checks of cases on the packets that crossed the path.

mod handshake;
#[cfg(test)]
mod samples;
mod transport;

use std::path::Path;

use anyhow::Result;

use crate::capture::Capture;
use crate::case::{Case, Check, Impairment};
use crate::decrypted;
use handshake::{amplification, chacha20, first_time, resumption, retry, version_2, zero_rtt};
use transport::{ecn, key_update, multiplexing, rebinding, without_marks};

/// The result of a check.
#[derive(Debug, Default)]
pub struct Checked {
    /// The failure, if there is one.
    pub problem: Option<String>,
    /// The reason why one end does not support the case, if the packets show that.
    pub unsupported: Option<String>,
    /// A rate in kbit/s, where one is measured.
    pub kbps: Option<f64>,
}

/// Checks a capture for the case.
///
/// # Errors
///
/// The capture cannot be read, or tshark not be asked.
pub fn check(case: &Case, path: &Path, keys: &Path) -> Result<Checked> {
    let capture = Capture::read(path)?;
    let ask = |filter: &str, fields: &[&str]| decrypted::fields(path, keys, filter, fields);
    let handshakes = match case.check {
        Check::Handshakes(number) => Some(number),
        Check::Resumption | Check::ZeroRtt => Some(2),
        // Damage and version 2 have connection IDs of their own.
        Check::V2 => None,
        _ => Some(1),
    };
    let mut problem = handshakes.and_then(|number| {
        let found = capture.handshakes();
        // A client that gives up and tries again makes one more; less is no connection.
        (found != number).then(|| format!("{found} handshakes in place of {number}"))
    });
    if matches!(case.impairment, Impairment::Corruption(_)) {
        // Damaged connection IDs count as further ones.
        let number = handshakes.unwrap_or_default();
        problem = problem.filter(|_| capture.handshakes() < number);
    }
    let mut kbps = None;
    let mut unsupported = None;
    let specific = match case.check {
        Check::Handshakes(_) | Check::Browse => None,
        Check::Long => {
            let hellos = capture.count(false, quiche::Type::Initial);
            (hellos < 2).then(|| "the client sent its first packet only once".to_owned())
        }
        Check::Retry => retry(&capture),
        Check::Resumption => resumption(&ask("tls.handshake.type == 11", &["quic.scid"])?),
        Check::ZeroRtt => zero_rtt(
            &capture,
            &ask(
                "udp.dstport == 443 && quic.stream.stream_id",
                &["quic.long.packet_type", "quic.stream_data"],
            )?,
        ),
        Check::ChaCha20 => chacha20(&ask(
            "tls.handshake.type == 2",
            &["tls.handshake.ciphersuite"],
        )?),
        Check::Multiplexing => multiplexing(&ask(
            "udp.srcport == 443 && tls.quic.parameter.initial_max_streams_bidi",
            &["tls.quic.parameter.initial_max_streams_bidi"],
        )?),
        Check::KeyUpdate => key_update(&ask(
            "quic.key_phase == 1",
            &["udp.srcport", "quic.key_phase"],
        )?),
        Check::Ecn => {
            let reports = ask("quic.ack.ect0_count > 0", &["udp.srcport"])?;
            unsupported = without_marks(&capture);
            ecn(&reports)
        }
        Check::V2 => version_2(&capture),
        Check::Amplification => {
            let proofs = ask(
                "udp.dstport == 443 && quic.long.packet_type == 2",
                &["frame.time_epoch"],
            )?;
            amplification(&capture, first_time(&proofs))
        }
        Check::Rebinding => rebinding(
            &capture,
            &ask(
                "udp.srcport == 443 && quic.frame_type",
                &["quic.frame_type"],
            )?,
        ),
        Check::Migration => {
            let clients = capture.clients().len();
            (clients < 2).then(|| "the client stayed at the first address".to_owned())
        }
        Check::Upload => {
            kbps = rate(case, &capture, false);
            None
        }
        Check::Goodput => {
            kbps = rate(case, &capture, true);
            kbps.is_none()
                .then(|| "no packets of a transfer".to_owned())
        }
    };
    Ok(Checked {
        problem: problem.or(specific),
        unsupported,
        kbps,
    })
}

/// The bytes of the files over the time from the first to the last packet of the transfer.
fn rate(case: &Case, capture: &Capture, is_server: bool) -> Option<f64> {
    let time = capture.transfer_time(is_server)?.as_secs_f64();
    Some(case.total_bytes() as f64 * 8.0 / 1e3 / time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::First;
    use crate::check::samples::{capture, long};

    #[test]
    fn rates_are_of_the_transfer_alone() {
        let case = Case::named("goodput").unwrap();
        let packets = capture(&[
            (true, 1200, long(quiche::Type::Initial, b"")),
            (true, 1200, First::Short),
            (false, 50, First::Short),
            (true, 1200, First::Short),
        ]);
        let kbps = rate(case, &packets, true).unwrap();
        assert!((kbps - 10.0 * 1024.0 * 1024.0 * 8.0 / 1e3 / 2.0).abs() < 1e-6);
        assert_eq!(rate(case, &packets, false), None);
    }
}
