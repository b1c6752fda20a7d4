//! The bytes that a server sends to an address that is not validated.

use crate::pair::{config, in_virtual_time, pass, receive, send_all, Datagram, Pair};

/// More timeouts than fit into the limit.
const PROBES: usize = 10;

fn bytes(datagrams: &[Datagram]) -> usize {
    datagrams.iter().map(|(datagram, _)| datagram.len()).sum()
}

#[test]
fn padding_counts_towards_the_limit() {
    in_virtual_time(|| {
        let mut pair = Pair::new(&mut config(), &mut config());
        let hello = send_all(&mut pair.client);
        let received_bytes = bytes(&hello);
        receive(&mut pair.server, hello);

        // Nothing arrives, and probes are datagrams of padding.
        let mut sent_bytes = bytes(&send_all(&mut pair.server));
        for _ in 0..PROBES {
            let Some(timeout) = pair.server.timeout() else {
                break;
            };
            pass(timeout);
            pair.server.on_timeout();
            sent_bytes += bytes(&send_all(&mut pair.server));
        }
        assert!(sent_bytes <= 3 * received_bytes, "RFC 9000 section 8.1");
        assert!(sent_bytes > 2 * received_bytes, "{sent_bytes}");
    });
}
