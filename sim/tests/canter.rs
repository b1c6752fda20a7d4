//! Canter over real quiche connections: startup, reroutes, losses without a queue, and its switches.

use std::path::Path;
use std::time::Duration;

use gallop_sim::experiment::network::{Circumstances, DumbbellSpec, FlowPlace, Network};
use gallop_sim::{Controller, Flow, FlowReport, Simulation, isolated};

const DATAGRAM_BYTES: usize = 1350;

/// 40 Mbit/s and 40 ms; a packet takes 0.28 ms, and the BDP is 145 packets.
const PATH: &str = "rate = '40mbit'\nrtt = '40ms'\nqueue = '300p'\n";

/// The results of a flow alone on [`PATH`] between two seconds.
#[derive(Debug)]
struct Outcome {
    /// The part of the capacity that the bottleneck forwarded.
    used: f64,
    lost_packets: u64,
    report: FlowReport,
}

/// A flow alone, on `PATH` with `more` keys of a dumbbell.
fn run(controller: &'static str, more: &str, from_s: u64, to_s: u64) -> Outcome {
    let text = format!("{PATH}{more}");
    isolated(1, || {
        gallop::register().expect("names that quiche does not have");
        let dumbbell: Box<DumbbellSpec> = toml::from_str(&text).expect("a dumbbell");
        let place = FlowPlace {
            name: "flow".to_owned(),
            count: 1,
            ..FlowPlace::default()
        };
        let built = Network::Dumbbell(dumbbell)
            .build(
                &[place],
                Circumstances {
                    datagram_bytes: DATAGRAM_BYTES,
                    duration: Duration::from_secs(to_s),
                    host_jitter: Duration::from_micros(120),
                    host_stalls: None,
                    seed: 1,
                    directory: Path::new("."),
                },
            )
            .expect("a path");
        let mut simulation = Simulation::new(built.topology).expect("a sound topology");
        let flow = simulation
            .add_flow(Flow {
                datagram_bytes: DATAGRAM_BYTES,
                ..Flow::new(Controller::named(controller))
            })
            .expect("a route");
        let mut at = |seconds| {
            let until = Duration::from_secs(seconds);
            simulation.run_until(until).expect("a flow that gets on");
            simulation.report(flow).expect("the flow")
        };
        let (before, after) = (at(from_s), at(to_s));
        let bytes = after.received_bytes - before.received_bytes;
        let capacity_bytes = 40e6 / 8.0 * (to_s - from_s) as f64;
        Outcome {
            used: bytes as f64 / capacity_bytes,
            lost_packets: after.packets_lost - before.packets_lost,
            report: after,
        }
    })
    .expect("clock and entropy are linked")
}

#[test]
fn startup_fills_the_path_within_a_second_and_loses_nothing() {
    let outcome = run("canter", "", 0, 1);
    // Stream data are 95 % of what is on the wire; six round trips and the handshake are lost.
    assert!(outcome.used > 0.75, "{outcome:?}");
    assert_eq!(outcome.report.packets_lost, 0);
}

#[test]
fn a_path_that_becomes_longer_is_full_again_after_two_seconds() {
    for delay in ["30ms", "70ms", "150ms"] {
        let changes = format!("changes = [{{ at = '5s', delay = '{delay}' }}]");
        let outcome = run("canter", &changes, 7, 12);
        assert!(outcome.used > 0.9, "{delay}: {outcome:?}");
        assert_eq!(outcome.lost_packets, 0, "{delay}");
    }
}

#[test]
fn a_path_that_becomes_longer_during_an_outage_is_full_again() {
    // Eight milliseconds each way are between α and β at the window that persistent congestion leaves.
    for delay in ["24ms", "28ms", "35ms"] {
        let more = format!(
            "outages = [{{ from = '5s', to = '6s' }}]\nchanges = [{{ at = '5s', delay = '{delay}' }}]"
        );
        let outcome = run("canter", &more, 9, 14);
        assert!(outcome.used > 0.9, "{delay}: {outcome:?}");
    }
}

#[test]
fn delay_between_the_thresholds_that_does_not_answer_to_the_window_is_the_paths() {
    // At the window of 4 Mbit/s some milliseconds are two to four packets.
    for delay in ["22ms", "24ms", "26ms"] {
        let more = format!(
            "changes = [{{ at = '0s', rate = '4mbit' }}, {{ at = '8s', rate = '40mbit', delay = '{delay}' }}]"
        );
        let outcome = run("canter", &more, 25, 30);
        assert!(outcome.used > 0.9, "{delay}: {outcome:?}");
    }
}

#[test]
fn a_path_that_becomes_shorter_has_no_standing_queue() {
    let changes = "changes = [{ at = '5s', delay = '10ms' }]";
    let outcome = run("canter", changes, 8, 12);
    assert!(outcome.used > 0.9, "{outcome:?}");
    // The queue that the old window made is gone, but for CoDel's target (RFC 8289 §4.3).
    let min_rtt = outcome.report.min_rtt.expect("samples");
    assert!(min_rtt < Duration::from_millis(25), "{min_rtt:?}");
}

#[test]
fn losses_without_a_queue_are_tolerated_unless_it_is_to_be_strict() {
    let tolerant = run("canter", "loss = 0.01", 3, 10);
    assert!(tolerant.used > 0.85, "{tolerant:?}");
    let strict = run("canter:loss=strict", "loss = 0.01", 3, 10);
    assert!(strict.used < 0.4, "{strict:?}");
}
