//! The cost of controllers, in instructions: behind quiche's plug point, built in, and alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::callgrind::{self, Counts};
use super::{Outcome, Place, program};
use crate::setup;

const MODULE: &str = "gallop_bench::controllers::";

/// The committed ratios, beside the measured program.
const BASELINE: &str = "bench/baseline.json";

/// The share by which a ratio may be above the committed one.
const TOLERANCE: f64 = 0.05;

/// The built-in controller that ours are compared with.
const REFERENCE: &str = "cubic";

/// The window at which the ratios are committed and checked.
const CHECKED_WINDOW: &str = "100";

/// The largest window takes longest, so it is measured with the usual ACKs alone (RFC 9000
/// §13.2.2).
const LARGEST: [&str; 4] = ["--windows", "100000", "--acks", "2"];

/// A case as `gallop-bench controllers` prints it.
#[derive(Debug, Deserialize)]
struct Case {
    controller: String,
    alone: bool,
    window_packets: u64,
    packets_per_ack: u64,
    sent_packets: u64,
    acks: u64,
}

/// The cost of a case.
#[derive(Debug, Serialize)]
struct Cost {
    controller: String,
    /// Without quiche's loss recovery around it.
    alone: bool,
    window_packets: u64,
    packets_per_ack: u64,
    instructions_per_packet_sent: f64,
    instructions_per_ack: f64,
}

impl Cost {
    fn new(case: Case, calls: &BTreeMap<String, u64>) -> Result<Cost> {
        let of = |function: &str| {
            calls
                .get(&format!("{MODULE}{function}"))
                .with_context(|| format!("callgrind saw no call of {function}"))
        };
        let sending = of("ask")? + of("send")?;
        Ok(Cost {
            instructions_per_packet_sent: sending as f64 / case.sent_packets as f64,
            instructions_per_ack: *of("acknowledge")? as f64 / case.acks as f64,
            controller: case.controller,
            alone: case.alone,
            window_packets: case.window_packets,
            packets_per_ack: case.packets_per_ack,
        })
    }
}

/// Measures at all windows.
///
/// # Errors
///
/// Something cannot be built or run.
pub(super) fn run(place: &Place) -> Result<Outcome> {
    let mut costs = measure(place, &[])?;
    costs.extend(measure(place, &LARGEST)?);
    Ok(Outcome {
        markdown: markdown(&costs),
        json: serde_json::to_value(&costs)?,
    })
}

/// Compares the ratios with the committed ones. They are ratios to a built-in controller in the
/// same run, since counts depend on the compiler.
///
/// # Errors
///
/// A controller costs more than it did.
pub fn check(place: &Place) -> Result<()> {
    let measured = checked_ratios(place)?;
    let file = place.root.join(BASELINE);
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let baseline: BTreeMap<String, f64> =
        serde_json::from_str(&text).with_context(|| file.display().to_string())?;
    let worse = regressions(&measured, &baseline);
    if !worse.is_empty() {
        bail!(
            "instructions as a part of those of {REFERENCE} are more than {:.0} % above {BASELINE}:\n{}\nif that \
             is meant: cargo xtask bench controllers --accept",
            TOLERANCE * 100.0,
            worse.join("\n")
        );
    }
    println!(
        "Controllers: {} ratios to {REFERENCE} as committed",
        measured.len()
    );
    Ok(())
}

/// Writes the ratios with which [`check`] will compare others.
///
/// # Errors
///
/// They cannot be measured or written.
pub fn accept(place: &Place) -> Result<()> {
    let file = place.root.join(BASELINE);
    let mut text = serde_json::to_string_pretty(&checked_ratios(place)?)?;
    text.push('\n');
    gallop_files::write(&file, text.as_bytes())
        .with_context(|| format!("cannot write {}", file.display()))
}

fn checked_ratios(place: &Place) -> Result<BTreeMap<String, f64>> {
    ratios(&measure(place, &["--windows", CHECKED_WINDOW])?)
}

fn regressions(measured: &BTreeMap<String, f64>, baseline: &BTreeMap<String, f64>) -> Vec<String> {
    let line = |(what, ratio): (&String, &f64)| match baseline.get(what) {
        Some(before) if *ratio <= before * (1.0 + TOLERANCE) => None,
        Some(before) => Some(format!("  {what}: {ratio:.3}, was {before:.3}")),
        None => Some(format!("  {what}: {ratio:.3}, was not measured")),
    };
    measured.iter().filter_map(line).collect()
}

/// The instructions of our controllers as a share of the reference's, by case.
fn ratios(costs: &[Cost]) -> Result<BTreeMap<String, f64>> {
    let mut ratios = BTreeMap::new();
    for cost in costs.iter().filter(|cost| is_ours(&cost.controller)) {
        let reference = reference(costs, cost)?;
        let place = match cost.alone {
            true => "alone",
            false => "in quiche",
        };
        let what = |event: &str| {
            format!(
                "{} {place}, per {event}, {} packets per ACK",
                cost.controller, cost.packets_per_ack
            )
        };
        let ratio = |ours: f64, theirs: f64| (ours / theirs * 1000.0).round() / 1000.0;
        ratios.insert(
            what("ACK"),
            ratio(cost.instructions_per_ack, reference.instructions_per_ack),
        );
        ratios.insert(
            what("packet sent"),
            ratio(
                cost.instructions_per_packet_sent,
                reference.instructions_per_packet_sent,
            ),
        );
    }
    Ok(ratios)
}

