//! The coverage of the kept inputs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::fuzz::{build, targets::Target};
use crate::process;

/// The coverage of one target's kept inputs in the files that it is about.
#[derive(Debug, Serialize)]
pub struct Reached {
    target: &'static str,
    inputs: usize,
    lines: u64,
    lines_reached: u64,
    regions: u64,
    regions_reached: u64,
}

/// The output of `llvm-cov export`.
#[derive(Debug, Deserialize)]
struct Export {
    data: Vec<Data>,
}

#[derive(Debug, Deserialize)]
struct Data {
    totals: Totals,
}

#[derive(Debug, Deserialize)]
struct Totals {
    lines: Count,
    regions: Count,
}

#[derive(Debug, Deserialize)]
struct Count {
    count: u64,
    covered: u64,
}

/// Replays the kept inputs, and prints and returns their coverage.
///
/// # Errors
///
/// LLVM's tools are missing, a target cannot be built, or an input fails.
pub fn measure(root: &Path, folder: &Path, targets: &[&'static Target]) -> Result<Vec<Reached>> {
    let tools = tools()?;
    let folder = folder.join("coverage");
    let mut all = Vec::new();
    println!(
        "{:18} {:>8} {:>18} {:>18}",
        "target", "inputs", "lines", "regions"
    );
    for target in targets {
        let program = build(root, &folder, target, "-Cinstrument-coverage")?;
        let reached = reach(root, &folder, &tools, target, &program)?;
        let share = |reached: u64, of: u64| {
            let percent = 100.0 * reached as f64 / of.max(1) as f64;
            format!("{reached}/{of} {percent:.1} %")
        };
        println!(
            "{:18} {:>8} {:>18} {:>18}",
            reached.target,
            reached.inputs,
            share(reached.lines_reached, reached.lines),
            share(reached.regions_reached, reached.regions),
        );
        all.push(reached);
    }
    Ok(all)
}

fn reach(
    root: &Path,
    folder: &Path,
    tools: &Path,
    target: &'static Target,
    program: &Path,
) -> Result<Reached> {
    let raw = folder.join(format!("{}.profraw", target.name));
    let merged = folder.join(format!("{}.profdata", target.name));
    let package = Path::new(target.folder).parent().unwrap_or(Path::new(""));
    process::run(
        Command::new(program)
            .args([&format!("fuzz_{}", target.name), "--exact", "--quiet"])
            .current_dir(root.join(package))
            .env("BOLERO_RANDOM_ITERATIONS", "0")
            .env("LLVM_PROFILE_FILE", &raw)
            .stdout(Stdio::null()),
    )?;
    process::run(
        Command::new(tools.join("llvm-profdata"))
            .args(["merge", "--sparse", "--output"])
            .args([&merged, &raw]),
    )?;
    fs::remove_file(&raw)?;
    let export = process::output(
        Command::new(tools.join("llvm-cov"))
            .args(["export", "--summary-only", "--instr-profile"])
            .args([&merged, program])
            .args(target.about.iter().map(|path| root.join(path))),
    )?;
    let export: Export =
        serde_json::from_str(&export).context("cannot read the output of llvm-cov")?;
    let totals = &export
        .data
        .first()
        .context("llvm-cov found no file")?
        .totals;
    Ok(Reached {
        target: target.name,
        inputs: gallop_fuzz::corpus::read(&target.corpus(root))?.len(),
        lines: totals.lines.count,
        lines_reached: totals.lines.covered,
        regions: totals.regions.count,
        regions_reached: totals.regions.covered,
    })
}

/// The folder of LLVM's tools, of the compiler's own version.
fn tools() -> Result<PathBuf> {
    let libraries = process::output(Command::new("rustc").args(["--print", "target-libdir"]))?;
    let tools = Path::new(libraries.trim()).join("../bin");
    ensure!(
        tools.join("llvm-cov").is_file(),
        "llvm-cov is missing: rustup component add llvm-tools"
    );
    Ok(tools)
}
