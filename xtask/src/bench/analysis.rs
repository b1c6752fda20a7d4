//! The speed and memory of reading traces in the analysis, beside those of parsing their JSON
//! alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Outcome, Place, release};
use crate::{compare, job, process, setup};

/// The traces, in megabytes.
const SIZES_MB: &str = "10,100,1000";

/// The simulation over the default path whose trace is repeated to these sizes.
const DURATION: &str = "10s";
const CONTROLLER: &str = "gallop-vegas";

/// The reader that only finds the records and checks their JSON, which is the least that any reader
/// does.
const FLOOR: &str = "scan";

/// The reader that makes the types of Rust's qlog crate.
const SERDE: &str = "serde";

/// A value that `reading.py` writes.
#[derive(Debug, Deserialize)]
struct Row {
    /// `analysis/SIZE/READER/WHAT`
    name: String,
    value: f64,
}

/// The cost of reading a trace in one way.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Reading {
    size: String,
    reader: String,
    /// Megabytes per second of CPU time of all threads, without the time to start; `None` if most
    /// of the time is that.
    megabytes_per_cpu_s: Option<f64>,
    /// All CPU time.
    cpu_s: f64,
    peak_memory_megabytes: f64,
}

/// Makes a trace and measures its readers.
///
/// # Errors
///
/// Something cannot be installed, built or run.
pub(super) fn run(place: &Place) -> Result<Outcome> {
    let python = setup::python(&place.root, &place.target)?;
    let folder = place.target.join("bench").join("analysis");
    let trace = trace(place, &folder)?;
    let report = folder.join("reading.json");
    process::run(
        Command::new(python)
            .arg(place.root.join("qlog-analysis/benchmarks/reading.py"))
            .arg(trace)
            .args(["--sizes", SIZES_MB, "--serde"])
            .arg(serde_parser(place)?)
            .arg("--json")
            .arg(&report),
    )?;
    let text =
        fs::read_to_string(&report).with_context(|| format!("cannot read {}", report.display()))?;
    let rows: Vec<Row> = serde_json::from_str(&text)
        .with_context(|| format!("{}: expected a list of values", report.display()))?;
    let readings = readings(&rows)
        .with_context(|| format!("{} has values of unknown names", report.display()))?;
    Ok(Outcome {
        markdown: markdown(&readings),
        json: serde_json::to_value(&readings)?,
    })
}

/// Simulates a full trace of a sender.
fn trace(place: &Place, folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let simulator = job::simulator(&place.root, &place.target)?;
    process::run(
        compare::compare(&simulator, &place.root, &place.target)
            .args(["--duration", DURATION, "--cc", CONTROLLER, "--out"])
            .arg(folder),
    )?;
    let traces = folder.join("main").join("traces");
    Ok(traces.join(CONTROLLER).join("flow-0.server.sqlog"))
}

/// Builds the program that parses as qlog-dancer does.
fn serde_parser(place: &Place) -> Result<PathBuf> {
    let example = ["--package", "gallop-interop", "--example", "parse_qlog"];
    process::build(&place.root, &example)?;
    Ok(release(&place.target).join("examples").join("parse_qlog"))
}

/// The values of each size and reader together, in the order of the rows; `None` if a name is not
/// known.
fn readings(rows: &[Row]) -> Option<Vec<Reading>> {
    let mut readings: Vec<Reading> = Vec::new();
    for row in rows {
        let mut parts = row.name.split('/').skip(1);
        let (size, reader, what) = (parts.next()?, parts.next()?, parts.next()?);
        let same = |known: &&mut Reading| known.size == size && known.reader == reader;
        if !readings.iter_mut().any(|known| same(&known)) {
            readings.push(Reading {
                size: size.into(),
                reader: reader.into(),
                ..Reading::default()
            });
        }
        let reading = readings.iter_mut().find(same)?;
        *match what {
            "speed" => reading.megabytes_per_cpu_s.insert(row.value),
            "cpu" => &mut reading.cpu_s,
            "memory" => &mut reading.peak_memory_megabytes,
            _ => return None,
        } = row.value;
    }
    Some(readings)
}

fn markdown(readings: &[Reading]) -> String {
    let speed = |size: &str, reader: &str| {
        let mut all = readings.iter();
        all.find(|one| one.size == size && one.reader == reader)
            .and_then(|one| one.megabytes_per_cpu_s)
    };
    let shown = |value: Option<f64>, decimals: usize| {
        value.map_or("–".to_owned(), |value| format!("{value:.decimals$}"))
    };
    let floors: BTreeMap<&str, [Option<f64>; 2]> = readings
        .iter()
        .map(|one| {
            let size = one.size.as_str();
            (size, [FLOOR, SERDE].map(|reader| speed(size, reader)))
        })
        .collect();
    let mut text = format!(
        "| trace | reader | MB per CPU second | to `{FLOOR}` | to `{SERDE}` | CPU seconds, starting \
         included | peak memory, MB |\n|---|---|---|---|---|---|---|\n"
    );
    for one in readings {
        let [floor, serde] = floors[one.size.as_str()];
        let speed = one.megabytes_per_cpu_s;
        let to = |other: Option<f64>| shown(speed.zip(other).map(|(one, other)| one / other), 2);
        let _ = writeln!(
            text,
            "| {} | `{}` | {} | {} | {} | {:.2} | {:.0} |",
            one.size,
            one.reader,
            shown(speed, 0),
            to(floor),
            to(serde),
            one.cpu_s,
            one.peak_memory_megabytes,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(names: &[(&str, f64)]) -> Vec<Row> {
        let row = |&(name, value): &(&str, f64)| Row {
            name: name.into(),
            value,
        };
        names.iter().map(row).collect()
    }

    #[test]
    fn values_of_a_reader_stand_in_one_line_with_the_ratios() {
        let rows = rows(&[
            ("analysis/10 MB/load/speed", 90.0),
            ("analysis/10 MB/load/cpu", 0.5),
            ("analysis/10 MB/load/memory", 123.4),
            ("analysis/10 MB/scan/speed", 360.0),
            ("analysis/10 MB/serde/speed", 100.0),
            ("analysis/10 MB/json/cpu", 0.7),
            ("analysis/100 MB/scan/speed", 400.0),
        ]);
        let table = markdown(&readings(&rows).unwrap());
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[2],
            "| 10 MB | `load` | 90 | 0.25 | 0.90 | 0.50 | 123 |"
        );
        assert!(lines[3].starts_with("| 10 MB | `scan` | 360 | 1.00 | 3.60 |"));
        assert!(lines[4].starts_with("| 10 MB | `serde` | 100 | 0.28 | 1.00 |"));
        assert_eq!(lines[5], "| 10 MB | `json` | – | – | – | 0.70 | 0 |");
        assert_eq!(lines.len(), 7);
    }

    #[test]
    fn an_unknown_value_is_refused() {
        assert_eq!(
            readings(&rows(&[("analysis/10 MB/load/colour", 1.0)])),
            None
        );
        assert_eq!(readings(&rows(&[("analysis/10 MB", 1.0)])), None);
    }
}
