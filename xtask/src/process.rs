//! Running other programs.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Runs a command to its end; it shares our output.
///
/// # Errors
///
/// The command cannot be started, or fails.
pub fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("cannot run {program}: is it installed?"))?;
    if !status.success() {
        bail!("{} failed: {status}", shown(command));
    }
    Ok(())
}

/// Runs a command and returns what it printed on standard output.
///
/// # Errors
///
/// The command cannot be started, or fails; then its messages are part of the error.
pub fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {program}: is it installed?"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{} failed: {}\n{}",
            shown(command),
            output.status,
            said.trim_end()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program of ours and returns what it printed on standard output; it says itself what is
/// wrong, where we do.
///
/// # Errors
///
/// The program cannot be started, or fails.
pub fn answer(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    ensure!(output.status.success(), "nothing was run");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Builds packages and targets, by cargo's flags, for release; shows only warnings and errors.
///
/// # Errors
///
/// They cannot be built.
pub fn build(root: &Path, what: &[&str]) -> Result<()> {
    run(cargo()
        .current_dir(root)
        .args(["build", "--quiet", "--release", "--locked"])
        .args(what))
}

/// The cargo that runs this program, without the variables that it sets for this program alone.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") {
            cargo.env_remove(name);
        }
    }
    cargo.env_remove("CARGO_MANIFEST_DIR");
    cargo.env_remove("CARGO_MANIFEST_PATH");
    cargo
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
