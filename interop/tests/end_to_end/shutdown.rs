//! A server that is asked to end.

use std::fs;

use gallop_interop::transport::HQ;
use nix::sys::signal::Signal;

use crate::setup::{Peer, Server, names};

const BYTES: usize = 3_000_000;

#[test]
fn what_is_under_way_is_finished_and_all_is_written() {
    let mut server = Server::start(&[
        "--qlog-dir",
        "{}/qlog",
        "--keylog",
        "{}/keys",
        "--shutdown-timeout",
        "1000s",
    ]);
    server.write("file", &[7; BYTES]);
    let mut peer = Peer::connect(server.address, HQ);
    peer.connection
        .stream_send(0, b"GET /file\r\n", true)
        .unwrap();
    let begun = peer.read(0, 1).unwrap();
    server.signal(Signal::SIGTERM);
    server.log("ending");
    let rest = peer.read(0, usize::MAX).unwrap();
    assert_eq!(begun.len() + rest.len(), BYTES);
    peer.until(|connection| connection.peer_error().is_some());
    assert_eq!(peer.connection.peer_error().unwrap().error_code, 0);
    assert_eq!(server.wait(), 0);
    let keys = fs::read_to_string(server.path("keys")).unwrap();
    assert!(keys.contains("CLIENT_TRAFFIC_SECRET_0 "));
    let traces = names(&server.path("qlog"));
    let trace = fs::read_to_string(server.path("qlog").join(&traces[0])).unwrap();
    assert!(trace.ends_with('\n'));
    for record in trace.split('\x1e').filter(|record| !record.is_empty()) {
        serde_json::from_str::<serde_json::Value>(record).unwrap();
    }
}

#[test]
fn unfinished_responses_are_given_up_in_time() {
    for (timeout, signals) in [("0s", 1), ("1000s", 2)] {
        let mut server = Server::start(&["--shutdown-timeout", timeout]);
        server.write("file", &[7; BYTES]);
        let mut peer = Peer::connect(server.address, HQ);
        peer.connection
            .stream_send(0, b"GET /file\r\n", true)
            .unwrap();
        peer.read(0, 1).unwrap();
        for _ in 0..signals {
            server.signal(Signal::SIGINT);
            server.log("ending");
            if signals == 2 {
                server.signal(Signal::SIGTERM);
                break;
            }
        }
        assert_eq!(server.wait(), 0);
        peer.until(|connection| connection.peer_error().is_some());
    }
}

#[test]
fn an_idle_server_ends_at_once() {
    let mut server = Server::start(&["--shutdown-timeout", "1000s"]);
    assert_eq!(server.end(), 0);
}
