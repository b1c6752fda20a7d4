//! A stream that is flushable and has nothing left to send.

use std::time::Duration;

use crate::pair::{config, in_virtual_time, pass, receive, send_all, write, Pair, STREAM};
use crate::recorder::Recorder;
use crate::support::recorded;

/// A stream that is sent before [`STREAM`].
const URGENT: u64 = 7;

#[test]
fn a_stream_that_is_acknowledged_before_it_is_sent_again_holds_up_no_other() {
    in_virtual_time(|| {
        let recorder = Recorder::new(5 * 1200);
        let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
        pair.server.stream_priority(URGENT, 0, false).unwrap();
        pair.server.stream_send(URGENT, &[0; 10], false).unwrap();
        assert_eq!(send_all(&mut pair.server).len(), 1, "lost");
        pass(pair.server.timeout().expect("a timer"));
        pair.server.on_timeout();
        let copy = send_all(&mut pair.server);
        assert_eq!(copy.len(), 1);

        // The first stream's packet is declared lost while the window is full.
        let bytes = 4 * 1100;
        write(&mut pair.server, bytes);
        let others = send_all(&mut pair.server);
        recorder.log().window = 2 * 1200;
        pass(Duration::from_millis(1));
        receive(&mut pair.client, others[1..2].to_vec());
        pair.acknowledge();
        assert_eq!(pair.server.stats().lost, 1);
        assert!(send_all(&mut pair.server).is_empty(), "a full window");

        receive(&mut pair.client, copy);
        pair.acknowledge();
        recorder.log().window = 100 * 1200;
        for _ in 0..10 {
            pair.settle();
            pass(pair.server.timeout().unwrap_or_default());
            pair.server.on_timeout();
        }
        let mut buffer = vec![0; 2 * bytes];
        assert_eq!(
            pair.client.stream_recv(STREAM, &mut buffer),
            Ok((bytes, false))
        );
    });
}
