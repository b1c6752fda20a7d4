//! The delivery rate in qlog.

use crate::losses::{Losses, CONTROLLERS};
use crate::pair::in_virtual_time;

#[test]
fn qlog_has_the_delivery_rate_of_every_controller() {
    for name in CONTROLLERS {
        in_virtual_time(move || {
            let metrics = Losses::with(name).qlog.events("metrics_updated");
            let rates = metrics
                .iter()
                .filter_map(|m| m["cf_delivery_rate"].as_u64());
            assert!(rates.max().is_some_and(|rate| rate > 0), "{name}");
        });
    }
}
