//! `cargo xtask compare`: controllers over one simulated path, and a report.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;

use crate::job::{self, Steps};
use crate::{process, setup};

/// Compare congestion controllers over one simulated path and report; --help has the flags
///
/// Builds the simulator, to which all flags go, and makes a report of what it leaves.
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

/// The part of the output of `gallop-sim compare --plan` that matters here.
#[derive(Debug, Deserialize)]
struct Plan {
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
///
/// Something is wrong with the flags, a tool is missing, or a step fails.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = crate::root()?;
    let target = crate::target(&root);
    let mut steps = Steps::of(4);
    steps.next("Tools");
    setup::build_tools()?;
    steps.next("Simulator");
    let simulator = job::simulator(&root, &target)?;
    let compare = || {
        let mut compare = compare(&simulator, &root, &target);
        compare.args(&arguments.flags);
        compare
    };
    if job::asks_for_help(&arguments.flags) {
        return process::run(&mut compare());
    }
    // Wrong flags are reported before anything is installed.
    let plan = process::answer(compare().arg("--plan"))?;
    let plan: Plan = serde_json::from_str(&plan).context("the plan of gallop-sim compare")?;
    let python = setup::python(&root, &target)?;
    steps.next("Simulations");
    let command = job::command_line("compare", &arguments.flags)?;
    process::run(compare().arg("--command").arg(command))?;
    steps.next("Report");
    process::run(
        Command::new(&python)
            .args(["-m", "qlog_analysis", "report"])
            .arg(&plan.out),
    )
}

/// The simulator's command, with the presets of this checkout.
pub fn compare(simulator: &Path, root: &Path, target: &Path) -> Command {
    let mut compare = Command::new(simulator);
    compare
        .arg("compare")
        .arg("--library")
        .arg(root.join("experiments"))
        .arg("--target")
        .arg(target);
    compare
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn all_flags_go_to_the_simulator_as_they_are() {
        let words = [
            "compare",
            "--cc",
            "vegas:alpha=1",
            "--duration",
            "-1s",
            "--help",
        ];
        let arguments = Line::try_parse_from(words).unwrap().arguments;
        assert_eq!(arguments.flags, words[1..]);
    }
}
