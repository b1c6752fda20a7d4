//! The data under way to an address that the client has left.

use crate::pair::{config, in_virtual_time, send_all, write, Pair, CLIENT};
use crate::rebinding::{
    active_port, appear, appear_without_answer, fail_validation, provide_ids, read, rebind, BYTES,
};
use crate::recorder::Recorder;
use crate::support::{recorded, WIDE};

/// A number of addresses that is below the limit of paths.
const TIMES: u16 = 3;

#[test]
fn it_is_sent_to_the_new_address_and_not_counted_as_lost() {
    for has_spare_ids in [true, false] {
        in_virtual_time(|| {
            let recorder = Recorder::new(WIDE);
            let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
            rebind(&mut pair, TIMES, has_spare_ids);
            let log = recorder.log();
            assert_eq!(log.paths.len(), 1 + usize::from(TIMES));
            for path in &log.paths {
                assert_eq!(path.differences, []);
                assert!(path.lost.is_empty(), "a rebinding is no congestion");
            }
        });
    }
}

#[test]
fn it_is_sent_by_both_implementations_of_recovery() {
    for name in ["reno", "cubic", "bbr2_gcongestion"] {
        in_virtual_time(|| {
            let mut server = config();
            server.set_cc_algorithm_name(name).unwrap();
            server.enable_pacing(false);
            let mut pair = Pair::connected(&mut config(), &mut server);
            rebind(&mut pair, TIMES, true);
        });
    }
}

#[test]
fn it_is_sent_again_when_the_new_address_turns_out_to_be_unreachable() {
    in_virtual_time(|| {
        let mut pair = Pair::connected(&mut config(), &mut config());
        provide_ids(&mut pair, 0);
        pair.settle();
        appear_without_answer(&mut pair, 20_000);
        write(&mut pair.server, BYTES);
        send_all(&mut pair.server);
        fail_validation(&mut pair);
        assert_eq!(active_port(&pair.server), CLIENT.1);
        appear(&mut pair, CLIENT.1);
        assert_eq!(read(&mut pair.client), BYTES);
    });
}
