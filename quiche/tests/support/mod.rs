//! Parts that the tests of several patches use.
#![allow(dead_code, reason = "each crate of tests uses a part of it")]

pub mod pair;
pub mod qlog;
pub mod recorder;

use std::time::Duration;

use quiche::Config;

use crate::pair::{config, pass, receive, send_all, Pair};
use crate::recorder::Recorder;

/// A window that no test fills.
pub const WIDE: usize = 1_000_000;

/// A server's configuration with recording controllers.
pub fn recorded(recorder: &Recorder) -> Config {
    let mut config = config();
    config.set_cc_controller_factory(recorder.factory());
    config
}

/// Drops the datagrams with these places among those that the server sends next, lets the client
/// acknowledge the others, and returns the size of those dropped.
pub fn lose(pair: &mut Pair, places: &[usize]) -> u64 {
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
