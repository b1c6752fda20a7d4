//! The capacity of streams after losses that a timer declares.

use std::time::Duration;

use crate::pair::{config, in_virtual_time, pass, receive, send_all, write, Pair, STREAM};
use crate::recorder::Recorder;
use crate::support::recorded;

#[test]
fn an_application_may_write_into_the_room_that_a_loss_timer_makes() {
    in_virtual_time(|| {
        let window = 4 * 1200;
        let recorder = Recorder::new(window);
        let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
        write(&mut pair.server, 3 * 1100);
        let last = send_all(&mut pair.server).split_off(2);
        pass(Duration::from_millis(10));
        receive(&mut pair.client, last);
        pair.acknowledge();
        assert!(pair.server.stream_capacity(STREAM).unwrap() < window);
        pass(pair.server.timeout().expect("a loss timer"));
        pair.server.on_timeout();
        assert_eq!(recorder.log().paths[0].lost.len(), 2);
        assert_eq!(pair.server.stream_capacity(STREAM), Ok(window));
    });
}
