//! Evaluations: every controller in every scenario of `experiments/evaluation/`, held against the
//! limits that stand there.
//!
//! A family of scenarios is an experiment with tables `[[scenario]]` and `[[limit]]`. An evaluation
//! lets the laboratory run all families and judges what was measured.

mod arguments;
mod goal;
mod report;
mod table;
mod verdict;

pub use arguments::Arguments;
pub use goal::{GoalResult, ShownGoal};
pub use report::{Cell, Family, Passed, Report, Shown, ShownLimit, Summary, Tried};
pub use table::{markdown, terminal};
pub use verdict::{Judged, Verdict};

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use gallop::AlgorithmError;
use gallop_files::Document;
use serde::Serialize;
use thiserror::Error;

use crate::experiment::{
    Experiment, ExperimentError, Library, LibraryError, Point, Run, Scenario, Trace, Trial, Where,
};
use crate::lab::{LabError, Options, Outcome, Shard, Sweep};
use crate::stack::{Selection, Stack};

/// The folder of families in that of experiments, and the folder of results in `target`.
const FOLDER: &str = "evaluation";

/// The folder of results of a part of the evaluation.
const PART: &str = "evaluation-part";

/// The file of verdicts in the folder of results.
pub const FILE_NAME: &str = "evaluation.json";

/// The table of all measurements in the folder of results.
pub const RESULTS: &str = "results.parquet";

/// The name of the command in documents with its tables.
const NAME: &str = "evaluate";

/// The same for parameters that were drawn anew.
const FRESH_NAME: &str = "evaluate --fresh";

