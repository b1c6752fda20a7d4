//! The functions in which our server spends its CPU time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde::Serialize;

use super::contestants::Contestant;
use super::load::LOADS;
use super::running::{CLIENT_CORE, Perf, Running, SERVER_CORE, pinned};
use crate::bench::Place;
use crate::process;

const CONTROLLERS: [&str; 2] = ["cubic", "canter"];

/// The functions that are shown.
const TOP: usize = 10;

/// The times that the file is fetched.
const FETCHES: usize = 10;

/// A function's part of the server's CPU time.
#[derive(Debug, Serialize)]
pub(super) struct Function {
    name: String,
    /// In percent, by controller.
    percent: BTreeMap<&'static str, f64>,
}

/// The functions that take most, with both controllers together. Without perf(1) there are none.
pub(super) fn measure(place: &Place, folder: &Path) -> Result<Vec<Function>> {
    let mut functions: BTreeMap<String, BTreeMap<&'static str, f64>> = BTreeMap::new();
    for controller in CONTROLLERS {
        eprintln!("  profile: {controller}");
        let contestant = Contestant::ours(controller);
        let load = &LOADS[0];
        let command = contestant.command(place, folder, "127.0.0.1");
        let mut server = Running::start(pinned(SERVER_CORE, &command))?;
        load.wait_until_served(place, contestant.port, &mut server)?;
        let file = folder.join("perf.data");
        let perf = match Perf::record(&server.processes()?, &file) {
            Ok(perf) => perf,
            Err(error) => {
                eprintln!("  no profile: {error:#}");
                return Ok(Vec::new());
            }
        };
        for _ in 0..FETCHES {
            load.put(place, contestant.port, CLIENT_CORE)?;
        }
        perf.stop()?;
        let report = process::output(
            Command::new("perf")
                .args(["report", "--stdio", "--no-children", "--sort", "symbol"])
                .args(["--field-separator", ";", "-i"])
                .arg(&file),
        )?;
        for (name, percent) in read(&report) {
            *functions
                .entry(name)
                .or_default()
                .entry(controller)
                .or_default() += percent;
        }
    }
    let mut functions: Vec<_> = functions
        .into_iter()
        .map(|(name, percent)| Function { name, percent })
        .collect();
    functions.sort_by(|one, other| other.sum().total_cmp(&one.sum()));
    functions.truncate(TOP);
    Ok(functions)
}

impl Function {
    fn sum(&self) -> f64 {
        self.percent.values().sum()
    }
}

/// Names and percentages in the report of perf(1).
fn read(report: &str) -> Vec<(String, f64)> {
    let line = |line: &str| {
        let (percent, symbol) = line.trim().split_once(';')?;
        let percent = percent.trim().trim_end_matches('%').parse().ok()?;
        let symbol = symbol.split(';').next()?.trim();
        let name = match symbol.strip_prefix("[k] ") {
            Some(name) => format!("{} (kernel)", name.trim()),
            None => symbol.trim_start_matches("[.] ").trim().to_owned(),
        };
        Some((name, percent))
    };
    report.lines().filter_map(line).collect()
}

pub(super) fn markdown(functions: &[Function]) -> String {
    let mut text = format!(
        "CPU time of `gallop-server` by function, one file of 100 MB {FETCHES} times over the loopback \
         interface, in percent (perf):\n\n| function | {} |\n|---|---|---|\n",
        CONTROLLERS.map(|name| format!("`{name}`")).join(" | ")
    );
    for function in functions {
        let percent = |controller| {
            function
                .percent
                .get(controller)
                .copied()
                .unwrap_or_default()
        };
        let [one, other] = CONTROLLERS.map(percent);
        let _ = writeln!(text, "| `{}` | {one:.1} | {other:.1} |", function.name);
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_perf_is_read() {
        let report = "# To display\n#\n# Overhead;Symbol\n 12.50;[k] copy_from_user    -      -\n  \
                      3.25;[.] quiche::Connection::send\n\n";
        let read = read(report);
        assert_eq!(read.len(), 2);
        assert!(read[0].0.starts_with("copy_from_user") && read[0].1 == 12.5);
        assert_eq!(read[1], ("quiche::Connection::send".to_owned(), 3.25));
    }
}
