//! The laboratory: runs all points of experiments under all their seeds, on all cores, and writes
//! the measurements as tables.
//!
//! Every run is a simulation in a thread of its own. Its outcome goes into a journal at once. When
//! all runs of an experiment are there, the tables are made from the journal, so that they are the
//! same however often the sweep was interrupted and however many threads or machines took part in
//! it.

mod flows;
mod journal;
mod outcome;
mod results;
mod simulate;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::num::{NonZeroU64, NonZeroUsize};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use thiserror::Error;

use crate::experiment::{Experiment, ExperimentError};
use crate::isolation::{SelfCheckError, isolated, self_check};
use journal::Journal;
use outcome::RunOutcome;
use simulate::Run;

/// The reason for which a sweep cannot go on.
#[derive(Debug, Error)]
pub enum LabError {
    /// Some files are no experiments.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Experiments(Vec<ExperimentError>),
    /// Two files have one name, so that their results would go to one directory.
    #[error("there are two experiments called {0}")]
    Twice(String),
    /// This program cannot be deterministic.
    #[error("self-check: {0}")]
    SelfCheck(#[from] SelfCheckError),
    /// Our controllers cannot be made known to quiche.
    #[error("quiche refuses a controller of ours: {0}")]
    Register(quiche::Error),
    /// A file or directory cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

fn file_error(path: &Path) -> impl Fn(io::Error) -> LabError {
    move |error| LabError::File {
        path: path.to_path_buf(),
        error,
    }
}

/// Reads and checks experiments.
///
/// # Errors
/// Names all problems of all experiments.
pub fn read(files: &[PathBuf]) -> Result<Vec<Experiment>, LabError> {
    let mut names = BTreeSet::new();
    let (mut experiments, mut errors) = (Vec::new(), Vec::new());
    for file in files {
        match Experiment::read(file) {
            Ok(experiment) => experiments.push(experiment),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(LabError::Experiments(errors));
    }
    for experiment in &experiments {
        if !names.insert(experiment.name.clone()) {
            return Err(LabError::Twice(experiment.name.clone()));
        }
    }
    Ok(experiments)
}

/// The options of a sweep.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory in which every experiment has a directory of its name.
    pub out: PathBuf,
    /// True if only the points that the tables `[fast]` keep are run.
    pub fast: bool,
    /// The number of seeds, instead of the files'.
    pub seeds: Option<NonZeroU64>,
    /// The part of the runs that is run.
    pub shard: Shard,
}

/// One of several equal parts of all runs, for as many machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: NonZeroUsize,
    of: NonZeroUsize,
}

impl Shard {
    /// All runs.
    pub const WHOLE: Shard = Shard {
        number: NonZeroUsize::MIN,
        of: NonZeroUsize::MIN,
    };

    fn has(self, run: usize) -> bool {
        run % self.of == self.number.get() - 1
    }
}

/// As `K/N`.
impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    /// `K/N`: part K, from 1, of N.
    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/');
        let numbers = parts.and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((number, of)) if number <= of => Ok(Shard { number, of }),
            _ => Err(format!(
                "\"{text}\" is not K/N, part K (from 1) of N, such as 2/3"
            )),
        }
    }
}

/// The runs of a sweep and their progress.
#[derive(Debug)]
pub struct Sweep {
    sites: Vec<Site>,
    /// The jobs, the longest first.
    jobs: Vec<Job>,
}

/// An experiment and its directory.
#[derive(Debug)]
struct Site {
    experiment: Experiment,
    directory: PathBuf,
    journal: Journal,
    /// All its runs, those of other parts as well.
    planned: BTreeSet<(usize, u64)>,
    /// Runs that this sweep still has to do.
    left: AtomicUsize,
}

/// A run to do.
#[derive(Debug)]
struct Job {
    site: usize,
    /// The position of the point in the experiment.
    point: usize,
    seed: u64,
    /// Its approximate time, in no particular unit.
    cost: f64,
    duration: Duration,
    simulated_ns: AtomicU64,
    state: AtomicU8,
}

const FINISHED: u8 = 1;
const FAILED: u8 = 2;

/// The progress of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Runs to do.
    pub runs: usize,
    /// Runs that are done.
    pub finished: usize,
    /// Runs that failed, of those that are done.
    pub failed: usize,
    /// The approximate share of the work that is done, from 0 to 1.
    pub share: f64,
}

/// The state of an experiment after a sweep.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Outcome {
    /// Its name.
    pub experiment: String,
    /// The directory of the tables.
    pub directory: PathBuf,
    /// Runs in the tables.
    pub runs: usize,
    /// Runs that the experiment has altogether, those of other parts as well.
    pub planned: usize,
    /// Runs that failed: point, seed and reason.
    pub failed: Vec<(usize, u64, String)>,
}

