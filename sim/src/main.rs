//! Simulates congestion controllers over real QUIC connections in virtual time.

mod progress;

use std::collections::BTreeSet;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::{Args, Parser, Subcommand};
use gallop_network::units::Span;
use gallop_sim::compare::{self, CompareError, Comparison};
use gallop_sim::evaluate::{self, EvaluateError, Evaluation};
use gallop_sim::experiment::{Library, LibraryError};
use gallop_sim::lab::{self, Options, Outcome, Shard, Sweep};
use gallop_sim::soak::{self, Soak};
use gallop_sim::stack::Selection;

const SWEEP_EXAMPLES: &str = "\
Examples:
  gallop-sim sweep experiments/ns2/rtt-fairness.toml
  gallop-sim sweep experiments/gallop/*.toml --fast --out /tmp/fast
  gallop-sim sweep experiments/*/*.toml --shard 2/3 --out part2     on the second of three machines

writes, for every experiment,
  DIR/NAME/results.parquet    what was measured, one value a row
  DIR/NAME/series.parquet     values over time, where the experiment asks for them
  DIR/NAME/experiment.json    what was run
  DIR/NAME/failures.json      runs that failed, if any; the command then exits with 1
  DIR/NAME/journal.ndjson     finished runs; a sweep that was interrupted goes on from there";

const COMPARE_EXAMPLES: &str = "\
Examples:
  gallop-sim compare
  gallop-sim compare --preset gallop/figure-4
  gallop-sim compare --cc gallop-vegas:alpha=1,beta=3 --cc cubic --rate 20mbit --rtt 40ms
  gallop-sim compare --seeds 10 --table README.md

writes into DIR
  comparison.json                                   what was compared
  main/                                             results, as `gallop-sim sweep` writes them
  main/traces/RUN/FLOW-0.server.sqlog               the senders' qlogs, of the first seed
  quic-defaults/                                    the same path with QUIC's defaults, of a preset
                                                    that has others

Rates, times and buffers are written as tc(8) does: 50mbit, 100ms, 100p (packets) or 64kb.
`cargo xtask compare` takes the same flags and makes a report of it.";

const EVALUATE_EXAMPLES: &str = "\
Examples:
  gallop-sim evaluate --fast
  gallop-sim evaluate --cc cubic-rfc9438 --cc gallop-vegas:alpha=1,beta=3 --family noise
  gallop-sim evaluate --cc copa --scenario change/longer-20ms --traces
  gallop-sim evaluate --fresh 7

writes into DIR
  evaluation.json                    every controller in every scenario, with verdicts
  results.parquet                    all measurements, one value a row
  FAMILY/series.parquet              values over time, of the first seed
  FAMILY/traces/                     the tested senders' qlogs, with --traces
  FAMILY/journal.ndjson              finished runs; a second run goes on from there

Families are experiments/evaluation/*.toml; docs/evaluation.md says how to add to them.
`cargo xtask evaluate` takes the same flags and makes a page of it.";

const LIST_EXAMPLE: &str = "\
Example:
  gallop-sim list ns2/red 003-fig4

takes the names that experiments have now or had before; without any it lists all.";

const SOAK_EXAMPLE: &str = "\
Example:
  gallop-sim soak --duration 24h --seed 7

lets flows of many kinds come and go over a path whose rate and delay change, that fails and loses
for a while, under our controllers and those they are compared with. Exits with 1 at the first thing
that does not hold: the bytes that were sent, bounds of windows, figures and release times, progress,
and that nothing is left of flows that have gone.";

const CHECK_EXAMPLE: &str = "\
Example:
  gallop-sim check experiments/*/*.toml

names every file, line and column where something is wrong, and what would be right.";