/// The reason for which there is no evaluation.
#[derive(Debug, Error)]
pub enum EvaluateError {
    /// A flag has a value that makes no sense.
    #[error("{flag}: {problem}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// The problem, and what would be right.
        problem: String,
    },
    /// A controller does not exist, or does not take these options.
    #[error(transparent)]
    Controller(#[from] AlgorithmError),
    /// A family's file is no evaluation.
    #[error("{}: {problem}", .path.display())]
    Family {
        /// The file.
        path: PathBuf,
        /// The problem, and what would be right.
        problem: &'static str,
    },
    /// The folder of experiments.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// Files of families.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Experiments(Vec<ExperimentError>),
    /// The laboratory.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// So many runs failed.
    #[error("{0} runs failed")]
    Runs(usize),
    /// A file cannot be written.
    #[error("cannot write {}: {error}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

/// An evaluation: its families and the folder of its results.
#[derive(Debug, Serialize)]
pub struct Evaluation {
    /// The folder of the results.
    pub out: PathBuf,
    /// The command that makes it again.
    pub command: String,
    /// The controllers.
    #[serde(serialize_with = "ids")]
    pub controllers: Vec<Run>,
    /// The families, with the runs that are to be done.
    #[serde(serialize_with = "described")]
    pub families: Vec<Experiment>,
    fast: bool,
    seeds: Option<u64>,
    fresh: Option<u64>,
    left_out: Vec<String>,
    #[serde(skip)]
    shard: Shard,
    #[serde(skip)]
    json: Option<PathBuf>,
    #[serde(skip)]
    documents: Vec<Document>,
}

fn ids<S: serde::Serializer>(runs: &[Run], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(runs.iter().map(|run| &run.id))
}

fn described<S: serde::Serializer>(
    families: &[Experiment],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let described = families.iter().map(|family| {
        let scenarios: BTreeSet<&String> = family
            .points
            .iter()
            .filter_map(|point| point.labels.first())
            .collect();
        serde_json::json!({
            "id": family_id(family),
            "scenarios": scenarios,
            "seeds": family.seeds,
            "runs": family.points.len() as u64 * family.seeds,
        })
    });
    serializer.collect_seq(described)
}

/// The name of a family: that of its file.
fn family_id(experiment: &Experiment) -> &str {
    experiment
        .name
        .rsplit_once('/')
        .map_or(&experiment.name, |(_, id)| id)
}

fn flag(flag: &'static str, problem: impl Into<String>) -> EvaluateError {
    EvaluateError::Flag {
        flag,
        problem: problem.into(),
    }
}

impl Evaluation {
    /// Puts together what the flags ask for, and checks all of it.
    ///
    /// # Errors
    ///
    /// Names the flag, or the place in a family's file, that is wrong.
    pub fn new(arguments: &Arguments) -> Result<Evaluation, EvaluateError> {
        let trial = Trial {
            fresh: arguments.fresh,
            ..trial(&arguments.cc, arguments.stack)?
        };
        Evaluation::of(arguments, trial)
    }

    /// The same for controllers of the caller's own, which
    /// [`register_own`](gallop::stack::quiche::register_own) has made known.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Evaluation::new).
    pub fn of(arguments: &Arguments, trial: Trial) -> Result<Evaluation, EvaluateError> {
        if let Some(json) = &arguments.json {
            gallop_files::check(json)
                .map_err(|error| flag("--json", format!("{}: {error}", json.display())))?;
        }
        let name = match arguments.fresh {
            None => NAME,
            Some(_) => FRESH_NAME,
        };
        let document =
            |path: &PathBuf| Document::read(path, name).map_err(|problem| flag("--table", problem));
        let documents = arguments.table.iter().map(document);
        let documents = documents.collect::<Result<_, _>>()?;
        let families = families(arguments, &trial)?;
        let out = arguments.out.clone().unwrap_or_else(|| {
            arguments.target.join(match arguments.is_whole() {
                true => FOLDER,
                false => PART,
            })
        });
        Ok(Evaluation {
            out,
            command: (arguments.command.clone())
                .unwrap_or_else(|| "gallop-sim evaluate".to_owned()),
            controllers: trial.controllers,
            families,
            fast: arguments.fast,
            seeds: arguments.seeds.map(NonZeroU64::get),
            fresh: arguments.fresh,
            left_out: left_out(arguments),
            shard: arguments.shard.unwrap_or(Shard::WHOLE),
            json: arguments.json.clone(),
            documents,
        })
    }

    /// The sweep over all families. What an earlier one has done in the same folder is not done
    /// again.
    ///
    /// # Errors
    ///
    /// The folder cannot be written to.
    pub fn sweep(&self) -> Result<Sweep, EvaluateError> {
        fs::create_dir_all(&self.out)
            .map_err(|error| flag("--out", format!("{}: {error}", self.out.display())))?;
        let options = Options {
            out: self.out.clone(),
            fast: false,
            seeds: None,
            shard: self.shard,
        };
        Ok(Sweep::new(self.families.clone(), &options)?)
    }

    /// Judges the results of a sweep that has been executed, and writes them as the flags ask.
    ///
    /// # Errors
    ///
    /// A file cannot be read or written.
    pub fn finish(&self, sweep: &Sweep, outcomes: &[Outcome]) -> Result<Report, EvaluateError> {
        let mut families = Vec::new();
        for (number, (experiment, outcome)) in sweep.experiments().zip(outcomes).enumerate() {
            let samples = sweep.samples(number)?;
            families.push(Family::new(self, experiment, &samples, outcome));
        }
        let report = Report::new(self, families);
        sweep.write_together(&self.out.join(RESULTS))?;
        let json = serde_json::to_vec(&report).map_err(io::Error::from);
        let json = json.map_err(|error| EvaluateError::Write {
            path: self.out.join(FILE_NAME),
            error,
        })?;
        let mut files = vec![self.out.join(FILE_NAME)];
        files.extend(self.json.clone());
        for path in files {
            gallop_files::write(&path, &json)
                .map_err(|error| EvaluateError::Write { path, error })?;
        }
        let tables = markdown(&report);
        for document in &self.documents {
            document
                .write(&tables)
                .map_err(|problem| flag("--table", problem))?;
        }
        Ok(report)
    }

    /// The command that runs one controller in one scenario and keeps its traces.
    fn command_of(&self, experiment: &Experiment, scenario: &Scenario, run: &Run) -> String {
        let mut words = vec![
            "cargo".to_owned(),
            "xtask".to_owned(),
            NAME.to_owned(),
            "--cc".to_owned(),
            run.cc.clone().unwrap_or_default(),
            "--scenario".to_owned(),
            format!("{}/{}", family_id(experiment), scenario.id),
            "--traces".to_owned(),
        ];
        if let Some(seed) = self.fresh {
            words.extend(["--fresh".to_owned(), seed.to_string()]);
        }
        shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
    }
}

/// The controllers of the flags, or all.
fn trial(controllers: &[String], stack: Stack) -> Result<Trial, EvaluateError> {
    let controllers = match controllers.is_empty() {
        true => Selection::names_in(stack),
        false => controllers.iter().map(|cc| stack.controller(cc)).collect(),
    };
    let mut runs: Vec<Run> = Vec::new();
    for cc in &controllers {
        cc.parse::<Selection>()?;
        let id = cc.replace([':', ',', '=', '/'], "-");
        if runs.iter().any(|run| run.id == id) {
            return Err(flag("--cc", format!("controller `{cc}` is given twice")));
        }
        runs.push(Run {
            id,
            title: cc.clone(),
            cc: Some(cc.clone()),
        });
    }
    Ok(Trial {
        controllers: runs,
        fresh: None,
    })
}

/// The families that the flags name, with the scenarios and seeds that they leave.
fn families(arguments: &Arguments, trial: &Trial) -> Result<Vec<Experiment>, EvaluateError> {
    let files = files(&arguments.library)?;
    let known: Vec<&str> = files.iter().map(|(id, _)| id.as_str()).collect();
    let of_family = |scenario: &String| -> Result<(String, String), EvaluateError> {
        let parts = scenario.split_once('/');
        let parts = parts.filter(|(family, _)| known.contains(family));
        let (family, id) = parts.ok_or_else(|| {
            let problem = format!(
                "`{scenario}` is not FAMILY/ID: the families are {}",
                known.join(", ")
            );
            flag("--scenario", problem)
        })?;
        Ok((family.to_owned(), id.to_owned()))
    };
    for family in &arguments.family {
        if !known.contains(&family.as_str()) {
            let known = known.join(", ");
            let problem = format!("there is no family `{family}`: the families are {known}");
            return Err(flag("--family", problem));
        }
    }
    let scenarios = arguments.scenario.iter().map(of_family);
    let scenarios: Vec<(String, String)> = scenarios.collect::<Result<_, _>>()?;
    let mut experiments = Vec::new();
    let mut errors = Vec::new();
    for (id, file) in &files {
        let wanted = match (arguments.family.is_empty(), scenarios.is_empty()) {
            (true, true) => true,
            _ => arguments.family.contains(id) || scenarios.iter().any(|(family, _)| family == id),
        };
        if !wanted {
            continue;
        }
        match Experiment::read_for(file, trial) {
            Ok(experiment) => experiments.push(prepared(experiment, id, &scenarios, arguments)?),
            Err(error) => errors.push(error),
        }
    }
    match errors.is_empty() {
        true => Ok(experiments),
        false => Err(EvaluateError::Experiments(errors)),
    }
}

/// A family with the scenarios, the seeds and the traces that the flags ask for.
fn prepared(
    mut experiment: Experiment,
    id: &str,
    scenarios: &[(String, String)],
    arguments: &Arguments,
) -> Result<Experiment, EvaluateError> {
    if experiment.scenarios.is_empty() || experiment.limits.is_empty() {
        return Err(EvaluateError::Family {
            path: experiment.path,
            problem: "a family needs tables [[scenario]] and [[limit]]",
        });
    }
    if arguments.fast {
        experiment = experiment.fast();
    }
    let own: Vec<&str> = scenarios
        .iter()
        .filter(|(family, _)| family == id)
        .map(|(_, scenario)| scenario.as_str())
        .collect();
    if let Some(unknown) = own
        .iter()
        .find(|own| experiment.scenarios.iter().all(|one| one.id != **own))
    {
        let known: Vec<&str> = experiment
            .scenarios
            .iter()
            .map(|one| one.id.as_str())
            .collect();
        let known = known.join(", ");
        let problem = format!("there is no scenario `{unknown}` in {id}: there are {known}");
        return Err(flag("--scenario", problem));
    }
    if !own.is_empty() {
        // A family's first axis is the scenarios.
        let is_own = |point: &Point| point.labels.first().is_some_and(|id| own.contains(&&**id));
        experiment.points.retain(is_own);
    }
    if let Some(seeds) = arguments.seeds {
        experiment.seeds = seeds.get();
    }
    if arguments.traces {
        let points = experiment.points.iter();
        let flows = points.flat_map(|point| &point.setup.flows);
        let tested = flows.filter(|flow| flow.tested);
        let names: BTreeSet<String> = tested.map(|flow| flow.name.clone()).collect();
        let trace = |flow| Trace {
            flow,
            every_member: false,
            points: Where::default(),
        };
        experiment.traces = names.into_iter().map(trace).collect();
    }
    experiment.directory = PathBuf::from(id);
    experiment.command = format!("cargo xtask {NAME} --family {id}");
    Ok(experiment)
}

/// The families' names and files, by name.
fn files(library: &Path) -> Result<Vec<(String, PathBuf)>, EvaluateError> {
    let prefix = format!("{FOLDER}/");
    let experiments = Library::open(library)?.experiments()?;
    let files = experiments.into_iter();
    let files: Vec<(String, PathBuf)> = files
        .filter_map(|(name, file)| Some((name.strip_prefix(&prefix)?.to_owned(), file)))
        .collect();
    match files.is_empty() {
        false => Ok(files),
        true => Err(flag(
            "--library",
            format!(
                "{}: there is no {FOLDER}/FAMILY.toml in it",
                library.display()
            ),
        )),
    }
}

/// A sentence for everything that the flags leave out.
fn left_out(arguments: &Arguments) -> Vec<String> {
    let mut left_out = Vec::new();
    let mut add = |is_left_out: bool, sentence: &str| {
        if is_left_out {
            left_out.push(sentence.to_owned());
        }
    };
    add(
        arguments.fast,
        "Only the fast part of each family was run (--fast).",
    );
    add(
        !arguments.family.is_empty() || !arguments.scenario.is_empty(),
        "Only some families or scenarios were run (--family, --scenario).",
    );
    add(
        !arguments.cc.is_empty(),
        "Only some controllers were run (--cc).",
    );
    if let Some(seeds) = arguments.seeds {
        left_out.push(format!(
            "Every scenario was run under {seeds} seeds (--seeds)."
        ));
    }
    if let Some(shard) = arguments.shard {
        left_out.push(format!("Only part {shard} of the runs was done (--shard)."));
    }
    left_out
}

impl Report {
    /// The runs that failed: controller, scenario and reason.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        let families = self.families.iter();
        let cells = families.flat_map(|family| {
            let scenarios = family.scenarios.iter();
            scenarios.flat_map(move |scenario| {
                let place = format!("{}/{}", family.id, scenario.id);
                scenario.cells.iter().map(move |cell| (place.clone(), cell))
            })
        });
        cells
            .flat_map(|(place, cell)| {
                let failures = cell.failures().iter();
                failures.map(move |reason| format!("{place}, {}: {reason}", cell.controller))
            })
            .collect()
    }
}