/// A value of results.parquet.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The number of the point.
    pub point: usize,
    /// The seed.
    pub seed: u64,
    /// The thing that was measured: "flow/NAME", "link/NAME", "run" or "analysis".
    pub subject: String,
    /// The member of a flow that stands for several, else 0.
    pub index: usize,
    /// The metric, one of [`METRICS`](crate::experiment::metric::METRICS).
    pub metric: String,
    /// The value, in the metric's unit.
    pub value: f64,
}

impl Sweep {
    /// Prepares a sweep over experiments: finds the runs that are done already and makes the
    /// directories.
    ///
    /// # Errors
    /// A directory cannot be written, or the program cannot be deterministic.
    pub fn new(experiments: Vec<Experiment>, options: &Options) -> Result<Sweep, LabError> {
        self_check()?;
        gallop::register().map_err(LabError::Register)?;
        let program = journal::program().map_err(file_error(Path::new("this program")))?;
        let mut sites = Vec::new();
        let mut jobs = Vec::new();
        for experiment in experiments {
            let mut experiment = match options.fast {
                true => experiment.fast(),
                false => experiment,
            };
            if let Some(seeds) = options.seeds {
                experiment.seeds = seeds.get();
            }
            let directory = options.out.join(&experiment.directory);
            fs::create_dir_all(&directory).map_err(file_error(&directory))?;
            let fingerprint = journal::fingerprint(&experiment, program, options.fast);
            let (journal, done) = Journal::open(&directory, &experiment.name, fingerprint)
                .map_err(file_error(&directory))?;
            let done: BTreeSet<(usize, u64)> = done.into_iter().collect();
            let mut site = Site {
                experiment,
                directory,
                journal,
                planned: BTreeSet::new(),
                left: AtomicUsize::new(0),
            };
            site.plan(sites.len(), options.shard, &done, &mut jobs);
            sites.push(site);
        }
        jobs.sort_by(|one, other| other.cost.total_cmp(&one.cost));
        Ok(Sweep { sites, jobs })
    }

    /// Its progress.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let mut progress = Progress {
            runs: self.jobs.len(),
            ..Progress::default()
        };
        let (mut done, mut all) = (0.0, 0.0);
        for job in &self.jobs {
            let state = job.state.load(Ordering::Relaxed);
            progress.finished += usize::from(state > 0);
            progress.failed += usize::from(state == FAILED);
            let simulated = Duration::from_nanos(job.simulated_ns.load(Ordering::Relaxed));
            let share = match state {
                0 => simulated.as_secs_f64() / job.duration.as_secs_f64(),
                _ => 1.0,
            };
            done += job.cost * share.min(1.0);
            all += job.cost;
        }
        progress.share = if all > 0.0 { done / all } else { 1.0 };
        progress
    }

    /// Runs everything, `threads` simulations at a time, and writes the tables of each experiment
    /// when its last run is done.
    ///
    /// A run that fails is noted and the sweep goes on.
    ///
    /// # Errors
    /// A file cannot be written. This ends the sweep; the journals stay.
    pub fn execute(&self, threads: NonZeroUsize) -> Result<Vec<Outcome>, LabError> {
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let outcomes = Mutex::new(BTreeMap::new());
        for (number, site) in self.sites.iter().enumerate() {
            if site.left.load(Ordering::Relaxed) == 0 {
                insert(&outcomes, number, site.write()?);
            }
        }
        let work = || -> Result<(), LabError> {
            while !stop.load(Ordering::Relaxed) {
                let Some(job) = self.jobs.get(next.fetch_add(1, Ordering::Relaxed)) else {
                    break;
                };
                let site = &self.sites[job.site];
                let last = site
                    .run(job)
                    .inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
                if last {
                    insert(&outcomes, job.site, site.write()?);
                }
            }
            Ok(())
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads.get().min(self.jobs.len()))
                .map(|_| scope.spawn(work))
                .collect();
            let results = workers.into_iter().map(|worker| {
                let result = worker.join();
                result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            // All are waited for before the first error is returned.
            results
                .collect::<Vec<_>>()
                .into_iter()
                .collect::<Result<(), _>>()
        })?;
        let outcomes = outcomes
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(outcomes.into_values().collect())
    }
}

