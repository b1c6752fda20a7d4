//! The files that a sweep leaves of an experiment, beside its journal.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gallop::catalog::{Algorithm, CATALOG};
use gallop_files::WholeFile;
use parquet::data_type::ByteArray;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::outcome::{RunOutcome, Subject, Value};
use super::table::{Column, Table};
use crate::experiment::{
    Axis, Claim, Experiment, FlowSetup, PlainPath, Plot, Point, Run, Table as Shown, Trace,
};
use crate::stack::{Selection, Stack};
use crate::units::stream_bytes_per_packet;

/// The table of results.
pub(super) const RESULTS: &str = "results.parquet";

/// The table of values over time.
pub(super) const SERIES: &str = "series.parquet";

/// The list of the runs that failed, with the reasons.
pub(super) const FAILURES: &str = "failures.json";

/// The experiment, for the report.
pub(super) const EXPERIMENT: &str = "experiment.json";

/// Runs by point and seed.
pub(super) type Runs = BTreeMap<(usize, u64), RunOutcome>;

/// Writes all files into `directory`; those of an earlier sweep are replaced or removed.
pub(super) fn write(directory: &Path, experiment: &Experiment, runs: &Runs) -> io::Result<()> {
    describe(experiment)
        .and_then(|text| gallop_files::write(&directory.join(EXPERIMENT), text.as_bytes()))?;
    results(directory, experiment, runs)?;
    let has_series = runs.values().any(|run| !run.courses.is_empty());
    match has_series {
        true => series(directory, experiment, runs)?,
        false => remove(&directory.join(SERIES))?,
    }
    let failures: Vec<Json> = runs
        .values()
        .filter_map(|run| {
            let reason = run.failed.as_ref()?;
            Some(json!({ "point": run.point, "seed": run.seed, "reason": reason }))
        })
        .collect();
    match failures.is_empty() {
        true => remove(&directory.join(FAILURES)),
        false => gallop_files::write(&directory.join(FAILURES), pretty(&failures)?.as_bytes()),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn pretty(value: &impl Serialize) -> io::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

fn write_table(table: &Table, path: &Path) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    table.write(&mut file).map_err(io::Error::other)?;
    file.finish()
}

/// The experiment, for the report.
fn describe(experiment: &Experiment) -> io::Result<String> {
    #[derive(Serialize)]
    #[serde(rename_all = "kebab-case")]
    struct Described<'a> {
        name: &'a str,
        title: &'a str,
        source: &'a str,
        about: &'a str,
        command: &'a str,
        packet_bytes: u64,
        first_seed: u64,
        seeds: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        series_every_s: Option<f64>,
        axes: &'a [Axis],
        points: Vec<PointDescribed<'a>>,
        controllers: Vec<ControllerDescribed>,
        runs: &'a [Run],
        tables: &'a [Shown],
        plots: &'a [Plot],
        claims: &'a [Claim],
        traces: &'a [Trace],
    }
    let datagram = experiment.points.first();
    let datagram = datagram.map_or(0, |point| point.setup.datagram_bytes);
    let points = experiment.points.iter().map(|point| {
        let names = experiment.axes.iter().map(|axis| axis.name.clone());
        let labels = point.labels.iter().map(|label| Json::from(label.as_str()));
        let flows = point.setup.flows.iter().zip(&point.setup.places);
        PointDescribed {
            point: point.number,
            axes: names.zip(labels).collect(),
            path: PlainPath::of(&point.setup).ok(),
            flows: flows
                .map(|(flow, place)| FlowDescribed::new(experiment, point, flow, place.count))
                .collect(),
        }
    });
    pretty(&Described {
        name: &experiment.name,
        title: &experiment.title,
        source: &experiment.source,
        about: &experiment.about,
        command: &experiment.command,
        packet_bytes: stream_bytes_per_packet(datagram),
        first_seed: experiment.first_seed,
        seeds: experiment.seeds,
        series_every_s: experiment
            .series
            .map(|series| series.every.duration().as_secs_f64()),
        axes: &experiment.axes,
        points: points.collect(),
        controllers: controllers(experiment),
        runs: &experiment.runs,
        tables: &experiment.tables,
        plots: &experiment.plots,
        claims: &experiment.claims,
        traces: &experiment.traces,
    })
}

/// A point, for the report.
#[derive(Serialize)]
struct PointDescribed<'a> {
    point: usize,
    axes: serde_json::Map<String, Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PlainPath>,
    flows: Vec<FlowDescribed<'a>>,
}

