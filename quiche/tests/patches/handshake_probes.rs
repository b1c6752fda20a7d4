//! Handshakes whose packets are lost.

use crate::pair::{config, in_virtual_time, pass, receive, send_all, Pair};

/// The number of the server's probe timeouts until the client has the server's messages, all of
/// which were lost at first.
fn probe_timeouts(name: &str) -> usize {
    let mut server = config();
    server.set_cc_algorithm_name(name).unwrap();
    let mut pair = Pair::new(&mut config(), &mut server);
    let hello = send_all(&mut pair.client);
    receive(&mut pair.server, hello);
    assert!(!send_all(&mut pair.server).is_empty(), "lost");
    let mut count = 0;
    while !pair.client.is_established() && count < 10 {
        pass(pair.server.timeout().expect("a timer"));
        pair.server.on_timeout();
        let probes = send_all(&mut pair.server);
        receive(&mut pair.client, probes);
        // The client acknowledges nothing.
        send_all(&mut pair.client);
        count += 1;
    }
    count
}

#[test]
fn probes_repeat_both_spaces_of_the_handshake() {
    for name in ["reno", "bbr2_gcongestion"] {
        // The server's first message fills two packets, and a first timeout repeats one per space.
        in_virtual_time(|| assert_eq!(probe_timeouts(name), 2, "{name}"));
    }
}
