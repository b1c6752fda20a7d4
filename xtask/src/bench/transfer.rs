//! The cost of a whole transfer, in instructions: both ends, TLS and the simulator between them.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::callgrind;
use super::{Outcome, Place, program};
use crate::setup;

/// The function in which the transfer happens.
const FUNCTION: &str = "gallop_bench::simulations::whole_transfer";

/// The controller that the others are compared with.
const REFERENCE: &str = "reno";

const CONTROLLERS: [&str; 7] = [
    REFERENCE,
    "cubic",
    "bbr2",
    "vegas",
    "gallop-vegas",
    "reno-rfc9002",
    "cubic-rfc9438",
];

/// Two lengths, whose difference is a transfer without handshake and slow start.
const BYTES: [u64; 2] = [5_000_000, 25_000_000];

/// The output of `gallop-bench transfer`.
#[derive(Debug, Deserialize)]
struct Transferred {
    bytes: u64,
    sent_packets: u64,
    lost_packets: u64,
    client_packets: u64,
}

/// The cost of a megabyte.
#[derive(Debug, Serialize)]
struct Cost {
    controller: &'static str,
    instructions_per_megabyte: f64,
    /// Packets of the server.
    packets_per_megabyte: f64,
    client_packets_per_megabyte: f64,
    lost_packets: u64,
    /// The ratio to the reference.
    ratio: f64,
}

/// Measures with each controller.
///
/// # Errors
///
/// Something cannot be built or run.
pub(super) fn run(place: &Place) -> Result<Outcome> {
    setup::instruction_counter()?;
    let program = program(place)?;
    let folder = place.target.join("bench").join("transfer");
    let measure = |controller: &str, bytes: u64| -> Result<(u64, Transferred)> {
        let size = format!("{bytes}b");
        let arguments = ["transfer", "--cc", controller, "--size", &size];
        let counts = callgrind::count(&folder, FUNCTION, &program, &arguments)?;
        let line = counts
            .lines
            .first()
            .context("the program printed nothing")?;
        Ok((counts.totals.iter().sum(), serde_json::from_str(line)?))
    };
    let mut costs: Vec<Cost> = Vec::new();
    for controller in CONTROLLERS {
        eprintln!("  {controller}");
        let (short_instructions, short) = measure(controller, BYTES[0])?;
        let (instructions, long) = measure(controller, BYTES[1])?;
        let megabytes = (long.bytes - short.bytes) as f64 / 1e6;
        let per_megabyte = |long: u64, short: u64| (long - short) as f64 / megabytes;
        let instructions_per_megabyte = per_megabyte(instructions, short_instructions);
        let reference = costs.first().map_or(instructions_per_megabyte, |first| {
            first.instructions_per_megabyte
        });
        costs.push(Cost {
            controller,
            instructions_per_megabyte,
            packets_per_megabyte: per_megabyte(long.sent_packets, short.sent_packets),
            client_packets_per_megabyte: per_megabyte(long.client_packets, short.client_packets),
            lost_packets: long.lost_packets - short.lost_packets,
            ratio: instructions_per_megabyte / reference,
        });
    }
    Ok(Outcome {
        markdown: markdown(&costs),
        json: serde_json::to_value(&costs)?,
    })
}

fn markdown(costs: &[Cost]) -> String {
    let mut text = format!(
        "| controller | million instructions per MB | to {REFERENCE} | packets per MB | ACKs per MB | \
         lost packets | thousand instructions per packet |\n|---|---|---|---|---|---|---|\n"
    );
    for cost in costs {
        let packets = cost.packets_per_megabyte + cost.client_packets_per_megabyte;
        let _ = writeln!(
            text,
            "| {} | {:.2} | {:.3} | {:.0} | {:.0} | {} | {:.2} |",
            cost.controller,
            cost.instructions_per_megabyte / 1e6,
            cost.ratio,
            cost.packets_per_megabyte,
            cost.client_packets_per_megabyte,
            cost.lost_packets,
            cost.instructions_per_megabyte / packets / 1e3,
        );
    }
    text
}
