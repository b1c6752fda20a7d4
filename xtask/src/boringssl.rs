//! The BoringSSL of our own release build, for builds of other kinds. To compile another one takes
//! minutes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process;

/// Makes a build take the BoringSSL of the release build, which is compiled if need be.
///
/// # Errors
///
/// BoringSSL cannot be built.
pub fn reuse(root: &Path, build: &mut Command) -> Result<()> {
    let folder = folder(root)?;
    let include = folder.join("boringssl").join("include");
    build
        .env("BORING_BSSL_PATH", folder.join("build"))
        .env("BORING_BSSL_INCLUDE_PATH", include)
        .env("BORING_BSSL_ASSUME_PATCHED", "1");
    Ok(())
}

/// The folder in which boring-sys built BoringSSL.
fn folder(root: &Path) -> Result<PathBuf> {
    let messages = process::output(process::cargo().current_dir(root).args([
        "build",
        "--release",
        "--locked",
        "--package",
        "gallop-sim",
        "--message-format",
        "json",
    ]))?;
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<BuildScript>(line).ok())
        .find(|script| {
            script.package_id.contains("/boring-sys#") || script.package_id.contains("#boring-sys@")
        })
        .map(|script| script.out_dir)
        .context("cargo does not say where boring-sys built BoringSSL")
}

/// cargo's message that a build script has run.
#[derive(Debug, Deserialize)]
struct BuildScript {
    package_id: String,
    out_dir: PathBuf,
}
