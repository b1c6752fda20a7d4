//! `cargo xtask quiche-tests`: quiche's own tests on the release and on the patched tree, and the
//! plug point's tests on a part of the series.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use quiche_assemble::{RELEASE, Tree, VARIABLE, assemble};

use crate::{boringssl, process, setup};

/// Run quiche's own test suite on the patched tree and on the release
///
/// Both must have the same tests with the same results, and none may fail.
#[derive(Debug, Args)]
#[command(
    after_help = "Example, the plug point without the patches after it:\n  cargo xtask quiche-tests --patches 1"
)]
pub struct Arguments {
    /// Run the tests of the plug point instead, on the release with the first N patches alone
    #[arg(long, value_name = "N")]
    patches: Option<usize>,
}

/// Runs the command.
///
/// # Errors
///
/// A tool is missing, a tree cannot be put together, or the results differ or have a failure.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = crate::root()?;
    setup::build_tools()?;
    match arguments.patches {
        Some(count) => plug_point(&root, count),
        None => run_in(&root, &crate::target(&root)),
    }
}

/// Runs the tests of the plug point on the release with the first patches alone.
///
/// # Errors
///
/// There are fewer patches, they do not compile, or a test fails.
pub fn plug_point(root: &Path, patches: usize) -> Result<()> {
    let mut tests = process::cargo();
    tests
        .current_dir(root)
        .args(["test", "--locked", "--release", "--package", "quiche"])
        .args(["--test", "plug_point", "--test", "reno_equivalence"])
        // With a profile of its own, cargo keeps this quiche beside the usual one.
        .args(["--config", "profile.release.package.quiche.codegen-units=8"])
        .env(VARIABLE, patches.to_string());
    process::run(&mut tests)
}

/// Does as [`run`] does, once the tools are there.
///
/// # Errors
///
/// Those of [`run`].
pub fn run_in(root: &Path, target: &Path) -> Result<()> {
    let released = results(root, target, Tree::Released, "released")?;
    let patched = results(root, target, Tree::Patched, "patched")?;
    for (name, result) in &released {
        match patched.get(name) {
            Some(ours) if ours == result => {}
            Some(ours) => bail!("quiche's test {name}: {result} as released, {ours} patched"),
            None => bail!("quiche's test {name} is not in the patched tree"),
        }
    }
    let failed: Vec<&str> = patched
        .iter()
        .filter(|(_, result)| result.as_str() == "FAILED")
        .map(|(name, _)| name.as_str())
        .collect();
    ensure!(
        failed.is_empty(),
        "quiche's tests fail, patched: {}",
        failed.join(", ")
    );
    println!(
        "quiche {RELEASE}: {} tests as released, {} patched, same results, none failed",
        released.len(),
        patched.len()
    );
    Ok(())
}

/// Runs the tests of one tree and returns the result of each. `name` stands for the tree in
/// messages and paths.
fn results(root: &Path, target: &Path, tree: Tree, name: &str) -> Result<BTreeMap<String, String>> {
    let folder = target.join("quiche-tests").join(name);
    assemble(tree, &root.join("quiche"), &folder)?;
    eprintln!("quiche's tests, {name}");
    let mut results = BTreeMap::new();
    for kind in ["--lib", "--doc"] {
        let mut tests = process::cargo();
        tests
            .current_dir(&folder)
            .args([
                "test",
                "--locked",
                "--features",
                "qlog",
                "--no-fail-fast",
                kind,
            ])
            .env(
                "CARGO_TARGET_DIR",
                target.join("quiche-tests").join("target"),
            );
        boringssl::reuse(root, &mut tests)?;
        results.append(&mut parse(&shown(&mut tests)?));
    }
    ensure!(!results.is_empty(), "quiche's tests, {name}: no test ran");
    Ok(results)
}

/// Runs a command whose output tells of its failure; shows the last lines of it.
fn shown(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in text.lines().filter(|line| line.starts_with("test result")) {
        println!("{line}");
    }
    ensure!(
        output.status.success() || text.contains("test result"),
        "quiche's tests cannot be run: {}",
        output.status
    );
    Ok(text)
}

/// The tests and their results in the output of libtest.
///
/// A test in the documentation is named by its line, which the patch moves; here it is named by its
/// place among those of the same item.
fn parse(output: &str) -> BTreeMap<String, String> {
    let mut results = BTreeMap::new();
    for line in output.lines() {
        let Some(rest) = line.strip_prefix("test ") else {
            continue;
        };
        let Some((name, result)) = rest.rsplit_once(" ... ") else {
            continue;
        };
        let name = match name.split_once(" (line ") {
            Some((item, line)) => {
                let kind = line.split_once(')').map_or("", |(_, kind)| kind);
                (1..)
                    .map(|number| format!("{item} ({number}){kind}"))
                    .find(|name| !results.contains_key(name))
                    .unwrap_or_default()
            }
            None => name.trim().to_owned(),
        };
        results.insert(name, result.trim().to_owned());
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_what_libtest_prints() {
        let output = "\nrunning 3 tests\ntest a::b ... ok\ntest c ... FAILED\n\
                      test src/lib.rs - d (line 7) - compile ... ok\n\
                      test src/lib.rs - d (line 9) ... ok\ntest src/lib.rs - d (line 12) ... ok\n\ntest result: FAILED. 2 passed";
        let results = parse(output);
        assert_eq!(results.len(), 5);
        assert_eq!(results["c"], "FAILED");
        assert_eq!(results["src/lib.rs - d (1) - compile"], "ok");
        assert_eq!(results["src/lib.rs - d (2)"], "ok");
    }
}
