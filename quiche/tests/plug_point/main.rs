//! The plug point in real connections: what a controller is told, when, and what becomes of its
//! answers.

mod amplification;
mod answers;
mod connection_ids;
mod events;
mod handshake;
mod loopback;
mod pair;
mod rebinding;
mod recorder;
mod selection;
mod streams;

use std::time::Duration;

use quiche::Config;

use pair::{config, pass, receive, send_all, Pair};
use recorder::Recorder;

/// A window that nothing here fills.
const WIDE: usize = 1_000_000;

/// A server's configuration with recording controllers.
fn recorded(recorder: &Recorder) -> Config {
    let mut config = config();
    config.set_cc_controller_factory(recorder.factory());
    config
}

/// Drops the datagrams with these places in what the server sends next, lets the client acknowledge
/// the others, and returns the size of those dropped.
fn lose(pair: &mut Pair, places: &[usize]) -> u64 {
    let mut dropped = 0;
    for (place, datagram) in send_all(&mut pair.server).into_iter().enumerate() {
        if places.contains(&place) {
            dropped += datagram.0.len() as u64;
        } else {
            receive(&mut pair.client, vec![datagram]);
        }
    }
    pass(Duration::from_millis(10));
    pair.acknowledge();
    dropped
}
