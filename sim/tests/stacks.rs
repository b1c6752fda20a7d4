//! Connections of quinn and noq in the simulator.

use std::collections::BTreeMap;
use std::fs::File;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::Path;
use std::thread;
use std::time::Duration;

use gallop_sim::experiment::Experiment;
use gallop_sim::lab::{Options, Shard, Sweep};
use gallop_sim::traffic::Bulk;
use gallop_sim::traffic::conversation::{Exchange, Pace, Protocol};
use gallop_sim::{Controller, Conversation, Dumbbell, Flow, Simulation, isolated};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

const SECONDS: u64 = 10;

/// The bytes that flows with these controllers received in ten seconds over 10 Mbit/s, 40 ms and 50
/// packets, and the digest of all packets.
fn received(controllers: &[&str], seed: u64) -> (Vec<u64>, u64) {
    isolated(seed, || {
        let (rate, rtt) = ("10mbit".parse().unwrap(), Duration::from_millis(40));
        let path = Dumbbell::new(rate, rtt, "50p".parse().unwrap()).build(controllers.len(), seed);
        let mut simulation = Simulation::new(path.topology).unwrap();
        simulation.keep_digest();
        for controller in controllers {
            simulation
                .add_flow(Flow::new(Controller::named(*controller)))
                .unwrap();
        }
        simulation.run_until(Duration::from_secs(SECONDS)).unwrap();
        let received = |flow| simulation.report(flow).unwrap().received_bytes;
        let all = (0..controllers.len()).map(received).collect();
        (all, simulation.digest().unwrap())
    })
    .unwrap()
}

/// The part of the path's capacity that one flow had.
fn utilisation(controller: &str) -> f64 {
    received(&[controller], 1).0[0] as f64 * 8.0 / 10e6 / SECONDS as f64
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for controller in ["quinn/vegas", "quinn/bbr", "noq/gallop-vegas", "noq/bbr3"] {
        let first = received(&[controller], 7);
        assert_eq!(first, received(&[controller], 7), "{controller}");
        assert_ne!(first.1, received(&[controller], 8).1, "{controller}");
    }
}

#[test]
fn every_controller_fills_a_short_path_in_every_stack() {
    for stack in ["quinn", "noq"] {
        for name in [
            "canter",
            "vegas",
            "gallop-vegas",
            "copa",
            "cubic-rfc9438",
            "reno-rfc9002",
        ] {
            let share = utilisation(&format!("{stack}/{name}"));
            assert!((0.85..=1.0).contains(&share), "{stack}/{name}: {share}");
        }
    }
}

/// The adapter adds nothing of its own: Reno by the same RFC comes to the same as the stack's.
#[test]
fn reno_behind_the_adapter_is_the_stacks_own() {
    for stack in ["quinn", "noq"] {
        let ours = utilisation(&format!("{stack}/reno-rfc9002"));
        let own = utilisation(&format!("{stack}/new-reno"));
        assert!((ours / own - 1.0).abs() < 0.01, "{stack}: {ours} and {own}");
    }
}

/// Nothing between the controller and the wire spreads its first train.
#[test]
fn canter_learns_the_rate_of_a_long_path_from_its_first_trains() {
    for stack in ["quinn", "noq"] {
        let received = isolated(1, || {
            let (rate, rtt) = ("20mbit".parse().unwrap(), Duration::from_millis(200));
            let path = Dumbbell::new(rate, rtt, "726p".parse().unwrap()).build(1, 1);
            let mut simulation = Simulation::new(path.topology).unwrap();
            let controller = Controller::named(format!("{stack}/canter"));
            let flow = simulation.add_flow(Flow::new(controller)).unwrap();
            simulation.run_until(Duration::from_secs(4)).unwrap();
            simulation.report(flow).unwrap().received_bytes
        })
        .unwrap();
        // Six round trips to the full rate leave three quarters of the time.
        let share = received as f64 * 8.0 / 20e6 / 4.0;
        assert!(share > 0.6, "{stack}: {share}");
    }
}

/// The metrics of the flow `live` in `experiments/stacks/live.toml`, by source and controller.
fn live() -> BTreeMap<(String, String), BTreeMap<String, f64>> {
    gallop::register().unwrap();
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../experiments/stacks/live.toml"
    );
    let experiment = Experiment::read(Path::new(file)).unwrap();
    let out = tempfile::tempdir().unwrap();
    let options = Options {
        out: out.path().to_path_buf(),
        fast: false,
        seeds: NonZeroU64::new(1),
        shard: Shard::WHOLE,
    };
    let sweep = Sweep::new(vec![experiment], &options).unwrap();
    let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let outcomes = sweep.execute(threads).unwrap();
    assert!(outcomes[0].failed.is_empty(), "{outcomes:?}");
    let table = File::open(outcomes[0].directory.join("results.parquet")).unwrap();
    let mut all: BTreeMap<(String, String), BTreeMap<String, f64>> = BTreeMap::new();
    for row in SerializedFileReader::new(table)
        .unwrap()
        .get_row_iter(None)
        .unwrap()
    {
        let columns: BTreeMap<String, Field> = row.unwrap().into_columns().into_iter().collect();
        let text = |name: &str| match &columns[name] {
            Field::Str(text) => text.clone(),
            field => field.to_string(),
        };
        if text("subject") == "flow/live"
            && let Field::Double(value) = columns["value"]
        {
            let metrics = all.entry((text("source"), text("run"))).or_default();
            metrics.insert(text("metric"), value);
        }
    }
    all
}

