//! The effect of a controller's answers on quiche.

use std::time::{Duration, Instant};

use quiche::StartupExitReason;

use crate::pair::{
    config, in_virtual_time, pass, pass_until, receive, send, send_all, write, Pair,
};
use crate::qlog::Qlog;
use crate::recorder::Recorder;
use crate::support::{recorded, WIDE};

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

        // Each packet is delivered 20 ms after its release.
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

#[test]
fn qlog_has_the_controllers_metrics_and_state() {
    in_virtual_time(|| {
        let recorder = Recorder::new(WIDE);
        let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
        let qlog = Qlog::of(&mut pair.server);
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
