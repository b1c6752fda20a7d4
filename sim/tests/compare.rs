//! `gallop-sim compare`: what it leaves behind, and what it refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;
use tempfile::TempDir;

const PRESETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments");

/// Runs the command in a folder, with flags that blanks part.
fn compare(folder: &Path, flags: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gallop-sim"))
        .current_dir(folder)
        .args(["compare", "--library", PRESETS])
        .args(flags.split_whitespace())
        .output()
        .expect("it runs")
}

/// As [`compare`], which must succeed; returns what was printed.
fn compared(folder: &Path, flags: &str) -> String {
    let output = compare(folder, flags);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn json(path: &Path) -> Value {
    let text = fs::read(path).expect("a file");
    serde_json::from_slice(&text).expect("JSON")
}

/// Every file below a folder by its path in there.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = PathBuf::from(entry.file_name());
        if entry.path().is_dir() {
            let inner = files(&entry.path()).into_iter();
            found.extend(inner.map(|(path, bytes)| (name.join(path), bytes)));
        } else {
            found.insert(name, fs::read(entry.path()).expect("a file"));
        }
    }
    found
}

/// The values of a whole column of numbers.
fn column(table: &Path, name: &str) -> Vec<i64> {
    let file = File::open(table).expect("a table");
    let reader = SerializedFileReader::new(file).expect("Parquet");
    let rows = reader.get_row_iter(None).expect("rows");
    rows.map(|row| {
        let row = row.expect("a row");
        let mut columns = row.get_column_iter();
        match columns.find(|(column, _)| *column == name) {
            Some((_, Field::Long(number))) => *number,
            other => panic!("{name}: {other:?}"),
        }
    })
    .collect()
}

const SHORT: &str = "--rate 10mbit --rtt 40ms --buffer 50kb --datagram 1200 --duration 3s --flows 2 \
                     --seed 5 --cc reno --cc gallop-vegas:alpha=1,beta=4 --cc bbr2";

