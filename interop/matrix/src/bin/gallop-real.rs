//! `gallop-real`: see `--help`. `cargo xtask evaluate --real` runs it.

use std::fs;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Parser;
use gallop::stack::quiche::Selection;
use gallop_files::Document;
use gallop_matrix::lanes::side_by_side;
use gallop_matrix::real::figures::Figures;
use gallop_matrix::real::plan::{Plan, Scenario};
use gallop_matrix::real::results::{Results, Row};
use gallop_matrix::real::verdict::{Verdict, is_late};
use gallop_matrix::real::{Place, run, simulated};

/// Run scenarios in real time and hold the results beside simulated ones
///
/// Each scenario is an experiment of experiments/real/. It is simulated, and then run over a path in
/// real time between two network namespaces, with gallop-server and gallop-client, and with the
/// kernel's TCP in place of the simulated neighbour. A run agrees if its throughput alone is within
/// 5 % of the simulated one, its share beside TCP within 0.15, and the mean queue within 3 packets
/// or 15 %, whichever is more. A run whose path was late is repeated twice, and then does not count.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask evaluate --real",
    bin_name = "cargo xtask evaluate --real",
    args_override_self = true,
    after_help = "\
Examples:
  cargo xtask evaluate --real
  cargo xtask evaluate --real --list
  cargo xtask evaluate --real --scenario beside-cubic --cc vegas copa:compete=on --json real.json

Exit status: 0 if all was run, whether it agrees or not; 1 if a run failed or nothing could be run; \
2 for a wrong flag; 3 if the system does not permit network namespaces or TUN devices."
)]
struct Arguments {
    /// Congestion controllers in place of the scenarios' own, as in --cc vegas gallop-vegas:gamma=2
    #[arg(long, num_args = 1.., value_name = "NAME[:OPTIONS]")]
    cc: Vec<Selection>,
    /// Scenarios [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    scenario: Vec<String>,
    /// Simulated seeds
    #[arg(long, default_value = "5", value_name = "N")]
    seeds: NonZeroU64,
    /// Real runs at a time
    #[arg(long, default_value = "2", value_name = "N")]
    lanes: NonZeroUsize,
    /// List the scenarios and run nothing
    #[arg(long)]
    list: bool,
    /// Also write the results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Folder for results, logs and traces [default: target/evaluation-real]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the table into this document, between the lines `<!-- real: measured -->` and
    /// `<!-- real: end -->`
    #[arg(long, value_name = "FILE.md")]
    table: Option<PathBuf>,
    /// The checkout
    #[arg(long, default_value = ".", hide = true)]
    root: PathBuf,
    /// Folder for builds
    #[arg(long, default_value = "target", hide = true)]
    target: PathBuf,
}

/// The exit status where namespaces or devices are not permitted.
const NOT_PERMITTED: u8 = 3;

/// The number of runs of a plan whose path is late, or that fails.
const ATTEMPTS: usize = 3;

/// The kernel's controllers that a program may use.
const KERNEL_CONTROLLERS: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

