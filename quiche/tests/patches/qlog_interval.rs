//! A qlog with fewer events.

use std::time::Duration;

use crate::pair::{config, in_virtual_time, pass, write, Pair};
use crate::qlog::Qlog;
use crate::recorder::Recorder;
use crate::support::{lose, recorded, WIDE};

#[test]
fn sparse_qlog_has_losses_and_states_but_no_packets() {
    in_virtual_time(|| {
        let recorder = Recorder::new(WIDE);
        let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
        let qlog = Qlog::of(&mut pair.server);
        pair.server.set_qlog_interval(Some(Duration::from_secs(10)));
        write(&mut pair.server, 24_000);
        lose(&mut pair, &[0, 3, 4]);
        pair.settle();
        for name in ["packet_sent", "packet_received", "stream_data_moved"] {
            assert!(qlog.events(name).is_empty(), "{name}");
        }
        assert_eq!(qlog.events("packet_lost").len(), 3);
        assert_eq!(qlog.events("congestion_state_updated").len(), 1);
        assert_eq!(qlog.events("metrics_updated").len(), 1, "one per interval");

        pass(Duration::from_secs(9));
        write(&mut pair.server, 64_000);
        pair.settle();
        assert_eq!(qlog.events("metrics_updated").len(), 1, "too early");
        pass(Duration::from_secs(1));
        write(&mut pair.server, 64_000);
        pair.settle();
        assert_eq!(qlog.events("metrics_updated").len(), 2);
        for _ in 0..2 {
            pass(Duration::from_secs(10));
            write(&mut pair.server, 3000);
            pair.settle();
        }
        assert_eq!(qlog.events("metrics_updated").len(), 3, "too few packets");

        pair.server.set_qlog_interval(None);
        write(&mut pair.server, 3000);
        pair.settle();
        assert!(!qlog.events("packet_sent").is_empty());
        assert!(qlog.events("metrics_updated").len() > 3);
    });
}

#[test]
fn sparse_qlog_ends_with_the_last_metrics() {
    in_virtual_time(|| {
        let mut pair = Pair::connected(&mut config(), &mut config());
        let qlog = Qlog::of(&mut pair.server);
        pair.server.set_qlog_interval(Some(Duration::from_secs(10)));
        write(&mut pair.server, 3000);
        pair.settle();
        assert_eq!(qlog.events("metrics_updated").len(), 1, "too few packets");

        write(&mut pair.server, 3000);
        pair.server.close(true, 0, b"").unwrap();
        pair.settle();
        pass(Duration::from_secs(60));
        pair.server.on_timeout();
        assert!(pair.server.is_closed());
        assert_eq!(qlog.events("metrics_updated").len(), 2);
        assert_eq!(qlog.events("connection_closed").len(), 1);
    });
}
