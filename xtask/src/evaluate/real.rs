//! `cargo xtask evaluate --real`: scenarios in real time, beside the simulated ones.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::{interop, setup};

/// Builds gallop-server, gallop-client and gallop-real, to which all `flags` go, and runs it;
/// returns its exit code.
///
/// # Errors
///
/// A tool is missing, or something cannot be built.
pub fn run(flags: &[OsString]) -> Result<ExitCode> {
    setup::path_tools()?;
    let root = crate::root()?;
    let target = crate::target(&root);
    interop::exit_code(interop::laboratory(&root, &target, "gallop-real")?.args(flags))
}
