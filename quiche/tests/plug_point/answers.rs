//! What becomes of a controller's answers, and what is counted beside it.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quiche::StartupExitReason;

use crate::pair::{
    config, in_virtual_time, pass, pass_until, receive, send, send_all, write, Pair, STREAM,
};
use crate::recorder::Recorder;
use crate::{lose, recorded, WIDE};

#[test]
fn the_window_is_the_controllers_within_bounds() {
    in_virtual_time(|| {
        let recorder = Recorder::new(30_000);
        let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
        let mut window = |bytes: usize| {
            recorder.log().window = bytes;
            write(&mut pair.server, 1000);
            pair.settle();
            pair.server.path_stats().next().unwrap().cwnd
        };
        assert_eq!(window(30_001), 30_001);
        assert_eq!(window(0), 2 * 1200);
        assert_eq!(window(2 * 1200 + 1), 2 * 1200 + 1);
        assert_eq!(window(usize::MAX), (1 << 20) * 1200);
    });
}

#[test]
fn packets_are_cut_to_the_window_unless_only_whole_ones_are_wanted() {
    for (whole_datagrams, rest) in [(false, Some(300)), (true, None)] {
        in_virtual_time(move || {
            let recorder = Recorder::new(4 * 1200 + 300);
            recorder.log().whole_datagrams = whole_datagrams;
            let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
            write(&mut pair.server, 4 * 1200 + 300);
            let datagrams = send_all(&mut pair.server);
            let sizes: Vec<usize> = datagrams.iter().map(|(bytes, _)| bytes.len()).collect();
            assert_eq!(sizes[..4], [1200; 4]);
            assert_eq!(sizes.get(4).copied(), rest);
        });
    }
}

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

#[test]
fn an_application_can_look_at_the_controller() {
    in_virtual_time(|| {
        let recorder = Recorder::new(WIDE);
        let pair = Pair::connected(&mut config(), &mut recorded(&recorder));
        let controller = pair.server.congestion_controller().expect("a recorder");
        assert_eq!(controller.congestion_window(), WIDE);
        assert_eq!(controller.state_str(Instant::now()), "recording");
        assert!(pair.client.congestion_controller().is_none(), "built in");
    });
}

#[test]
fn the_end_of_slow_start_is_recorded_once() {
    in_virtual_time(|| {
        let recorder = Recorder::new(30_000);
        let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
        let mut exit = |ssthresh: Option<usize>| {
            recorder.log().ssthresh = ssthresh;
            write(&mut pair.server, 1000);
            pair.settle();
            pair.server.path_stats().next().unwrap().startup_exit
        };
        assert_eq!(exit(None), None);
        let first = exit(Some(25_000)).expect("slow start ended");
        assert_eq!(first.cwnd, 30_000);
        assert_eq!(first.reason, StartupExitReason::PersistentQueue);
        assert_eq!(exit(None), Some(first));
        assert_eq!(exit(Some(10_000)), Some(first));
    });
}

#[test]
fn held_packets_count_as_sent_when_they_are_released() {
    in_virtual_time(|| {
        let gap = Duration::from_millis(3);
        let recorder = Recorder::new(WIDE);
        let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
        pass(Duration::from_secs(1));
        recorder.log().gap = Some(gap);
        let before = recorder.log().paths[0].sent.len();
        write(&mut pair.server, 12_000);

        let now = Instant::now();
        let mut datagrams = Vec::new();
        loop {
            let promised = pair.server.get_next_release_time().unwrap().time(now);
            let Some(datagram) = send(&mut pair.server) else {
                break;
            };
            assert_eq!(datagram.1.at, promised.unwrap_or(now));
            assert_eq!(datagram.1.at, now + gap * datagrams.len() as u32);
            datagrams.push(datagram);
        }
        assert!(datagrams.len() >= 10);

        // Each is delivered 20 ms after its release.
        let count = datagrams.len();
        for datagram in datagrams {
            pass_until(datagram.1.at + Duration::from_millis(20));
            receive(&mut pair.client, vec![datagram]);
            pair.acknowledge();
        }
        let log = recorder.log();
        let path = &log.paths[0];
        let held = &path.sent[before..];
        assert_eq!(held.len(), count);
        assert!(held.iter().all(|p| p.now == now));
        assert_eq!(held[3].time_sent, now + gap * 3);
        let acked = &path.acked[path.acked.len() - count..];
        assert!(
            acked.iter().all(|p| p.rtt == Duration::from_millis(20)),
            "{acked:?}"
        );
        assert_eq!(path.lost.len(), 0);
    });
}

#[test]
fn without_pacing_nothing_is_held() {
    in_virtual_time(|| {
        let recorder = Recorder::new(WIDE);
        let mut server = recorded(&recorder);
        server.enable_pacing(false);
        let mut pair = Pair::connected(&mut config(), &mut server);
        recorder.log().gap = Some(Duration::from_millis(3));
        write(&mut pair.server, 12_000);
        let now = Instant::now();
        for (_, info) in send_all(&mut pair.server) {
            assert_eq!(info.at, now);
            assert_eq!(pair.server.get_next_release_time().unwrap().time(now), None);
        }
        let log = recorder.log();
        assert!(log.paths[0].sent.iter().all(|p| p.time_sent == p.now));
    });
}

/// Where a qlog is written to.
#[derive(Clone, Default)]
struct Qlog(Arc<Mutex<Vec<u8>>>);