impl Sweep {
    /// All measurements of an experiment, by its number in the sweep, in the runs that have
    /// finished.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub fn samples(&self, experiment: usize) -> Result<Vec<Sample>, LabError> {
        let Some(site) = self.sites.get(experiment) else {
            return Ok(Vec::new());
        };
        let runs = site.journal.read().map_err(file_error(&site.directory))?;
        let planned = runs
            .into_values()
            .filter(|run| site.planned.contains(&(run.point, run.seed)));
        let of_run = |run: RunOutcome| {
            run.subjects.into_iter().flat_map(move |subject| {
                let sample = move |value: outcome::Value| Sample {
                    point: run.point,
                    seed: run.seed,
                    subject: subject.subject.clone(),
                    index: subject.index,
                    metric: value.0.into_owned(),
                    value: value.2,
                };
                subject.values.into_iter().map(sample).collect::<Vec<_>>()
            })
        };
        Ok(planned.flat_map(of_run).collect())
    }

    /// The experiments as they are run, in their order.
    pub fn experiments(&self) -> impl Iterator<Item = &Experiment> {
        self.sites.iter().map(|site| &site.experiment)
    }

    /// Writes the results of all experiments, which must have the same axes, into one table as
    /// `results.parquet` of each has them.
    ///
    /// # Errors
    ///
    /// A journal cannot be read, or the table cannot be written.
    pub fn write_together(&self, path: &Path) -> Result<(), LabError> {
        let runs = self.sites.iter().map(|site| {
            let mut runs = site.journal.read()?;
            runs.retain(|run, _| site.planned.contains(run));
            Ok((site.experiment.clone(), runs))
        });
        results::write_together(path, runs).map_err(file_error(path))
    }
}

fn insert(outcomes: &Mutex<BTreeMap<usize, Outcome>>, site: usize, outcome: Outcome) {
    let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
    outcomes.insert(site, outcome);
}

impl Site {
    /// Notes all runs, and as jobs those of the shard that are not done.
    fn plan(
        &mut self,
        number: usize,
        shard: Shard,
        done: &BTreeSet<(usize, u64)>,
        jobs: &mut Vec<Job>,
    ) {
        let before = jobs.len();
        for (position, point) in self.experiment.points.iter().enumerate() {
            for seed in self.experiment.all_seeds() {
                let run = (point.number, seed);
                if shard.has(self.planned.len()) && !done.contains(&run) {
                    jobs.push(Job {
                        site: number,
                        point: position,
                        seed,
                        cost: point.setup.cost(),
                        duration: point.setup.duration,
                        simulated_ns: AtomicU64::new(0),
                        state: AtomicU8::new(0),
                    });
                }
                self.planned.insert(run);
            }
        }
        self.left = AtomicUsize::new(jobs.len() - before);
    }

    /// Does a run and notes it; returns true if it was the last.
    fn run(&self, job: &Job) -> Result<bool, LabError> {
        let point = &self.experiment.points[job.point];
        let run = Run {
            experiment: &self.experiment,
            point,
            seed: job.seed,
            directory: &self.directory,
        };
        let told = |simulated: Duration| {
            let nanoseconds = u64::try_from(simulated.as_nanos()).unwrap_or(u64::MAX);
            job.simulated_ns.store(nanoseconds, Ordering::Relaxed);
        };
        // A panic of one run must not end the others.
        let simulated = catch_unwind(AssertUnwindSafe(|| {
            isolated(job.seed, || run.simulate(told))
        }));
        let result = match simulated {
            Ok(result) => result?.map_err(|error| error.to_string()),
            Err(panic) => Err(format!("it panicked: {}", panic_text(&*panic))),
        };
        let outcome = result.unwrap_or_else(|reason| RunOutcome {
            point: point.number,
            seed: job.seed,
            failed: Some(reason),
            subjects: Vec::new(),
            courses: Vec::new(),
        });
        self.journal
            .add(&outcome)
            .map_err(file_error(&self.directory.join(journal::FILE_NAME)))?;
        let state = if outcome.failed.is_some() {
            FAILED
        } else {
            FINISHED
        };
        job.state.store(state, Ordering::Relaxed);
        Ok(self.left.fetch_sub(1, Ordering::AcqRel) == 1)
    }

    /// Writes the tables from the journal.
    fn write(&self) -> Result<Outcome, LabError> {
        let mut runs = self.journal.read().map_err(file_error(&self.directory))?;
        runs.retain(|run, _| self.planned.contains(run));
        results::write(&self.directory, &self.experiment, &runs)
            .map_err(file_error(&self.directory))?;
        let failed = runs.values().filter_map(|run| {
            let reason = run.failed.clone()?;
            Some((run.point, run.seed, reason))
        });
        Ok(Outcome {
            experiment: self.experiment.name.clone(),
            directory: self.directory.clone(),
            runs: runs.len(),
            planned: self.planned.len(),
            failed: failed.collect(),
        })
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
}
