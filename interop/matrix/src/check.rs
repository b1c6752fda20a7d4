//! What a case looks at beside the files: the packets that crossed the path.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use crate::capture::{Capture, First};
use crate::case::{Case, Check};
use crate::decrypted;

/// The IANA number of TLS_CHACHA20_POLY1305_SHA256 (RFC 8446 §B.4).
const CHACHA20: &str = "0x1303";

/// QUIC version 2 (RFC 9369 §3.1).
const VERSION_2: u32 = 0x6b33_43cf;

/// What a server may send of what it got, before an address is validated (RFC 9000 §8).
const AMPLIFICATION: usize = 3;

/// Streams that the runner allows at once.
const MAX_STREAMS: u64 = 1000;

/// What of the requests may come after the 0-RTT packets, as a share of their bytes.
const MAX_LATE_SHARE: f64 = 0.5;

/// What was found.
#[derive(Debug, Default)]
pub struct Checked {
    /// What is wrong, if something is.
    pub problem: Option<String>,
    /// Why one of the two does not support the case, which it had no way to say.
    pub unsupported: Option<String>,
    /// A rate in kbit/s, where one is measured.
    pub kbps: Option<f64>,
}

/// Looks at a capture as the case wants.
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
    if matches!(case.impairment, crate::case::Impairment::Corruption(_)) {
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

fn retry(capture: &Capture) -> Option<String> {
    let token = capture
        .from(true)
        .find_map(|datagram| match &datagram.first {
            First::Long {
                kind: quiche::Type::Retry,
                token,
                ..
            } => Some(token),
            _ => None,
        });
    let Some(expected) = token else {
        return Some("the server sent no Retry".to_owned());
    };
    let is_returned = capture.from(false).any(|datagram| {
        matches!(&datagram.first,
            First::Long { kind: quiche::Type::Initial, token, .. } if token == expected)
    });
    (!is_returned).then(|| "the client did not return the token of the Retry".to_owned())
}

/// `certificates`: packets with a certificate, of either connection.
fn resumption(certificates: &[Vec<String>]) -> Option<String> {
    let servers: BTreeSet<&String> = certificates.iter().flatten().collect();
    match servers.len() {
        1 => None,
        0 => Some("no certificate on the first connection".to_owned()),
        _ => Some("the second connection has a certificate: it is not resumed".to_owned()),
    }
}

/// `requests`: type and stream data of the client's packets with requests.
fn zero_rtt(capture: &Capture, requests: &[Vec<String>]) -> Option<String> {
    /// The packet type of 0-RTT (RFC 9000 §17.2.3).
    const ZERO_RTT: &str = "1";
    if capture.count(false, quiche::Type::ZeroRTT) == 0 {
        return Some("no 0-RTT packet".to_owned());
    }
    let (mut early, mut late) = (0, 0);
    // The first connection has one request, which cannot be early.
    for request in requests.iter().skip(1) {
        let bytes = request.get(1).map_or(0, |data| data.len() / 2);
        match request
            .first()
            .is_some_and(|kinds| kinds.contains(ZERO_RTT))
        {
            true => early += bytes,
            false => late += bytes,
        }
    }
    if early == 0 {
        return Some("no request in a 0-RTT packet".to_owned());
    }
    let share = f64::from(late as u32) / f64::from((early + late) as u32);
    (share > MAX_LATE_SHARE)
        .then(|| format!("{late} of {} bytes of requests after 0-RTT", early + late))
}

fn chacha20(suites: &[Vec<String>]) -> Option<String> {
    let suites: BTreeSet<&String> = suites.iter().flatten().collect();
    match suites.iter().next() {
        None => Some("no ServerHello".to_owned()),
        Some(suite) if suites.len() == 1 && suite.as_str() == CHACHA20 => None,
        Some(suite) => Some(format!("cipher suite {suite}")),
    }
}

fn multiplexing(limits: &[Vec<String>]) -> Option<String> {
    let Some(limit) = limits.first().and_then(|row| row.first()) else {
        return Some("no limit of streams in the server's transport parameters".to_owned());
    };
    match limit.parse::<u64>() {
        Ok(limit) if limit <= MAX_STREAMS => None,
        _ => Some(format!(
            "the server allows {limit} streams, more than {MAX_STREAMS}"
        )),
    }
}

/// `packets`: source ports of packets in the second phase.
fn key_update(packets: &[Vec<String>]) -> Option<String> {
    let is_server = |row: &Vec<String>| row.first().is_some_and(|port| port == "443");
    let (servers, clients): (Vec<_>, Vec<_>) = packets.iter().partition(|row| is_server(row));
    match (clients.is_empty(), servers.is_empty()) {
        (true, _) => Some("the client did not update its keys".to_owned()),
        (_, true) => Some("the server did not follow the update of keys".to_owned()),
        _ => None,
    }
}

/// An end that sends no marks does not support ECN.
fn without_marks(capture: &Capture) -> Option<String> {
    let ends = [("client", false), ("server", true)].into_iter();
    let without: Vec<&str> = ends
        .filter(|&(_, is_server)| !capture.from(is_server).any(|datagram| datagram.ecn != 0))
        .map(|(name, _)| name)
        .collect();
    let who = without.join(" and the ");
    (!without.is_empty()).then(|| format!("no ECN marks from the {who}"))
}

/// `reports`: source ports of packets that acknowledge marks.
fn ecn(reports: &[Vec<String>]) -> Option<String> {
    let is_server = |row: &Vec<String>| row.first().is_some_and(|port| port == "443");
    let ends = [("client", false), ("server", true)].into_iter();
    ends.filter(|&(_, server)| !reports.iter().any(|row| is_server(row) == server))
        .map(|(name, _)| format!("the {name} does not report ECN marks"))
        .next()
}

fn version_2(capture: &Capture) -> Option<String> {
    let has = |is_server: bool| {
        capture.from(is_server).any(|datagram| {
            matches!(datagram.first, First::Long { version, .. } if version == VERSION_2)
        })
    };
    let is_first_1 = capture.from(false).next().is_some_and(|datagram| {
        matches!(datagram.first,
            First::Long { version, .. } if version == quiche::PROTOCOL_VERSION)
    });
    match (is_first_1, has(true), has(false)) {
        (false, _, _) => Some("the client does not begin with version 1".to_owned()),
        (_, false, _) => Some("the server does not move to version 2".to_owned()),
        (_, _, false) => Some("the client does not follow to version 2".to_owned()),
        _ => None,
    }
}

/// The first of the times in a column, in seconds.
fn first_time(rows: &[Vec<String>]) -> Option<f64> {
    rows.first()?.first()?.parse().ok()
}

/// `validated_s`: when the client's first Handshake packet arrived, which ends the limit.
fn amplification(capture: &Capture, validated_s: Option<f64>) -> Option<String> {
    /// Times go through text and floating point.
    const PRECISION_S: f64 = 1e-6;
    let end_s = validated_s.unwrap_or(f64::INFINITY) - PRECISION_S;
    let limited = capture
        .datagrams
        .iter()
        .take_while(|datagram| datagram.time.as_secs_f64() < end_s);
    let (mut received, mut sent) = (0, 0);
    for datagram in limited {
        match datagram.is_from_server {
            true => sent += datagram.length_bytes,
            false => received += datagram.length_bytes,
        }
        if sent > AMPLIFICATION * received {
            return Some(format!(
                "the server sent {sent} bytes when it had {received}, more than three times that"
            ));
        }
    }
    (sent == 0).then(|| "the server sent nothing before it knew the address".to_owned())
}

/// `frames`: types of the frames in the server's packets that could be read.
///
/// NOTE: tshark loses track of some connections whose client has empty connection IDs. Where it
/// could read less than half of the packets, that the files arrived is taken for enough: an address
/// that is not validated gets only three times of what it sends (RFC 9000 §9.3.1).
fn rebinding(capture: &Capture, frames: &[Vec<String>]) -> Option<String> {
    /// The frame type of PATH_CHALLENGE (RFC 9000 §19.17), as tshark writes it.
    const PATH_CHALLENGE: [&str; 2] = ["26", "0x000000000000001a"];
    if capture.clients().len() < 2 {
        return Some("the client's address did not change".to_owned());
    }
    let is_readable = 2 * frames.len() >= capture.from(true).count();
    let is_validated = frames
        .iter()
        .flatten()
        .flat_map(|types| types.split(','))
        .any(|kind| PATH_CHALLENGE.contains(&kind));
    (is_readable && !is_validated).then(|| "the server did not validate the new address".to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::*;
    use crate::capture::Datagram;

    fn row(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    fn long(kind: quiche::Type, token: &[u8]) -> First {
        First::Long {
            kind,
            version: quiche::PROTOCOL_VERSION,
            source: vec![1],
            token: token.to_vec(),
        }
    }

    fn capture(datagrams: &[(bool, usize, First)]) -> Capture {
        let datagrams =
            datagrams
                .iter()
                .enumerate()
                .map(|(index, (is_from_server, length_bytes, first))| Datagram {
                    time: Duration::from_secs(index as u64),
                    is_from_server: *is_from_server,
                    client: SocketAddr::from(([10, 0, 0, 1], 1)),
                    length_bytes: *length_bytes,
                    ecn: 0,
                    first: first.clone(),
                });
        Capture {
            datagrams: datagrams.collect(),
        }
    }

    #[test]
    fn a_token_has_to_come_back() {
        let ask = (false, 1200, long(quiche::Type::Initial, b""));
        let retry_packet = (true, 100, long(quiche::Type::Retry, b"token"));
        let back = (false, 1200, long(quiche::Type::Initial, b"token"));
        assert_eq!(
            retry(&capture(&[ask.clone(), retry_packet.clone(), back])),
            None
        );
        assert!(retry(&capture(&[ask.clone(), retry_packet])).is_some());
        assert!(retry(&capture(&[ask])).is_some());
    }

    #[test]
    fn three_times_is_the_limit_until_the_client_is_known() {
        let ask = (false, 1200, long(quiche::Type::Initial, b""));
        let answer = |bytes| (true, bytes, long(quiche::Type::Initial, b""));
        let limited = |datagrams: &[(bool, usize, First)], validated| {
            amplification(&capture(datagrams), validated)
        };
        assert_eq!(limited(&[ask.clone(), answer(3600)], None), None);
        assert!(limited(&[ask.clone(), answer(3601)], None).is_some());
        assert!(limited(std::slice::from_ref(&ask), None).is_some());
        let later = [ask.clone(), answer(3600), ask, answer(9000)];
        assert!(limited(&later, None).is_some());
        assert_eq!(limited(&later, Some(2.0)), None);
    }

    #[test]
    fn a_resumed_connection_has_no_certificate() {
        assert_eq!(resumption(&[row(&["aa"]), row(&["aa"])]), None);
        assert!(resumption(&[row(&["aa"]), row(&["bb"])]).is_some());
        assert!(resumption(&[]).is_some());
    }

    #[test]
    fn requests_belong_into_early_packets() {
        let early = capture(&[(false, 1200, long(quiche::Type::ZeroRTT, b""))]);
        let first = row(&["", "aabbcc"]);
        let soon = row(&["1", "aabb"]);
        let late = row(&["", "aabbcc"]);
        assert_eq!(zero_rtt(&early, &[first.clone(), soon.clone()]), None);
        assert!(zero_rtt(&early, &[first.clone(), soon, late]).is_some());
        assert!(zero_rtt(&early, &[first]).is_some());
        assert!(zero_rtt(&Capture::default(), &[]).is_some());
    }

    #[test]
    fn a_new_address_has_to_be_validated() {
        let mut moved = capture(&[
            (false, 1200, First::Short),
            (false, 1200, First::Short),
            (true, 1200, First::Short),
        ]);
        assert!(rebinding(&moved, &[row(&["26"])]).is_some());
        moved.datagrams[1].client = SocketAddr::from(([10, 0, 0, 1], 2));
        assert_eq!(rebinding(&moved, &[row(&["2,26"])]), None);
        assert!(rebinding(&moved, &[row(&["2,8"])]).is_some());
        assert_eq!(rebinding(&moved, &[]), None);
    }

    #[test]
    fn ciphers_limits_and_keys() {
        assert_eq!(chacha20(&[row(&["0x1303"])]), None);
        assert!(chacha20(&[row(&["0x1303"]), row(&["0x1301"])]).is_some());
        assert_eq!(multiplexing(&[row(&["1000"])]), None);
        assert!(multiplexing(&[row(&["1001"])]).is_some());
        assert_eq!(key_update(&[row(&["443"]), row(&["5000"])]), None);
        assert!(key_update(&[row(&["443"])]).is_some());
    }

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
