//! Experiments: files that describe flows, their network and the statements of papers about them.
//! docs/experiments.md describes the format.

pub mod analysis;
mod axes;
mod choice;
mod claim;
mod document;
mod error;
mod file;
pub mod goal;
mod library;
pub mod limit;
pub mod metric;
pub mod network;
mod plain_path;
mod scenario;
mod setup;
pub mod traffic;

pub use axes::{Axis, RUN_AXIS, Run};
pub use choice::Where;
pub use claim::{Across, AcrossName, Claim, Crossing, Override, Plot, PlotKind, Quantity, Table};
pub use error::{ExperimentError, Problem};
pub use file::{Series, Trace};
pub use goal::Goal;
pub use library::{Library, LibraryError};
pub use limit::Limit;
pub use plain_path::PlainPath;
pub use scenario::{SCENARIO_AXIS, Scenario, Trial};
pub use setup::{FlowSetup, Setup};

use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::invalid::{Invalid, require};
use crate::stack::Stack;
use analysis::Analysis;
use axes::Axes;
use claim::Subjects;
use document::{Document, Located, problem, unknown_name};
use file::{Fast, File};
use limit::Variables;

/// An experiment, checked.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The file's path in its [`Library`], or the file's name, without `.toml`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The title, for people.
    pub title: String,
    /// The place in a paper.
    pub source: String,
    /// A description, with the choices that were made and their reasons.
    pub about: String,
    /// The parameters that vary; the runs come last.
    pub axes: Vec<Axis>,
    /// The compared controllers.
    pub runs: Vec<Run>,
    /// The scenarios, if it is made of such.
    pub scenarios: Vec<Scenario>,
    /// The points: all combinations of the values of the axes.
    pub points: Vec<Point>,
    /// The command that runs it again.
    pub command: String,
    /// The folder of its results in that of a sweep.
    pub directory: PathBuf,
    /// The first seed that is run at every point.
    pub first_seed: u64,
    /// The number of seeds that are run, from the first one up.
    pub seeds: u64,
    /// The paper whose formulas are evaluated for every point.
    pub analysis: Option<Analysis>,
    /// The values that are kept over time.
    pub series: Option<Series>,
    /// The flows whose qlogs are kept.
    pub traces: Vec<Trace>,
    /// The tables of the report.
    pub tables: Vec<Table>,
    /// The plots of the report.
    pub plots: Vec<Plot>,
    /// The statements of papers.
    pub claims: Vec<Claim>,
    /// The limits that every controller must keep.
    pub limits: Vec<Limit>,
    /// The goals that controllers are developed towards.
    pub goals: Vec<Goal>,
    pub(crate) fast: Fast,
}

/// A point of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Its number in the whole experiment, from 0.
    pub number: usize,
    /// The value of every axis, as a text.
    pub labels: Vec<String>,
    /// The setup of a run.
    pub setup: Setup,
}

impl Experiment {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Names the file, and line and column of each problem in it.
    pub fn read(path: &Path) -> Result<Experiment, ExperimentError> {
        Experiment::read_for(path, &Trial::default())
    }

    /// Reads and checks a file; if it has scenarios, it is run as the trial says.
    ///
    /// # Errors
    /// Those of [`read`](Experiment::read).
    pub fn read_for(path: &Path, trial: &Trial) -> Result<Experiment, ExperimentError> {
        let path = path.to_path_buf();
        let Some(name) = library::name_of(&path) else {
            return Err(ExperimentError::Name { path });
        };
        match fs::read_to_string(&path) {
            Ok(text) => Experiment::parse_for(&name, path, &text, trial),
            Err(error) => Err(ExperimentError::Read { path, error }),
        }
    }

    /// Checks a text that was read from `path`.
    ///
    /// # Errors
    /// Those of [`read`](Experiment::read).
    pub fn parse(name: &str, path: PathBuf, text: &str) -> Result<Experiment, ExperimentError> {
        Experiment::parse_for(name, path, text, &Trial::default())
    }

