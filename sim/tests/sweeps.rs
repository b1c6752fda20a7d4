//! Sweeps: the same tables however the work was cut up, and what happens to runs that fail.

use gallop_sim::experiment::Experiment;
use gallop_sim::lab::{self, Options, Outcome, Shard, Sweep};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::{self, File};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};

const FAIRNESS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/experiments/fairness.toml"
);

fn experiment(path: &Path) -> Vec<Experiment> {
    lab::read(&[path.to_path_buf()]).expect("an experiment")
}

fn options(out: &Path) -> Options {
    Options {
        out: out.to_path_buf(),
        fast: false,
        seeds: NonZeroU64::new(1),
        shard: Shard::WHOLE,
    }
}

/// Sweeps over the experiment; returns what has become of it and how many runs that took.
fn sweep(experiment: Vec<Experiment>, options: &Options, threads: usize) -> (Outcome, usize) {
    let sweep = Sweep::new(experiment, options).expect("a sweep");
    let runs = sweep.progress().runs;
    let threads = NonZeroUsize::new(threads).expect("not zero");
    let mut outcomes = sweep.execute(threads).expect("a finished sweep");
    assert_eq!(sweep.progress().finished, runs);
    assert_eq!(sweep.progress().share, 1.0);
    (outcomes.remove(0), runs)
}

/// Every file that is for others, and its bytes.
fn written(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = [
        "experiment.json",
        "results.parquet",
        "series.parquet",
        "traces/1/short-0.server.sqlog",
    ];
    let read = |file| fs::read(directory.join(file)).expect(file);
    files.map(|file| (file.into(), read(file))).into()
}

fn rows(table: &Path) -> Vec<String> {
    let file = File::open(table).expect("a table");
    let reader = SerializedFileReader::new(file).expect("Parquet");
    let rows = reader.get_row_iter(None).expect("rows");
    rows.map(|row| row.expect("a row").to_string()).collect()
}

#[test]
fn threads_and_interruptions_do_not_change_a_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = |name: &str| folder.path().join(name);
    let (whole, runs) = sweep(experiment(FAIRNESS.as_ref()), &options(&out("one")), 1);
    assert_eq!((whole.runs, whole.planned, runs), (8, 8, 8));
    let expected = written(&out("one").join("fairness"));

    sweep(experiment(FAIRNESS.as_ref()), &options(&out("two")), 2);
    assert_eq!(written(&out("two").join("fairness")), expected);

    // Wherever a sweep is cut off, only what the journal has whole is kept.
    let journal = out("two").join("fairness").join("journal.ndjson");
    let text = fs::read(&journal).expect("a journal");
    let ends: Vec<usize> = (0..text.len()).filter(|&at| text[at] == b'\n').collect();
    for (cut, left) in [
        (0, 8),
        (ends[0] / 2, 8),
        (ends[0], 8),
        (ends[0] + 1, 8),
        (ends[3] - 1, 6),
        (ends[3], 6),
        (ends[3] + 1, 5),
        (ends[6] + 100, 2),
        (text.len() - 1, 1),
        (text.len(), 0),
    ] {
        fs::write(&journal, &text[..cut]).expect("a cut journal");
        let (outcome, runs) = sweep(experiment(FAIRNESS.as_ref()), &options(&out("two")), 1);
        assert_eq!((runs, outcome.runs), (left, 8), "cut at {cut}");
        assert_eq!(
            written(&out("two").join("fairness")),
            expected,
            "cut at {cut}"
        );
    }
}

#[test]
fn parts_are_the_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = |name: &str| folder.path().join(name);
    let table = |name: &str| rows(&out(name).join("fairness").join("results.parquet"));
    sweep(experiment(FAIRNESS.as_ref()), &options(&out("whole")), 2);
    let mut parts = Vec::new();
    for part in ["1/3", "2/3", "3/3"] {
        let name = part.replace('/', "-");
        let options = Options {
            shard: part.parse().expect("a part"),
            ..options(&out(&name))
        };
        let (outcome, runs) = sweep(experiment(FAIRNESS.as_ref()), &options, 2);
        assert_eq!((outcome.runs, outcome.planned), (runs, 8));
        parts.extend(table(&name));
    }
    let mut whole = table("whole");
    whole.sort();
    parts.sort();
    assert_eq!(parts, whole);
}

