//! The cost of a build from nothing, and of its packages.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Outcome, Place, usage};
use crate::process;

/// The number of packages that are named.
const NAMED: usize = 15;

/// A unit of cargo's timing report.
#[derive(Debug, Deserialize)]
struct Unit {
    name: String,
    duration: f64,
}

/// The cost of the build.
#[derive(Debug, Serialize)]
struct Build {
    /// CPU time of cargo and all programs that it ran.
    cpu_s: f64,
    wall_s: f64,
    packages: usize,
    /// Seconds by package, with its build script. Several packages are compiled at a time.
    busiest: Vec<(String, f64)>,
}

/// Builds the simulator and the server into a folder of their own.
///
/// # Errors
///
/// They cannot be built, or cargo's report cannot be read.
pub(super) fn run(place: &Place) -> Result<Outcome> {
    let folder = place.target.join("bench").join("build");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    let before = usage::cpu_of_children_s()?;
    let begun = std::time::Instant::now();
    process::run(
        process::cargo()
            .current_dir(&place.root)
            .args(["build", "--quiet", "--release", "--locked", "--timings"])
            .args(["--package", "gallop-sim", "--package", "gallop-interop"])
            .arg("--target-dir")
            .arg(&folder),
    )?;
    let wall_s = begun.elapsed().as_secs_f64();
    let cpu_s = usage::cpu_of_children_s()? - before;
    let units = units(&folder.join("cargo-timings").join("cargo-timing.html"))?;
    let mut by_package: BTreeMap<String, f64> = BTreeMap::new();
    for unit in units {
        *by_package.entry(unit.name).or_default() += unit.duration;
    }
    let packages = by_package.len();
    let mut busiest: Vec<(String, f64)> = by_package.into_iter().collect();
    busiest.sort_by(|one, other| other.1.total_cmp(&one.1));
    busiest.truncate(NAMED);
    fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let build = Build {
        cpu_s,
        wall_s,
        packages,
        busiest,
    };
    Ok(Outcome {
        markdown: markdown(&build),
        json: serde_json::to_value(&build)?,
    })
}

/// The units of cargo's report, which is a page with a table in its script.
fn units(report: &Path) -> Result<Vec<Unit>> {
    let page =
        fs::read_to_string(report).with_context(|| format!("cannot read {}", report.display()))?;
    let context = || format!("{}: no table of units", report.display());
    let (_, table) = page
        .split_once("const UNIT_DATA = ")
        .with_context(context)?;
    serde_json::Deserializer::from_str(table)
        .into_iter()
        .next()
        .with_context(context)?
        .with_context(context)
}

fn markdown(build: &Build) -> String {
    let mut text = format!(
        "`cargo build --release` of the simulator and the server, from nothing: {:.0} s of CPU time, \
         {:.0} s on the clock, {} packages.\n\n| package, with its build script | seconds |\n|---|---|\n",
        build.cpu_s, build.wall_s, build.packages
    );
    for (package, seconds) in &build.busiest {
        let _ = writeln!(text, "| {package} | {seconds:.1} |");
    }
    text
}
