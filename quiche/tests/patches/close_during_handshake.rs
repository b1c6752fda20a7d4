//! A client whose application closes the connection before the handshake is confirmed.

use crate::pair::{config, in_virtual_time, pass, receive, send, send_all, Datagram, Pair};

/// More datagrams than a close takes.
const MANY: usize = 10;

/// A pair whose client has completed the handshake, and has sent nothing since.
fn established(name: &str) -> Pair {
    let mut client = config();
    client.set_cc_algorithm_name(name).unwrap();
    let mut pair = Pair::new(&mut client, &mut config());
    let hello = send_all(&mut pair.client);
    receive(&mut pair.server, hello);
    let answer = send_all(&mut pair.server);
    receive(&mut pair.client, answer);
    assert!(pair.client.is_established());
    pair
}

/// The client's last datagrams.
fn close(pair: &mut Pair) -> Vec<Datagram> {
    pair.client.close(true, 7, b"").unwrap();
    let last: Vec<_> = std::iter::from_fn(|| send(&mut pair.client))
        .take(MANY)
        .collect();
    assert!(last.len() < MANY, "it sends on and on");
    assert!(pair.client.is_draining(), "it has not said so");
    last
}

#[test]
fn a_close_does_not_wait_for_probes_of_the_handshake() {
    for name in ["reno", "bbr2_gcongestion"] {
        in_virtual_time(|| {
            let mut pair = established(name);
            let finished = send_all(&mut pair.client);
            receive(&mut pair.server, finished);
            assert!(!send_all(&mut pair.server).is_empty(), "lost");
            pass(pair.client.timeout().expect("a timer"));
            pair.client.on_timeout();
            let last = close(&mut pair);
            receive(&mut pair.server, last);
            assert_eq!(pair.server.peer_error().unwrap().error_code, 7);
        });
    }
}

#[test]
fn a_close_does_not_wait_for_data_of_the_handshake() {
    in_virtual_time(|| {
        let mut pair = established("reno");
        assert!(!close(&mut pair).is_empty());
    });
}
