//! Streams that wait: for what was lost, for room.

use std::time::Duration;

use crate::pair::{
    config, in_virtual_time, pass, receive, send_all, send_up_to, write, Pair, STREAM,
};
use crate::recorded;
use crate::recorder::Recorder;

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

        // The first is declared lost while the window is full.
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

#[test]
fn a_stream_whose_header_does_not_fit_waits_for_the_next_packet() {
    const FAR: u64 = (1 << 30) + 3; // eight bytes in a header
    in_virtual_time(|| {
        let recorder = Recorder::new(1000 * 1200);
        let mut client = config();
        client.set_initial_max_streams_uni(1 << 29);
        let mut pair = Pair::connected(&mut client, &mut recorded(&recorder));
        let mut sent = 1 << 14; // four more
        assert_eq!(
            pair.server.stream_send(FAR, &vec![0; sent], false),
            Ok(sent)
        );
        pair.settle();

        for room in 20..60 {
            assert_eq!(pair.server.stream_send(FAR, &[0; 100], false), Ok(100));
            sent += 100;
            let datagram = send_up_to(&mut pair.server, room);
            receive(&mut pair.client, Vec::from_iter(datagram));
            pair.settle();
            let mut buffer = vec![0; 2 * sent];
            let mut read = 0;
            while let Ok((length, _)) = pair.client.stream_recv(FAR, &mut buffer) {
                read += length;
            }
            assert_eq!(read, std::mem::take(&mut sent), "after {room} bytes");
        }
    });
}
