//! The table of metrics: everything that is measured is in it with its unit, and what is made of it
//! is up to date.
//!
//! After a change of the table:
//! `UPDATE_METRICS=1 cargo test --release -p gallop-sim --test metrics`

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::path::Path;

use gallop_sim::experiment::metric::{self, Kind};
use gallop_sim::lab::{self, Options, Shard, Sweep};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Flows of every kind, over links with everything that is counted of links.
const EXPERIMENT: &str = r#"
    title = "Everything that is measured"
    duration = "20s"
    analysis = "gallop"
    [[run]]
    id = "gallop-vegas"
    cc = "gallop-vegas"
    [[run]]
    id = "cubic"
    cc = "cubic"
    [dumbbell]
    rate = "2mbit"
    rtt = "40ms"
    queue = { kind = "codel", limit = "20p", ecn = true }
    loss = 0.001
    duplicate = 0.001
    [[flow]]
    name = "endless"
    [[flow]]
    name = "short"
    traffic = { kind = "bulk", size = "300p" }
    [[flow]]
    name = "many"
    traffic = { kind = "http" }
    [[flow]]
    name = "media"
    traffic = { kind = "media", rate = "200kbit" }
    [[flow]]
    name = "asking"
    traffic = { kind = "requests" }
    [series]
    every = "1s"
"#;

/// Subject, metric and unit of every row of a table.
fn measured(table: &Path) -> BTreeSet<(String, String, String)> {
    let file = File::open(table).expect("a table");
    let reader = SerializedFileReader::new(file).expect("Parquet");
    let rows = reader.get_row_iter(None).expect("rows");
    rows.map(|row| {
        let row = row.expect("a row");
        let text = |column: &str| {
            let mut columns = row.get_column_iter();
            match columns.find(|(name, _)| *name == column) {
                Some((_, Field::Str(text))) => text.clone(),
                other => panic!("{column}: {other:?}"),
            }
        };
        (text("subject"), text("metric"), text("unit"))
    })
    .collect()
}

#[test]
fn all_that_is_measured_is_in_the_table_with_its_unit() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("everything.toml");
    fs::write(&file, EXPERIMENT).expect("a file");
    let options = Options {
        out: folder.path().to_path_buf(),
        fast: false,
        seeds: None,
        shard: Shard::WHOLE,
    };
    let sweep = Sweep::new(lab::read(&[file]).expect("an experiment"), &options).expect("a sweep");
    let outcomes = sweep.execute(NonZeroUsize::MIN).expect("a finished sweep");
    assert!(outcomes[0].failed.is_empty(), "{outcomes:?}");
    let out = folder.path().join("everything");
    let mut seen = BTreeSet::new();
    for (table, over_time) in [("results.parquet", false), ("series.parquet", true)] {
        for (subject, name, unit) in measured(&out.join(table)) {
            let known = metric::find(&subject, &name, over_time);
            let known = known.unwrap_or_else(|| panic!("{subject} has {name}: not in the table"));
            assert_eq!(known.unit, unit, "{subject}: {name}");
            seen.insert((known.subject, known.name, over_time));
        }
    }
    // Those that this path or these flows do not have.
    let absent = [
        (Kind::Flow, "converged_s"),
        (Kind::Flow, "available_window_reached_s"),
        (Kind::Flow, "time_to_95_percent_s"),
        (Kind::Analysis, "gallop_available_window_rtts"),
        (Kind::Analysis, "gallop_available_window_corrected_rtts"),
    ];
    // Of runs in which every flow is one connection.
    let of_all = [
        "slow_start_exit_s",
        "slow_start_s",
        "available_window_reached_s",
        "time_to_95_percent_s",
        "rtt_mean_s",
        "rtt_p95_s",
    ];
    let missing: Vec<_> = metric::METRICS
        .iter()
        .filter(|known| !seen.contains(&(known.subject, known.name, known.over_time)))
        .filter(|known| !absent.contains(&(known.subject, known.name)))
        .filter(|known| !(known.subject == Kind::Run && of_all.contains(&known.name)))
        .map(|known| (known.subject, known.name, known.over_time))
        .collect();
    assert!(missing.is_empty(), "nothing measured {missing:?}");
}

#[test]
fn what_is_made_of_the_table_is_up_to_date() {
    let json = metric::json().expect("JSON");
    for (file, text) in [
        ("docs/metrics.md", metric::markdown()),
        ("qlog-analysis/src/qlog_analysis/metrics/metrics.json", json),
    ] {
        let path = Path::new(ROOT).join(file);
        if std::env::var_os("UPDATE_METRICS").is_some() {
            fs::write(&path, text).expect("a written file");
            continue;
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == text,
            "{file} is not what the table of metrics says: run \
             UPDATE_METRICS=1 cargo test --release -p gallop-sim --test metrics"
        );
    }
}