/// A source of twice the path's rate has what the path gives, and its frames wait where they can be
/// skipped: at the source. CUBIC puts them into the buffer, which holds half a second.
#[test]
fn live_media_wait_at_the_source_and_not_in_the_path() {
    let all = live();
    let of = |source: &str, run: &str| &all[&(source.to_owned(), run.to_owned())];
    let ours = [
        "quiche-canter",
        "quiche-vegas",
        "quinn-canter",
        "quinn-vegas",
    ];
    let noqs = ["noq-canter", "noq-vegas", "noq-gallop-vegas"];
    for run in ours.into_iter().chain(noqs) {
        let above = of("10mbit", run);
        assert!(above["throughput_bps"] > 4.6e6, "{run}: {above:?}");
        assert!(above["rtt_mean_s"] < 0.116, "{run}: {above:?}");
        assert!(above["frame_delay_p95_s"] < 0.8, "{run}: {above:?}");
        for source in ["2.5mbit", "4.5mbit"] {
            let less = of(source, run);
            assert_eq!(less["late_frames_ratio"], 0.0, "{run}: {less:?}");
            assert!(less["frame_delay_p95_s"] < 0.2, "{run}: {less:?}");
        }
        let counts_timeouts = run.starts_with("quiche");
        assert_eq!(above.contains_key("timeouts"), counts_timeouts, "{run}");
    }
    for run in ["quinn-cubic", "noq-cubic", "noq-cubic-rfc9438"] {
        let above = of("10mbit", run);
        assert!(above["rtt_mean_s"] > 0.45, "{run}: {above:?}");
        assert!(above["frame_delay_p95_s"] > 1.5, "{run}: {above:?}");
    }
}

/// Requests of several at once, which are HTTP/3 elsewhere.
#[test]
fn pages_go_over_streams() {
    for stack in ["quinn", "noq"] {
        let answers = isolated(1, || {
            let (rate, rtt) = ("10mbit".parse().unwrap(), Duration::from_millis(40));
            let path = Dumbbell::new(rate, rtt, "50p".parse().unwrap()).build(1, 1);
            let mut simulation = Simulation::new(path.topology).unwrap();
            let exchange = |_| Exchange {
                wait: Duration::ZERO,
                request_bytes: 200,
                answer: Box::new(Bulk::Bytes(20_000)),
            };
            let exchanges = Box::new((0..30).map(exchange));
            let flow = simulation
                .add_flow(Flow {
                    conversation: Conversation::new(exchanges, Pace::Closed(10), Protocol::Http3),
                    ..Flow::new(Controller::named(format!("{stack}/canter")))
                })
                .unwrap();
            simulation.run_until(Duration::from_secs(5)).unwrap();
            simulation.report(flow).unwrap()
        })
        .unwrap();
        assert_eq!(answers.received_bytes, 600_000, "{stack}");
        assert!(answers.finished.is_some(), "{stack}");
    }
}

#[test]
fn stacks_share_a_bottleneck() {
    gallop::register().unwrap();
    let (all, _) = received(&["vegas", "quinn/vegas", "noq/vegas"], 1);
    let sum: u64 = all.iter().sum();
    assert!(all.iter().all(|&bytes| bytes * 8 > sum), "{all:?}");
    assert!(sum as f64 * 8.0 > 0.85 * 10e6 * SECONDS as f64, "{all:?}");
}

#[test]
fn a_conversation_ends_and_its_connection_closes() {
    for stack in ["quinn", "noq"] {
        let finished = isolated(1, || {
            let (rate, rtt) = ("10mbit".parse().unwrap(), Duration::from_millis(40));
            let path = Dumbbell::new(rate, rtt, "50p".parse().unwrap()).build(1, 1);
            let mut simulation = Simulation::new(path.topology).unwrap();
            let flow = simulation
                .add_flow(Flow {
                    conversation: Conversation::answer(Box::new(Bulk::Bytes(1_000_000))),
                    closes: true,
                    ..Flow::new(Controller::named(format!("{stack}/vegas")))
                })
                .unwrap();
            simulation.run_until(Duration::from_secs(60)).unwrap();
            assert!(simulation.has_closed(flow), "{stack}");
            simulation.report(flow).unwrap()
        })
        .unwrap();
        assert_eq!(finished.received_bytes, 1_000_000);
        assert!(finished.finished.is_some());
    }
}
