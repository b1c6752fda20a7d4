//! The report of an evaluation: every controller in every scenario, with verdicts, as
//! `evaluation.json` has it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::goal::{GoalJudge, ShownGoal};
use super::verdict::{Judged, Verdict, judge};
use super::{Evaluation, family_id};
use crate::experiment::limit::{Side, variables};
use crate::experiment::{Experiment, Point, Run, Scenario, Setup};
use crate::lab::{Outcome, Sample};
use crate::results::{Estimate, Measured};
use crate::stack::Selection;

/// An evaluation and what came of it.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The title, for people.
    pub title: String,
    /// The command that makes it again.
    pub command: String,
    /// The first seed.
    pub first_seed: u64,
    /// The number of seeds, if it is not the families'.
    pub seeds: Option<u64>,
    /// True if only the fast part was run.
    pub fast: bool,
    /// The seed by which parameters were drawn anew.
    pub fresh: Option<u64>,
    /// The controllers, in their order.
    pub controllers: Vec<Tried>,
    /// The families with their scenarios.
    pub families: Vec<Family>,
    /// The number of scenarios that each controller passed.
    pub summary: Vec<Summary>,
    /// A sentence for everything that was left out.
    pub not_run: Vec<String>,
}

/// A controller that is evaluated.
#[derive(Debug, Serialize)]
pub struct Tried {
    id: String,
    cc: String,
    title: String,
    summary: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<&'static str>,
}

impl Tried {
    /// Its name in tables.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn new(run: &Run) -> Tried {
        let cc = run.cc.clone().unwrap_or_default();
        let selection = cc.parse::<Selection>().ok();
        Tried {
            id: run.id.clone(),
            title: run.title.clone(),
            summary: selection.as_ref().map_or("", Selection::summary),
            stack: selection
                .filter(Selection::is_built_in)
                .map(|selection| selection.stack().as_str()),
            cc,
        }
    }
}

/// A family of scenarios.
#[derive(Debug, Serialize)]
pub struct Family {
    /// Its name.
    pub id: String,
    /// Its name for people.
    pub title: String,
    about: String,
    file: String,
    directory: String,
    /// The scenarios, in the file's order.
    pub scenarios: Vec<Shown>,
    /// The goals, in the file's order.
    pub goals: Vec<ShownGoal>,
}

/// A scenario with the cells of all controllers.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// Its name in the family.
    pub id: String,
    /// Its name for people.
    pub title: String,
    about: String,
    /// The number of seeds.
    pub seeds: u64,
    parameters: BTreeMap<String, String>,
    /// The limits.
    pub limits: Vec<ShownLimit>,
    /// The controllers in this scenario, in their order.
    pub cells: Vec<Cell>,
}

/// A limit in a scenario.
#[derive(Debug, Serialize)]
pub struct ShownLimit {
    id: String,
    /// The metric.
    pub metric: String,
    /// The subject.
    pub subject: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<String>,
    why: String,
}

/// A controller in a scenario.
#[derive(Debug, Serialize)]
pub struct Cell {
    /// The controller's id.
    pub controller: String,
    /// The verdict: that of the worst limit.
    pub verdict: Verdict,
    /// The distance of the worst limit.
    pub distance: Option<f64>,
    seeds_run: usize,
    failures: Vec<String>,
    /// The limits, in the scenario's order.
    pub limits: Vec<Judged>,
    throughput_bps: Option<Estimate>,
    delay_s: Option<Estimate>,
    power: Option<Estimate>,
    against_best: Option<AgainstBest>,
    shares: Vec<Share>,
    points: Vec<usize>,
    traces: Vec<String>,
    command: String,
}

impl Cell {
    /// The runs that failed: seed and reason.
    #[must_use]
    pub fn failures(&self) -> &[String] {
        &self.failures
    }
}

/// The ratios to the best of the other controllers, and their names.
#[derive(Debug, Default, Serialize)]
struct AgainstBest {
    throughput: Option<f64>,
    delay: Option<f64>,
    power: Option<f64>,
    of: BTreeMap<&'static str, String>,
}

