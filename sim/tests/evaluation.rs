//! Evaluations: verdicts on controllers that are broken on purpose, scenarios and limits as files
//! have them, and parameters that are drawn anew.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Once;

use clap::Parser;
use gallop::controller::{
    Ack, CongestionMarks, Controller, Loss, PacketInfo, PathConfig, SentPacket,
};
use gallop::stack::quiche::{Factory, register_own};
use gallop_sim::evaluate::{Arguments, Evaluation, Report, Verdict};
use gallop_sim::experiment::{Experiment, Library, Trial};
use gallop_sim::lab;
use proptest::prelude::*;

const EXPERIMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments");

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

fn arguments(line: &str, out: &Path) -> Arguments {
    let words = ["evaluate", "--library", EXPERIMENTS, "--out"].into_iter();
    let words = words.map(str::to_owned).chain([out.display().to_string()]);
    let words = words.chain(line.split_whitespace().map(str::to_owned));
    Line::try_parse_from(words).expect(line).arguments
}

fn evaluated(line: &str, out: &Path) -> Report {
    let evaluation = Evaluation::new(&arguments(line, out)).expect(line);
    let sweep = evaluation.sweep().expect("a sweep");
    let threads = NonZeroUsize::new(2).expect("not zero");
    let outcomes = sweep.execute(threads).expect("a finished sweep");
    evaluation.finish(&sweep, &outcomes).expect("a report")
}

/// The verdicts of a controller by family and scenario, with the metrics of the limits that it
/// does not keep.
fn verdicts(report: &Report, controller: &str) -> BTreeMap<String, (Verdict, Vec<String>)> {
    let mut verdicts = BTreeMap::new();
    for family in &report.families {
        for scenario in &family.scenarios {
            let cells = scenario.cells.iter();
            for cell in cells.filter(|cell| cell.controller == controller) {
                let limits = scenario.limits.iter().zip(&cell.limits);
                let broken = limits.filter(|(_, judged)| judged.verdict == Verdict::Fail);
                let broken = broken.map(|(limit, _)| limit.metric.clone());
                let place = format!("{}/{}", family.id, scenario.id);
                verdicts.insert(place, (cell.verdict, broken.collect()));
            }
        }
    }
    verdicts
}

/// One packet more for every window that is acknowledged, whatever happens; or always the initial
/// window.
#[derive(Clone, Debug)]
struct Deaf {
    window_packets: f64,
    grows: bool,
    datagram_bytes: usize,
}

impl Deaf {
    fn new(path: &PathConfig, grows: bool) -> Deaf {
        Deaf {
            window_packets: path.initial_window_packets as f64,
            grows,
            datagram_bytes: path.max_datagram_size_bytes,
        }
    }
}

impl Controller for Deaf {
    fn on_packet_sent(&mut self, _: &SentPacket) {}

    fn on_packets_acked(&mut self, _: &Ack, packets: &[PacketInfo]) {
        if self.grows {
            self.window_packets += packets.len() as f64 / self.window_packets;
        }
    }

    fn on_packets_lost(&mut self, _: &Loss, _: &[PacketInfo]) {}

    fn on_congestion_marks(&mut self, _: &CongestionMarks) {}

    fn on_mtu_update(&mut self, max_datagram_size_bytes: usize) {
        self.datagram_bytes = max_datagram_size_bytes;
    }

    fn window_bytes(&self) -> usize {
        self.window_packets as usize * self.datagram_bytes
    }
}

const NEVER_DECREASES: &str = "never-decreases";
const NEVER_GROWS: &str = "never-grows";

fn register_deaf() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let grows = Factory(|path| Box::new(Deaf::new(path, true)));
        let stays = Factory(|path| Box::new(Deaf::new(path, false)));
        register_own(NEVER_DECREASES, "Grows for ever", grows).expect("a free name");
        register_own(NEVER_GROWS, "Keeps the initial window", stays).expect("a free name");
    });
}

