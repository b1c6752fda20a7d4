//! The command, as a user gives it. Where network namespaces are not permitted, these tests say so
//! and check nothing.

#![cfg(target_os = "linux")]

use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn gallop_path(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gallop-path"))
        .args(arguments)
        .output()
        .expect("the command runs")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// True if this host permits paths.
fn is_permitted() -> bool {
    let output = gallop_path(&["run", "--", "true"]);
    if !output.status.success() {
        eprintln!("SKIPPED, NOTHING IS CHECKED: {}", errors(&output));
    }
    output.status.success()
}

#[test]
fn the_exit_code_is_the_clients_and_the_report_is_written() {
    if !is_permitted() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let json = file.to_str().expect("a name");
    let client = ["sh", "-c", "exit 7"];
    let output = gallop_path(&[&["run", "--json", json, "--"][..], &client].concat());
    assert_eq!(output.status.code(), Some(7), "{}", errors(&output));
    let text = std::fs::read_to_string(&file).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["to_client"]["delivered_packets"], 0);
}

#[test]
fn the_server_ends_with_the_client() {
    if !is_permitted() {
        return;
    }
    let start = Instant::now();
    let server = "sleep 1000 & sleep 1000";
    let output = gallop_path(&["run", "--server", server, "--", "sleep", "0.1"]);
    assert!(output.status.success(), "{}", errors(&output));
    // The output is closed when nothing of the server is left.
    assert!(start.elapsed() < Duration::from_secs(500));
}

#[test]
fn what_is_wrong_is_named_with_what_would_be_right() {
    for (arguments, expected) in [
        (["--loss", "130%"], "the share must lie between 0 and 100%"),
        (["--queue", "25"], "use p (packets)"),
        (["--rate", "10"], "it has no unit"),
        (["--blackhole", "5s"], "on=5s,off=2s"),
        (["--rebind", "nothing"], "port or addr"),
        (["--rebind-every", "5s"], "--rebind <WHAT>"),
    ] {
        let output = gallop_path(&[&["run"][..], &arguments].concat());
        let message = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}
