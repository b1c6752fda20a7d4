//! `cargo xtask fuzz`: fuzzing guided by coverage, with the stable toolchain.
//!
//! The targets are tests: `cargo test` replays their kept inputs, and tries some random ones. Here
//! the same tests are built with LLVM's coverage counters and with libFuzzer, which bolero brings.

mod coverage;
mod targets;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use gallop_fuzz::corpus;
use serde::Serialize;

use crate::{job, process};
use targets::Target;

/// Fuzz code that reads input, guided by coverage
///
/// Inputs that reach new code are collected below target/fuzz/. With --keep the smallest set that
/// reaches as much replaces the inputs in fuzz/NAME.corpus, which `cargo test` replays. An input
/// that fails is added to fuzz/NAME.failed in any case.
///
/// The exit code is 0 if nothing failed, else 1.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask fuzz
  cargo xtask fuzz --list
  cargo xtask fuzz gallop_vegas --time 10min --keep
  cargo xtask fuzz --coverage --json coverage.json")]
pub struct Arguments {
    /// Targets by name [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// List the targets with their properties, and run nothing
    #[arg(long)]
    list: bool,
    /// Time for which each target is fuzzed, in s, min or h
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = whole_seconds)]
    time: u64,
    /// Keep a smallest set of inputs in the repository
    #[arg(long)]
    keep: bool,
    /// Do not fuzz; print the coverage of the kept inputs
    #[arg(long, conflicts_with_all = ["keep", "time"])]
    coverage: bool,
    /// Also write the results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Reads a time as a number of seconds, which is what libFuzzer takes.
fn whole_seconds(text: &str) -> Result<u64, String> {
    let units = [("min", 60), ("h", 3600), ("s", 1)];
    units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)))
        .and_then(|(number, seconds): (&str, u64)| number.parse::<u64>().ok()?.checked_mul(seconds))
        .ok_or_else(|| "expected a whole number with a unit, such as 60s, 10min or 2h".to_owned())
}

/// LLVM's counters, and bolero with libFuzzer in place of random inputs.
///
/// libFuzzer has the functions that the counters call. With a test Cargo builds the programs of its
/// package as well; they have no libFuzzer, are not run, and need not be whole.
const FLAGS: &str = "-Cpasses=sancov-module --cfg fuzzing --cfg fuzzing_libfuzzer \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-sanitizer-coverage-stack-depth \
    -Clink-arg=-Wl,--unresolved-symbols=ignore-all";

/// Limits for one input: time, memory and size.
const INPUT_LIMIT: Duration = Duration::from_secs(60);
const MEMORY_LIMIT_MB: u64 = 4_096;
const INPUT_BYTES: usize = 4_096;

/// The result of fuzzing one target.
#[derive(Debug, Serialize)]
struct Outcome {
    target: &'static str,
    executions: u64,
    /// Edges of the program's control flow that were reached.
    edges: u64,
    inputs: usize,
}

/// Runs the command.
///
/// # Errors
///
/// A target is unknown, cannot be built, or fails.
pub fn run(arguments: &Arguments) -> Result<()> {
    let chosen = targets::choose(&arguments.names)?;
    if arguments.list {
        for target in &chosen {
            println!("{:18} {}", target.name, target.proves);
        }
        return Ok(());
    }
    if let Some(json) = &arguments.json {
        job::check_json(json)?;
    }
    let root = crate::root()?;
    let folder = crate::target(&root).join("fuzz");
    if arguments.coverage {
        let reached = coverage::measure(&root, &folder, &chosen)?;
        return write(arguments.json.as_deref(), &reached);
    }
    let mut outcomes = Vec::new();
    for target in chosen {
        eprintln!("== {}: building", target.name);
        let program = build(&root, &folder, target, FLAGS)?;
        let fuzzed = Fuzzed::new(&root, &folder, target, program)?;
        eprintln!("== {}: {} s", target.name, arguments.time);
        let outcome = fuzzed.fuzz(arguments.time)?;
        if arguments.keep {
            fuzzed.keep()?;
        }
        outcomes.push(outcome);
    }
    println!(
        "{:18} {:>12} {:>8} {:>8}",
        "target", "executions", "edges", "inputs"
    );
    for outcome in &outcomes {
        let Outcome {
            target,
            executions,
            edges,
            inputs,
        } = outcome;
        println!("{target:18} {executions:>12} {edges:>8} {inputs:>8}");
    }
    write(arguments.json.as_deref(), &outcomes)
}

fn write(json: Option<&Path>, results: &impl Serialize) -> Result<()> {
    if let Some(path) = json {
        let text = serde_json::to_vec_pretty(results)?;
        gallop_files::write(path, &text)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Builds the test that a target is in, with more compiler flags, apart from other builds.
fn build(root: &Path, folder: &Path, target: &Target, flags: &str) -> Result<PathBuf> {
    let host = process::output(Command::new("rustc").args(["--print", "host-tuple"]))?;
    let mut cargo = process::cargo();
    cargo
        .current_dir(root)
        .args(["test", "--no-run", "--locked", "--profile", "fuzz"])
        // With a target, the flags are not for build scripts.
        .args(["--target", host.trim(), "--message-format", "json"])
        .args(["--package", target.package, "--test", target.test])
        // A target that needs no QUIC stack need not wait for BoringSSL.
        .args(["--no-default-features", "--features", target.features])
        .env("CARGO_TARGET_DIR", folder)
        .env("RUSTFLAGS", flags)
        .stderr(Stdio::inherit());
    let output = cargo.output().context("cannot run cargo")?;
    ensure!(output.status.success(), "{} cannot be built", target.test);
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == target.test)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo does not say where {} is", target.test))
}

/// A target that is built, and its folders.
struct Fuzzed<'a> {
    target: &'a Target,
    program: PathBuf,
    /// Its working folder: libFuzzer's arguments are split at blanks, so folders are named from
    /// here.
    work: PathBuf,
    /// The file of the inputs that are kept.
    kept: PathBuf,
    /// The file of the inputs that failed.
    failed: PathBuf,
}