#[test]
fn controllers_that_are_broken_on_purpose_are_caught_where_they_should_be() {
    register_deaf();
    let out = tempfile::tempdir().expect("a folder");
    let line = format!(
        "--cc {NEVER_DECREASES} --cc {NEVER_GROWS} --seeds 2 --scenario alone/15mbit-30ms-33p \
         --scenario noise/uniform-5ms --scenario change/faster-tenfold \
         --scenario change/slower-tenfold --scenario loss/short-8p --scenario kin/two \
         --scenario others/reno-2 --scenario extremes/modem \
         --scenario applications/pages-beside-download --scenario inelastic/constant"
    );
    let report = evaluated(&line, out.path());
    let greedy = verdicts(&report, NEVER_DECREASES);
    let shy = verdicts(&report, NEVER_GROWS);
    assert_eq!((greedy.len(), shy.len()), (10, 10));
    let caught = |of: &BTreeMap<String, (Verdict, Vec<String>)>, place: &str, metric: &str| {
        let (verdict, broken) = &of[place];
        assert_eq!(*verdict, Verdict::Fail, "{place}");
        assert!(
            broken.iter().any(|own| own == metric),
            "{place}: {broken:?}"
        );
    };
    // Who never decreases fills every queue and loses packets, and leaves others nothing.
    caught(&greedy, "alone/15mbit-30ms-33p", "queue_p95_delay_s");
    caught(&greedy, "alone/15mbit-30ms-33p", "loss_ratio");
    caught(&greedy, "noise/uniform-5ms", "queue_mean_delay_s");
    caught(&greedy, "change/slower-tenfold", "queue_p95_delay_s");
    caught(&greedy, "loss/short-8p", "loss_ratio");
    caught(&greedy, "kin/two", "queue_p95_delay_s");
    caught(&greedy, "others/reno-2", "throughput_bps");
    caught(&greedy, "extremes/modem", "queue_p95_delay_s");
    caught(&greedy, "inelastic/constant", "queue_mean_delay_s");
    // Who never grows leaves the path empty wherever it has room for more than ten packets.
    caught(&shy, "alone/15mbit-30ms-33p", "utilisation");
    caught(&shy, "alone/15mbit-30ms-33p", "ramp_up_rounds");
    caught(&shy, "noise/uniform-5ms", "utilisation");
    caught(&shy, "change/faster-tenfold", "recovered_s");
    caught(&shy, "change/faster-tenfold", "utilisation");
    caught(&shy, "loss/short-8p", "throughput_bps");
    caught(&shy, "others/reno-2", "share");
    caught(&shy, "applications/pages-beside-download", "throughput_bps");
    caught(&shy, "inelastic/constant", "throughput_bps");
    let (verdict, broken) = &shy["kin/two"];
    assert_eq!((*verdict, broken.len()), (Verdict::Fail, 1), "{broken:?}");
}

#[test]
fn what_is_written_can_be_read_and_a_second_run_does_nothing() {
    let out = tempfile::tempdir().expect("a folder");
    let document = out.path().join("page.md");
    let markers = "<!-- evaluate: measured -->\n<!-- evaluate: end -->\n";
    fs::write(&document, markers).expect("a document");
    let results = out.path().join("results");
    let line = format!(
        "--cc reno-rfc9002 --scenario extremes/modem --scenario loss/short-4p --seeds 1 --traces --table {}",
        document.display()
    );
    let evaluation = Evaluation::new(&arguments(&line, &results)).expect("an evaluation");
    let sweep = evaluation.sweep().expect("a sweep");
    assert_eq!(sweep.progress().runs, 2);
    let outcomes = sweep.execute(NonZeroUsize::MIN).expect("a finished sweep");
    evaluation.finish(&sweep, &outcomes).expect("a report");
    let json = fs::read(results.join("evaluation.json")).expect("verdicts");
    let report: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let cell = &report["families"][0]["scenarios"][0]["cells"][0];
    assert_eq!(cell["controller"], "reno-rfc9002");
    let trace = cell["traces"][0].as_str().expect("a trace");
    assert!(results.join("extremes").join(trace).is_file());
    assert_eq!(
        cell["command"],
        "cargo xtask evaluate --cc reno-rfc9002 --scenario extremes/modem --traces"
    );
    let text = fs::read_to_string(&document).expect("a text");
    assert!(
        text.contains("| `modem`: 64 kbit/s, 200 ms, 10 packets |"),
        "{text}"
    );

    let table = fs::read(results.join("results.parquet")).expect("a table");
    let again = evaluation.sweep().expect("a sweep");
    assert_eq!(again.progress().runs, 0);
    let outcomes = again.execute(NonZeroUsize::MIN).expect("a finished sweep");
    evaluation.finish(&again, &outcomes).expect("a report");
    assert_eq!(
        fs::read(results.join("evaluation.json")).expect("verdicts"),
        json
    );
    assert_eq!(
        fs::read(results.join("results.parquet")).expect("a table"),
        table
    );
}