#[test]
fn an_experiment_that_changed_begins_anew_and_more_seeds_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let (_, runs) = sweep(experiment(FAIRNESS.as_ref()), &options(&out), 2);
    assert_eq!(runs, 8);
    let two_seeds = Options {
        seeds: None,
        ..options(&out)
    };
    let (outcome, runs) = sweep(experiment(FAIRNESS.as_ref()), &two_seeds, 2);
    assert_eq!((runs, outcome.runs), (8, 16));

    let changed = folder.path().join("fairness.toml");
    let text = fs::read_to_string(FAIRNESS).expect("a text");
    let title = text.find("title = \"").expect("a title") + "title = \"".len();
    let retitled = format!("{}New: {}", &text[..title], &text[title..]);
    fs::write(&changed, retitled).expect("a file");
    let (_, runs) = sweep(experiment(&changed), &two_seeds, 2);
    assert_eq!(runs, 0, "what is only shown changes no run");

    fs::write(&changed, text.replace("187.5pps", "200pps")).expect("a file");
    let (outcome, runs) = sweep(experiment(&changed), &options(&out), 2);
    assert_eq!((runs, outcome.runs), (8, 8));
}

#[test]
fn a_run_that_gets_nowhere_is_named_and_the_others_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("broken.toml");
    let text = r#"
        title = "A link that is down"
        duration = "90s"
        [[sweep]]
        until = ["1s", "1000s"]
        [[run]]
        id = "reno"
        cc = "reno"
        [dumbbell]
        rate = "100pps"
        rtt = "10ms"
        queue = "10p"
        outages = [{ from = "0s", to = "$until" }]
        [[flow]]
        name = "only"
        traffic = { kind = "bulk", size = "50p" }
    "#;
    fs::write(&file, text).expect("a file");
    let out = folder.path().join("out");
    let (outcome, _) = sweep(experiment(&file), &options(&out), 1);
    assert_eq!(outcome.runs, 2);
    let [(1, 1, reason)] = &outcome.failed[..] else {
        panic!("{:?}", outcome.failed);
    };
    assert!(reason.contains("no progress"), "{reason}");
    let table = rows(&out.join("broken").join("results.parquet"));
    let of_point = |point: usize| {
        let key = format!("point: {point},");
        table.iter().filter(move |row| row.contains(&key))
    };
    assert!(of_point(0).count() > 10);
    assert_eq!(of_point(1).count(), 1);
    assert!(of_point(1).all(|row| row.contains("metric: \"failed\"")));
    let failures = fs::read_to_string(out.join("broken").join("failures.json"));
    assert!(failures.expect("a file").contains("no progress"));
}

#[test]
fn three_hundred_flows_share_a_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("crowd.toml");
    let text = r#"
        title = "A crowd"
        duration = "3s"
        measure-from = "1s"
        [[run]]
        id = "vegas"
        cc = "vegas"
        [dumbbell]
        rate = "100mbit"
        rtt = "20ms"
        queue = "1000p"
        [[flow]]
        name = "crowd"
        count = 300
        start-jitter = "500ms"
    "#;
    fs::write(&file, text).expect("a file");
    let out = folder.path().join("out");
    let (outcome, _) = sweep(experiment(&file), &options(&out), 1);
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    let table = rows(&out.join("crowd").join("results.parquet"));
    let received = table
        .iter()
        .filter(|row| row.contains("metric: \"received_packets\""))
        .filter(|row| !row.ends_with("value: 0.0}"));
    assert_eq!(received.count(), 300);
}