#[test]
fn every_run_leaves_its_files() {
    let folder = TempDir::new().expect("a folder");
    let printed = compared(folder.path(), &format!("{SHORT} --out out --json out.json"));
    for part in ["gallop-vegas-alpha-1-beta-4", "One run each, seed 5."] {
        assert!(printed.contains(part), "{printed}");
    }
    let out = folder.path().join("out");
    let top = json(&out.join("comparison.json"));
    assert_eq!(top["experiments"], serde_json::json!(["main"]));
    let command = top["command"].as_str().expect("a command");
    assert!(command.starts_with("gallop-sim compare "), "{command}");

    let main = out.join("main");
    let experiment = json(&main.join("experiment.json"));
    assert_eq!(experiment["first-seed"], 5);
    assert_eq!(experiment["seeds"], 1);
    assert_eq!(experiment["series-every-s"], 0.01);
    let points = experiment["points"].as_array().expect("points");
    assert_eq!(points.len(), 3);
    let path = &points[1]["path"];
    assert_eq!(path["rate_bps"], 10e6);
    assert_eq!(path["buffer"], serde_json::json!({ "bytes": 51_200 }));
    assert_eq!(path["packet_wire_bytes"], 1228);
    assert_eq!(
        (&path["duration_s"], &path["flows"]),
        (&3.0.into(), &2.into())
    );
    let flow = &points[1]["flows"][0];
    assert_eq!(flow["cc"], "gallop-vegas:alpha=1,beta=4");
    assert_eq!(flow["parameters"]["beta"], 4.0);
    assert_eq!(
        flow["traces"],
        serde_json::json!([
            "traces/gallop-vegas-alpha-1-beta-4/flow-0.server.sqlog",
            "traces/gallop-vegas-alpha-1-beta-4/flow-1.server.sqlog"
        ])
    );
    let trace = main.join("traces/gallop-vegas-alpha-1-beta-4/flow-1.server.sqlog");
    let trace = fs::read_to_string(trace).expect("a trace");
    let header = trace.lines().next().expect("a header");
    let title = r#""title":"gallop-vegas:alpha=1,beta=4, flow 1, server""#;
    assert!(header.contains(title), "{header}");
    assert!(points[0]["flows"][0].get("parameters").is_none());
    for point in points {
        for trace in point["flows"][0]["traces"].as_array().expect("traces") {
            let trace = fs::read(main.join(trace.as_str().expect("a path"))).expect("a trace");
            assert_eq!((trace[0], trace.last()), (0x1e, Some(&b'\n')));
            let text = String::from_utf8_lossy(&trace);
            for event in ["quic:packet_sent", "quic:recovery_metrics_updated"] {
                assert!(text.contains(event), "{event}");
            }
        }
    }

    let results = json(&folder.path().join("out.json"));
    let main = &results["experiments"][0];
    assert_eq!(
        (&main["first_seed"], &main["seeds"]),
        (&5.into(), &1.into())
    );
    assert_eq!(main["path"], *path);
    let controllers = main["controllers"].as_array().expect("controllers");
    let ids: Vec<&str> = controllers
        .iter()
        .filter_map(|one| one["id"].as_str())
        .collect();
    assert_eq!(ids, ["reno", "gallop-vegas-alpha-1-beta-4", "bbr2"]);
    for one in controllers {
        let metrics = &one["metrics"];
        let utilisation = &metrics["link/bottleneck"]["utilisation"];
        let value = utilisation["mean"].as_f64().expect("a number");
        assert!((0.5..=1.0).contains(&value), "{one}");
        assert_eq!(utilisation["values"], serde_json::json!([value]));
        assert!(utilisation["low"].is_null(), "one seed has no interval");
        let throughput = &metrics["run"]["throughput_sum_bps"];
        assert_eq!(throughput["unit"], "bit/s");
        let throughput = throughput["mean"].as_f64().expect("a number");
        assert!((4e6..10e6).contains(&throughput), "{one}");
        let jain = metrics["run"]["jain"]["mean"].as_f64().expect("two flows");
        assert!((0.5..=1.0).contains(&jain), "{one}");
        let of_flow = metrics["flow/flow"]["throughput_bps"]["mean"].as_f64();
        assert!((of_flow.expect("a number") * 2.0 - throughput).abs() < 1.0);
    }

    // The same again, one at a time: the same bytes. The runs in the journal are in the order in
    // which they finished.
    let tables = |mut all: BTreeMap<PathBuf, Vec<u8>>| {
        all.remove(Path::new("main/journal.ndjson"));
        all.remove(Path::new("comparison.json"));
        all.remove(Path::new("main/experiment.json"));
        all
    };
    let first = tables(files(&out));
    assert_eq!(first.len(), 6 + 2);
    compared(folder.path(), &format!("{SHORT} --out out --threads 1"));
    assert!(tables(files(&out)) == first);
}