fn is_ours(controller: &str) -> bool {
    controller.ends_with("vegas") || controller == "canter"
}

/// The reference in the same setting as `cost`.
fn reference<'a>(costs: &'a [Cost], cost: &Cost) -> Result<&'a Cost> {
    let setting = |cost: &Cost| (cost.window_packets, cost.packets_per_ack);
    costs
        .iter()
        .find(|other| other.controller == REFERENCE && setting(other) == setting(cost))
        .with_context(|| format!("{REFERENCE} was not measured"))
}

fn measure(place: &Place, flags: &[&str]) -> Result<Vec<Cost>> {
    setup::instruction_counter()?;
    let program = program(place)?;
    let mut arguments = vec!["controllers"];
    arguments.extend(flags);
    let counts = callgrind::count(
        &place.target.join("bench").join("controllers"),
        &format!("{MODULE}measure"),
        &program,
        &arguments,
    )?;
    costs(&counts)
}

fn costs(counts: &Counts) -> Result<Vec<Cost>> {
    ensure!(
        counts.lines.len() == counts.calls.len(),
        "callgrind wrote {} dumps for {} cases",
        counts.calls.len(),
        counts.lines.len()
    );
    counts
        .lines
        .iter()
        .zip(&counts.calls)
        .map(|(line, calls)| Cost::new(serde_json::from_str(line)?, calls))
        .collect()
}

fn markdown(costs: &[Cost]) -> String {
    let mut text = String::new();
    let mut columns: Vec<(&str, bool)> = Vec::new();
    let mut rows: Vec<(u64, u64)> = Vec::new();
    for cost in costs {
        let column = (cost.controller.as_str(), cost.alone);
        let row = (cost.window_packets, cost.packets_per_ack);
        if !columns.contains(&column) {
            columns.push(column);
        }
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    columns.sort_by_key(|(_, alone)| *alone);
    type Figure = fn(&Cost) -> f64;
    let tables: [(&str, Figure); 2] = [
        ("Instructions per ACK", |cost| cost.instructions_per_ack),
        ("Instructions per packet sent", |cost| {
            cost.instructions_per_packet_sent
        }),
    ];
    for (title, figure) in tables {
        let names = columns.iter().map(|(controller, alone)| match alone {
            true => format!("{controller} alone"),
            false => (*controller).to_owned(),
        });
        let names: Vec<String> = names.collect();
        let _ = writeln!(text, "{title}:\n");
        let _ = writeln!(text, "| window | packets per ACK | {} |", names.join(" | "));
        let _ = writeln!(text, "|{}", "---|".repeat(names.len() + 2));
        for (window, per_ack) in &rows {
            let _ = write!(text, "| {window} | {per_ack} |");
            for (controller, alone) in &columns {
                let cost = costs.iter().find(|cost| {
                    cost.controller == *controller
                        && cost.alone == *alone
                        && (cost.window_packets, cost.packets_per_ack) == (*window, *per_ack)
                });
                let _ = write!(text, " {:.0} |", cost.map_or(f64::NAN, figure));
            }
            text.push('\n');
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(controller: &str, alone: bool, per_ack: f64, per_packet: f64) -> Cost {
        Cost {
            controller: controller.into(),
            alone,
            window_packets: 100,
            packets_per_ack: 2,
            instructions_per_packet_sent: per_packet,
            instructions_per_ack: per_ack,
        }
    }

    #[test]
    fn ratios_are_to_the_reference_in_the_same_setting() {
        let costs = [
            cost("cubic", false, 2000.0, 800.0),
            cost("vegas", false, 2200.0, 800.0),
            cost("vegas", true, 400.0, 100.0),
        ];
        let ratios = ratios(&costs).unwrap();
        assert_eq!(ratios.len(), 4);
        assert_eq!(ratios["vegas in quiche, per ACK, 2 packets per ACK"], 1.1);
        assert_eq!(
            ratios["vegas alone, per packet sent, 2 packets per ACK"],
            0.125
        );
    }

    #[test]
    fn more_than_a_twentieth_above_is_a_regression() {
        let table = |ratio| BTreeMap::from([("vegas".to_owned(), ratio)]);
        assert!(regressions(&table(1.05), &table(1.0)).is_empty());
        assert_eq!(
            regressions(&table(1.06), &table(1.0)),
            ["  vegas: 1.060, was 1.000"]
        );
        assert_eq!(
            regressions(&table(0.5), &BTreeMap::new()),
            ["  vegas: 0.500, was not measured"]
        );
    }
}
