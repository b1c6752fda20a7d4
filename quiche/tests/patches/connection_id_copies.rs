//! Frames about connection ids that are lost or arrive twice.

use std::time::Duration;

use quiche::ConnectionId;

use crate::pair::{config, in_virtual_time, pass, receive, send_all, Datagram, Pair};

const IDS: u8 = 3;

/// A client whose first frames with new ids are lost, and the server's answer to the second: all
/// ids but the newest are retired.
fn retired_after_loss(pair: &mut Pair) -> Vec<Datagram> {
    for number in 0..IDS {
        let id = ConnectionId::from_vec(vec![10 + number; 16]);
        pair.client.new_scid(&id, number.into(), false).unwrap();
    }
    // With data in it, quiche sends the whole packet again.
    pair.client.stream_send(2, b"request", true).unwrap();
    assert!(!send_all(&mut pair.client).is_empty(), "lost");
    pass(pair.client.timeout().expect("a timer"));
    pair.client.on_timeout();
    let copies = send_all(&mut pair.client);
    pass(Duration::from_millis(1));
    receive(&mut pair.server, copies);
    for seq in 0..u64::from(IDS) {
        pair.server.retire_dcid(seq).unwrap();
    }
    send_all(&mut pair.server)
}

#[test]
fn an_id_that_is_retired_before_its_frame_is_declared_lost_is_not_offered_again() {
    in_virtual_time(|| {
        let mut pair = Pair::connected(&mut config(), &mut config());
        let answer = retired_after_loss(&mut pair);
        receive(&mut pair.client, answer);
        assert!(pair.client.stats().lost > 0, "the first copy");
        pair.settle();
        assert_eq!(pair.client.active_scids(), 1);
        assert_eq!(pair.client.retired_scids(), usize::from(IDS));
        assert!(!pair.client.is_closed() && !pair.server.is_closed());
    });
}

#[test]
fn a_second_copy_of_a_retirement_changes_nothing() {
    in_virtual_time(|| {
        let mut pair = Pair::connected(&mut config(), &mut config());
        let answer = retired_after_loss(&mut pair);
        receive(&mut pair.client, answer);
        // Its acknowledgment is lost, and the server retires once more.
        assert!(!send_all(&mut pair.client).is_empty());
        pass(pair.server.timeout().expect("a timer"));
        pair.server.on_timeout();
        let copy = send_all(&mut pair.server);
        assert!(!copy.is_empty());
        receive(&mut pair.client, copy);
        assert_eq!(pair.client.active_scids(), 1);
    });
}