    fn parse_for(
        name: &str,
        path: PathBuf,
        text: &str,
        trial: &Trial,
    ) -> Result<Experiment, ExperimentError> {
        match read(text, trial) {
            Ok(experiment) => Ok(Experiment {
                name: name.to_owned(),
                command: format!("cargo xtask papers {name}"),
                directory: PathBuf::from(name),
                path,
                ..experiment
            }),
            Err(located) => {
                let problems = located.into_iter().map(|located| problem(text, located));
                let problems: BTreeSet<Problem> = problems.collect();
                Err(ExperimentError::Invalid {
                    path,
                    problems: problems.into_iter().collect(),
                })
            }
        }
    }

    /// True if it has a table `[fast]`.
    #[must_use]
    pub fn has_fast(&self) -> bool {
        self.fast != Fast::default()
    }

    /// The part of it that the table `[fast]` keeps.
    #[must_use]
    pub fn fast(mut self) -> Experiment {
        let Fast {
            seeds,
            points,
            duration,
        } = &self.fast;
        self.points
            .retain(|point| points.includes(&self.axes, &point.labels));
        self.seeds = seeds.map_or(self.seeds, |seeds| seeds.get().min(self.seeds));
        if let Some(duration) = duration {
            for Point { setup, .. } in &mut self.points {
                setup.duration = setup.duration.min(duration.duration());
            }
        }
        self
    }

    /// The files beside the experiment's from which its links are read.
    #[must_use]
    pub fn trace_files(&self) -> BTreeSet<PathBuf> {
        let directory = self.path.parent().unwrap_or(Path::new(""));
        let points = self.points.iter();
        let files = points.flat_map(|point| point.setup.network.trace_files());
        files.map(|file| directory.join(file)).collect()
    }

    /// The seeds that are run at every point.
    #[must_use]
    pub fn all_seeds(&self) -> RangeInclusive<u64> {
        self.first_seed..=self.first_seed.saturating_add(self.seeds - 1)
    }

    /// True if the qlog of a member of a flow is kept at a point, under the first seed. Only quiche's
    /// are.
    #[must_use]
    pub fn keeps_trace(&self, point: &Point, flow: &str, member: usize) -> bool {
        let mut flows = point.setup.flows.iter();
        let setup = flows.find(|setup| setup.name == flow);
        if setup.is_some_and(|setup| Stack::of(&setup.cc).0 != Stack::Quiche) {
            return false;
        }
        self.traces.iter().any(|trace| {
            trace.flow == flow
                && (member == 0 || trace.every_member)
                && trace.points.includes(&self.axes, &point.labels)
        })
    }

    /// The place of a qlog in the experiment's folder of results.
    #[must_use]
    pub fn trace_file(&self, point: &Point, flow: &str, member: usize) -> PathBuf {
        let folder = match (&self.axes[..], &point.labels[..]) {
            ([_], [run]) => run.clone(),
            _ => point.number.to_string(),
        };
        Path::new("traces")
            .join(folder)
            .join(format!("{flow}-{member}.server.sqlog"))
    }
}

