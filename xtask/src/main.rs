//! The commands that cross languages, and their set-up.

mod bench;
mod boringssl;
mod compare;
mod evaluate;
mod fuzz;
mod interop;
mod job;
mod newest;
mod papers;
mod process;
mod quiche_tests;
mod sensitivity;
mod setup;
mod test;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The commands that cross languages, and their set-up
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    args_override_self = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(bench::Arguments),
    Compare(compare::Arguments),
    Evaluate(evaluate::Arguments),
    Fuzz(fuzz::Arguments),
    Interop(interop::Arguments),
    Newest(newest::Arguments),
    Papers(papers::Arguments),
    Test(test::Arguments),
    QuicheTests(quiche_tests::Arguments),
    Sensitivity(sensitivity::Arguments),
}

fn main() -> ExitCode {
    let done = |result: Result<()>| result.map(|()| ExitCode::SUCCESS);
    let result = match Arguments::parse().command {
        Command::Bench(arguments) => done(bench::run(&arguments)),
        Command::Compare(arguments) => done(compare::run(&arguments)),
        Command::Evaluate(arguments) => evaluate::run(&arguments),
        Command::Fuzz(arguments) => done(fuzz::run(&arguments)),
        Command::Interop(arguments) => interop::run(&arguments),
        Command::Newest(arguments) => done(newest::run(&arguments)),
        Command::Papers(arguments) => done(papers::run(&arguments)),
        Command::Test(arguments) => done(test::run(&arguments)),
        Command::QuicheTests(arguments) => done(quiche_tests::run(&arguments)),
        Command::Sensitivity(arguments) => done(sensitivity::run(&arguments)),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The folder that the workspace is in.
fn root() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = manifest.parent().unwrap_or(manifest);
    anyhow::ensure!(
        root.join("Cargo.toml").is_file(),
        "{} is gone: run this from the checkout that it was built in",
        root.display()
    );
    Ok(root.to_path_buf())
}

/// The folder of builds and results.
fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}
