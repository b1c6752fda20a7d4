//! The cost of a send after a retransmission.

use std::time::{Duration, Instant};

use crate::pair::{config, in_virtual_time, write, Pair, STREAM};
use crate::recorder::Recorder;
use crate::support::{lose, recorded, WIDE};

/// Writes of a byte each. Quiche keeps each in a buffer of its own until it is acknowledged.
const WRITES: usize = 400_000;

/// With steps quadratic in the buffers in flight, the test takes more than a minute; with linear
/// ones, a fraction of a second. The bound leaves room for slow and busy computers.
const LONGEST: Duration = Duration::from_secs(15);

#[test]
fn a_send_after_a_retransmission_goes_over_the_buffers_in_flight_once() {
    // Here time is real.
    let start = Instant::now();
    in_virtual_time(|| {
        let recorder = Recorder::new(WIDE);
        let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
        for _ in 0..WRITES {
            write(&mut pair.server, 1);
        }
        lose(&mut pair, &[0]);
        assert_eq!(pair.server.stats().lost, 1);

        write(&mut pair.server, 1);
        pair.settle();
        let mut buffer = vec![0; 2 * WRITES];
        assert_eq!(
            pair.client.stream_recv(STREAM, &mut buffer),
            Ok((WRITES + 1, false))
        );
    });
    assert!(start.elapsed() < LONGEST, "{:?}", start.elapsed());
}
