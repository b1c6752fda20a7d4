//! `cargo xtask evaluate`: controllers in scenarios.

mod real;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

/// The flag of scenarios in real time.
const REAL: &str = "--real";

/// Run scenarios in real time, beside the simulated ones: --real; --real --help has the flags
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

/// Runs the command; returns the exit code of the program that does it.
///
/// # Errors
///
/// A tool is missing, or something cannot be built.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match real_flags(&arguments.flags) {
        Some(flags) => real::run(&flags),
        None => bail!("give {REAL}; {REAL} --help lists the flags"),
    }
}

/// The other flags, if `--real` is among them.
fn real_flags(flags: &[OsString]) -> Option<Vec<OsString>> {
    let (real, others): (Vec<_>, Vec<_>) = flags.iter().cloned().partition(|flag| flag == REAL);
    (!real.is_empty()).then_some(others)
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