fn main() -> ExitCode {
    match start(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: &Arguments) -> Result<ExitCode> {
    let mut scenarios = scenarios(arguments)?;
    if arguments.list {
        for scenario in &scenarios {
            println!(
                "{:24} {}",
                scenario.experiment.name, scenario.experiment.title
            );
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(json) = &arguments.json {
        gallop_files::check(json).with_context(|| format!("--json {}", json.display()))?;
    }
    let document = arguments
        .table
        .as_deref()
        .map(|path| Document::read(path, "real"))
        .transpose()
        .map_err(|problem| anyhow!("--table: {problem}"))?;
    if let Err(error) = gallop_path::Path::start(&gallop_path::Settings::default()) {
        eprintln!("NOTHING IS RUN: a path cannot be made. {error}");
        return Ok(ExitCode::from(NOT_PERMITTED));
    }
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| arguments.target.join("evaluation-real"));
    fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
    let out = fs::canonicalize(&out)?;
    let left_out = leave_out(&mut scenarios)?;

    let programs = fs::canonicalize(arguments.target.join("release"))?;
    let place = Place::prepare(programs, &out)?;
    eprintln!("Simulating");
    let simulated = simulated::run(&scenarios, arguments.seeds, &out.join("simulated"))?;
    let rows = measure(&scenarios, simulated, arguments.lanes.get(), &out, &place)?;
    let results = Results {
        command: command(arguments),
        seeds: arguments.seeds.get(),
        rows,
        left_out,
    };
    let json = serde_json::to_string_pretty(&results)?;
    write(&out.join("real.json"), &json)?;
    if let Some(path) = &arguments.json {
        write(path, &json)?;
    }
    let table = results.markdown();
    if let Some(document) = document {
        document.write(&table).map_err(|problem| anyhow!(problem))?;
    }
    print!("{table}");
    println!("Results: {}", out.display());
    Ok(match results.count(Verdict::Failed) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// The scenarios that are asked for, by name.
fn scenarios(arguments: &Arguments) -> Result<Vec<Scenario>> {
    let folder = arguments.root.join("experiments").join("real");
    let place = || folder.display().to_string();
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).with_context(place)? {
        files.push(entry?.path());
    }
    files.sort();
    let names: Vec<String> = files.iter().map(|file| name(file)).collect();
    for wanted in &arguments.scenario {
        ensure!(
            names.contains(wanted),
            "--scenario: unknown scenario `{wanted}`; the scenarios are {}",
            names.join(", ")
        );
    }
    files.retain(|file| arguments.scenario.is_empty() || arguments.scenario.contains(&name(file)));
    let controllers: Vec<String> = arguments.cc.iter().map(ToString::to_string).collect();
    files
        .iter()
        .map(|file| Scenario::read(file, &controllers))
        .collect()
}

fn name(file: &Path) -> String {
    file.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Removes the scenarios whose neighbour the kernel does not have; names them.
fn leave_out(scenarios: &mut Vec<Scenario>) -> Result<Vec<String>> {
    let known = fs::read_to_string(KERNEL_CONTROLLERS).context(KERNEL_CONTROLLERS)?;
    let mut left_out = Vec::new();
    scenarios.retain(|scenario| {
        let mut neighbours = scenario
            .plans
            .iter()
            .filter_map(|plan| plan.neighbour.as_ref());
        let missing = neighbours.find(|flow| {
            !known
                .split_whitespace()
                .any(|controller| controller == flow.controller)
        });
        if let Some(flow) = missing {
            left_out.push(format!(
                "{}: this kernel's TCP has no {}, only {}",
                scenario.experiment.name,
                flow.controller,
                known.trim()
            ));
        }
        missing.is_none()
    });
    Ok(left_out)
}

/// A real run to do.
struct Task<'a> {
    scenario: &'a Scenario,
    plan: &'a Plan,
    simulated: Vec<Figures>,
}

/// Does all real runs.
fn measure(
    scenarios: &[Scenario],
    simulated: Vec<Vec<Vec<Figures>>>,
    lanes: usize,
    out: &Path,
    place: &Place,
) -> Result<Vec<Row>> {
    let tasks: Vec<Task<'_>> = scenarios
        .iter()
        .zip(simulated)
        .flat_map(|(scenario, simulated)| {
            let plans = scenario.plans.iter().zip(simulated);
            plans.map(move |(plan, simulated)| Task {
                scenario,
                plan,
                simulated,
            })
        })
        .collect();
    let done = AtomicUsize::new(0);
    side_by_side(&tasks, lanes, |task, is_over| {
        let row = measure_one(task, out, place, is_over)?;
        let number = done.fetch_add(1, Ordering::Relaxed) + 1;
        eprintln!(
            "[{number}/{}] {} {}: {:?}",
            tasks.len(),
            row.scenario,
            row.cc,
            row.verdict
        );
        Ok(row)
    })
}

/// Does a real run, up to [`ATTEMPTS`] times while it fails or its path is late.
fn measure_one(task: &Task<'_>, out: &Path, place: &Place, is_over: &AtomicBool) -> Result<Row> {
    let experiment = &task.scenario.experiment;
    let name = (experiment.name.as_str(), experiment.title.as_str());
    let folder = out.join("runs").join(&experiment.name).join(&task.plan.run);
    let mut attempt = 1;
    let outcome = loop {
        let outcome = run(task.plan, attempt as u64, &folder, place, is_over);
        ensure!(!is_over.load(Ordering::Relaxed), "interrupted");
        let is_good = outcome
            .as_ref()
            .is_ok_and(|one| !is_late(one.lateness_s, task.plan.packet_time()));
        if is_good || attempt == ATTEMPTS {
            break outcome;
        }
        attempt += 1;
    };
    let outcome = outcome.map_err(|error| format!("{error:#}"));
    let simulated = task.simulated.clone();
    Ok(Row::new(name, task.plan, attempt, outcome, simulated))
}

/// The command line that makes these results, but for where they go.
fn command(arguments: &Arguments) -> String {
    let mut words = vec!["cargo xtask evaluate --real".to_owned()];
    if !arguments.scenario.is_empty() {
        words.push(format!("--scenario {}", arguments.scenario.join(",")));
    }
    if !arguments.cc.is_empty() {
        words.push("--cc".to_owned());
        words.extend(arguments.cc.iter().map(ToString::to_string));
    }
    words.join(" ")
}

fn write(path: &Path, text: &str) -> Result<()> {
    gallop_files::write(path, text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_what_was_chosen() {
        let line = "real --scenario alone,late --cc vegas copa:compete=on --lanes 1 --lanes 2";
        let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
        assert_eq!(arguments.lanes.get(), 2);
        assert_eq!(
            command(&arguments),
            "cargo xtask evaluate --real --scenario alone,late --cc vegas copa:compete=on"
        );
    }
}
