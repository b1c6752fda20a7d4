//! The results of the experiments' fast subsets, in packets, compared with those of an earlier
//! version: a change of behaviour shows as a difference in a text file.
//!
//! After an intended change: `UPDATE_SNAPSHOT=1 cargo test --release -p gallop-sim --test snapshot`

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::thread;

use gallop_sim::experiment::Library;
use gallop_sim::lab::{self, Options, Shard, Sweep};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

const SNAPSHOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshot.txt");

/// The metrics that are kept, rounded to whole numbers.
const METRICS: [&str; 10] = [
    "connections_finished",
    "cwnd_mean_packets",
    "drops",
    "forwarded_packets",
    "lost_packets",
    "marks",
    "received_packets",
    "responses",
    "sent_packets",
    "timeouts",
];

/// The first and the last point of every paper's fast subset, and all of the evaluation's, under one
/// seed.
fn sweep(out: &Path) -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments");
    let library = Library::open(&folder).expect("a folder of experiments");
    let files = library.experiments().expect("readable folders");
    let files: Vec<PathBuf> = files.into_values().collect();
    let mut experiments = lab::read(&files).expect("experiments");
    experiments.retain(|experiment| experiment.has_fast());
    let ends = experiments.into_iter().map(|experiment| {
        let mut experiment = experiment.fast();
        if experiment.scenarios.is_empty() {
            let last = experiment.points.len() - 1;
            let mut number = 0..;
            experiment
                .points
                .retain(|_| matches!(number.next(), Some(at) if at == 0 || at == last));
        }
        experiment
    });
    let options = Options {
        out: out.to_path_buf(),
        fast: false,
        seeds: NonZeroU64::new(1),
        shard: Shard::WHOLE,
    };
    let sweep = Sweep::new(ends.collect(), &options).expect("a sweep");
    let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let outcomes = sweep.execute(threads).expect("a finished sweep");
    for outcome in &outcomes {
        assert!(outcome.failed.is_empty(), "{outcome:?}");
    }
    outcomes
        .into_iter()
        .map(|outcome| (outcome.experiment, outcome.directory))
        .collect()
}

/// A line for every subject of every run.
fn lines(name: &str, directory: &Path) -> String {
    let file = File::open(directory.join("results.parquet")).expect("a table");
    let reader = SerializedFileReader::new(file).expect("Parquet");
    let mut subjects: BTreeMap<(i64, String, i64), (String, String)> = BTreeMap::new();
    for row in reader.get_row_iter(None).expect("rows") {
        let row = row.expect("a row");
        let columns: HashMap<&str, &Field> = row
            .get_column_iter()
            .map(|(name, field)| (name.as_str(), field))
            .collect();
        let text = |name: &str| match columns[name] {
            Field::Str(text) => text.clone(),
            field => field.to_string(),
        };
        let number = |name: &str| match columns[name] {
            Field::Long(number) => *number,
            field => panic!("{name}: {field}"),
        };
        let metric = text("metric");
        let Field::Double(value) = columns["value"] else {
            panic!("a value that is no number");
        };
        if METRICS.contains(&metric.as_str()) {
            let key = (number("point"), text("subject"), number("index"));
            let (_, values) = subjects
                .entry(key)
                .or_insert_with(|| (text("run"), String::new()));
            write!(values, " {metric} {value:.0}").expect("a text");
        }
    }
    let lines = subjects
        .into_iter()
        .map(|((point, subject, index), (run, values))| {
            format!("{name} {point} {run} {subject} {index}:{values}\n")
        });
    lines.collect()
}

#[test]
fn experiments_come_to_what_they_came_to_before() {
    let out = tempfile::tempdir().expect("a folder");
    let now: String = sweep(out.path())
        .iter()
        .map(|(name, directory)| lines(name, directory))
        .collect();
    if std::env::var_os("UPDATE_SNAPSHOT").is_some() {
        fs::write(SNAPSHOT, now).expect("a written snapshot");
        return;
    }
    let before = fs::read_to_string(SNAPSHOT).unwrap_or_default();
    let only_in = |one: &str, other: &str, mark: char| -> String {
        let lines = one
            .lines()
            .filter(|line| !other.lines().any(|known| known == *line));
        lines.map(|line| format!("{mark} {line}\n")).collect()
    };
    let difference = only_in(&before, &now, '-') + &only_in(&now, &before, '+');
    assert!(
        difference.is_empty(),
        "the experiments come to something else than before:\n{difference}if that is meant, run \
         UPDATE_SNAPSHOT=1 cargo test --release -p gallop-sim --test snapshot"
    );
}
