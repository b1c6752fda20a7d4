//! `cargo xtask test`: everything that continuous integration checks.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{bench, interop, process, quiche_tests, setup};

/// Run every check that continuous integration runs
///
/// Formatting, lints, the tests of all crates, what controllers cost in instructions, quiche's own
/// tests on the patched tree, the analysis, and a short comparison from end to end.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cargo xtask test")]
pub struct Arguments {}

/// Runs the command.
///
/// # Errors
///
/// A tool is missing, or a check fails.
pub fn run(_arguments: &Arguments) -> Result<()> {
    let root = crate::root()?;
    let target = crate::target(&root);
    setup::build_tools()?;
    let python = setup::python(&root, &target)?;

    let cargo = |arguments: &[&str]| {
        let mut cargo = process::cargo();
        cargo.current_dir(&root).args(arguments);
        cargo
    };
    check("formatting", || {
        process::run(&mut cargo(&["fmt", "--all", "--check"]))
    })?;
    check("controllers without a QUIC stack", || {
        process::run(&mut cargo(&[
            "test",
            "--locked",
            "--release",
            "--package",
            "gallop",
        ]))
    })?;
    check("one stack at a time", || one_stack(&cargo))?;
    check("lints", || {
        process::run(&mut cargo(&[
            "clippy",
            "--locked",
            "--release",
            "--workspace",
            "--all-targets",
            "--",
            "--deny",
            "warnings",
        ]))
    })?;
    check("tests", || {
        process::run(&mut cargo(&[
            "test",
            "--locked",
            "--release",
            "--no-fail-fast",
            "--workspace",
        ]))
    })?;
    check("a transfer over s2n-quic", || {
        transfer_over_s2n_quic(&cargo, &target)
    })?;
    check("the plug point without the patches after it", || {
        quiche_tests::plug_point(&root, 1)
    })?;
    check("what controllers cost", || {
        bench::controllers::check(&bench::Place {
            root: root.clone(),
            target: target.clone(),
        })
    })?;
    check("documentation", || {
        let mut doc = cargo(&["doc", "--locked", "--release", "--workspace", "--no-deps"]);
        process::run(doc.env("RUSTDOCFLAGS", "--deny warnings"))
    })?;
    check("quiche's own tests", || {
        quiche_tests::run_in(&root, &target)
    })?;
    setup::browser();
    setup::prometheus();
    check("analysis", || analysis(&root, &python))?;
    check("a comparison from end to end", || comparison(&target))?;
    check("an evaluation from end to end", || evaluation(&target))?;
    check("other people's QUIC", || others(&root, &target))?;
    check("a scenario in real time", || real_time(&root, &target))
}

/// Checks that who takes a stack compiles no TLS library of another.
fn one_stack(cargo: &impl Fn(&[&str]) -> Command) -> Result<()> {
    for stack in ["quinn", "noq", "s2n-quic"] {
        let mut tree = cargo(&[
            "tree",
            "--locked",
            "--package",
            "gallop",
            "--edges",
            "normal",
        ]);
        let output = tree
            .args(["--prefix", "none", "--features", stack])
            .output()?;
        ensure!(output.status.success(), "cargo tree: {}", output.status);
        let tree = String::from_utf8_lossy(&output.stdout);
        ensure!(
            !tree.lines().any(|line| line.starts_with("boring")),
            "the feature {stack} brings BoringSSL"
        );
    }
    Ok(())
}

/// Tests the example that has a workspace of its own, if Rust is new enough for it.
fn transfer_over_s2n_quic(cargo: &impl Fn(&[&str]) -> Command, target: &Path) -> Result<()> {
    let version = process::output(Command::new("rustc").arg("--version"))?;
    let minor = version.split('.').nth(1);
    let minor: u32 = minor.and_then(|minor| minor.parse().ok()).unwrap_or(0);
    if minor < 95 {
        println!("skipped: s2n-quic needs Rust 1.95, and this is {version}");
        return Ok(());
    }
    let manifest = "examples/s2n-quic/Cargo.toml";
    let mut test = cargo(&["test", "--locked", "--release", "--manifest-path", manifest]);
    process::run(test.arg("--target-dir").arg(target.join("s2n-quic")))
}

