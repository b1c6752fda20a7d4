//! The parameters that vary in an experiment: the tables `[[sweep]]` or `[[scenario]]`, and
//! `[[run]]`.

use std::collections::BTreeSet;

use serde::Serialize;
use toml::Spanned;
use toml::de::DeValue;

use super::document::{Document, Located, Values};
use super::scenario::{self, Row, SCENARIO_AXIS, Scenario, Trial};
use crate::stack::Selection;
use crate::units::{LinkRate, Size, Span};

/// The axis of the compared controllers.
pub const RUN_AXIS: &str = "run";

/// Columns of the results, whose names no axis can have.
const RESERVED: [&str; 12] = [
    RUN_AXIS,
    SCENARIO_AXIS,
    "experiment",
    "point",
    "seed",
    "subject",
    "index",
    "cc",
    "background",
    "metric",
    "unit",
    "value",
];

/// The most points of an experiment.
const MOST_POINTS: usize = 100_000;

/// A parameter that takes several values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// Its name, for which `$name` stands in the file.
    pub name: String,
    /// Its values, as texts.
    pub values: Vec<String>,
}

impl Axis {
    /// The values in base units, if all are of one kind: seconds, bits per
    /// second, packets per second, packets, bytes, or plain numbers.
    #[must_use]
    pub fn numbers(&self) -> Option<Vec<f64>> {
        let quantities: Option<Vec<(Kind, f64)>> =
            self.values.iter().map(|text| quantity(text)).collect();
        let quantities = quantities?;
        let (first, _) = quantities.first()?;
        let one_kind = quantities.iter().all(|(kind, _)| kind == first);
        one_kind.then(|| quantities.iter().map(|(_, number)| *number).collect())
    }
}

/// Kinds of quantities that are not to be mixed on an axis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Seconds,
    BitsPerSecond,
    PacketsPerSecond,
    Packets,
    Bytes,
}

/// The kind of a quantity, and its number in base units.
pub(super) fn quantity(text: &str) -> Option<(Kind, f64)> {
    let plain = text.parse().ok().filter(|number: &f64| number.is_finite());
    if let Some(number) = plain {
        return Some((Kind::Plain, number));
    }
    if let Ok(span) = text.parse::<Span>() {
        return Some((Kind::Seconds, span.duration().as_secs_f64()));
    }
    if let Ok(rate) = text.parse::<LinkRate>() {
        return Some(match rate {
            LinkRate::Bits(rate) => (Kind::BitsPerSecond, rate.bps() as f64),
            LinkRate::Packets(packets) => (Kind::PacketsPerSecond, packets),
        });
    }
    Some(match text.parse::<Size>().ok()? {
        Size::Packets(packets) => (Kind::Packets, packets.get() as f64),
        Size::Bytes(bytes) => (Kind::Bytes, bytes.get() as f64),
    })
}

/// One of the compared controllers, or combinations of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Its name in tables.
    pub id: String,
    /// Its name for people.
    pub title: String,
    /// The controller for which `$run` stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cc: Option<String>,
}

/// All axes of a document.
pub(super) struct Axes<'t> {
    sweeps: Vec<Sweep<'t>>,
    scenarios: Vec<Row<'t>>,
    runs: Vec<RunRow<'t>>,
    /// The first so many runs are tried everywhere; the others in scenarios of which they are the
    /// reference.
    tried: usize,
}

/// A table `[[sweep]]`: axes whose values go together.
struct Sweep<'t> {
    names: Vec<String>,
    /// The values of each name, of which all names have the same number.
    columns: Vec<Vec<Chosen<'t>>>,
}

/// A value of an axis.
struct Chosen<'t> {
    label: String,
    value: DeValue<'t>,
}

/// A table `[[run]]`.
struct RunRow<'t> {
    run: Run,
    values: Values<'t>,
}

/// One value of every axis.
pub(super) struct Choice<'t> {
    /// Their texts, in the order of the axes.
    pub(super) labels: Vec<String>,
    /// The values that stand for their names.
    pub(super) values: Values<'t>,
    /// The run's controller.
    pub(super) cc: Option<String>,
}