impl<'a> Fuzzed<'a> {
    fn new(root: &Path, folder: &Path, target: &'a Target, program: PathBuf) -> Result<Self> {
        let fuzzed = Fuzzed {
            target,
            program,
            work: folder.join("work").join(target.name),
            kept: target.corpus(root),
            failed: target.failed(root),
        };
        fuzzed.unpack()?;
        Ok(fuzzed)
    }

    /// Puts the kept inputs where libFuzzer reads and collects them.
    fn unpack(&self) -> Result<()> {
        let folder = self.work.join("corpus");
        fs::create_dir_all(&folder)?;
        for (line, input) in read(&self.kept)? {
            let path = folder.join(format!("kept-{line}"));
            fs::write(&path, input).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Runs libFuzzer and returns what it printed; its progress is shown.
    fn libfuzzer(&self, arguments: &str) -> Result<Vec<String>> {
        let test = format!("fuzz_{}", self.target.name);
        let mut child = Command::new(&self.program)
            .args([&test, "--exact", "--nocapture"])
            .args(["--test-threads", "1"])
            .env("BOLERO_LIBFUZZER_ARGS", arguments)
            // libFuzzer starts this program again, and then has to choose the test itself.
            .env("BOLERO_LIBTEST_HARNESS", "1")
            .env("BOLERO_TEST_NAME", &test)
            .current_dir(&self.work)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let mut lines = Vec::new();
        let mut terminal = std::io::stderr();
        for line in BufReader::new(child.stderr.take().context("no output")?).lines() {
            let line = line?;
            // libFuzzer prints a line for every new input.
            let is_detail = ["NEW ", "REDUCE", "RELOAD", "NEW_FUNC"]
                .iter()
                .any(|word| line.contains(word));
            if !is_detail {
                writeln!(terminal, "{line}")?;
            }
            lines.push(line);
        }
        let status = child.wait()?;
        if !status.success() {
            self.keep_failures()?;
            bail!(
                "{}: {status}; the input is in {}",
                self.target.name,
                self.failed.display()
            );
        }
        Ok(lines)
    }

    fn fuzz(&self, seconds: u64) -> Result<Outcome> {
        let lines = self.libfuzzer(&format!(
            "corpus -artifact_prefix=failed- -max_total_time={seconds} -timeout={} \
             -rss_limit_mb={MEMORY_LIMIT_MB} -max_len={INPUT_BYTES} -len_control=0 \
             -print_final_stats=1",
            INPUT_LIMIT.as_secs(),
        ))?;
        let last = |name: &str| {
            let values = lines.iter().rev().filter_map(|line| {
                let (_, rest) = line.split_once(name)?;
                rest.split_whitespace().next()?.parse().ok()
            });
            values.into_iter().next().unwrap_or(0)
        };
        Ok(Outcome {
            target: self.target.name,
            executions: last("number_of_executed_units:"),
            edges: last(" cov:"),
            inputs: fs::read_dir(self.work.join("corpus"))?.count(),
        })
    }

    /// Adds the inputs that failed to those that tests replay.
    fn keep_failures(&self) -> Result<()> {
        let mut inputs: Vec<_> = read(&self.failed)?
            .into_iter()
            .map(|(_, input)| input)
            .collect();
        let mut packed = Vec::new();
        for entry in fs::read_dir(&self.work)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("failed-") {
                inputs.push(fs::read(entry.path())?);
                packed.push(entry.path());
            }
        }
        corpus::write(&self.failed, inputs)?;
        for path in packed {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// Keeps a smallest set of inputs that reaches as many edges as all inputs together.
    fn keep(&self) -> Result<()> {
        let smallest = self.work.join("smallest");
        if smallest.is_dir() {
            fs::remove_dir_all(&smallest)?;
        }
        fs::create_dir_all(&smallest)?;
        self.libfuzzer(&format!(
            "-merge=1 -use_counters=0 -max_len={INPUT_BYTES} smallest corpus"
        ))?;
        let inputs = fs::read_dir(&smallest)?
            .map(|entry| fs::read(entry?.path()))
            .collect::<std::io::Result<Vec<_>>>()?;
        Ok(corpus::write(&self.kept, inputs)?)
    }
}

/// Reads a file of inputs; a missing file has none.
fn read(path: &Path) -> Result<Vec<corpus::Numbered>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    Ok(corpus::read(path)?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(whole_seconds("60s"), Ok(60));
        assert_eq!(whole_seconds("10min"), Ok(600));
        assert_eq!(whole_seconds("2h"), Ok(7200));
        for wrong in [
            "60",
            "s",
            "1.5h",
            "-1s",
            "99999999999999999999s",
            "6000000000000000h",
        ] {
            assert!(whole_seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_of_a_repeated_flag_holds() {
        let line = ["cargo xtask", "fuzz", "--time", "60s", "--time", "2min"];
        match crate::Arguments::try_parse_from(line).unwrap().command {
            crate::Command::Fuzz(arguments) => assert_eq!(arguments.time, 120),
            other => panic!("{other:?}"),
        }
    }
}