/// Runs the small matrix, if the system permits paths.
fn others(root: &Path, target: &Path) -> Result<()> {
    let mut matrix = interop::matrix(root, target)?;
    permitted(matrix.arg("--fast"), "cargo xtask interop --fast")
}

/// Runs one scenario with one controller, if the system permits paths. Its figures do not count:
/// they are those of a busy machine.
fn real_time(root: &Path, target: &Path) -> Result<()> {
    let mut real = interop::laboratory(root, target, "gallop-real")?;
    real.args(["--scenario", "alone-20ms", "--cc", "vegas", "--seeds", "1"]);
    real.arg("--out")
        .arg(target.join("evaluation-real").join("test"));
    permitted(&mut real, "cargo xtask evaluate --real")
}

/// Runs a command that says so itself if paths are not permitted; then the code is not at fault.
fn permitted(command: &mut Command, name: &str) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot run {name}"))?;
    ensure!(
        status.success() || status.code() == Some(interop::NOT_PERMITTED),
        "{name}: {status}"
    );
    Ok(())
}

/// Runs a short comparison as a user would, and checks its results.
fn comparison(target: &Path) -> Result<()> {
    let out = target.join("compare").join("test");
    let json = target.join("compare-test.json");
    let xtask = std::env::current_exe().context("cannot find this program")?;
    process::run(
        Command::new(xtask)
            .args(["compare", "--duration", "3s", "--flows", "2", "--out"])
            .arg(&out)
            .arg("--json")
            .arg(&json),
    )?;
    let text =
        fs::read_to_string(&json).with_context(|| format!("cannot read {}", json.display()))?;
    let results: serde_json::Value = serde_json::from_str(&text)?;
    let controllers = results["experiments"][0]["controllers"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    ensure!(
        controllers.len() == 9,
        "{} controllers in {}",
        controllers.len(),
        json.display()
    );
    for controller in controllers {
        let utilisation = &controller["metrics"]["link/bottleneck"]["utilisation"]["mean"];
        ensure!(
            utilisation
                .as_f64()
                .is_some_and(|share| (0.1..=1.0).contains(&share)),
            "{}: utilisation {utilisation}",
            controller["id"]
        );
    }
    ensure!(
        out.join("report.html").is_file(),
        "no report in {}",
        out.display()
    );
    Ok(())
}

/// Runs a small part of the evaluation as a user would, and checks that there is a page.
fn evaluation(target: &Path) -> Result<()> {
    let out = target.join("evaluation-test");
    let xtask = std::env::current_exe().context("cannot find this program")?;
    process::run(
        Command::new(xtask)
            .args(["evaluate", "--fast", "--cc", "vegas", "--cc", "cubic"])
            .args(["--family", "kin", "--family", "loss", "--out"])
            .arg(&out),
    )?;
    let page = out.join("evaluation.html");
    let text = fs::read_to_string(&page).with_context(|| format!("{}", page.display()))?;
    for scenario in ["kin/two", "loss/random-1"] {
        ensure!(
            text.contains(scenario),
            "{scenario} is not in {}",
            page.display()
        );
    }
    Ok(())
}

fn analysis(root: &Path, python: &Path) -> Result<()> {
    let module = |arguments: &[&str]| {
        let mut command = Command::new(python);
        command
            .current_dir(root.join("qlog-analysis"))
            .arg("-m")
            .args(arguments);
        command
    };
    let style = |arguments: &[&str]| {
        let mut ruff = Command::new(python);
        process::run(ruff.current_dir(root).args(["-m", "ruff"]).args(arguments))
    };
    style(&["check"])?;
    style(&["format", "--check"])?;
    process::run(&mut module(&["mypy"]))?;
    process::run(&mut module(&["pytest", "--quiet"]))
}

fn check(what: &str, run: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("== {what}");
    let start = Instant::now();
    run().with_context(|| format!("check failed: {what}"))?;
    eprintln!(
        "== {what}: passed in {:.0} s",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