/// The throughput of a member of a flow.
#[derive(Debug, Serialize)]
struct Share {
    subject: String,
    index: usize,
    cc: String,
    throughput_bps: f64,
}

/// A controller's passed scenarios.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// The controller's id.
    pub controller: String,
    /// Scenarios that it passed …
    pub passed: usize,
    /// … of so many that were run.
    pub of: usize,
    /// The same by family.
    pub families: BTreeMap<String, Passed>,
}

/// Passed scenarios of a family.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Passed {
    /// Scenarios that were passed …
    pub passed: usize,
    /// … of so many that were run.
    pub of: usize,
}

impl Report {
    pub(super) fn new(evaluation: &Evaluation, families: Vec<Family>) -> Report {
        let controllers = evaluation.controllers.iter();
        let mut summary: Vec<Summary> = controllers
            .clone()
            .map(|run| Summary {
                controller: run.id.clone(),
                passed: 0,
                of: 0,
                families: BTreeMap::new(),
            })
            .collect();
        let mut missing = 0;
        for family in &families {
            for cell in family.scenarios.iter().flat_map(|scenario| &scenario.cells) {
                let Some(own) = summary
                    .iter_mut()
                    .find(|own| own.controller == cell.controller)
                else {
                    continue;
                };
                let of_family = own.families.entry(family.id.clone()).or_default();
                if cell.verdict == Verdict::Missing {
                    missing += 1;
                    continue;
                }
                let passed = usize::from(cell.verdict == Verdict::Pass);
                of_family.of += 1;
                of_family.passed += passed;
                own.of += 1;
                own.passed += passed;
            }
        }
        let mut not_run = evaluation.left_out.clone();
        if missing > 0 {
            not_run.push(format!(
                "{missing} combinations of a controller and a scenario were not run whole."
            ));
        }
        Report {
            title: "Evaluation".to_owned(),
            command: evaluation.command.clone(),
            first_seed: 1,
            seeds: evaluation.seeds,
            fast: evaluation.fast,
            fresh: evaluation.fresh,
            controllers: controllers.map(Tried::new).collect(),
            families,
            summary,
            not_run,
        }
    }
}

impl Family {
    /// The family of an experiment, from what was measured in it.
    pub(super) fn new(
        evaluation: &Evaluation,
        experiment: &Experiment,
        samples: &[Sample],
        outcome: &Outcome,
    ) -> Family {
        let judge = Judge {
            evaluation,
            experiment,
            measured: Measured::new(experiment, samples),
            samples,
            outcome,
        };
        let there = experiment.scenarios.iter();
        let goals = GoalJudge {
            experiment,
            controllers: &evaluation.controllers,
            measured: &judge.measured,
        };
        let goals = experiment.goals.iter().map(|goal| goals.judge(goal));
        Family {
            id: family_id(experiment).to_owned(),
            title: experiment.title.clone(),
            about: experiment.about.clone(),
            file: format!("experiments/{}.toml", experiment.name),
            directory: experiment.directory.display().to_string(),
            scenarios: there.filter_map(|one| judge.scenario(one)).collect(),
            goals: goals.collect(),
        }
    }
}

/// The point of a scenario and a run, if it is in the experiment.
pub(super) fn point<'a>(
    experiment: &'a Experiment,
    scenario: &Scenario,
    run: &Run,
) -> Option<&'a Point> {
    let mut points = experiment.points.iter();
    points.find(|point| point.labels[..] == [scenario.id.clone(), run.id.clone()])
}

/// The number of the point of a scenario's reference.
pub(super) fn reference(experiment: &Experiment, scenario: &Scenario) -> Option<usize> {
    let cc = scenario.reference.as_ref()?;
    let mut runs = experiment.runs.iter();
    let run = runs.find(|run| run.cc.as_ref() == Some(cc))?;
    point(experiment, scenario, run).map(|point| point.number)
}

