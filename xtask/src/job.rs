//! The common parts of the commands that simulate and report.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process;

/// Says which step of how many begins.
pub struct Steps {
    done: usize,
    of: usize,
}

impl Steps {
    /// A job of so many steps.
    pub fn of(of: usize) -> Steps {
        Steps { done: 0, of }
    }

    /// Begins the next one.
    pub fn next(&mut self, what: &str) {
        self.done += 1;
        eprintln!("[{}/{}] {what}", self.done, self.of);
    }
}

/// Builds the simulator; gives the program.
///
/// # Errors
///
/// It cannot be built.
pub fn simulator(root: &Path, target: &Path) -> Result<PathBuf> {
    process::run(process::cargo().current_dir(root).args([
        "build",
        "--release",
        "--locked",
        "--package",
        "gallop-sim",
    ]))?;
    Ok(target.join("release").join("gallop-sim"))
}

/// Finds out before hours of work whether the results can be written.
///
/// # Errors
///
/// They cannot; the error names the flag and the file.
pub fn check_json(json: &Path) -> Result<()> {
    gallop_files::check(json).with_context(|| format!("--json {}", json.display()))
}

/// True if the flags that go on to the simulator ask for its help.
pub fn asks_for_help(flags: &[OsString]) -> bool {
    flags.iter().any(|flag| flag == "--help" || flag == "-h")
}

/// The command line that runs a subcommand again.
///
/// # Errors
///
/// A flag cannot be quoted.
pub fn command_line(name: &str, flags: &[OsString]) -> Result<String> {
    let flags: Vec<_> = flags.iter().map(|flag| flag.to_string_lossy()).collect();
    let words = ["cargo", "xtask", name].into_iter();
    Ok(shlex::try_join(
        words.chain(flags.iter().map(AsRef::as_ref)),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_quoted() {
        assert_eq!(
            command_line("compare", &["--out".into(), "a folder".into()]).unwrap(),
            "cargo xtask compare --out 'a folder'"
        );
    }
}
