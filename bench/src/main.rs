//! The programs that `cargo xtask bench` runs and measures.

mod controllers;
mod cpu;
mod simulations;
mod subject;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The programs that `cargo xtask bench` runs and measures
#[derive(Debug, Parser)]
#[command(
    args_override_self = true,
    after_help = "Example:\n  gallop-bench simulator --flows 1,10"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Controllers(controllers::Arguments),
    Transfer(simulations::Transfer),
    Simulator(simulations::Simulator),
}

fn run(command: &Command) -> Result<()> {
    gallop::register()?;
    match command {
        Command::Controllers(arguments) => controllers::run(arguments),
        Command::Transfer(arguments) => simulations::transfer(arguments),
        Command::Simulator(arguments) => simulations::simulator(arguments),
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
