//! What is refused in comparison.json, and how.

use gallop_sim::comparison::{Comparison, FILE_NAME};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

fn valid() -> Value {
    json!({
        "title": "Figure 4",
        "command": "cargo xtask compare --preset gallop/figure-4",
        "groups": [{
            "id": "paper",
            "title": "As in Ho et al. 2006, Figure 4",
            "scenario": {
                "rate_bps": 68_900_000.0, "rtt_s": 0.1, "buffer": {"packets": 100},
                "datagram_bytes": 1350, "initial_window_packets": 2, "ack_every": 1,
                "max_ack_delay_s": 0.025, "duration_s": 60.0, "flows": 1, "seed": 1
            },
            "runs": [
                {"id": "gallop-vegas", "cc": "gallop-vegas:alpha=1,beta=3"},
                {"id": "reno", "cc": "reno"}
            ]
        }],
        "claims": [{
            "id": "gallop/figure-4/exit", "run": "paper/gallop-vegas", "metric": "slow_start_exit_s",
            "title": "Gallop-Vegas leaves slow start", "paper": 11.4, "low": 10.83, "high": null,
            "unit": "s", "source": "Ho et al. 2006 §V.B, Figure 4", "note": null
        }]
    })
}

fn read(text: &str) -> Result<Comparison, String> {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join(FILE_NAME);
    fs::write(&path, text).expect("it is written");
    let result = Comparison::read(&path).map_err(|error| error.to_string());
    if let Err(error) = &result {
        assert!(error.contains(FILE_NAME), "{error}");
    }
    result
}

/// The error after the value at `pointer` has been replaced.
fn error_with(pointer: &str, value: Value) -> String {
    let mut json = valid();
    *json.pointer_mut(pointer).expect(pointer) = value;
    read(&json.to_string()).expect_err(pointer)
}

#[test]
fn a_valid_file_is_read_and_written_back() {
    let comparison = read(&valid().to_string()).expect("it is valid");
    let group = &comparison.groups[0];
    assert_eq!(group.scenario.rate_bps.bps(), 68_900_000);
    assert_eq!(
        group.runs[0].name_and_options(),
        ("gallop-vegas", "alpha=1,beta=3")
    );
    assert_eq!(group.runs[1].name_and_options(), ("reno", ""));
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join(FILE_NAME);
    comparison.write(&path).expect("it is written");
    assert_eq!(Comparison::read(&path).expect("it is read"), comparison);
}

#[test]
fn errors_name_the_place_and_what_is_right() {
    let scenario = |field: &str| format!("/groups/0/scenario/{field}");
    for (pointer, value, parts) in [
        (
            "/groups".to_owned(),
            json!([]),
            vec!["groups", "at least one group"],
        ),
        (
            "/groups/0/runs".to_owned(),
            json!([]),
            vec!["groups[0].runs", "at least one run"],
        ),
        (
            "/groups/0/id".to_owned(),
            json!("../x"),
            vec!["groups[0].id", "\"../x\"", "letters"],
        ),
        ("/groups/0/id".to_owned(), json!(""), vec!["groups[0].id"]),
        (
            "/groups/0/runs/1/id".to_owned(),
            json!(".x"),
            vec!["groups[0].runs[1].id"],
        ),
        (
            "/groups/0/runs/1/id".to_owned(),
            json!("gallop-vegas"),
            vec!["groups[0].runs[1].id", "\"gallop-vegas\" is there twice"],
        ),
        (
            "/groups/0/runs/1/cc".to_owned(),
            json!(":alpha=1"),
            vec!["groups[0].runs[1].cc"],
        ),
        (
            scenario("datagram_bytes"),
            json!(1199),
            vec!["scenario.datagram_bytes", "1199", "1200"],
        ),
        (scenario("datagram_bytes"), json!(65_508), vec!["65507"]),
        (
            scenario("initial_window_packets"),
            json!(0),
            vec!["initial_window_packets"],
        ),
        (
            scenario("ack_every"),
            json!(0),
            vec!["scenario.ack_every", "at least 1"],
        ),
        (
            scenario("max_ack_delay_s"),
            json!(16.384),
            vec!["max_ack_delay_s", "16383ms"],
        ),
        (
            scenario("rtt_s"),
            json!(0),
            vec!["scenario.rtt_s", "positive"],
        ),
        (
            scenario("duration_s"),
            json!(0),
            vec!["scenario.duration_s", "positive"],
        ),
        (scenario("flows"), json!(0), vec!["scenario.flows"]),
        (
            scenario("rate_bps"),
            json!(0),
            vec!["rate", "at least 1bit"],
        ),
        (scenario("rate_bps"), json!(-5), vec!["negative"]),
        (
            scenario("rate_bps"),
            json!("5 furlongs"),
            vec!["unknown unit \"furlongs\""],
        ),
        (
            scenario("buffer"),
            json!({"boxes": 3}),
            vec!["boxes", "packets", "bytes"],
        ),
        (scenario("buffer"), json!({"packets": 0}), vec!["nonzero"]),
        (scenario("seed"), json!("one"), vec!["expected u64"]),
        (
            "/claims/0/run".to_owned(),
            json!("paper/cubic"),
            vec!["claims[0].run", "paper/cubic"],
        ),
        (
            "/claims/0/high".to_owned(),
            json!(10.0),
            vec!["claims[0]", "above high (10)"],
        ),
    ] {
        let error = error_with(&pointer, value);
        for part in parts {
            assert!(error.contains(part), "{pointer}: {error}");
        }
    }
}

#[test]
fn unknown_and_missing_fields_are_named() {
    let mut json = valid();
    json["groups"][0]["scenario"]["rate_mbps"] = json!(5);
    let error = read(&json.to_string()).expect_err("a field too many");
    assert!(error.contains("unknown field `rate_mbps`"), "{error}");
    let mut json = valid();
    json["groups"][0]["scenario"]
        .as_object_mut()
        .expect("an object")
        .remove("seed");
    let error = read(&json.to_string()).expect_err("a field too few");
    assert!(error.contains("missing field `seed`"), "{error}");
}

#[test]
fn what_is_no_json_or_no_file_is_said_so() {
    let error = read("{\"title\": \n oops").expect_err("no JSON");
    assert!(error.contains("line 2"), "{error}");
    let directory = TempDir::new().expect("a directory");
    let error = Comparison::read(directory.path()).expect_err("a directory");
    assert!(error.to_string().starts_with("cannot read"), "{error}");
}
