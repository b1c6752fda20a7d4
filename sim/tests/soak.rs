//! A few minutes of a long run; `gallop-sim soak` runs for hours.

use std::process::Command;
use std::time::Duration;

use gallop_sim::soak::{Options, Soak, Summary};

fn run(seed: u64) -> Summary {
    let duration = Duration::from_secs(600);
    let soak = Soak::new(Options { duration, seed });
    let summary = soak.execute().expect("all holds");
    assert!(soak.simulated() >= duration);
    let flows: u64 = summary.controllers.values().map(|tally| tally.flows).sum();
    assert_eq!(flows, soak.flows());
    summary
}

#[test]
fn flows_come_and_go_and_nothing_is_left_of_them() {
    let summary = run(1);
    for (controller, tally) in &summary.controllers {
        assert!(tally.flows > 0 && tally.received_bytes > 0, "{controller}");
    }
    let ours = |name: &str| summary.controllers.contains_key(name);
    assert!(ours("vegas") && ours("gallop-vegas"), "{summary:?}");
    assert!(
        summary.most_open > 1 && summary.checks > 10_000,
        "{summary:?}"
    );
}

#[test]
fn the_seed_determines_everything() {
    let come_to = |seed| {
        let summary = run(seed);
        (summary.events, summary.checks, summary.controllers)
    };
    let first = come_to(2);
    assert_eq!(first, come_to(2));
    assert_ne!(first, come_to(3));
}

#[test]
fn the_last_of_a_repeated_flag_holds_and_times_have_a_unit() {
    let soak = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gallop-sim"));
        command.arg("soak").args(flags).output().unwrap()
    };
    // Nothing would end a soak of 24 hours within the time of a test.
    let output = soak(&["--duration", "24h", "--duration", "1s"]);
    assert!(output.status.success(), "{output:?}");
    let output = soak(&["--duration", "60"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("it has no unit; use ns, us, ms, s, min, h"),
        "{error}"
    );
}
