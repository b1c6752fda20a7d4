//! The table of metrics: everything that is measured is in it with its unit, and what is made of it
//! is up to date.
//!
//! After a change of the table:
//! `UPDATE_METRICS=1 cargo test --release -p gallop-sim --test metrics`

use std::collections::{BTreeMap, BTreeSet};
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
    change-at = "1s"
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
    name = "pages"
    traffic = { kind = "pages", objects = 3, object = "4kb", think = "1s" }
    [[flow]]
    name = "load"
    traffic = { kind = "constant", rate = "100kbit" }
    [[flow]]
    name = "live"
    traffic = { kind = "live", rate = "200kbit" }
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
        (Kind::Flow, "ramp_up_s"),
        (Kind::Flow, "ramp_up_rounds"),
        (Kind::Flow, "recovered_s"),
        (Kind::Analysis, "gallop_available_window_rtts"),
        (Kind::Analysis, "gallop_available_window_corrected_rtts"),
    ];
    // Of runs in which every flow is one connection.
    let of_all = [
        "slow_start_exit_s",
        "slow_start_s",
        "available_window_reached_s",
        "time_to_95_percent_s",
        "ramp_up_s",
        "ramp_up_rounds",
        "recovered_s",
        "power_ratio",
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

/// The values of one run of an experiment, by subject and metric.
fn values(experiment: &str) -> BTreeMap<(String, String), f64> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("one.toml");
    fs::write(&file, experiment).expect("a file");
    let options = Options {
        out: folder.path().to_path_buf(),
        fast: false,
        seeds: None,
        shard: Shard::WHOLE,
    };
    let sweep = Sweep::new(lab::read(&[file]).expect("an experiment"), &options).expect("a sweep");
    let outcomes = sweep.execute(NonZeroUsize::MIN).expect("a finished sweep");
    assert!(outcomes[0].failed.is_empty(), "{outcomes:?}");
    let file = File::open(folder.path().join("one/results.parquet")).expect("a table");
    let reader = SerializedFileReader::new(file).expect("Parquet");
    let rows = reader.get_row_iter(None).expect("rows");
    rows.map(|row| {
        let row = row.expect("a row");
        let column = |name: &str| {
            let mut columns = row.get_column_iter();
            columns.find(|(column, _)| *column == name).expect(name).1
        };
        let (Field::Str(subject), Field::Str(metric)) = (column("subject"), column("metric"))
        else {
            panic!("texts");
        };
        let Field::Double(value) = column("value") else {
            panic!("a number");
        };
        ((subject.clone(), metric.clone()), *value)
    })
    .collect()
}

/// A flow alone over 10 Mbit/s, 40 ms, with more keys of the path.
fn alone(keys: &str, path: &str) -> BTreeMap<(String, String), f64> {
    values(&format!(
        r#"
        title = "A flow alone"
        duration = "16s"
        {keys}
        [[run]]
        id = "gallop-vegas"
        cc = "gallop-vegas"
        [dumbbell]
        rate = "10mbit"
        rtt = "40ms"
        queue = "100p"
        {path}
        [[flow]]
        name = "one"
        "#
    ))
}

#[test]
fn a_flow_ramps_up_and_recovers() {
    // The bottleneck takes 1.1 ms to send a packet of 1378 bytes, the access links 11 µs each.
    let base_rtt_s = 0.040 + 0.001_102_4 + 2.0 * 0.000_011_024;
    let steady = alone("", "");
    let value = |values: &BTreeMap<_, f64>, metric: &str| {
        let key = ("flow/one".to_owned(), metric.to_owned());
        values.get(&key).copied()
    };
    let ramp_up_s = value(&steady, "ramp_up_s").expect("it gets there");
    let rounds = value(&steady, "ramp_up_rounds").expect("it gets there");
    assert!((ramp_up_s / rounds - base_rtt_s).abs() < 1e-9);
    // Ten packets double some times to the 37 that are on the way; a window has 147.
    assert!((0.1..1.0).contains(&ramp_up_s), "{ramp_up_s}");
    let reached = value(&steady, "time_to_95_percent_s").expect("it gets there");
    assert!(ramp_up_s < reached, "{reached}");
    let power = value(&steady, "power_ratio").expect("a steady path");
    let rate = value(&steady, "throughput_pps").expect("it moves") / (1e7 / (1378.0 * 8.0));
    let rtt = value(&steady, "rtt_mean_s").expect("it moves");
    assert!((power - rate * base_rtt_s / rtt).abs() < 1e-9);
    assert!((0.7..1.0).contains(&power), "{power}");
    assert_eq!(value(&steady, "recovered_s"), None);
    assert_eq!(value(&steady, "share"), None);

    // Twice the rate is there later, half of it at once.
    let change = |rate: &str| {
        let changes = format!(r#"changes = [{{ at = "8s", rate = "{rate}" }}]"#);
        let values = alone(r#"change-at = "8s""#, &changes);
        assert_eq!(value(&values, "ramp_up_s"), Some(ramp_up_s));
        assert_eq!(value(&values, "power_ratio"), None);
        value(&values, "recovered_s").expect("it recovers")
    };
    let (up, down) = (change("20mbit"), change("5mbit"));
    assert!((0.2..6.0).contains(&up), "{up}");
    assert!((0.0..0.05).contains(&down), "{down}");
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
