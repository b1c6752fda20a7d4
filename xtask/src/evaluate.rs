//! `cargo xtask evaluate`: controllers in many networks, against limits, and a page.

mod real;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;

use crate::job::{self, Steps};
use crate::{process, setup};

/// The flag of scenarios in real time.
const REAL: &str = "--real";

/// Evaluate congestion controllers over many networks and make a page; --help has the flags
///
/// Builds the simulator, to which all flags go, and makes a page of what it leaves. With --real,
/// runs scenarios in real time beside the simulated ones; --real --help has the flags of that.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "FLAGS"
    )]
    flags: Vec<OsString>,
}

/// The part of the output of `gallop-sim evaluate --plan` that matters here.
#[derive(Debug, Deserialize)]
struct Plan {
    out: PathBuf,
}

/// Runs the command; returns the exit code of the program that does it.
///
/// # Errors
///
/// Something is wrong with the flags, a tool is missing, or a step fails.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match real_flags(&arguments.flags) {
        Some(flags) => real::run(&flags),
        None => simulated(&arguments.flags).map(|()| ExitCode::SUCCESS),
    }
}

/// The other flags, if `--real` is among them.
fn real_flags(flags: &[OsString]) -> Option<Vec<OsString>> {
    let (real, others): (Vec<_>, Vec<_>) = flags.iter().cloned().partition(|flag| flag == REAL);
    (!real.is_empty()).then_some(others)
}

fn simulated(flags: &[OsString]) -> Result<()> {
    let root = crate::root()?;
    let target = crate::target(&root);
    let mut steps = Steps::of(4);
    steps.next("Tools");
    setup::build_tools()?;
    steps.next("Simulator");
    let simulator = job::simulator(&root, &target)?;
    let evaluate = || {
        let mut evaluate = evaluate(&simulator, &root, &target);
        evaluate.args(flags);
        evaluate
    };
    if job::asks_for_help(flags) {
        return process::run(&mut evaluate());
    }
    // Wrong flags are reported before anything is installed.
    let plan = process::answer(evaluate().arg("--plan"))?;
    let plan: Plan = serde_json::from_str(&plan).context("the plan of gallop-sim evaluate")?;
    let python = setup::python(&root, &target)?;
    steps.next("Simulations");
    let command = job::command_line("evaluate", flags)?;
    // Finished runs are shown even if others failed.
    let evaluated = process::run(evaluate().arg("--command").arg(command));
    steps.next("Page");
    let shown = process::run(
        Command::new(&python)
            .args(["-m", "qlog_analysis", "evaluation"])
            .arg(&plan.out),
    );
    evaluated.and(shown)
}

/// The simulator's command, with the families of this checkout.
fn evaluate(simulator: &Path, root: &Path, target: &Path) -> Command {
    let mut evaluate = Command::new(simulator);
    evaluate
        .arg("evaluate")
        .arg("--library")
        .arg(root.join("experiments"))
        .arg("--target")
        .arg(target);
    evaluate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_runs_get_the_other_flags() {
        let flags = ["--cc", "vegas", "--real", "--list"].map(OsString::from);
        let others = real_flags(&flags).unwrap();
        assert_eq!(others, ["--cc", "vegas", "--list"]);
        assert_eq!(real_flags(&others), None);
    }
}
