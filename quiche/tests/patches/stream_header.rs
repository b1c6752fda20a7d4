//! A stream whose header does not fit into the rest of a packet.

use crate::pair::{config, in_virtual_time, receive, send_up_to, Pair};
use crate::recorder::Recorder;
use crate::support::recorded;

#[test]
fn a_stream_whose_header_does_not_fit_waits_for_the_next_packet() {
    const FAR: u64 = (1 << 30) + 3; // The number takes eight bytes in a header.
    in_virtual_time(|| {
        let recorder = Recorder::new(1000 * 1200);
        let mut client = config();
        client.set_initial_max_streams_uni(1 << 29);
        let mut pair = Pair::connected(&mut client, &mut recorded(&recorder));
        let mut sent = 1 << 14; // The offset takes four more.
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
