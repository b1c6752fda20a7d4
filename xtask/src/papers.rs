//! `cargo xtask papers`: the experiments of the papers, and a report of paper against measured.

use std::fs;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;

use crate::job::{self, Steps};
use crate::{process, setup};

/// Run the experiments of the papers and report paper against measured
///
/// Each experiment is a file in experiments/. Its runs are real quiche connections over simulated
/// networks, on all cores; what was interrupted goes on where it stopped. The report holds the
/// papers' claims against what was measured: report.html, papers.json and papers.md.
///
/// The exit code is 0 when all runs finished, also if claims are not reproduced: the report says
/// which. It is 1 when a file is wrong, a run failed or a step did.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask papers
  cargo xtask papers --list
  cargo xtask papers ns2/rtt-fairness gallop/figure-4 --json papers.json
  cargo xtask papers --fast
  cargo xtask papers --shard 2/4 --out shard-2")]
pub struct Arguments {
    /// Experiments by name, the file's path in experiments/ without .toml [default: all that
    /// show something]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Name the experiments, with their titles, and run nothing
    #[arg(long)]
    list: bool,
    /// Only the points and seeds of each experiment that its fast table names, for a first look
    #[arg(long)]
    fast: bool,
    /// As many seeds at each point, in place of the experiment's
    #[arg(long, value_name = "N")]
    seeds: Option<NonZeroU64>,
    /// Also write the outcome of the claims to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to write results and report [default: target/papers, with --fast target/papers-fast]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The K-th of N equal parts of the runs, for several machines; makes no report
    #[arg(long, value_name = "K/N", conflicts_with = "json")]
    shard: Option<String>,
    /// Simulations at a time; as many as there are cores by default
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// Runs the command.
///
/// # Errors
///
/// An experiment is unknown or wrong, a tool is missing, a run failed, or a step did.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = crate::root()?;
    let target = crate::target(&root);
    if let Some(json) = &arguments.json {
        job::check_json(json)?;
    }
    let out = arguments.out.clone().unwrap_or_else(|| {
        target.join(match arguments.fast {
            true => "papers-fast",
            false => "papers",
        })
    });

    let mut steps = Steps::of(match arguments.shard {
        None => 4,
        Some(_) => 3,
    });
    steps.next("Tools");
    setup::build_tools()?;
    steps.next("Simulator");
    let simulator = job::simulator(&root, &target)?;
    let mut chosen = listed(&simulator, &root, &arguments.names)?;
    if arguments.names.is_empty() {
        chosen.retain(Listed::shows_something);
    }
    if arguments.list {
        for experiment in &chosen {
            println!("{:24} {}", experiment.name, experiment.title);
        }
        return Ok(());
    }
    fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
    let python = setup::python(&root, &target)?;
    steps.next("Experiments");
    let files = chosen.iter().map(|experiment| &experiment.file);
    let swept = process::run(
        Command::new(&simulator)
            .arg("sweep")
            .args(files)
            .arg("--out")
            .arg(&out)
            .args(sweep_flags(arguments)),
    );
    if arguments.shard.is_some() {
        return swept;
    }
    // The finished runs are reported even if others failed.
    steps.next("Report");
    let all = listed(&simulator, &root, &[])?.into_iter();
    let there = all
        .map(|experiment| experiment.name)
        .filter(|name| out.join(name).join("experiment.json").is_file());
    let mut report = Command::new(&python);
    report
        .args(["-m", "qlog_analysis", "papers"])
        .arg(&out)
        .args(there);
    if let Some(json) = &arguments.json {
        report.arg("--json").arg(json);
    }
    let reported = process::run(&mut report);
    swept.and(reported)
}

/// An experiment as `gallop-sim list --json` has it.
#[derive(Debug, Deserialize)]
struct Listed {
    name: String,
    title: String,
    file: PathBuf,
    claims: usize,
    tables: usize,
    plots: usize,
}

impl Listed {
    /// True if a report would have anything to say of it.
    fn shows_something(&self) -> bool {
        self.claims + self.tables + self.plots > 0
    }
}

/// The experiments of these names, or all.
fn listed(simulator: &Path, root: &Path, names: &[String]) -> Result<Vec<Listed>> {
    let text = process::answer(
        Command::new(simulator)
            .args(["list", "--json", "--library"])
            .arg(root.join("experiments"))
            .arg("--")
            .args(names),
    )?;
    serde_json::from_str(&text).context("the list of gallop-sim")
}

/// The flags that are for the simulator.
fn sweep_flags(arguments: &Arguments) -> Vec<String> {
    let mut flags = Vec::new();
    if arguments.fast {
        flags.push("--fast".to_owned());
    }
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            flags.extend([name.to_owned(), value]);
        }
    };
    add("--seeds", arguments.seeds.map(|seeds| seeds.to_string()));
    add("--shard", arguments.shard.clone());
    add(
        "--threads",
        arguments.threads.map(|threads| threads.to_string()),
    );
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parsed(line: &str) -> Result<Arguments> {
        let words = std::iter::once("papers").chain(line.split_whitespace());
        Ok(Line::try_parse_from(words)?.arguments)
    }

    #[test]
    fn flags_go_to_the_simulator() {
        let arguments = parsed("a b --fast --seeds 3 --shard 1/2 --threads 4").unwrap();
        assert_eq!(
            sweep_flags(&arguments).join(" "),
            "--fast --seeds 3 --shard 1/2 --threads 4"
        );
        assert_eq!(arguments.names, ["a", "b"]);
        assert!(sweep_flags(&parsed("").unwrap()).is_empty());
    }

    #[test]
    fn a_part_of_the_runs_makes_no_claims() {
        assert!(parsed("--shard 1/2 --json x.json").is_err());
    }

    #[test]
    fn what_the_simulator_lists_is_read() {
        let text = r#"[{"name": "ns2/red", "title": "RED", "file": "experiments/ns2/red.toml",
                        "claims": 0, "tables": 1, "plots": 0}]"#;
        let listed: Vec<Listed> = serde_json::from_str(text).unwrap();
        assert!(listed[0].shows_something());
        let nothing = text.replace("\"tables\": 1", "\"tables\": 0");
        let listed: Vec<Listed> = serde_json::from_str(&nothing).unwrap();
        assert!(!listed[0].shows_something());
    }
}
