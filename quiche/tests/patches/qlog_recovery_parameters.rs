//! The initial parameters of loss detection and congestion control in qlog.

use crate::pair::{config, in_virtual_time, Pair};
use crate::qlog::Qlog;

#[test]
fn qlog_begins_with_the_parameters_of_recovery() {
    in_virtual_time(|| {
        let mut pair = Pair::connected(&mut config(), &mut config());
        let qlog = Qlog::of(&mut pair.server);
        let parameters = &qlog.events("recovery_parameters_set")[0];
        let datagram = pair.server.max_send_udp_payload_size() as u64;
        assert_eq!(parameters["reordering_threshold"], 3);
        assert_eq!(parameters["time_threshold"], 1.125);
        assert_eq!(parameters["max_datagram_size"], datagram);
        assert_eq!(parameters["minimum_congestion_window"], 2 * datagram);
    });
}
