//! Comparisons: a sweep of one experiment, changed by flags, whose traces are kept.
//!
//! A comparison takes a preset, which is an experiment in which nothing varies but the controller,
//! changes its path and its controllers as the flags say, and lets the laboratory run it. Of a
//! preset other than the default one the same path with QUIC's defaults is run beside it.

mod arguments;
mod estimates;
mod folder;
mod plan;
mod preset;
mod table;

pub use arguments::Arguments;
pub use estimates::{Contender, Estimates, Metrics};
pub use folder::FILE_NAME;
pub use table::{markdown, terminal};

use std::io;
use std::path::PathBuf;

use gallop::AlgorithmError;
use gallop_files::Document;
use serde::Serialize;
use thiserror::Error;

use crate::experiment::{Experiment, ExperimentError, Library, LibraryError};
use crate::lab::{LabError, Options, Outcome, Shard, Sweep};

/// The name of the command in documents with its tables.
const NAME: &str = "compare";

/// The reason for which a comparison cannot be made.
#[derive(Debug, Error)]
pub enum CompareError {
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
    /// A controller is given twice.
    #[error("controller `{0}` is given twice")]
    Twice(String),
    /// No preset has this name.
    #[error("there is no preset `{name}`: the presets are {presets}")]
    NoPreset {
        /// The name.
        name: String,
        /// The known names.
        presets: String,
    },
    /// An experiment varies more than the controller, or has another network.
    #[error(
        "the experiment `{name}` is no preset, because {reason}; run it with `cargo xtask papers {name}`: the presets are {presets}"
    )]
    NotPlain {
        /// The experiment.
        name: String,
        /// The reason.
        reason: &'static str,
        /// The experiments that are presets.
        presets: String,
    },
    /// The folder of experiments.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The preset's file.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The laboratory.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A run failed.
    #[error("run {run}, seed {seed}: {reason}")]
    Run {
        /// The experiment's folder and the run.
        run: String,
        /// The seed.
        seed: u64,
        /// The reason.
        reason: String,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {error}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

/// A comparison: its experiments, and the folder of its results.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// The title, for people.
    pub title: String,
    /// The command that runs it again.
    pub command: String,
    /// The folder of the results.
    pub out: PathBuf,
    /// The experiment, and the same path with QUIC's defaults if that differs.
    #[serde(serialize_with = "names")]
    pub experiments: Vec<Experiment>,
    #[serde(skip)]
    json: Option<PathBuf>,
    #[serde(skip)]
    documents: Vec<Document>,
}

/// The folders of the experiments.
fn names<S: serde::Serializer>(
    experiments: &[Experiment],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(experiments.iter().map(|experiment| &experiment.directory))
}

impl Comparison {
    /// Puts the comparison together that the flags ask for, and checks all of it.
    ///
    /// # Errors
    ///
    /// Names the flag, or the place in the preset, that is wrong.
    pub fn new(arguments: &Arguments) -> Result<Comparison, CompareError> {
        let library = Library::open(&arguments.library)?;
        let flag = |flag, problem| CompareError::Flag { flag, problem };
        if let Some(json) = &arguments.json {
            gallop_files::check(json)
                .map_err(|error| flag("--json", format!("{}: {error}", json.display())))?;
        }
        let document =
            |path: &PathBuf| Document::read(path, NAME).map_err(|problem| flag("--table", problem));
        let documents = arguments.table.iter().map(document);
        let documents = documents.collect::<Result<_, _>>()?;
        let (name, experiments) = plan::experiments(arguments, &library)?;
        Ok(Comparison {
            title: experiments[0].title.clone(),
            command: experiments[0].command.clone(),
            out: arguments
                .out
                .clone()
                .unwrap_or_else(|| arguments.target.join("compare").join(name)),
            experiments,
            json: arguments.json.clone(),
            documents,
        })
    }

    /// Prepares the folder, which an earlier comparison may have left, and the sweep.
    ///
    /// # Errors
    ///
    /// There are files in the folder that no comparison wrote, or it cannot be written to.
    pub fn sweep(&self) -> Result<Sweep, CompareError> {
        folder::prepare(self)?;
        let options = Options {
            out: self.out.clone(),
            fast: false,
            seeds: None,
            shard: Shard::WHOLE,
        };
        Ok(Sweep::new(self.experiments.clone(), &options)?)
    }

    /// Writes the results of a sweep that has been executed, as the flags ask: the file of results
    /// and the tables in documents.
    ///
    /// # Errors
    ///
    /// The first run that failed, or in which a flow received nothing; a file that cannot be
    /// written.
    pub fn finish(
        &self,
        sweep: &Sweep,
        outcomes: &[Outcome],
    ) -> Result<Vec<Estimates>, CompareError> {
        #[derive(Serialize)]
        struct Results<'a> {
            title: &'a str,
            command: &'a str,
            experiments: &'a [Estimates],
        }
        let mut all = Vec::new();
        for (number, (experiment, outcome)) in self.experiments.iter().zip(outcomes).enumerate() {
            let failed = |point: usize, seed, reason| CompareError::Run {
                run: format!(
                    "{}/{}",
                    experiment.directory.display(),
                    experiment.runs.get(point).map_or("", |run| &run.id)
                ),
                seed,
                reason,
            };
            if let Some((point, seed, reason)) = outcome.failed.first() {
                return Err(failed(*point, *seed, reason.clone()));
            }
            let samples = sweep.samples(number)?;
            let nothing = samples
                .iter()
                .find(|sample| sample.metric == "received_bytes" && sample.value == 0.0);
            if let Some(nothing) = nothing {
                let reason = format!(
                    "no progress: flow {} received nothing in {} s",
                    nothing.index,
                    experiment.points[0].setup.duration.as_secs_f64()
                );
                return Err(failed(nothing.point, nothing.seed, reason));
            }
            all.push(Estimates::new(experiment, &samples));
        }
        let results = Results {
            title: &self.title,
            command: &self.command,
            experiments: &all,
        };
        if let Some(json) = &self.json {
            folder::write_json(json, &results)?;
        }
        let table = markdown(&all);
        for document in &self.documents {
            document
                .write(&table)
                .map_err(|problem| CompareError::Flag {
                    flag: "--table",
                    problem,
                })?;
        }
        Ok(all)
    }
}
