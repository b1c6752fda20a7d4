//! The end of a connection whose window is full.

use crate::pair::{config, in_virtual_time, receive, send_all, write, Pair};
use crate::recorder::Recorder;
use crate::support::recorded;

#[test]
fn a_connection_is_closed_at_once_while_its_window_is_full() {
    in_virtual_time(|| {
        for is_app in [true, false] {
            let recorder = Recorder::new(12_000);
            let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
            write(&mut pair.server, 12_000);
            assert!(!send_all(&mut pair.server).is_empty());
            pair.server.close(is_app, 7, b"").unwrap();
            let last = send_all(&mut pair.server);
            assert_eq!(last.len(), 1);
            receive(&mut pair.client, last);
            assert_eq!(pair.client.peer_error().unwrap().error_code, 7);
        }
    });
}
