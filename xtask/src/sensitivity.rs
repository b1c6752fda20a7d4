//! `cargo xtask sensitivity`: every constant of canter halved and doubled, and the evaluation's verdicts.

mod variants;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use gallop_files::Document;
use serde::{Deserialize, Serialize};

use crate::job::{self, Steps};
use crate::{boringssl, process, setup};
use variants::{Constant, VARIABLE};

/// The name of the place of the table in a document.
const NAME: &str = "sensitivity";

/// Halve and double every constant of canter, and evaluate it each time
///
/// Compiles a copy of the repository below target/sensitivity in which an environment variable changes one
/// of the constants. Constants between a half and two that multiply are changed in their distance from
/// one: 1.05 becomes 1.025 and 1.1. All flags after `--` go to `gallop-sim evaluate`. A run that was
/// interrupted goes on where it stopped, unless a file of the repository has changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask sensitivity                                     # three hours on two cores
  cargo xtask sensitivity -- --fast                           # a quarter of an hour
  cargo xtask sensitivity --only startup:: --table docs/canter-constants.md -- --seeds 3")]
pub struct Arguments {
    /// Constants whose names, such as startup::STARTUP_GROWTH, contain this text [default: all]
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Also write the results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write the table into this document, between its markers
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Flags of `gallop-sim evaluate`
    #[arg(last = true, value_name = "FLAGS", default_value = "--seeds=1")]
    flags: Vec<OsString>,
}

/// The part of an evaluation's JSON that is compared.
#[derive(Debug, Deserialize)]
struct Evaluation {
    families: Vec<Family>,
}

#[derive(Debug, Deserialize)]
struct Family {
    id: String,
    scenarios: Vec<Scenario>,
}

#[derive(Debug, Deserialize)]
struct Scenario {
    cells: Vec<Cell>,
}

#[derive(Debug, Deserialize)]
struct Cell {
    verdict: String,
}

/// Scenarios passed, by family.
type Passed = BTreeMap<String, usize>;

/// The results of one constant.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    constant: Constant,
    halved: Passed,
    doubled: Passed,
}

/// All results.
#[derive(Debug, Serialize)]
struct Results {
    command: String,
    /// Scenarios of the run.
    of: usize,
    unchanged: Passed,
    constants: Vec<Row>,
}

/// Runs the command.
///
/// # Errors
///
/// A flag is wrong, the copy cannot be compiled, or a run fails.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = crate::root()?;
    let folder = crate::target(&root).join(NAME);
    let (only, json) = (&arguments.only, arguments.json.as_deref());
    json.map(job::check_json).transpose()?;
    let document = arguments.table.as_deref().map(document).transpose()?;
    let mut steps = Steps::of(3);
    steps.next("Tools");
    setup::build_tools()?;
    steps.next("Simulator with variable constants");
    let source = folder.join("source");
    let digest = copy(&root, &source)?;
    let mut constants = variants::vary(&source)?;
    constants.retain(|constant| constant.name.contains(only));
    ensure!(
        !constants.is_empty(),
        "--only {only}: no constant has a name with that; they are called as startup::STARTUP_GROWTH is"
    );
    let simulator = simulator(&root, &source, &folder)?;
    steps.next("Evaluations");
    let evaluation = Evaluations::new(simulator, &folder, digest, &arguments.flags)?;
    let (unchanged, of) = evaluation.run("")?;
    let count = constants.len();
    let rows = constants.into_iter().enumerate().map(|(index, constant)| {
        eprintln!("{} of {count}: {}", index + 1, constant.name);
        let [halved, doubled] = ["0.5", "2"].map(|factor| {
            let run = evaluation.run(&format!("{}={factor}", constant.name));
            run.map(|(passed, _)| passed)
        });
        Ok(Row {
            constant,
            halved: halved?,
            doubled: doubled?,
        })
    });
    let results = Results {
        constants: rows.collect::<Result<_>>()?,
        command: command(arguments)?,
        of,
        unchanged,
    };
    let table = results.table();
    print!("{table}");
    if let Some(document) = document {
        document.write(&table).map_err(|problem| anyhow!(problem))?;
    }
    if let Some(json) = json {
        let text = serde_json::to_string_pretty(&results)?;
        gallop_files::write(json, format!("{text}\n").as_bytes())
            .with_context(|| format!("--json {}", json.display()))?;
    }
    Ok(())
}

fn document(path: &Path) -> Result<Document> {
    Document::read(path, NAME).map_err(|problem| anyhow!("--table {problem}"))
}

/// The command line of these results, without the files that they are written to.
fn command(arguments: &Arguments) -> Result<String> {
    let mut words: Vec<OsString> = Vec::new();
    if !arguments.only.is_empty() {
        words.extend(["--only".into(), arguments.only.clone().into()]);
    }
    words.push("--".into());
    words.extend(arguments.flags.iter().cloned());
    job::command_line(NAME, &words)
}