impl Qlog {
    /// The data of all events whose name has this end.
    fn events(&self, name: &str) -> Vec<serde_json::Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.split('\u{1e}')
            .filter(|record| !record.trim().is_empty())
            .map(|record| serde_json::from_str(record).unwrap())
            .filter(|event: &serde_json::Value| {
                event["name"].as_str().is_some_and(|n| n.ends_with(name))
            })
            .map(|mut event| event["data"].take())
            .collect()
    }
}

impl Write for Qlog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn lost_packets_are_told_of_for_every_controller() {
    for name in ["reno", "cubic", "bbr2_gcongestion", "external"] {
        in_virtual_time(move || {
            let recorder = Recorder::new(WIDE);
            let mut server = config();
            match name {
                "external" => server.set_cc_controller_factory(recorder.factory()),
                name => server.set_cc_algorithm_name(name).unwrap(),
            }
            server.set_initial_congestion_window_packets(40);
            let mut pair = Pair::connected(&mut config(), &mut server);
            let qlog = Qlog::default();
            let log = Box::new(qlog.clone());
            pair.server
                .set_qlog(log, "test".to_owned(), "test".to_owned());

            write(&mut pair.server, 24_000);
            let dropped = lose(&mut pair, &[0, 3, 4]);
            pair.settle();
            assert!(dropped > 3000, "{name}");
            let path = pair.server.path_stats().next().unwrap();
            assert_eq!(path.lost, 3, "{name}");
            assert_eq!(path.lost_bytes, dropped, "{name}");
            assert_eq!(pair.server.stats().lost_bytes, dropped, "{name}");
            let metrics = qlog.events("metrics_updated");
            let total = metrics
                .iter()
                .rev()
                .find_map(|m| m["cf_lost_bytes"]["total"].as_u64());
            assert_eq!(total, Some(dropped), "{name}");
            let rates = metrics
                .iter()
                .filter_map(|m| m["cf_delivery_rate"].as_u64());
            assert!(rates.max().is_some_and(|rate| rate > 0), "{name}");

            let number = |packet: &serde_json::Value| packet["header"]["packet_number"].as_u64();
            let sent = qlog.events("packet_sent");
            let lost = qlog.events("packet_lost");
            assert_eq!(
                lost.iter().map(number).collect::<Vec<_>>(),
                [0, 3, 4].map(|index: usize| number(&sent[index])),
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
fn qlog_tells_of_packets_lost_by_time() {
    for name in ["reno", "bbr2_gcongestion"] {
        in_virtual_time(move || {
            let mut server = config();
            server.set_cc_algorithm_name(name).unwrap();
            let mut pair = Pair::connected(&mut config(), &mut server);
            let qlog = Qlog::default();
            pair.server
                .set_qlog(Box::new(qlog.clone()), "test".to_owned(), "test".to_owned());

            // The last two packets: nothing sent after them can be acknowledged.
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

#[test]
fn sparse_qlog_has_losses_and_states_but_no_packets() {
    in_virtual_time(|| {
        let recorder = Recorder::new(WIDE);
        let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
        let qlog = Qlog::default();
        pair.server
            .set_qlog(Box::new(qlog.clone()), "test".to_owned(), "test".to_owned());
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
        let qlog = Qlog::default();
        pair.server
            .set_qlog(Box::new(qlog.clone()), "test".to_owned(), "test".to_owned());
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

#[test]
fn qlog_begins_with_the_parameters_of_recovery() {
    in_virtual_time(|| {
        let mut pair = Pair::connected(&mut config(), &mut config());
        let qlog = Qlog::default();
        pair.server
            .set_qlog(Box::new(qlog.clone()), "test".to_owned(), "test".to_owned());
        let parameters = &qlog.events("recovery_parameters_set")[0];
        let datagram = pair.server.max_send_udp_payload_size() as u64;
        assert_eq!(parameters["reordering_threshold"], 3);
        assert_eq!(parameters["time_threshold"], 1.125);
        assert_eq!(parameters["max_datagram_size"], datagram);
        assert_eq!(parameters["minimum_congestion_window"], 2 * datagram);
    });
}

#[test]
fn qlog_has_the_controllers_metrics_and_state() {
    in_virtual_time(|| {
        let recorder = Recorder::new(WIDE);
        let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
        let qlog = Qlog::default();
        pair.server
            .set_qlog(Box::new(qlog.clone()), "test".to_owned(), "test".to_owned());
        write(&mut pair.server, 3000);
        pair.settle();

        let metrics = qlog.events("metrics_updated");
        let values =
            |name: &str| -> Vec<f64> { metrics.iter().filter_map(|m| m[name].as_f64()).collect() };
        assert_eq!(values("pacing_rate"), [123_456.0], "only when it changes");
        assert_eq!(values("recorder_constant"), [0.5], "only when it changes");
        let sent = values("recorder_packets_sent");
        assert!(sent.len() >= 3 && sent.is_sorted(), "{sent:?}");
        let last = recorder.log().paths[0].sent.len();
        assert_eq!(sent.last(), Some(&(last as f64)));

        let states = qlog.events("congestion_state_updated");
        assert_eq!(states.len(), 1);
        assert_eq!(states[0]["new"], "recording");
    });
}

#[test]
fn a_connection_is_closed_at_once_while_its_window_is_full() {
    in_virtual_time(|| {
        for is_app in [true, false] {
            let recorder = Recorder::new(12_000);
            let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
            write(&mut pair.server, 12_000);
            assert!(!send_all(&mut pair.server).is_empty());
            pair.server.close(is_app, 7, b"").unwrap();
            let last = send_all(&mut pair.server);
            assert_eq!(last.len(), 1);
            receive(&mut pair.client, last);
            assert_eq!(pair.client.peer_error().unwrap().error_code, 7);
        }
    });
}