/// A flow at a point, for the report.
#[derive(Serialize)]
struct FlowDescribed<'a> {
    name: &'a str,
    cc: &'a str,
    count: usize,
    background: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<BTreeMap<&'static str, f64>>,
    /// The kept qlogs, the first member's first.
    traces: Vec<PathBuf>,
}

impl FlowDescribed<'_> {
    fn new<'a>(
        experiment: &Experiment,
        point: &Point,
        flow: &'a FlowSetup,
        count: usize,
    ) -> FlowDescribed<'a> {
        let kept = (0..count).filter(|&member| experiment.keeps_trace(point, &flow.name, member));
        FlowDescribed {
            name: &flow.name,
            cc: &flow.cc,
            count,
            background: flow.background,
            parameters: parameters(&flow.cc),
            traces: kept
                .map(|member| experiment.trace_file(point, &flow.name, member))
                .collect(),
        }
    }
}

/// The options of a controller of the catalogue that are numbers; others have none.
fn parameters(cc: &str) -> Option<BTreeMap<&'static str, f64>> {
    let algorithm: Algorithm = cc.parse().ok()?;
    let entry = CATALOG
        .iter()
        .find(|entry| entry.name == algorithm.name())?;
    let value = |name| Some((name, algorithm.options().number_if_any(name)?));
    Some(
        entry
            .options
            .iter()
            .filter_map(|option| value(option.name))
            .collect(),
    )
}

/// A controller, for the report.
#[derive(Serialize)]
struct ControllerDescribed {
    name: String,
    summary: &'static str,
    /// The QUIC stack that ships it, if it is not of the catalogue.
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<&'static str>,
}

/// The controllers of an experiment, each once.
fn controllers(experiment: &Experiment) -> Vec<ControllerDescribed> {
    let mut all: Vec<ControllerDescribed> = Vec::new();
    let flows = experiment
        .points
        .iter()
        .flat_map(|point| &point.setup.flows);
    for flow in flows {
        let Ok(selection) = flow.cc.parse::<Selection>() else {
            continue;
        };
        if all.iter().all(|known| known.name != selection.name()) {
            all.push(ControllerDescribed {
                name: selection.name().to_owned(),
                summary: selection.summary(),
                stack: (selection.is_built_in() && selection.stack() != Stack::Tcp)
                    .then(|| selection.stack().as_str()),
            });
        }
    }
    all
}

/// The columns that both tables begin with, built row by row.
struct Keys<'a> {
    experiment: &'a Experiment,
    numbers: Vec<Option<Vec<f64>>>,
    /// The indices of each point's values among those of the axes.
    positions: BTreeMap<usize, Vec<usize>>,
    points: Vec<i64>,
    seeds: Vec<i64>,
    /// The value of each axis in every row, as an index into its values.
    axes: Vec<Vec<usize>>,
    subjects: Vec<ByteArray>,
    indices: Vec<i64>,
    ccs: Vec<ByteArray>,
    backgrounds: Vec<bool>,
    metrics: Vec<ByteArray>,
    units: Vec<ByteArray>,
}

