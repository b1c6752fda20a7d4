//! Captures for tests.

use std::net::SocketAddr;
use std::time::Duration;

use crate::capture::{Capture, Datagram, First};

pub(super) fn row(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

pub(super) fn long(kind: quiche::Type, token: &[u8]) -> First {
    First::Long {
        kind,
        version: quiche::PROTOCOL_VERSION,
        source: vec![1],
        token: token.to_vec(),
    }
}

pub(super) fn capture(datagrams: &[(bool, usize, First)]) -> Capture {
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