#[test]
fn the_neighbour_beside_its_own_kind_is_run_for_the_limits_that_need_it() {
    let out = tempfile::tempdir().expect("a folder");
    let report = evaluated(
        "--cc vegas --scenario others/bbr2-0.5 --seeds 1",
        out.path(),
    );
    let scenario = &report.families[0].scenarios[0];
    let controllers: Vec<&str> = (scenario.cells.iter())
        .map(|cell| cell.controller.as_str())
        .collect();
    assert_eq!(controllers, ["vegas"]);
    let harm = scenario
        .limits
        .iter()
        .position(|limit| limit.subject == "flow/other");
    let judged = &scenario.cells[0].limits[harm.expect("a limit on harm")];
    let bound = judged.bound.expect("a bound");
    // Four fifths of what BBR2 has beside BBR2, which is about half of the path.
    assert!((3e6..4.5e6).contains(&bound), "{bound}");
}

#[test]
fn goals_are_held_against_their_scenarios_and_other_controllers() {
    let out = tempfile::tempdir().expect("a folder");
    let line = "--cc canter --cc cubic-rfc9438 --seeds 1 --scenario change/longer-100ms \
                --scenario change/longer-260ms --scenario extremes/first-30s-200 \
                --scenario extremes/first-30s-600";
    let report = evaluated(line, out.path());
    let reached = |family: usize, title: &str| -> Vec<(String, bool, usize, usize)> {
        let mut goals = report.families[family].goals.iter();
        let goal = goals.find(|goal| goal.title.starts_with(title));
        let results = goal.expect(title).results.iter();
        let told = results.map(|one| (one.controller.clone(), one.is_reached, one.met, one.of));
        told.collect()
    };
    assert_eq!(
        reached(0, "a path longer than that"),
        [
            ("canter".to_owned(), true, 2, 2),
            ("cubic-rfc9438".to_owned(), false, 0, 2)
        ]
    );
    assert_eq!(
        reached(
            1,
            "the first 30 s of a long path: at least the throughput of CUBIC"
        ),
        [
            ("canter".to_owned(), true, 2, 2),
            ("cubic-rfc9438".to_owned(), true, 2, 2)
        ]
    );
    // Its scenarios, and the controller that it names, were not run.
    assert_eq!(reached(0, "a longer path of twice the RTT"), []);
    assert_eq!(
        reached(
            1,
            "the first 30 s of a long path: at least the throughput of BBR2"
        ),
        []
    );
    let text = gallop_sim::evaluate::markdown(&report);
    assert!(text.contains("back within 6 s | ✓ 2 of 2; "), "{text}");
}

#[test]
fn a_part_of_the_runs_has_no_verdict() {
    let out = tempfile::tempdir().expect("a folder");
    let line = "--cc vegas --scenario loss/short-4p --seeds 2 --shard 1/2";
    let report = evaluated(line, out.path());
    let cell = &report.families[0].scenarios[0].cells[0];
    assert_eq!(cell.verdict, Verdict::Missing);
    assert_eq!((report.summary[0].passed, report.summary[0].of), (0, 0));
}

#[test]
fn parts_of_several_machines_come_to_the_verdicts_of_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = |name: &str| folder.path().join(name);
    let line = "--cc vegas --cc reno --scenario loss/short-4p --scenario loss/short-8p --seeds 2";
    let whole = evaluated(line, &out("whole"));
    for part in ["1/2", "2/2"] {
        evaluated(
            &format!("{line} --shard {part}"),
            &out(&part.replace('/', "-")),
        );
    }
    let journal = |name: &str| out(name).join("loss").join("journal.ndjson");
    let second = fs::read_to_string(journal("2-2")).expect("a journal");
    let (_, runs) = second.split_once('\n').expect("a first line");
    let first = fs::read_to_string(journal("1-2")).expect("a journal");
    fs::write(journal("1-2"), first + runs).expect("both journals");
    let together = evaluated(line, &out("1-2"));
    let json = |report: &Report| serde_json::to_string(&report.families).expect("JSON");
    assert_eq!(json(&together), json(&whole));
    assert_eq!(together.summary[0].of, 2);
    let table = |name: &str| fs::read(out(name).join("results.parquet")).expect("a table");
    assert_eq!(table("1-2"), table("whole"));
}

