//! The time at which packets came.

use std::time::{Duration, Instant};

use quiche::RecvInfo;

use crate::pair::{config, in_virtual_time, pass, send_all, write, Pair};

const ON_THE_WAY: Duration = Duration::from_millis(10);
const IN_THE_BUFFER: Duration = Duration::from_millis(30);

#[test]
fn an_rtt_sample_has_no_time_in_the_socket_buffer() {
    in_virtual_time(|| {
        let mut pair = Pair::connected(&mut config(), &mut config());
        for _ in 0..2 {
            write(&mut pair.server, 10_000);
            let sent = send_all(&mut pair.server);
            pass(ON_THE_WAY);
            crate::pair::receive(&mut pair.client, sent);
            let answers = send_all(&mut pair.client);
            assert!(!answers.is_empty());
            pass(ON_THE_WAY);
            let came = Instant::now();
            pass(IN_THE_BUFFER);
            for (mut datagram, info) in answers {
                let info = RecvInfo {
                    from: info.from,
                    to: info.to,
                };
                pair.server.recv_at(&mut datagram, info, came).unwrap();
            }
        }
        let path = pair.server.path_stats().next().unwrap();
        assert_eq!(path.max_rtt, Some(2 * ON_THE_WAY));
    });
}