#[test]
fn several_seeds_have_intervals_and_the_first_has_traces() {
    let folder = TempDir::new().expect("a folder");
    let document = folder.path().join("README.md");
    let text = "before\n<!-- compare: measured -->\nold\n<!-- compare: end -->\nafter\n";
    fs::write(&document, text).expect("a document");
    let printed = compared(
        folder.path(),
        "--rate 10mbit --rtt 40ms --buffer 20p --duration 2s --flows 2 --seed 7 --seeds 3 \
         --cc cubic --cc vegas --out out --json out.json --table README.md",
    );
    assert!(printed.contains("over 3 seeds, 7 to 9."), "{printed}");

    let main = folder.path().join("out").join("main");
    let table = main.join("results.parquet");
    assert_eq!(
        BTreeSet::from_iter(column(&table, "seed")),
        [7, 8, 9].into()
    );
    let series = main.join("series.parquet");
    assert_eq!(BTreeSet::from_iter(column(&series, "seed")), [7].into());
    let names: Vec<PathBuf> = files(&main.join("traces")).into_keys().collect();
    let expected = [
        "cubic/flow-0.server.sqlog",
        "cubic/flow-1.server.sqlog",
        "vegas/flow-0.server.sqlog",
        "vegas/flow-1.server.sqlog",
    ];
    assert_eq!(names, expected.map(PathBuf::from));
    // Their trace is the first seed's, which is also what one seed gives.
    let kept = fs::read(main.join("traces/cubic/flow-0.server.sqlog")).expect("a trace");
    compared(
        folder.path(),
        "--rate 10mbit --rtt 40ms --buffer 20p --duration 2s --flows 2 --seed 7 --cc cubic --out one",
    );
    let alone = folder
        .path()
        .join("one/main/traces/cubic/flow-0.server.sqlog");
    assert!(fs::read(alone).expect("a trace") == kept);

    let results = json(&folder.path().join("out.json"));
    let metrics = &results["experiments"][0]["controllers"][0]["metrics"];
    let lost = &metrics["run"]["lost_packets"];
    let values: Vec<f64> = lost["values"]
        .as_array()
        .expect("values")
        .iter()
        .filter_map(Value::as_f64)
        .collect();
    assert_eq!(values.len(), 3);
    let mean = values.iter().sum::<f64>() / 3.0;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    // Student's t with two degrees of freedom.
    let half = 4.302_652_7 * (squares / 2.0 / 3.0).sqrt();
    for (key, expected) in [("mean", mean), ("low", mean - half), ("high", mean + half)] {
        let found = lost[key].as_f64().expect("a number");
        assert!(
            (found - expected).abs() < 1e-5,
            "{key}: {found}, {expected}"
        );
    }

    let text = fs::read_to_string(&document).expect("a document");
    let cell = format!("| {mean:.0} ± {half:.0} packets |");
    for part in [
        "before\n<!-- compare: measured -->\n| | slow start left |",
        &cell,
        "over 3 seeds, 7 to 9.\n<!-- compare: end -->\nafter\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("old"));
}

#[test]
fn a_paper_setting_is_also_run_with_quics_defaults() {
    let folder = TempDir::new().expect("a folder");
    let flags = "--preset gallop/figure-4 --duration 1s --cc vegas";
    compared(folder.path(), flags);
    let out = folder.path().join("target/compare/gallop/figure-4");
    let top = json(&out.join("comparison.json"));
    assert_eq!(
        top["experiments"],
        serde_json::json!(["main", "quic-defaults"])
    );
    let windows = ["main", "quic-defaults"].map(|name| {
        let experiment = json(&out.join(name).join("experiment.json"));
        assert_eq!(experiment["name"], "gallop/figure-4");
        assert_eq!(experiment["claims"], serde_json::json!([]));
        experiment["points"][0]["path"]["initial_window_packets"].clone()
    });
    assert_eq!(windows, [2, 10]);
}

#[test]
fn a_plan_says_what_would_be_run_and_runs_nothing() {
    let folder = TempDir::new().expect("a folder");
    let printed = compared(
        folder.path(),
        "--preset gallop/figure-4 --plan --target build",
    );
    let plan: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(plan["out"], "build/compare/gallop/figure-4");
    assert_eq!(
        plan["experiments"],
        serde_json::json!(["main", "quic-defaults"])
    );
    assert!(files(folder.path()).is_empty());
}

#[test]
fn an_earlier_comparison_is_replaced_and_nothing_else() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out");
    let flags = "--duration 500ms --out out";
    compared(folder.path(), &format!("{flags} --cc reno --cc cubic"));
    fs::write(out.join("report.html"), "of before").expect("a report");
    fs::write(out.join("notes.txt"), "mine").expect("a note");
    compared(folder.path(), &format!("{flags} --cc vegas"));
    assert!(!out.join("report.html").exists());
    assert!(!out.join("main/traces/reno").exists());
    assert!(out.join("main/traces/vegas/flow-0.server.sqlog").is_file());
    assert!(out.join("notes.txt").is_file());

    let other = folder.path().join("other");
    fs::create_dir(&other).expect("a folder");
    fs::write(other.join("thesis.txt"), "important").expect("a file");
    let refused = compare(folder.path(), "--duration 500ms --cc vegas --out other");
    assert_eq!(refused.status.code(), Some(1));
    let message = String::from_utf8(refused.stderr).expect("text");
    assert_eq!(
        message,
        "gallop-sim: --out: other: there are files in it that no comparison wrote; give an empty folder\n"
    );
    assert_eq!(files(&other).len(), 1);
}

