//! The speed of the simulator.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{Outcome, Place, program};
use crate::process;

const CONTROLLERS: [&str; 2] = ["reno", "gallop-vegas"];

/// The number of runs, of which the fastest counts: disturbances can only make a run slower.
const RUNS: usize = 3;

/// A simulation as `gallop-bench simulator` prints it.
#[derive(Debug, Deserialize, Serialize)]
struct Speed {
    flows: u32,
    controller: String,
    rate_bps: u64,
    simulated_s: f64,
    packets: u64,
    events: u64,
    cpu_s: f64,
    simulated_s_per_cpu_s: f64,
    packets_per_cpu_s: f64,
}

/// Measures with few and many flows.
///
/// # Errors
///
/// The program cannot be built or run.
pub(super) fn run(place: &Place) -> Result<Outcome> {
    let program = program(place)?;
    let mut fastest: Vec<Speed> = Vec::new();
    for controller in CONTROLLERS {
        for run in 0..RUNS {
            eprintln!("  {controller}, run {} of {RUNS}", run + 1);
            let printed =
                process::output(Command::new(&program).args(["simulator", "--cc", controller]))?;
            for line in printed.lines() {
                let speed: Speed = serde_json::from_str(line)?;
                let same = |known: &&mut Speed| {
                    (known.flows, &known.controller) == (speed.flows, &speed.controller)
                };
                match fastest.iter_mut().find(same) {
                    Some(known) if known.cpu_s <= speed.cpu_s => {}
                    Some(known) => *known = speed,
                    None => fastest.push(speed),
                }
            }
        }
    }
    Ok(Outcome {
        markdown: markdown(&fastest),
        json: serde_json::to_value(&fastest)?,
    })
}

fn markdown(speeds: &[Speed]) -> String {
    let mut text =
        "| controller | flows | bottleneck, Mbit/s | simulated seconds per CPU second | \
                    packets per CPU second |\n|---|---|---|---|---|\n"
            .to_owned();
    for speed in speeds {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.1} | {:.0} |",
            speed.controller,
            speed.flows,
            speed.rate_bps / 1_000_000,
            speed.simulated_s_per_cpu_s,
            speed.packets_per_cpu_s
        );
    }
    text
}
