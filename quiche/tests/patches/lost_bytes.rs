//! The lost bytes of a path.

use crate::losses::{Losses, CONTROLLERS, LOST};
use crate::pair::in_virtual_time;

#[test]
fn a_path_counts_the_bytes_that_it_lost() {
    for name in CONTROLLERS {
        in_virtual_time(move || {
            let losses = Losses::with(name);
            let path = losses.pair.server.path_stats().next().unwrap();
            assert_eq!(path.lost, LOST.len(), "{name}");
            assert_eq!(path.lost_bytes, losses.lost_bytes, "{name}");
            assert_eq!(
                losses.pair.server.stats().lost_bytes,
                losses.lost_bytes,
                "{name}"
            );
            let metrics = losses.qlog.events("metrics_updated");
            let total = metrics
                .iter()
                .rev()
                .find_map(|m| m["cf_lost_bytes"]["total"].as_u64());
            assert_eq!(total, Some(losses.lost_bytes), "{name}");
        });
    }
}
