//! Checks of handshakes: how connections begin.

use std::collections::BTreeSet;

use crate::capture::{Capture, First};

/// The IANA number of TLS_CHACHA20_POLY1305_SHA256 (RFC 8446 §B.4).
const CHACHA20: &str = "0x1303";

/// QUIC version 2 (RFC 9369 §3.1).
const VERSION_2: u32 = 0x6b33_43cf;

/// The factor of received bytes that a server may send before it has validated the address (RFC
/// 9000 §8).
const AMPLIFICATION: usize = 3;

/// The share of the requests' bytes that may come after the 0-RTT packets.
const MAX_LATE_SHARE: f64 = 0.5;

pub(super) fn retry(capture: &Capture) -> Option<String> {
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
pub(super) fn resumption(certificates: &[Vec<String>]) -> Option<String> {
    let servers: BTreeSet<&String> = certificates.iter().flatten().collect();
    match servers.len() {
        1 => None,
        0 => Some("no certificate on the first connection".to_owned()),
        _ => Some("the second connection has a certificate: it is not resumed".to_owned()),
    }
}

/// `requests`: type and stream data of the client's packets with requests.
pub(super) fn zero_rtt(capture: &Capture, requests: &[Vec<String>]) -> Option<String> {
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

pub(super) fn chacha20(suites: &[Vec<String>]) -> Option<String> {
    let suites: BTreeSet<&String> = suites.iter().flatten().collect();
    match suites.iter().next() {
        None => Some("no ServerHello".to_owned()),
        Some(suite) if suites.len() == 1 && suite.as_str() == CHACHA20 => None,
        Some(suite) => Some(format!("cipher suite {suite}")),
    }
}

pub(super) fn version_2(capture: &Capture) -> Option<String> {
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
pub(super) fn first_time(rows: &[Vec<String>]) -> Option<f64> {
    rows.first()?.first()?.parse().ok()
}

/// `validated_s`: the time when the client's first Handshake packet arrived, which ends the limit.
pub(super) fn amplification(capture: &Capture, validated_s: Option<f64>) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::samples::{capture, long, row};

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
    fn one_cipher_suite_is_right() {
        assert_eq!(chacha20(&[row(&["0x1303"])]), None);
        assert!(chacha20(&[row(&["0x1303"]), row(&["0x1301"])]).is_some());
    }
}
