//! `cargo xtask interop`: other people's QUIC implementations against ours.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

use crate::{process, setup};

/// The exit status of the matrix if the system does not permit network namespaces.
pub const NOT_PERMITTED: i32 = 3;

/// Run other people's QUIC implementations against ours; --help has the flags
///
/// Builds gallop-server, gallop-client and the program that runs the matrix, to which all flags go.
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

/// Runs the command; returns the exit code of the matrix.
///
/// # Errors
///
/// A tool is missing, or something cannot be built.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let root = crate::root()?;
    let target = crate::target(&root);
    exit_code(matrix(&root, &target)?.args(&arguments.flags))
}

/// Builds the matrix and the programs that it runs; returns its command.
///
/// # Errors
///
/// A tool is missing, or something cannot be built.
pub fn matrix(root: &Path, target: &Path) -> Result<Command> {
    setup::packet_tools()?;
    laboratory(root, target, "gallop-matrix")
}

/// Builds the programs that run ours over paths, and those that they run; returns the command of
/// the one of that name.
///
/// # Errors
///
/// A tool is missing, or something cannot be built.
pub fn laboratory(root: &Path, target: &Path, program: &str) -> Result<Command> {
    setup::build_tools()?;
    let packages = ["--package", "gallop-interop", "--package", "gallop-matrix"];
    process::build(root, &packages)?;
    let mut command = Command::new(target.join("release").join(program));
    command.arg("--root").arg(root).arg("--target").arg(target);
    Ok(command)
}

/// Runs a command; its exit code becomes ours.
///
/// # Errors
///
/// It cannot be started.
pub fn exit_code(command: &mut Command) -> Result<ExitCode> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("cannot run {program}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
