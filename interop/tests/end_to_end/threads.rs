//! A server of several threads, which is one server for its clients.
//!
//! The system chooses the thread of a new port by chance. Each test has so many ports that all of them
//! come to the same thread once in a million runs.

use gallop_interop::transport::{H3, HQ};
use nix::sys::signal::Signal;

use crate::raw::request;
use crate::relay::{Fate, From, Relay};
use crate::setup::{Peer, Server, soon, text};

const PORTS: usize = 20;

const METRICS: [&str; 2] = ["--metrics", "127.0.0.1:0"];

fn serve(flags: &[&str]) -> Server {
    let server = Server::start(&[&METRICS, flags].concat());
    server.write("small", b"0123456789");
    server
}

fn handed_over(server: &Server) -> usize {
    server.metric("gallop_handed_over_datagrams_total")
}

#[test]
fn a_client_behind_a_nat_that_forgets_stays_with_its_thread() {
    let server = serve(&[]);
    let bytes: Vec<u8> = (0..10_000_000).map(|byte| (byte % 251) as u8).collect();
    server.write("file", &bytes);
    let relay = Relay::start(server.address, |from, number| match from {
        From::Client if number > 10 && number % 5 == 0 && number < 200 => Fate::Rebind,
        _ => Fate::Pass,
    });
    let url = format!("https://localhost:{}/file", relay.address.port());
    let output = server.client(&["-o", "-", &url]);
    assert!(output.stdout == bytes, "{}", text(&output.stderr));
    assert!(relay.moves() >= PORTS);
    assert_eq!(server.metric("gallop_connections_total"), 1);
    assert!(handed_over(&server) > 0);
}

#[test]
fn a_client_that_migrates_stays_with_its_thread() {
    // quiche's client keeps the connection IDs of the paths that it has left.
    const MOVES: usize = 5;
    let server = serve(&[]);
    for connection in 0..PORTS / MOVES {
        let (protocol, get) = match connection % 2 {
            0 => (H3, request("GET", "/small", &[])),
            _ => (HQ, b"GET /small\r\n".to_vec()),
        };
        let mut peer = Peer::connect(server.address, protocol);
        for _ in 0..MOVES {
            peer.migrate();
            let stream = peer.open();
            let answer = peer.exchange(stream, &get).unwrap();
            assert!(answer.ends_with(b"0123456789"));
        }
    }
    assert_eq!(server.metric("gallop_connections_total"), PORTS / MOVES);
    assert!(handed_over(&server) > 0);
}

#[test]
fn all_threads_share_the_room_for_connections() {
    let server = serve(&["--max-connections", "10"]);
    let mut peers: Vec<_> = (0..10).map(|_| Peer::connect(server.address, H3)).collect();
    for _ in 0..PORTS {
        let mut refused = Peer::begin(server.address, H3);
        refused.step();
    }
    assert!(soon(
        || server.metric("gallop_connections_refused_total") >= PORTS
    ));
    assert_eq!(server.metric("gallop_connections_open"), 10);
    for peer in &mut peers {
        let answer = peer.exchange(0, &request("GET", "/small", &[])).unwrap();
        assert!(answer.ends_with(b"0123456789"));
    }
}

#[test]
fn a_session_is_resumed_with_any_thread() {
    let server = serve(&[]);
    let flags = ["--session", "{}/session", "--early-data"];
    let url = server.url("/small");
    for visit in 0..PORTS {
        let (report, status) = server.report(&[&flags[..], &[&url]].concat());
        assert_eq!(status, 0);
        assert_eq!(report["connections"][0]["resumed"], visit > 0);
    }
}

#[test]
fn all_threads_end_together() {
    for threads in ["1", "2", "5"] {
        let mut server = serve(&["--threads", threads, "--shutdown-timeout", "1000s"]);
        let mut peers: Vec<_> = (0..PORTS)
            .map(|_| Peer::connect(server.address, H3))
            .collect();
        assert_eq!(server.metric("gallop_connections_open"), PORTS);
        server.signal(Signal::SIGTERM);
        for peer in &mut peers {
            peer.until(|connection| connection.peer_error().is_some());
            assert_eq!(peer.connection.peer_error().unwrap().error_code, 0x100);
        }
        assert_eq!(server.wait(), 0);
    }
}