#[test]
fn wrong_flags_are_named_with_what_is_right() {
    let out = Path::new("out");
    for (line, message) in [
        (
            "--cc vega",
            "unknown congestion controller `vega`: did you mean `vegas`?",
        ),
        (
            "--cc vegas --cc vegas",
            "--cc: controller `vegas` is given twice",
        ),
        (
            "--family nois",
            "--family: there is no family `nois`: the families are alone, ",
        ),
        (
            "--scenario modem",
            "--scenario: `modem` is not FAMILY/ID: the families are alone, ",
        ),
        (
            "--scenario extremes/modern",
            "--scenario: there is no scenario `modern` in extremes: there are ",
        ),
        ("--table none.md", "--table: none.md: "),
    ] {
        let error = Evaluation::new(&arguments(line, out))
            .expect_err(line)
            .to_string();
        assert!(error.starts_with(message), "{line}: {error}");
    }
}

const SOUND: &str = r#"
title = "A family"
duration = "5s"
[defaults]
rate = "10mbit"
loss = "none"
[fresh]
rate = [0.5, 2.0]
rtt = [1.0, 1.0]
[[scenario]]
id = "near"
rtt = "10ms"
buffer = "2bdp"
[[scenario]]
id = "far"
title = "A far one"
rtt = "80ms"
buffer = "0.5bdp"
lost = 0.01
loss = { kind = "uniform", probability = "$lost" }
[dumbbell]
rate = "$rate"
rtt = "$rtt"
queue = "$buffer"
loss = "$loss"
[[flow]]
name = "tested"
[[limit]]
metric = "utilisation"
subject = "link/bottleneck"
low = "1 - 10 * packet"
why = "A reason"
[[goal]]
title = "All of it"
part = 0.5
metric = "utilisation"
subject = "link/bottleneck"
low = "0.5 * cubic_rfc9438"
"#;

fn parsed(text: &str) -> Result<Experiment, String> {
    Experiment::parse("family", PathBuf::from("family.toml"), text)
        .map_err(|error| error.to_string())
}

#[test]
fn every_controller_is_tried_in_every_scenario() {
    let experiment = parsed(SOUND).expect("sound");
    let controllers = Trial::default().controllers.len();
    assert_eq!(experiment.points.len(), 2 * controllers);
    assert_eq!(experiment.points[0].labels[0], "near");
    let [near, far] = &experiment.scenarios[..] else {
        panic!("{:?}", experiment.scenarios);
    };
    // 10 Mbit/s carry 907 full datagrams a second.
    assert_eq!(near.parameter("buffer"), Some("18p"));
    assert_eq!(far.parameter("buffer"), Some("36p"));
    assert_eq!(
        (near.title.as_str(), far.title.as_str()),
        ("near", "A far one")
    );
}

