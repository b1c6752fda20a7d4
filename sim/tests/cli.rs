//! The program: its output, and its messages about errors.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gallop_sim::comparison::FILE_NAME;
use gallop_sim::record::{QUEUE_FILE_NAME, RUN_FILE_NAME, RunRecord, trace_file_name};
use serde_json::{Value, json};
use tempfile::TempDir;

fn comparison(controllers: &[&str], duration_s: f64) -> Value {
    let runs: Vec<Value> = controllers
        .iter()
        .enumerate()
        .map(|(number, cc)| json!({"id": format!("run-{number}"), "cc": cc}))
        .collect();
    json!({
        "title": "t", "command": "c", "claims": [],
        "groups": [{
            "id": "group", "title": "t", "runs": runs,
            "scenario": {
                "rate_bps": 10_000_000.0, "rtt_s": 0.04, "buffer": {"bytes": 50_000},
                "datagram_bytes": 1200, "initial_window_packets": 10, "ack_every": 2,
                "max_ack_delay_s": 0.025, "duration_s": duration_s, "flows": 2, "seed": 5
            }
        }]
    })
}

fn run(directory: &Path, comparison: &Value, arguments: &[&str]) -> Output {
    let path = directory.join(FILE_NAME);
    fs::write(&path, comparison.to_string()).expect("it is written");
    Command::new(env!("CARGO_BIN_EXE_gallop-sim"))
        .arg("run")
        .arg(&path)
        .args(arguments)
        .output()
        .expect("it runs")
}

fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("it is there") {
        let path = entry.expect("it is readable").path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            let content = fs::read(&path).expect("it is readable");
            files.insert(path, content);
        }
    }
    files
}

#[test]
fn every_run_leaves_its_files() {
    let directory = TempDir::new().expect("a directory");
    let controllers = ["reno", "gallop-vegas:alpha=1,beta=4", "bbr2"];
    let output = run(directory.path(), &comparison(&controllers, 3.0), &[]);
    assert!(output.status.success(), "{output:?}");
    assert!(
        output.stderr.is_empty(),
        "no bars without a terminal: {output:?}"
    );

    let runs = directory.path().join("runs");
    let whole = files(&runs);
    assert_eq!(whole.len(), 3 * 4);
    let run_1 = runs.join("group/run-1");
    let record: RunRecord =
        serde_json::from_slice(&whole[&run_1.join(RUN_FILE_NAME)]).expect("a record");
    assert_eq!(
        (record.id.as_str(), record.name.as_str()),
        ("run-1", "gallop-vegas")
    );
    assert_eq!(record.options, "alpha=1,beta=4");
    let parameters = record.parameters.expect("it has thresholds");
    assert_eq!((parameters["alpha"], parameters["beta"]), (1.0, 4.0));
    assert_eq!((record.packet_wire_bytes, record.simulated_s), (1228, 3.0));
    assert_eq!(record.flows.len(), 2);
    for flow in &record.flows {
        assert!(run_1.join(&flow.trace).is_file());
        assert!(flow.bytes_sent > flow.received_bytes && flow.received_bytes > 500_000);
    }
    assert!(record.bottleneck.forwarded_bytes < 3_750_000);
    assert!(record.bottleneck.queue_mean_packets > 0.5);

    let queue = String::from_utf8(whole[&run_1.join(QUEUE_FILE_NAME)].clone()).expect("text");
    let rows: Vec<&str> = queue.lines().collect();
    assert_eq!(
        (rows[0], rows[1]),
        ("time_s,packets,bytes,drops", "0,0,0,0")
    );
    assert_eq!(rows.len(), 1 + 301);
    assert!(rows[301].starts_with("3,"));

    let trace = &whole[&run_1.join(trace_file_name(0))];
    assert_eq!((trace[0], trace.last()), (0x1e, Some(&b'\n')));
    let text = String::from_utf8_lossy(trace);
    for name in [
        "quic:packet_sent",
        "quic:recovery_metrics_updated",
        "vegas_base_rtt_ms",
    ] {
        assert!(text.contains(name), "{name}");
    }

    // The same again, one at a time: the same bytes.
    let output = run(
        directory.path(),
        &comparison(&controllers, 3.0),
        &["--threads", "1"],
    );
    assert!(output.status.success(), "{output:?}");
    assert!(files(&runs) == whole);
}

#[test]
fn errors_say_what_and_where() {
    for (controllers, duration_s, parts) in [
        (
            vec!["reno", "renoo"],
            1.0,
            vec!["groups[0].runs[1].cc", "`renoo`", "gallop-vegas"],
        ),
        (
            vec!["vegas:alpha=9"],
            1.0,
            vec!["groups[0].runs[0].cc", "alpha"],
        ),
        (
            vec!["reno"],
            0.05,
            vec!["run group/run-0", "no progress", "flow 0"],
        ),
        (vec!["reno"], -1.0, vec![FILE_NAME, "negative"]),
    ] {
        let directory = TempDir::new().expect("a directory");
        let output = run(directory.path(), &comparison(&controllers, duration_s), &[]);
        let message = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.starts_with("gallop-sim: "), "{message}");
        for part in parts {
            assert!(message.contains(part), "{message}");
        }
        assert!(!directory.path().join("runs/group/run-0").exists());
    }
}

#[test]
fn a_missing_file_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_gallop-sim"))
        .args(["run", "nowhere/comparison.json"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).expect("text");
    assert!(
        message.contains("cannot read nowhere/comparison.json"),
        "{message}"
    );
}

fn program(arguments: &[&str], file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gallop-sim"))
        .args(arguments)
        .arg(file)
        .output()
        .expect("it runs")
}

#[test]
fn an_experiment_is_checked_and_swept() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out");
    let file = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/experiments/fairness.toml"
    ));
    let checked = program(&["check"], file);
    assert!(checked.status.success());
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(text.contains("8 points, 16 runs, 1 claims"), "{text}");

    let out_text = out.to_str().expect("a path");
    let swept = program(&["sweep", "--fast", "--json", "--out", out_text], file);
    assert!(swept.status.success());
    let outcomes: Value = serde_json::from_slice(&swept.stdout).expect("JSON");
    assert_eq!(outcomes[0]["runs"], 2);
    assert!(out.join("fairness").join("results.parquet").is_file());
}

#[test]
fn a_bad_experiment_is_named_by_line() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("bad.toml");
    fs::write(
        &file,
        "title = \"t\"\nduration = \"4 parsecs\"\n[[run]]\nid = \"r\"\n",
    )
    .expect("it is written");
    for command in ["check", "sweep"] {
        let refused = program(&[command], &file);
        assert!(!refused.status.success());
        let text = String::from_utf8_lossy(&refused.stderr);
        let place = format!("{}:2:12: ", file.display());
        assert!(text.contains(&place), "{text}");
    }
    let refused = program(&["sweep", "--shard", "3/2"], &file);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(text.contains("\"3/2\" is not K/N"), "{text}");
}
