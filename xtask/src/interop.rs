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
    let status = matrix(&root, &target)?
        .args(&arguments.flags)
        .status()
        .context("cannot run gallop-matrix")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Builds the matrix and the programs that it runs; returns its command.
///
/// # Errors
///
/// A tool is missing, or something cannot be built.
pub fn matrix(root: &Path, target: &Path) -> Result<Command> {
    setup::build_tools()?;
    setup::packet_tools()?;
    let packages = ["--package", "gallop-interop", "--package", "gallop-matrix"];
    process::build(root, &packages)?;
    let mut matrix = Command::new(target.join("release").join("gallop-matrix"));
    matrix.arg("--root").arg(root).arg("--target").arg(target);
    Ok(matrix)
}