/// Makes the scenarios of a family.
struct Judge<'a> {
    evaluation: &'a Evaluation,
    experiment: &'a Experiment,
    measured: Measured<'a>,
    samples: &'a [Sample],
    outcome: &'a Outcome,
}

impl Judge<'_> {
    fn scenario(&self, scenario: &Scenario) -> Option<Shown> {
        let first = (self.experiment.points.iter())
            .find(|point| point.labels.first() == Some(&scenario.id))?;
        let variables = variables(scenario, &first.setup);
        let reference = reference(self.experiment, scenario);
        let limits = self.experiment.limits.iter();
        let limits: Vec<_> = limits
            .filter(|limit| limit.is_about(&scenario.id))
            .collect();
        let mut cells: Vec<Cell> = self
            .evaluation
            .controllers
            .iter()
            .filter_map(|run| Some((run, point(self.experiment, scenario, run)?)))
            .map(|(run, point)| {
                let judged = limits
                    .iter()
                    .map(|limit| judge(&self.measured, limit, &variables, point, reference));
                self.cell(scenario, run, point, judged.collect())
            })
            .collect();
        compare_with_best(&mut cells);
        let shown = limits.iter().map(|limit| {
            let (side, bound) = limit.bound();
            let text = Some(bound.to_string());
            let (low, high, word) = match side {
                Side::AtLeast => (text, None, "at least"),
                Side::AtMost => (None, text, "at most"),
            };
            ShownLimit {
                id: format!("{} of {}, {word}", limit.metric, limit.subject),
                metric: limit.metric.clone(),
                subject: limit.subject.clone(),
                low,
                high,
                why: limit.why.clone(),
            }
        });
        Some(Shown {
            id: scenario.id.clone(),
            title: scenario.title.clone(),
            about: scenario.about.clone(),
            seeds: self.experiment.seeds,
            parameters: scenario.parameters.iter().cloned().collect(),
            limits: shown.collect(),
            cells,
        })
    }

    fn cell(&self, scenario: &Scenario, run: &Run, point: &Point, limits: Vec<Judged>) -> Cell {
        let failures: Vec<String> = self
            .outcome
            .failed
            .iter()
            .filter(|(failed, ..)| *failed == point.number)
            .map(|(_, seed, reason)| format!("seed {seed}: {reason}"))
            .collect();
        let worst = limits.iter().map(|judged| judged.verdict).max();
        let verdict = match failures.is_empty() {
            false => Verdict::Broken,
            true => worst.unwrap_or(Verdict::Missing),
        };
        let distances = limits.iter().filter_map(|judged| judged.distance);
        let distance = distances.reduce(f64::min);
        let throughput_bps = self.tested(point, "throughput_bps", |values| values.iter().sum());
        let delay_s = self.tested(point, "rtt_mean_s", mean);
        let power = ratio(throughput_bps.as_ref(), delay_s.as_ref());
        let traces = self.traces(point);
        Cell {
            controller: run.id.clone(),
            verdict,
            distance,
            seeds_run: self.measured.seeds_run(point.number),
            failures,
            limits,
            throughput_bps,
            delay_s,
            power,
            against_best: None,
            shares: self.shares(point),
            points: vec![point.number],
            traces,
            command: self.evaluation.command_of(self.experiment, scenario, run),
        }
    }

    /// A metric of the tested flows together, under each seed under which all of them have it.
    fn tested(&self, point: &Point, name: &str, together: fn(&[f64]) -> f64) -> Option<Estimate> {
        let flows = point.setup.flows.iter();
        let tested = flows.filter(|flow| flow.tested && !flow.background);
        let estimates: Vec<Estimate> = tested
            .map(|flow| {
                let subject = format!("flow/{}", flow.name);
                match name {
                    "throughput_bps" => self.measured.sum(point.number, &subject, name),
                    _ => self.measured.mean(point.number, &subject, name),
                }
            })
            .collect::<Option<_>>()?;
        let unit = estimates.first()?.unit;
        let seeds = estimates.first()?.values.len();
        let value = |seed: usize| -> Option<f64> {
            let values = estimates.iter().map(|one| one.values.get(seed).copied()?);
            let values: Vec<f64> = values.collect::<Option<_>>()?;
            Some(together(&values))
        };
        Some(Estimate {
            unit,
            values: (0..seeds).map(value).collect(),
        })
    }

    /// The throughput of each member of each flow that is no background, as the mean over seeds.
    fn shares(&self, point: &Point) -> Vec<Share> {
        let setup: &Setup = &point.setup;
        if setup.members() < 2 {
            return Vec::new();
        }
        let mut sums: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
        for sample in self.samples {
            if sample.point != point.number || sample.metric != "throughput_bps" {
                continue;
            }
            let flow = sample.subject.strip_prefix("flow/");
            let flow = flow.and_then(|name| setup.flows.iter().position(|flow| flow.name == name));
            let Some(flow) = flow.filter(|&flow| !setup.flows[flow].background) else {
                continue;
            };
            let (sum, number) = sums.entry((flow, sample.index)).or_default();
            *sum += sample.value;
            *number += 1.0;
        }
        let share = |((flow, index), (sum, number)): ((usize, usize), (f64, f64))| Share {
            subject: format!("flow/{}", setup.flows[flow].name),
            index,
            cc: setup.flows[flow].cc.clone(),
            throughput_bps: sum / number,
        };
        sums.into_iter().map(share).collect()
    }

    /// The kept qlogs of a point.
    fn traces(&self, point: &Point) -> Vec<String> {
        let flows = point.setup.flows.iter().zip(&point.setup.places);
        let members =
            flows.flat_map(|(flow, place)| (0..place.count).map(move |member| (flow, member)));
        members
            .filter(|(flow, member)| self.experiment.keeps_trace(point, &flow.name, *member))
            .map(|(flow, member)| {
                let file = self.experiment.trace_file(point, &flow.name, member);
                file.display().to_string()
            })
            .collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Throughput over delay, under each seed that has both.
fn ratio(throughput: Option<&Estimate>, delay: Option<&Estimate>) -> Option<Estimate> {
    let values = throughput?.values.iter().zip(&delay?.values);
    let ratio = |(throughput, delay): (&Option<f64>, &Option<f64>)| {
        Some((*throughput)? / (*delay)?).filter(|power| power.is_finite())
    };
    Some(Estimate {
        unit: "bit/s/s",
        values: values.map(ratio).collect(),
    })
}

/// A cell's figure that is compared with others', and the direction in which it is better.
type Figure = (&'static str, fn(&Cell) -> Option<&Estimate>, bool);

const FIGURES: [Figure; 3] = [
    ("throughput", |cell| cell.throughput_bps.as_ref(), true),
    ("delay", |cell| cell.delay_s.as_ref(), false),
    ("power", |cell| cell.power.as_ref(), true),
];

/// Compares every cell of a scenario with the best of the others.
fn compare_with_best(cells: &mut [Cell]) {
    let figures: Vec<[Option<f64>; 3]> = cells
        .iter()
        .map(|cell| FIGURES.map(|(_, figure, _)| Some(figure(cell)?.mean()?.0)))
        .collect();
    let names: Vec<String> = cells.iter().map(|cell| cell.controller.clone()).collect();
    for (number, cell) in cells.iter_mut().enumerate() {
        let mut ratios = [None; 3];
        let mut of = BTreeMap::new();
        for (at, (name, _, high)) in FIGURES.into_iter().enumerate() {
            let others = (0..names.len()).filter(|&other| other != number);
            let others = others.filter_map(|other| Some((figures[other][at]?, other)));
            let best = others.reduce(|one, other| match (one.0 < other.0) == high {
                true => other,
                false => one,
            });
            if let (Some(own), Some((best, other))) = (figures[number][at], best) {
                ratios[at] = Some(own / best).filter(|ratio| ratio.is_finite());
                of.insert(name, names[other].clone());
            }
        }
        let [throughput, delay, power] = ratios;
        cell.against_best = (!of.is_empty()).then_some(AgainstBest {
            throughput,
            delay,
            power,
            of,
        });
    }
}