#[test]
fn errors_say_what_and_where_before_anything_is_run() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("bare.md"), "no place").expect("a document");
    fs::write(folder.path().join("bad.toml"), "title = 3\n").expect("a file");
    for (flags, parts) in [
        (
            "--cc reno --cc renoo",
            vec!["unknown congestion controller `renoo`: did you mean `reno`?"],
        ),
        (
            "--cc vegas --cc vegas",
            vec!["controller `vegas` is given twice"],
        ),
        (
            "--duration 0s",
            vec!["--duration: it is 0; it must be positive"],
        ),
        (
            "--table bare.md",
            vec!["--table: bare.md: ", "<!-- compare: measured -->"],
        ),
        ("--table none.md", vec!["--table: none.md: "]),
        (
            "--json none/out.json",
            vec!["--json: none/out.json: there is no folder none"],
        ),
        ("bad.toml", vec!["bad.toml:1:1: there is no [[run]]"]),
        ("none.toml", vec!["none.toml"]),
        ("--library none", vec!["cannot read none/aliases.toml"]),
    ] {
        let output = compare(folder.path(), &format!("{flags} --out out"));
        let message = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.starts_with("gallop-sim: "), "{message}");
        for part in parts {
            assert!(message.contains(part), "{flags}: {message}");
        }
        assert!(!folder.path().join("out").exists(), "{flags}");
    }
    for flags in [
        "--duration -1s",
        "--seeds 0",
        "--flows many",
        "a.toml --preset default",
    ] {
        let output = compare(folder.path(), flags);
        assert_eq!(output.status.code(), Some(2), "{flags}");
    }
}

#[test]
fn a_run_without_progress_is_named_and_writes_no_results() {
    let folder = TempDir::new().expect("a folder");
    let flags = "--rtt 100ms --duration 50ms --cc vegas --seed 3 --json out.json";
    let output = compare(folder.path(), flags);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).expect("text");
    let expected = "run main/vegas, seed 3: no progress: flow 0 received nothing in 0.05 s\n";
    assert!(message.ends_with(expected), "{message}");
    assert!(!folder.path().join("out.json").exists());
}

#[test]
fn a_file_of_ones_own_is_compared() {
    let folder = TempDir::new().expect("a folder");
    let text = r#"
        title = "A path of my own"
        duration = "1s"
        ack-every = 1
        [[run]]
        id = "reno"
        cc = "reno"
        [dumbbell]
        rate = "5mbit"
        rtt = "20ms"
        queue = "20p"
        [[flow]]
        name = "mine"
    "#;
    fs::write(folder.path().join("own.toml"), text).expect("a file");
    let printed = compared(folder.path(), "own.toml");
    assert!(printed.starts_with("A path of my own\n"), "{printed}");
    let main = folder.path().join("target/compare/own/main");
    assert!(main.join("traces/reno/mine-0.server.sqlog").is_file());
}

#[test]
fn the_help_names_every_controller_with_its_options() {
    let folder = TempDir::new().expect("a folder");
    let help = compared(folder.path(), "--help");
    for part in [
        "gallop-vegas",
        "cubic-rfc9438",
        "hystart",
        "bbr2",
        "--seeds",
        "tc(8)",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
}
