//! Checks of connections once they are established.

use crate::capture::Capture;

/// Streams that the runner allows at once.
const MAX_STREAMS: u64 = 1000;

pub(super) fn multiplexing(limits: &[Vec<String>]) -> Option<String> {
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
pub(super) fn key_update(packets: &[Vec<String>]) -> Option<String> {
    let is_server = |row: &Vec<String>| row.first().is_some_and(|port| port == "443");
    let (servers, clients): (Vec<_>, Vec<_>) = packets.iter().partition(|row| is_server(row));
    match (clients.is_empty(), servers.is_empty()) {
        (true, _) => Some("the client did not update its keys".to_owned()),
        (_, true) => Some("the server did not follow the update of keys".to_owned()),
        _ => None,
    }
}

/// An end that sends no marks does not support ECN.
pub(super) fn without_marks(capture: &Capture) -> Option<String> {
    let ends = [("client", false), ("server", true)].into_iter();
    let without: Vec<&str> = ends
        .filter(|&(_, is_server)| !capture.from(is_server).any(|datagram| datagram.ecn != 0))
        .map(|(name, _)| name)
        .collect();
    let who = without.join(" and the ");
    (!without.is_empty()).then(|| format!("no ECN marks from the {who}"))
}

/// `reports`: source ports of packets that acknowledge marks.
pub(super) fn ecn(reports: &[Vec<String>]) -> Option<String> {
    let is_server = |row: &Vec<String>| row.first().is_some_and(|port| port == "443");
    let ends = [("client", false), ("server", true)].into_iter();
    ends.filter(|&(_, server)| !reports.iter().any(|row| is_server(row) == server))
        .map(|(name, _)| format!("the {name} does not report ECN marks"))
        .next()
}

/// `frames`: types of the frames in the server's packets that could be read.
///
/// NOTE: tshark loses track of some connections whose client has empty connection IDs. Where it
/// could read less than half of the packets, that the files arrived is taken for enough: an address
/// that is not validated gets only three times of what it sends (RFC 9000 §9.3.1).
pub(super) fn rebinding(capture: &Capture, frames: &[Vec<String>]) -> Option<String> {
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

    use super::*;
    use crate::capture::First;
    use crate::check::samples::{capture, row};

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
    fn limits_and_keys() {
        assert_eq!(multiplexing(&[row(&["1000"])]), None);
        assert!(multiplexing(&[row(&["1001"])]).is_some());
        assert_eq!(key_update(&[row(&["443"]), row(&["5000"])]), None);
        assert!(key_update(&[row(&["443"])]).is_some());
    }
}