impl<'a> Keys<'a> {
    fn new(experiment: &'a Experiment) -> Keys<'a> {
        let position = |(axis, label): (&Axis, &String)| {
            let position = axis.values.iter().position(|value| value == label);
            position.unwrap_or(0)
        };
        let positions = experiment.points.iter().map(|point| {
            let values = experiment.axes.iter().zip(&point.labels).map(position);
            (point.number, values.collect())
        });
        Keys {
            experiment,
            positions: positions.collect(),
            numbers: experiment.axes.iter().map(|axis| axis.numbers()).collect(),
            points: Vec::new(),
            seeds: Vec::new(),
            axes: vec![Vec::new(); experiment.axes.len()],
            subjects: Vec::new(),
            indices: Vec::new(),
            ccs: Vec::new(),
            backgrounds: Vec::new(),
            metrics: Vec::new(),
            units: Vec::new(),
        }
    }

    fn row(&mut self, run: &RunOutcome, subject: &Subject, metric: &str, unit: &str) {
        self.points.push(run.point as i64);
        self.seeds.push(run.seed as i64);
        if let Some(positions) = self.positions.get(&run.point) {
            for (column, position) in self.axes.iter_mut().zip(positions) {
                column.push(*position);
            }
        }
        self.subjects.push(subject.subject.as_str().into());
        self.indices.push(subject.index as i64);
        self.ccs.push(subject.cc.as_str().into());
        self.backgrounds.push(subject.background);
        self.metrics.push(metric.into());
        self.units.push(unit.into());
    }

    /// The table with these columns and `more` before the unit.
    fn table(self, more: Vec<(&str, Column)>) -> Table {
        let mut table = Table::default();
        let rows = self.points.len();
        let name = ByteArray::from(self.experiment.name.as_str());
        table.column("experiment", Column::Text(vec![name; rows]));
        table.column("point", Column::Whole(self.points));
        table.column("seed", Column::Whole(self.seeds));
        for ((axis, numbers), indices) in
            self.experiment.axes.iter().zip(self.numbers).zip(self.axes)
        {
            let texts: Vec<ByteArray> = axis
                .values
                .iter()
                .map(|text| text.as_str().into())
                .collect();
            let column = indices.iter().map(|&index| texts[index].clone());
            table.column(&axis.name, Column::Text(column.collect()));
            if let Some(numbers) = numbers {
                let column = indices.iter().map(|&index| numbers[index]);
                let name = format!("{}_value", axis.name);
                table.column(&name, Column::Number(column.collect()));
            }
        }
        table.column("subject", Column::Text(self.subjects));
        table.column("index", Column::Whole(self.indices));
        table.column("cc", Column::Text(self.ccs));
        table.column("background", Column::Switch(self.backgrounds));
        table.column("metric", Column::Text(self.metrics));
        table.column("unit", Column::Text(self.units));
        for (name, column) in more {
            table.column(name, column);
        }
        table
    }
}

fn results(directory: &Path, experiment: &Experiment, runs: &Runs) -> io::Result<()> {
    write_table(&results_table(experiment, runs), &directory.join(RESULTS))
}

/// Writes the results of several experiments, which have the same axes, into one table.
pub(super) fn write_together(
    path: &Path,
    experiments: impl Iterator<Item = io::Result<(Experiment, Runs)>>,
) -> io::Result<()> {
    let mut whole = Table::default();
    for one in experiments {
        let (experiment, runs) = one?;
        let table = results_table(&experiment, &runs);
        if !whole.names().is_empty() && whole.names() != table.names() {
            let problem = format!("{} has other axes than the others", experiment.name);
            return Err(io::Error::other(problem));
        }
        whole.append(table);
    }
    write_table(&whole, path)
}

fn results_table(experiment: &Experiment, runs: &Runs) -> Table {
    let mut keys = Keys::new(experiment);
    let mut numbers = Vec::new();
    for run in runs.values() {
        let failed = Subject {
            values: vec![Value("failed".into(), "".into(), 1.0)],
            ..Subject::new("run".to_owned(), Vec::new())
        };
        let mut subjects: Vec<&Subject> = match &run.failed {
            Some(_) => vec![&failed],
            None => run.subjects.iter().collect(),
        };
        subjects.sort_by_key(|subject| (&subject.subject, subject.index));
        for subject in subjects {
            let mut values: Vec<&Value> = subject.values.iter().collect();
            values.sort_by_key(|value| &value.0);
            for Value(metric, unit, number) in values {
                keys.row(run, subject, metric, unit);
                numbers.push(*number);
            }
        }
    }
    keys.table(vec![("value", Column::Number(numbers))])
}

fn series(directory: &Path, experiment: &Experiment, runs: &Runs) -> io::Result<()> {
    let mut keys = Keys::new(experiment);
    let every = experiment
        .series
        .map_or(0.0, |series| series.every.duration().as_secs_f64());
    let (mut times, mut numbers) = (Vec::new(), Vec::new());
    for run in runs.values() {
        let mut courses: Vec<_> = run.courses.iter().collect();
        courses.sort_by_key(|course| (&course.subject, course.index, &course.metric));
        for course in courses {
            let subject = Subject {
                index: course.index,
                cc: course.cc.clone(),
                background: course.background,
                ..Subject::new(course.subject.clone(), Vec::new())
            };
            for (number, value) in course.values.iter().enumerate() {
                let Some(value) = value else { continue };
                keys.row(run, &subject, &course.metric, &course.unit);
                times.push((number + 1) as f64 * every);
                numbers.push(*value);
            }
        }
    }
    let table = keys.table(vec![
        ("time_s", Column::Number(times)),
        ("value", Column::Number(numbers)),
    ]);
    write_table(&table, &directory.join(SERIES))
}