/// Makes `source` a copy of the files that git knows; returns a digest of them.
fn copy(root: &Path, source: &Path) -> Result<DefaultHasher> {
    if source.exists() {
        fs::remove_dir_all(source).with_context(|| source.display().to_string())?;
    }
    let files = process::output(Command::new("git").current_dir(root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    let mut digest = DefaultHasher::new();
    for file in files.split_terminator('\0') {
        let (from, to) = (root.join(file), source.join(file));
        if from.is_file() {
            let parent = to.parent().unwrap_or(source);
            fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
            let content = fs::read(&from).with_context(|| from.display().to_string())?;
            (file, &content).hash(&mut digest);
            fs::write(&to, content).with_context(|| to.display().to_string())?;
        }
    }
    Ok(digest)
}

/// Compiles the simulator of `source`.
fn simulator(root: &Path, source: &Path, folder: &Path) -> Result<PathBuf> {
    let target = folder.join("build");
    let mut build = process::cargo();
    build
        .current_dir(source)
        .args(["build", "--release", "--locked", "--package", "gallop-sim"])
        .arg("--target-dir")
        .arg(&target);
    boringssl::reuse(root, &mut build)?;
    process::run(&mut build)?;
    Ok(target.join("release").join("gallop-sim"))
}

/// Evaluations of canter with one constant changed.
struct Evaluations<'a> {
    simulator: PathBuf,
    library: PathBuf,
    /// The results of these sources and flags.
    folder: PathBuf,
    flags: &'a [OsString],
}

impl Evaluations<'_> {
    fn new<'a>(
        simulator: PathBuf,
        folder: &Path,
        mut digest: DefaultHasher,
        flags: &'a [OsString],
    ) -> Result<Evaluations<'a>> {
        flags.hash(&mut digest);
        let library = folder.join("source").join("experiments");
        let folder = folder.join(format!("results-{:016x}", digest.finish()));
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Evaluations {
            simulator,
            library,
            folder,
            flags,
        })
    }

    /// Scenarios passed, and their number, with `change` (`NAME=FACTOR`, or nothing).
    fn run(&self, change: &str) -> Result<(Passed, usize)> {
        let name = match change {
            "" => "unchanged".to_owned(),
            change => change.replace("::", "-"),
        };
        let json = self.folder.join(format!("{name}.json"));
        if !json.exists() {
            let out = self.folder.join("evaluation");
            if out.exists() {
                fs::remove_dir_all(&out).with_context(|| out.display().to_string())?;
            }
            process::output(
                Command::new(&self.simulator)
                    .args(["evaluate", "--cc", "canter"])
                    .args(self.flags)
                    .arg("--library")
                    .arg(&self.library)
                    .arg("--out")
                    .arg(&out)
                    .arg("--json")
                    .arg(&json)
                    .env(VARIABLE, change),
            )
            .with_context(|| format!("with {name}"))?;
        }
        let text = fs::read_to_string(&json).with_context(|| json.display().to_string())?;
        let evaluation: Evaluation = serde_json::from_str(&text).context("an evaluation")?;
        let of = evaluation
            .families
            .iter()
            .map(|family| family.scenarios.len());
        let of = of.sum();
        let passed = evaluation.families.into_iter().map(|family| {
            let cells = family.scenarios.iter().flat_map(|scenario| &scenario.cells);
            let passed = cells.filter(|cell| cell.verdict == "pass").count();
            (family.id, passed)
        });
        Ok((passed.collect(), of))
    }
}

impl Results {
    /// The table, in Markdown.
    fn table(&self) -> String {
        let total: usize = self.unchanged.values().sum();
        let mut table = format!(
            "`{}`: {total} of {} scenarios passed as it is.\n\n| constant | value | halved | doubled |\n|---|---|---|---|\n",
            self.command, self.of
        );
        for row in &self.constants {
            let [halved, doubled] = [&row.halved, &row.doubled].map(|passed| self.change(passed));
            // Writing to a string does not fail.
            let _ = writeln!(
                table,
                "| `{}` | `{}` | {halved} | {doubled} |",
                row.constant.name, row.constant.value
            );
        }
        table
    }

    /// The differences to the verdicts of the controller as it is: `−2: change −3, kin +1`.
    fn change(&self, passed: &Passed) -> String {
        let signed = |difference: i64| format!("{difference:+}").replace('-', "−");
        let difference = |family: &str| {
            let of = |passed: &Passed| passed.get(family).copied().unwrap_or(0) as i64;
            of(passed) - of(&self.unchanged)
        };
        let families = self
            .unchanged
            .keys()
            .map(|family| (family, difference(family)));
        let changed: Vec<_> = families
            .filter(|&(_, difference)| difference != 0)
            .collect();
        if changed.is_empty() {
            return "same".to_owned();
        }
        let total: i64 = changed.iter().map(|&(_, difference)| difference).sum();
        let parts = changed
            .iter()
            .map(|(family, difference)| format!("{family} {}", signed(*difference)));
        format!(
            "{}: {}",
            signed(total),
            parts.collect::<Vec<_>>().join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_by_family() {
        let passed = |of: &[(&str, usize)]| -> Passed {
            of.iter()
                .map(|&(family, count)| (family.to_owned(), count))
                .collect()
        };
        let results = Results {
            command: String::new(),
            of: 9,
            unchanged: passed(&[("kin", 3), ("loss", 2), ("noise", 1)]),
            constants: Vec::new(),
        };
        let change = |of| results.change(&passed(of));
        assert_eq!(change(&[("kin", 3), ("loss", 2), ("noise", 1)]), "same");
        assert_eq!(
            change(&[("kin", 1), ("loss", 3), ("noise", 1)]),
            "−1: kin −2, loss +1"
        );
    }
}
