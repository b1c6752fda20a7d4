//! `cargo xtask bench`: the cost of controllers, connections, simulations, analyses and builds.

mod analysis;
mod build;
mod callgrind;
pub mod controllers;
mod machine;
mod page;
mod server;
mod simulator;
mod transfer;
mod usage;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::job::{self, Steps};
use crate::{process, setup};

/// Measure the cost of controllers, connections, simulations, analyses and builds
///
/// Everything is compared within one run, as a ratio. Instructions are counted by valgrind; times
/// are CPU time. The measured sections of docs/benchmarks.md are written anew; the text around them
/// stays.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask bench
  cargo xtask bench controllers transfer --json bench.json
  cargo xtask bench controllers --accept")]
pub struct Arguments {
    /// The benchmarks to run [default: all]
    #[arg(value_enum, value_name = "NAME")]
    names: Vec<Benchmark>,
    /// Also write the results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Commit the ratios of the controllers as those with which `cargo xtask test` compares later
    /// ones
    #[arg(long)]
    accept: bool,
}

/// The benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Benchmark {
    /// Instructions per ACK and per packet sent
    Controllers,
    /// Instructions per megabyte of a whole transfer
    Transfer,
    /// Simulated seconds and packets per CPU second
    Simulator,
    /// Megabytes of qlog per CPU second, and memory
    Analysis,
    /// Requests, CPU time and memory of servers, on the loopback interface and over a path; 20 minutes
    Server,
    /// CPU time of a build from nothing; compiles BoringSSL again, in a folder of its own
    Build,
}

/// The folders of a run.
#[derive(Debug)]
pub struct Place {
    /// The folder of the workspace.
    pub root: PathBuf,
    /// The folder of builds and results.
    pub target: PathBuf,
}

/// The results of a benchmark.
#[derive(Debug)]
struct Outcome {
    json: Value,
    /// Its section of docs/benchmarks.md, without the heading.
    markdown: String,
}

impl Benchmark {
    fn run(self, place: &Place) -> Result<Outcome> {
        match self {
            Benchmark::Controllers => controllers::run(place),
            Benchmark::Transfer => transfer::run(place),
            Benchmark::Simulator => simulator::run(place),
            Benchmark::Analysis => analysis::run(place),
            Benchmark::Server => server::run(place),
            Benchmark::Build => build::run(place),
        }
    }

    fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

/// Runs the command.
///
/// # Errors
///
/// A tool is missing, something cannot be built, or a program that is measured fails.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = crate::root()?;
    let target = crate::target(&root);
    let place = Place { root, target };
    if let Some(json) = &arguments.json {
        job::check_json(json)?;
    }
    let chosen = match arguments.names.as_slice() {
        [] => Benchmark::value_variants(),
        names => names,
    };
    ensure!(
        !arguments.accept || chosen.contains(&Benchmark::Controllers),
        "--accept is about the benchmark `controllers`, which is not among those to be run"
    );
    let mut steps = Steps::of(chosen.len() + 1);
    steps.next("Tools");
    setup::build_tools()?;
    let machine = machine::description();
    let mut results = serde_json::Map::new();
    results.insert("machine".into(), machine.clone().into());
    for benchmark in chosen {
        let name = benchmark.name();
        steps.next(&name);
        let outcome = benchmark
            .run(&place)
            .with_context(|| format!("cannot measure `{name}`"))?;
        page::replace(&place.root, &name, &machine, &outcome.markdown)?;
        results.insert(name, outcome.json);
    }
    if arguments.accept {
        controllers::accept(&place)?;
    }
    if let Some(json) = &arguments.json {
        let mut text = serde_json::to_string_pretty(&results)?;
        text.push('\n');
        gallop_files::write(json, text.as_bytes())
            .with_context(|| format!("--json {}", json.display()))?;
    }
    Ok(())
}

/// Builds the program that is measured.
fn program(place: &Place) -> Result<PathBuf> {
    build(place, "gallop-bench", "gallop-bench")
}

/// Builds a package; returns the path of one of its programs.
fn build(place: &Place, package: &str, program: &str) -> Result<PathBuf> {
    process::build(&place.root, &["--package", package])?;
    Ok(release(&place.target).join(program))
}

fn release(target: &Path) -> PathBuf {
    target.join("release")
}
