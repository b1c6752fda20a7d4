//! Simulates congestion controllers over real QUIC connections in virtual time.

mod progress;

use clap::{Parser, Subcommand};
use gallop_sim::run::{Plan, RunError};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

const EXAMPLE: &str = "\
Example:
  gallop-sim run compare-003-fig4/comparison.json

reads what to run from comparison.json and writes, for every run,
  compare-003-fig4/runs/<group>/<run>/run.json               counters of the run
  compare-003-fig4/runs/<group>/<run>/queue.csv              the bottleneck's queue every 10 ms
  compare-003-fig4/runs/<group>/<run>/flow-0.server.sqlog    the sender's qlog";

/// Simulates congestion controllers over real QUIC connections in virtual time
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLE)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run all controllers of a comparison
    #[command(after_help = EXAMPLE)]
    Run {
        /// The file that says what to run; results go beside it
        #[arg(value_name = "DIR/comparison.json")]
        comparison: PathBuf,
        /// Simulations at a time; as many as there are cores by default
        #[arg(long, value_name = "N")]
        threads: Option<NonZeroUsize>,
    },
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let result = match command {
        Command::Run {
            comparison,
            threads,
        } => run(&comparison, threads),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gallop-sim: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(comparison: &Path, threads: Option<NonZeroUsize>) -> Result<(), RunError> {
    let plan = Plan::read(comparison)?;
    let threads = threads
        .or_else(|| thread::available_parallelism().ok())
        .unwrap_or(NonZeroUsize::MIN);
    progress::shown(&plan, || plan.execute(threads))
}
