//! The program: its output, and its messages about errors.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

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
    assert!(
        text.contains("8 points, 16 runs, 1 claims, 0 limits"),
        "{text}"
    );

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

#[test]
fn experiments_are_listed_by_present_and_earlier_names() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments"));
    let list = |arguments: &[&str]| {
        let arguments = [&["list"], arguments, &["--library"]].concat();
        program(&arguments, folder)
    };
    let all = list(&[]);
    assert!(all.status.success());
    let text = String::from_utf8_lossy(&all.stdout);
    assert!(text.contains("\nns2/red "), "{text}");

    let some = list(&["--json", "ns2/red", "001-loss"]);
    let some: Value = serde_json::from_slice(&some.stdout).expect("JSON");
    assert_eq!(
        (&some[0]["name"], &some[1]["name"]),
        (&"ns2/red".into(), &"ns2/loss".into())
    );
    let file = some[1]["file"].as_str().expect("a path");
    assert!(
        Path::new(file).is_file() && file.ends_with("ns2/loss.toml"),
        "{file}"
    );
    assert!(some[1]["claims"].as_u64() > Some(0));

    for (names, message) in [
        (
            ["ns2/read"].as_slice(),
            "unknown experiment `ns2/read`: did you mean `ns2/red`? ",
        ),
        (
            &["ns2/red", "001-red"],
            "experiment `ns2/red` is given twice",
        ),
    ] {
        let refused = list(names);
        assert!(!refused.status.success());
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(text.contains(message), "{text}");
    }
}