/// Simulates congestion controllers over real QUIC connections in virtual time
#[derive(Debug, Parser)]
#[command(version, args_override_self = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run all points of experiments under all their seeds
    #[command(after_help = SWEEP_EXAMPLES)]
    Sweep(SweepArguments),
    /// Compare congestion controllers over one simulated path
    ///
    /// Each controller sends through a real quiche connection, with TLS, over a simulated path in
    /// virtual time. Without a flag: the controllers of experiments/default.toml over 50mbit, 100ms
    /// and a buffer of 100p for 60s, with datagrams of 1350 bytes, an initial window of 10 and an
    /// ACK for every second packet.
    #[command(after_help = compare_help())]
    Compare(Box<compare::Arguments>),
    /// Evaluate congestion controllers over many networks, against limits that stand before the run
    ///
    /// Exits with 1 if a run failed; verdicts make no difference.
    #[command(after_help = evaluate_help())]
    Evaluate(Box<evaluate::Arguments>),
    /// List experiments
    #[command(after_help = LIST_EXAMPLE)]
    List(ListArguments),
    /// Let flows come and go for simulated hours, and check what must hold
    #[command(after_help = SOAK_EXAMPLE)]
    Soak(SoakArguments),
    /// Check experiments without running them
    #[command(after_help = CHECK_EXAMPLE)]
    Check {
        /// The experiments
        #[arg(value_name = "EXPERIMENT.toml", required = true)]
        experiments: Vec<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct SweepArguments {
    /// The experiments; their runs share one queue
    #[arg(value_name = "EXPERIMENT.toml", required = true)]
    experiments: Vec<PathBuf>,
    /// Where results go; every experiment has a directory of its name there. Runs whose results are
    /// there already are not run again
    #[arg(long, value_name = "DIR", default_value = "target/papers")]
    out: PathBuf,
    /// Simulations at a time; as many as there are cores by default
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Run only part K of N, of about equal size; the tables of all parts together are the whole
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// Run only what the experiments' tables [fast] leave
    #[arg(long)]
    fast: bool,
    /// Run seeds 1 to N instead of the experiments' own
    #[arg(long, value_name = "N")]
    seeds: Option<NonZeroU64>,
    /// Print what has become of each experiment as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ListArguments {
    /// Experiments by name; all by default
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// The folder of experiments
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    library: PathBuf,
    /// Print names, titles, files, and what reports have of them, as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct SoakArguments {
    /// Simulated time in which flows come; those that are left then finish
    #[arg(long, value_name = "TIME", default_value = "24h")]
    duration: Span,
    /// Determines everything
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print what it has come to as JSON
    #[arg(long)]
    json: bool,
}

/// The controllers and the examples of evaluations.
fn evaluate_help() -> String {
    format!("{}\n{EVALUATE_EXAMPLES}", Selection::help())
}

/// The controllers and the examples of comparisons.
fn compare_help() -> String {
    format!("{}\n{COMPARE_EXAMPLES}", Selection::help())
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let result = match command {
        Command::Sweep(arguments) => sweep(&arguments),
        Command::Compare(arguments) => compare(*arguments).map_err(|error| error.to_string()),
        Command::Evaluate(arguments) => evaluate(*arguments).map_err(|error| error.to_string()),
        Command::List(arguments) => list(&arguments),
        Command::Soak(arguments) => soak(&arguments),
        Command::Check { experiments } => check(&experiments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gallop-sim: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Simulations at a time when nothing is said.
fn all_cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn sweep(arguments: &SweepArguments) -> Result<(), String> {
    let options = Options {
        out: arguments.out.clone(),
        fast: arguments.fast,
        seeds: arguments.seeds,
        shard: arguments.shard.unwrap_or(Shard::WHOLE),
    };
    let threads = arguments.threads.unwrap_or_else(all_cores);
    let experiments = lab::read(&arguments.experiments).map_err(|error| error.to_string())?;
    let sweep = Sweep::new(experiments, &options).map_err(|error| error.to_string())?;
    let outcomes = progress::of_sweep(&sweep, || sweep.execute(threads));
    let outcomes = outcomes.map_err(|error| error.to_string())?;
    if arguments.json {
        let text = serde_json::to_string_pretty(&outcomes).map_err(|error| error.to_string())?;
        println!("{text}");
    }
    let mut failed = 0;
    for outcome in &outcomes {
        failed += outcome.failed.len();
        for (point, seed, reason) in &outcome.failed {
            eprintln!(
                "{}: point {point}, seed {seed}: {reason}",
                outcome.experiment
            );
        }
        if !arguments.json {
            let Outcome {
                experiment,
                directory,
                runs,
                planned,
                ..
            } = outcome;
            println!(
                "{experiment}: {runs} of {planned} runs in {}",
                directory.display()
            );
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(format!("{failed} runs failed")),
    }
}

fn compare(mut arguments: compare::Arguments) -> Result<(), CompareError> {
    let command = arguments
        .command
        .take()
        .or_else(|| command_line(std::env::args()));
    arguments.command = command;
    let comparison = Comparison::new(&arguments)?;
    if arguments.plan {
        println!("{}", serde_json::json!(comparison));
        return Ok(());
    }
    let threads = arguments.threads.unwrap_or_else(all_cores);
    let sweep = comparison.sweep()?;
    let outcomes = progress::of_sweep(&sweep, || sweep.execute(threads))?;
    for results in comparison.finish(&sweep, &outcomes)? {
        println!("{}", compare::terminal(&results));
    }
    println!("Results: {}", comparison.out.display());
    Ok(())
}

fn evaluate(mut arguments: evaluate::Arguments) -> Result<(), EvaluateError> {
    let command = arguments
        .command
        .take()
        .or_else(|| command_line(std::env::args()));
    arguments.command = command;
    let evaluation = Evaluation::new(&arguments)?;
    if arguments.plan {
        println!("{}", serde_json::json!(evaluation));
        return Ok(());
    }
    let threads = arguments.threads.unwrap_or_else(all_cores);
    let sweep = evaluation.sweep()?;
    let outcomes = progress::of_sweep(&sweep, || sweep.execute(threads))?;
    let report = evaluation.finish(&sweep, &outcomes)?;
    println!("{}", evaluate::terminal(&report));
    println!("Results: {}", evaluation.out.display());
    let failures = report.failures();
    for failure in &failures {
        eprintln!("{failure}");
    }
    match failures.len() {
        0 => Ok(()),
        failed => Err(EvaluateError::Runs(failed)),
    }
}

/// The command line as one types it.
fn command_line(arguments: impl Iterator<Item = String>) -> Option<String> {
    let arguments: Vec<String> = arguments.skip(1).collect();
    let quoted = shlex::try_join(arguments.iter().map(String::as_str)).ok()?;
    Some(format!("gallop-sim {quoted}"))
}

fn list(arguments: &ListArguments) -> Result<(), String> {
    let error = |error: LibraryError| error.to_string();
    let library = Library::open(&arguments.library).map_err(error)?;
    let files: Vec<PathBuf> = match arguments.names.is_empty() {
        true => library
            .experiments()
            .map_err(error)?
            .into_values()
            .collect(),
        false => {
            let mut seen = BTreeSet::new();
            for name in &arguments.names {
                let name = library.present_name(name);
                if !seen.insert(name) {
                    return Err(format!("experiment `{name}` is given twice"));
                }
            }
            let found = arguments.names.iter().map(|name| library.find(name));
            found.collect::<Result<_, _>>().map_err(error)?
        }
    };
    let experiments = lab::read(&files).map_err(|error| error.to_string())?;
    if arguments.json {
        let described = experiments.iter().map(|experiment| {
            serde_json::json!({
                "name": experiment.name,
                "title": experiment.title,
                "file": experiment.path,
                "claims": experiment.claims.len(),
                "tables": experiment.tables.len(),
                "plots": experiment.plots.len(),
            })
        });
        println!("{}", described.collect::<serde_json::Value>());
        return Ok(());
    }
    for experiment in &experiments {
        println!("{:24} {}", experiment.name, experiment.title);
    }
    Ok(())
}

fn soak(arguments: &SoakArguments) -> Result<(), String> {
    let soak = Soak::new(soak::Options {
        duration: arguments.duration.into(),
        seed: arguments.seed,
    });
    let summary = progress::of_soak(&soak, || soak.execute());
    let summary = summary.map_err(|error| format!("soak, seed {}: {error}", arguments.seed))?;
    if arguments.json {
        let text = serde_json::to_string_pretty(&summary).map_err(|error| error.to_string())?;
        println!("{text}");
        return Ok(());
    }
    println!(
        "{:28} {:>8} {:>10} {:>10} {:>8} {:>8}",
        "controller", "flows", "MB", "packets", "lost", "timeouts"
    );
    for (controller, tally) in &summary.controllers {
        println!(
            "{controller:28} {:8} {:10} {:10} {:8} {:8}",
            tally.flows,
            tally.received_bytes / 1_000_000,
            tally.packets_sent,
            tally.packets_lost,
            tally.timeouts
        );
    }
    println!(
        "{:.1} simulated hours, {} events, {} checks, all held; at most {} connections and {} pending events at a time",
        summary.simulated_s / 3600.0,
        summary.events,
        summary.checks,
        summary.most_open,
        summary.most_pending
    );
    let memory = (summary.resident_bytes_early, summary.resident_bytes_late);
    if let (Some(early), Some(late)) = memory {
        println!(
            "memory of the process: {} MB after a tenth, {} MB at the end",
            early / 1_000_000,
            late / 1_000_000
        );
    }
    Ok(())
}

fn check(files: &[PathBuf]) -> Result<(), String> {
    let experiments = lab::read(files).map_err(|error| error.to_string())?;
    for experiment in experiments {
        let runs = experiment.points.len() as u64 * experiment.seeds;
        println!(
            "{}: {} points, {runs} runs, {} claims, {} limits",
            experiment.path.display(),
            experiment.points.len(),
            experiment.claims.len(),
            experiment.limits.len()
        );
    }
    Ok(())
}