impl<'t> Axes<'t> {
    /// Reads the axes of a document.
    ///
    /// # Errors
    /// Names all problems with them.
    pub(super) fn read(document: &Document<'t>, trial: &Trial) -> Result<Axes<'t>, Vec<Located>> {
        let mut problems = Vec::new();
        let mut names = BTreeSet::new();
        let mut sweeps = Vec::new();
        for table in tables(document, "sweep", &mut problems) {
            match Sweep::read(document, table, &mut names) {
                Ok(sweep) => sweeps.push(sweep),
                Err(problem) => problems.push(problem),
            }
        }
        let mut ids = BTreeSet::new();
        let mut runs = Vec::new();
        for table in tables(document, RUN_AXIS, &mut problems) {
            match RunRow::read(table, &names, &mut ids) {
                Ok(run) => runs.push(run),
                Err(problem) => problems.push(problem),
            }
        }
        let scenarios = scenario::rows(document, trial, &mut problems);
        let mut tried = runs.len();
        if !scenarios.is_empty() {
            for (key, there) in [("sweep", !sweeps.is_empty()), (RUN_AXIS, !runs.is_empty())] {
                if there {
                    problems.push(Located {
                        at: document.find(key),
                        problem: format!(
                            "there are also tables [[{SCENARIO_AXIS}]], in which every controller \
                             is tried; give one or the other"
                        ),
                    });
                }
            }
            tried = trial.controllers.len();
            runs = scenario::runs(&scenarios, trial)
                .into_iter()
                .map(|run| RunRow {
                    values: scenario::run_values(&run),
                    run,
                })
                .collect();
        }
        if runs.is_empty() && problems.is_empty() {
            problems.push(Located {
                at: document.find(RUN_AXIS),
                problem:
                    "there is no [[run]]; give one for each compared controller, with id and cc"
                        .to_owned(),
            });
        }
        let axes = Axes {
            sweeps,
            scenarios,
            runs,
            tried,
        };
        if axes.points().is_none_or(|points| points > MOST_POINTS) {
            problems.push(Located {
                at: document.find("sweep"),
                problem: format!("the axes make more than {MOST_POINTS} points"),
            });
        }
        match problems.is_empty() {
            true => Ok(axes),
            false => Err(problems),
        }
    }

    fn points(&self) -> Option<usize> {
        let mut lengths = self.sweeps.iter().map(Sweep::length);
        let scenarios = self.scenarios.len().max(1);
        let runs = self.runs.len().checked_mul(scenarios)?;
        lengths.try_fold(runs, usize::checked_mul)
    }

    /// The axes with their values, every value once; the runs come last.
    pub(super) fn described(&self) -> Vec<Axis> {
        let axis = |name: &str, labels: &mut dyn Iterator<Item = &String>| {
            let mut values: Vec<String> = Vec::new();
            for label in labels {
                if !values.contains(label) {
                    values.push(label.clone());
                }
            }
            Axis {
                name: name.to_owned(),
                values,
            }
        };
        let mut axes: Vec<Axis> = Vec::new();
        for sweep in &self.sweeps {
            for (name, column) in sweep.names.iter().zip(&sweep.columns) {
                axes.push(axis(name, &mut column.iter().map(|chosen| &chosen.label)));
            }
        }
        if !self.scenarios.is_empty() {
            let ids = &mut self.scenarios.iter().map(|row| &row.scenario.id);
            axes.push(axis(SCENARIO_AXIS, ids));
        }
        axes.push(axis(RUN_AXIS, &mut self.runs.iter().map(|row| &row.run.id)));
        axes
    }

    pub(super) fn scenarios(&self) -> Vec<Scenario> {
        let scenarios = self.scenarios.iter();
        scenarios.map(|row| row.scenario.clone()).collect()
    }

    pub(super) fn runs(&self) -> Vec<Run> {
        self.runs.iter().map(|row| row.run.clone()).collect()
    }

    /// The product of the sweeps and the runs; the runs vary fastest, the first sweep slowest.
    pub(super) fn choices(&self) -> Vec<Choice<'t>> {
        let mut choices = vec![Choice {
            labels: Vec::new(),
            values: Values::new(),
            cc: None,
        }];
        for sweep in &self.sweeps {
            choices = choices
                .iter()
                .flat_map(|choice| (0..sweep.length()).map(|row| choice.with(sweep, row)))
                .collect();
        }
        if self.scenarios.is_empty() {
            return choices
                .iter()
                .flat_map(|choice| self.runs.iter().map(|run| choice.with_run(run)))
                .collect();
        }
        self.scenarios
            .iter()
            .flat_map(|row| self.runs_of(row).map(|run| Choice::of(row).with_run(run)))
            .collect()
    }

