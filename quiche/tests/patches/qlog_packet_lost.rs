//! Lost packets in qlog.

use crate::losses::{Losses, CONTROLLERS, LOST};
use crate::pair::{config, in_virtual_time, pass_until, write, Pair};
use crate::qlog::Qlog;
use crate::support::lose;

#[test]
fn every_lost_packet_has_an_event() {
    for name in CONTROLLERS {
        in_virtual_time(move || {
            let qlog = Losses::with(name).qlog;
            let number = |packet: &serde_json::Value| packet["header"]["packet_number"].as_u64();
            let sent = qlog.events("packet_sent");
            let lost = qlog.events("packet_lost");
            assert_eq!(
                lost.iter().map(number).collect::<Vec<_>>(),
                LOST.map(|index| number(&sent[index])),
                "{name}"
            );
            for packet in &lost {
                assert_eq!(packet["header"]["packet_type"], "1RTT", "{name}");
                assert_eq!(packet["trigger"], "reordering_threshold", "{name}");
            }
        });
    }
}

#[test]
fn losses_by_time_are_named_so() {
    for name in ["reno", "bbr2_gcongestion"] {
        in_virtual_time(move || {
            let mut server = config();
            server.set_cc_algorithm_name(name).unwrap();
            let mut pair = Pair::connected(&mut config(), &mut server);
            let qlog = Qlog::of(&mut pair.server);

            // The last two packets: no acknowledgment of a later one can show that they are lost.
            write(&mut pair.server, 3000);
            lose(&mut pair, &[1, 2]);
            while pair.server.stats().lost == 0 {
                pass_until(pair.server.timeout_instant().unwrap());
                pair.server.on_timeout();
                pair.settle();
            }
            let lost = qlog.events("packet_lost");
            assert!(!lost.is_empty(), "{name}");
            assert_eq!(lost.len(), pair.server.stats().lost, "{name}");
            assert!(
                lost.iter()
                    .any(|packet| packet["trigger"] == "time_threshold"),
                "{name}: {lost:?}"
            );
        });
    }
}