/// Reads a whole text; name, path and text are to be filled in.
fn read(text: &str, trial: &Trial) -> Result<Experiment, Vec<Located>> {
    let document = Document::parse(text)?;
    let axes = Axes::read(&document, trial)?;
    let scenarios = axes.scenarios();
    let described = axes.described();
    let mut problems: Vec<Located> = Vec::new();
    let mut first: Option<File> = None;
    let mut points = Vec::new();
    for (number, choice) in axes.choices().into_iter().enumerate() {
        let file: File = match document.read(&choice.values) {
            Ok(file) => file,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        match Setup::new(&file, choice.cc.as_deref()) {
            Ok(setup) => points.push(Point {
                number,
                labels: choice.labels,
                setup,
            }),
            Err(invalid) => {
                problems.extend(invalid.iter().map(|invalid| document.locate(invalid)));
            }
        }
        first.get_or_insert(file);
    }
    let (Some(mut file), true) = (first, problems.is_empty()) else {
        return Err(problems);
    };
    check_rest(&mut file, &described, &scenarios, &points).map_err(|invalid| {
        invalid
            .iter()
            .map(|one| document.locate(one))
            .collect::<Vec<_>>()
    })?;
    Ok(Experiment {
        name: String::new(),
        path: PathBuf::new(),
        title: file.title,
        source: file.source,
        about: file.about,
        axes: described,
        runs: axes.runs(),
        scenarios,
        points,
        command: String::new(),
        directory: PathBuf::new(),
        first_seed: 1,
        seeds: file.seeds.get(),
        analysis: file.analysis,
        series: file.series,
        traces: file.trace,
        tables: file.table,
        plots: file.plot,
        claims: file.claim,
        limits: file.limit,
        goals: file.goal,
        fast: file.fast,
    })
}

/// Checks all references to axes, flows and links.
fn check_rest(
    file: &mut File,
    axes: &[Axis],
    scenarios: &[Scenario],
    points: &[Point],
) -> Result<(), Vec<Invalid>> {
    // Points may have flows of their own.
    let mut flows: Vec<String> = Vec::new();
    for flow in points.iter().flat_map(|point| &point.setup.flows) {
        if !flows.contains(&flow.name) {
            flows.push(flow.name.clone());
        }
    }
    let links = points
        .iter()
        .flat_map(|point| point.setup.network.measured_links());
    let links: BTreeSet<&str> = links.collect();
    let labels: Vec<Vec<String>> = points.iter().map(|point| point.labels.clone()).collect();
    let mut names: Vec<String> = flows.iter().map(|name| format!("flow/{name}")).collect();
    names.extend(links.iter().map(|name| format!("link/{name}")));
    names.extend(["run".to_owned(), "analysis".to_owned()]);
    let traced: Vec<String> = file.trace.iter().map(|trace| trace.flow.clone()).collect();
    let subjects = Subjects {
        axes,
        labels: &labels,
        names,
        traced: traced.iter().map(String::as_str).collect(),
        series: file.series.is_some(),
    };

    let mut problems: Vec<Invalid> = Vec::new();
    let mut note = |result: Result<(), Invalid>| problems.extend(result.err());
    for (number, trace) in file.trace.iter_mut().enumerate() {
        let place = format!("trace[{number}]");
        note(require(
            flows.contains(&trace.flow),
            &format!("{place}.flow"),
            || {
                let flows: Vec<&str> = flows.iter().map(String::as_str).collect();
                unknown_name("flow", &trace.flow, &flows)
            },
        ));
        note(subjects.points(&mut trace.points, &place));
    }
    for (number, table) in file.table.iter_mut().enumerate() {
        note(table.check(&format!("table[{number}]"), &subjects));
    }
    for (number, plot) in file.plot.iter_mut().enumerate() {
        note(plot.check(&format!("plot[{number}]"), &subjects));
    }
    let mut ids = BTreeSet::new();
    for (number, claim) in file.claim.iter_mut().enumerate() {
        let place = format!("claim[{number}]");
        note(claim.check(&place, &subjects));
        let new = ids.insert(claim.id.clone());
        note(require(new, &format!("{place}.id"), || {
            format!("there is another claim \"{}\"", claim.id)
        }));
    }
    let variables: Vec<(&Scenario, Variables)> = scenarios
        .iter()
        .filter_map(|scenario| {
            let point = points.iter().find(|point| point.labels[0] == scenario.id)?;
            let mut variables = limit::variables(scenario, &point.setup);
            if scenario.reference.is_some() {
                variables.insert(limit::REFERENCE.to_owned(), 1.0);
            }
            Some((scenario, variables))
        })
        .collect();
    for (number, limit) in file.limit.iter_mut().enumerate() {
        let place = format!("limit[{number}]");
        note(require(!scenarios.is_empty(), &place, || {
            format!("a limit needs tables [[{SCENARIO_AXIS}]]")
        }));
        note(limit.check(&place, &subjects, &variables));
    }
    for (number, goal) in file.goal.iter_mut().enumerate() {
        let place = format!("goal[{number}]");
        note(require(!scenarios.is_empty(), &place, || {
            format!("a goal needs tables [[{SCENARIO_AXIS}]]")
        }));
        note(goal.check(&place, &subjects, &variables));
    }
    note(subjects.points(&mut file.fast.points, "fast"));
    let start = points.iter().map(|point| point.setup.measure_from).max();
    if let Some(duration) = file.fast.duration {
        note(require(
            Some(duration.duration()) > start,
            "fast.duration",
            || format!("{duration} is not after measure-from"),
        ));
        let change = points
            .iter()
            .filter_map(|point| point.setup.change_at)
            .max();
        note(require(
            Some(duration.duration()) > change,
            "fast.duration",
            || format!("{duration} is not after change-at"),
        ));
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems),
    }
}