    /// The runs in a scenario.
    fn runs_of(&self, row: &Row<'t>) -> impl Iterator<Item = &RunRow<'t>> {
        let reference = row.scenario.reference.clone();
        let (tried, others) = self.runs.split_at(self.tried.min(self.runs.len()));
        let of_reference = move |own: &&RunRow<'t>| reference.is_some() && own.run.cc == reference;
        tried.iter().chain(others.iter().filter(of_reference))
    }
}

impl<'t> Choice<'t> {
    fn of(row: &Row<'t>) -> Choice<'t> {
        Choice {
            labels: vec![row.scenario.id.clone()],
            values: row.values.clone(),
            cc: None,
        }
    }

    fn with(&self, sweep: &Sweep<'t>, row: usize) -> Choice<'t> {
        let mut labels = self.labels.clone();
        let mut values = self.values.clone();
        for (name, column) in sweep.names.iter().zip(&sweep.columns) {
            if let Some(chosen) = column.get(row) {
                labels.push(chosen.label.clone());
                values.insert(name.clone(), chosen.value.clone());
            }
        }
        Choice {
            labels,
            values,
            cc: None,
        }
    }

    fn with_run(&self, row: &RunRow<'t>) -> Choice<'t> {
        let mut labels = self.labels.clone();
        labels.push(row.run.id.clone());
        let mut values = self.values.clone();
        values.extend(row.values.clone());
        Choice {
            labels,
            values,
            cc: row.run.cc.clone(),
        }
    }
}

/// The tables of an array of tables.
pub(super) fn tables<'d, 't>(
    document: &'d Document<'t>,
    key: &str,
    problems: &mut Vec<Located>,
) -> Vec<&'d Spanned<DeValue<'t>>> {
    let Some(value) = document.root().get(key) else {
        return Vec::new();
    };
    match value.get_ref().as_array() {
        Some(array) => array.iter().collect(),
        None => {
            problems.push(Located {
                at: value.span(),
                problem: format!("`{key}` must be tables [[{key}]]"),
            });
            Vec::new()
        }
    }
}

/// The keys of a table and their values, in the order of the file.
pub(super) fn entries<'d, 't>(
    table: &'d Spanned<DeValue<'t>>,
    key: &str,
) -> Result<Vec<Entry<'d, 't>>, Located> {
    let Some(entries) = table.get_ref().as_table() else {
        return Err(Located {
            at: table.span(),
            problem: format!("`{key}` must be tables [[{key}]]"),
        });
    };
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    Ok(entries)
}

pub(super) type Entry<'d, 't> = (
    &'d Spanned<toml::de::DeString<'t>>,
    &'d Spanned<DeValue<'t>>,
);

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

/// Refuses names that `$name` or a column of the results cannot have.
pub(super) fn check_name(name: &str, taken: bool) -> Result<(), String> {
    if !is_name(name) {
        return Err(format!(
            "`{name}` cannot name an axis; use letters, digits, '-' and '_', first a letter"
        ));
    }
    if RESERVED.contains(&name) {
        return Err(format!(
            "an axis cannot be called `{name}`, as a column of the results is"
        ));
    }
    match taken {
        true => Err(format!("there is another axis `{name}`")),
        false => Ok(()),
    }
}

impl<'t> Sweep<'t> {
    fn read(
        document: &Document<'t>,
        table: &Spanned<DeValue<'t>>,
        names: &mut BTreeSet<String>,
    ) -> Result<Sweep<'t>, Located> {
        let mut sweep = Sweep {
            names: Vec::new(),
            columns: Vec::new(),
        };
        for (key, value) in entries(table, "sweep")? {
            let name = key.get_ref().as_ref();
            check_name(name, !names.insert(name.to_owned())).map_err(|problem| Located {
                at: key.span(),
                problem,
            })?;
            let wrong = |problem: String| Located {
                at: value.span(),
                problem,
            };
            let array = value.get_ref().as_array();
            let Some(array) = array.filter(|array| !array.is_empty()) else {
                return Err(wrong(format!(
                    "the axis `{name}` must be a list of at least one value"
                )));
            };
            let column: Vec<Chosen> = array
                .iter()
                .map(|value| Chosen {
                    label: match value.get_ref() {
                        DeValue::String(text) => text.to_string(),
                        _ => document.source(value).to_owned(),
                    },
                    value: value.get_ref().clone(),
                })
                .collect();
            if let Some(first) = sweep.columns.first()
                && first.len() != column.len()
            {
                return Err(wrong(format!(
                    "the axes of one [[sweep]] vary together, but `{name}` has {} values and `{}` has {}",
                    column.len(),
                    sweep.names[0],
                    first.len()
                )));
            }
            sweep.names.push(name.to_owned());
            sweep.columns.push(column);
        }
        match sweep.names.is_empty() {
            false => Ok(sweep),
            true => Err(Located {
                at: table.span(),
                problem: "this [[sweep]] has no axis; give one as name = [value, …]".to_owned(),
            }),
        }
    }

    fn length(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }
}

impl<'t> RunRow<'t> {
    fn read(
        table: &Spanned<DeValue<'t>>,
        axes: &BTreeSet<String>,
        ids: &mut BTreeSet<String>,
    ) -> Result<RunRow<'t>, Located> {
        let (mut id, mut title, mut cc) = (None, None, None);
        let mut values = Values::new();
        for (key, value) in entries(table, RUN_AXIS)? {
            let name = key.get_ref().as_ref();
            let Some(text) = value.get_ref().as_str() else {
                return Err(Located {
                    at: value.span(),
                    problem: format!("`{name}` of a run must be a text"),
                });
            };
            match name {
                "id" => {
                    check_id("run", text, !ids.insert(text.to_owned())).map_err(|problem| {
                        Located {
                            at: value.span(),
                            problem,
                        }
                    })?;
                    id = Some(text.to_owned());
                }
                "title" => title = Some(text.to_owned()),
                "cc" => {
                    text.parse::<Selection>().map_err(|error| Located {
                        at: value.span(),
                        problem: error.to_string(),
                    })?;
                    cc = Some(text.to_owned());
                    values.insert(RUN_AXIS.to_owned(), value.get_ref().clone());
                }
                _ => {
                    check_name(name, axes.contains(name)).map_err(|problem| Located {
                        at: key.span(),
                        problem,
                    })?;
                    values.insert(name.to_owned(), value.get_ref().clone());
                }
            }
        }
        let id = id.ok_or_else(|| Located {
            at: table.span(),
            problem: "this [[run]] has no id".to_owned(),
        })?;
        Ok(RunRow {
            run: Run {
                title: title.unwrap_or_else(|| id.clone()),
                id,
                cc,
            },
            values,
        })
    }
}

/// True if a text can name a file and a column.
pub(super) fn is_id(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(allowed)
}

/// Refuses a text that cannot name a run or a flow.
pub(super) fn check_id(what: &str, id: &str, taken: bool) -> Result<(), String> {
    if !is_id(id) {
        return Err(format!(
            "\"{id}\" cannot name a {what}; use letters, digits, '.', '_' and '-', first a letter or digit"
        ));
    }
    match taken {
        true => Err(format!("there is another {what} \"{id}\"")),
        false => Ok(()),
    }
}
