//! A client that changes its address more often than there may be paths.

use crate::pair::{config, in_virtual_time, Pair};
use crate::rebinding::rebind;
use crate::recorder::Recorder;
use crate::support::{recorded, WIDE};

/// A number of addresses that is above the limit of paths.
const TIMES: u16 = 12;

#[test]
fn a_transfer_goes_on_wherever_the_client_appears() {
    for has_spare_ids in [true, false] {
        in_virtual_time(|| {
            let recorder = Recorder::new(WIDE);
            let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
            rebind(&mut pair, TIMES, has_spare_ids);

            let log = recorder.log();
            assert_eq!(
                log.paths.len(),
                1 + usize::from(TIMES),
                "each has a controller"
            );
            for path in &log.paths {
                assert_eq!(path.differences, []);
                assert!(path.lost.is_empty(), "a rebinding is no congestion");
            }
            let live = log.paths.iter().filter(|path| !path.dropped).count();
            assert_eq!(live as u64, 4, "as many as there may be connection ids");
        });
    }
}

#[test]
fn a_transfer_goes_on_with_both_implementations_of_recovery() {
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