#[test]
fn scenarios_and_limits_that_are_wrong_are_named_by_line() {
    for (old, new, message) in [
        (
            "id = \"near\"",
            "id = \"far\"",
            "family.toml:15:6: there is another scenario \"far\"",
        ),
        (
            "id = \"near\"",
            "id = \"10ms\"",
            "family.toml:11:6: \"10ms\" is a quantity",
        ),
        (
            "id = \"near\"\n",
            "",
            "family.toml:10:1: this [[scenario]] has no id",
        ),
        (
            "id = \"near\"",
            "id = \"near\"\nreference = \"vega\"",
            "family.toml:12:13: unknown congestion controller `vega`",
        ),
        (
            "rtt = \"10ms\"\n",
            "",
            "`buffer` in bandwidth-delay products needs `rate` and `rtt`",
        ),
        (
            "\"$lost\"",
            "\"$last\"",
            "unknown axis `last`: did you mean `lost`?",
        ),
        (
            "10 * packet",
            "10 * paket",
            "family.toml:31:7: limit[0].low: in scenario near: unknown parameter `paket`: did you mean `packet`?",
        ),
        (
            "10 * packet",
            "10 *",
            "limit[0].low: in scenario near: \"1 - 10 *\" is no formula",
        ),
        (
            "low = ",
            "high = 1\nlow = ",
            "limit[0]: give either `low` or `high`",
        ),
        ("\"A reason\"", "\"\"", "limit[0].why: it is empty"),
        (
            "title = \"All of it\"",
            "title = \"\"",
            "goal[0].title: it is empty",
        ),
        (
            "part = 0.5",
            "part = 1.5",
            "goal[0].part: 1.5 is no part: give more than 0, and 1 at most",
        ),
        (
            "0.5 * cubic_rfc9438",
            "0.5 * cubic_rfc9439",
            "goal[0].low: in scenario near: unknown parameter `cubic_rfc9439`: did you mean `cubic_rfc9438`?",
        ),
        (
            "rtt = [1.0, 1.0]",
            "rtt = [2.0, 1.0]",
            "family.toml:9:7: it must be two positive factors",
        ),
        (
            "[dumbbell]",
            "[[run]]\nid = \"reno\"\ncc = \"reno\"\n[dumbbell]",
            "there are also tables [[scenario]], in which every controller is tried",
        ),
    ] {
        assert!(SOUND.contains(old), "{old}");
        let error = parsed(&SOUND.replacen(old, new, 1)).expect_err(new);
        assert!(error.contains(message), "{new}: {error}");
    }
    let without = SOUND.replace("[[scenario]]", "[[scenarios]]");
    assert!(parsed(&without).is_err());
}

fn drawn(seed: u64) -> Experiment {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("family.toml");
    fs::write(&file, SOUND).expect("a file");
    let trial = Trial {
        fresh: Some(seed),
        ..Trial::default()
    };
    Experiment::read_for(&file, &trial).expect("sound")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parameters_are_drawn_from_their_ranges(seed: u64) {
        let experiment = drawn(seed);
        for scenario in &experiment.scenarios {
            let rate = scenario.parameter("rate").expect("a rate");
            let rate: gallop_sim::units::Rate = rate.parse().expect("a rate");
            prop_assert!((4_990_000..=20_010_000).contains(&rate.bps()), "{}", rate);
            prop_assert!(scenario.title.starts_with("rate "), "{}", scenario.title);
        }
        prop_assert_eq!(experiment.scenarios[0].parameter("rtt"), Some("10ms"));
        prop_assert_eq!(drawn(seed).points, experiment.points);
    }
}

#[test]
fn other_seeds_draw_other_parameters() {
    let rates: std::collections::BTreeSet<String> = (0..10)
        .map(|seed| {
            drawn(seed).scenarios[0]
                .parameter("rate")
                .expect("a rate")
                .to_owned()
        })
        .collect();
    assert!(rates.len() > 5, "{rates:?}");
}

#[test]
fn every_family_is_sound_with_any_parameters() {
    let library = Library::open(Path::new(EXPERIMENTS)).expect("experiments");
    let files = library.experiments().expect("files").into_iter();
    let files: Vec<PathBuf> = files
        .filter(|(name, _)| name.starts_with("evaluation/"))
        .map(|(_, file)| file)
        .collect();
    assert!(files.len() >= 8, "{files:?}");
    for experiment in lab::read(&files).expect("sound families") {
        assert!(experiment.has_fast(), "{}", experiment.name);
        assert!(!experiment.about.is_empty(), "{}", experiment.name);
        for scenario in &experiment.scenarios {
            let limits = experiment.limits.iter();
            let limits = limits.filter(|limit| limit.is_about(&scenario.id)).count();
            assert!(limits > 0, "{}/{}", experiment.name, scenario.id);
        }
    }
    for seed in 0..20 {
        for file in &files {
            let trial = Trial {
                fresh: Some(seed),
                ..Trial::default()
            };
            let read = Experiment::read_for(file, &trial);
            assert!(read.is_ok(), "seed {seed}: {}", read.expect_err("an error"));
        }
    }
}
