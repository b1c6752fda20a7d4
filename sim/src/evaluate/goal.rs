//! Goals: the measurements of all controllers, held against what is aimed at.

use serde::Serialize;

use super::report::{point, reference};
use super::verdict::{Verdict, judge};
use crate::experiment::goal::{Across, Goal, variable};
use crate::experiment::limit::{Limit, Variables, variables};
use crate::experiment::{Experiment, Point, Run, Scenario};
use crate::results::Measured;

/// A goal with the results of all controllers.
#[derive(Debug, Serialize)]
pub struct ShownGoal {
    /// The goal in words.
    pub title: String,
    /// The metric.
    pub metric: String,
    /// The subject.
    pub subject: String,
    /// The bound, as the family's file has it.
    pub bound: String,
    /// The part of the scenarios in which it must be met.
    pub part: f64,
    /// The controllers that were measured, in their order.
    pub results: Vec<GoalResult>,
}

/// A controller's way to a goal.
#[derive(Debug, Serialize)]
pub struct GoalResult {
    /// The controller's id.
    pub controller: String,
    /// True if the goal is reached.
    pub is_reached: bool,
    /// Scenarios that meet it …
    pub met: usize,
    /// … of so many.
    pub of: usize,
    /// The scenario that is farthest from it; none if the mean over all is what counts.
    pub scenario: Option<String>,
    /// The value there, or the mean, in the metric's unit; `None` if nothing was there to measure.
    pub value: Option<f64>,
}

/// Holds a family's measurements against its goals.
pub(super) struct GoalJudge<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) controllers: &'a [Run],
    pub(super) measured: &'a Measured<'a>,
}

/// A scenario of a goal: its bound, and how far inside it a controller is.
struct Held {
    scenario: String,
    bound: f64,
    distance: f64,
    value: Option<f64>,
}

impl GoalJudge<'_> {
    /// The results of a goal; none for controllers that were not run in all of its scenarios, or
    /// without those that it names.
    pub(super) fn judge(&self, goal: &Goal) -> ShownGoal {
        let limit = goal.limit();
        let results = self.controllers.iter().filter_map(|run| {
            let held = self.held(&limit, run)?;
            Some(result(goal, &limit, run, &held))
        });
        ShownGoal {
            title: goal.title.clone(),
            metric: limit.metric.clone(),
            subject: limit.subject.clone(),
            bound: limit.bound().1.to_string(),
            part: goal.part,
            results: results.collect(),
        }
    }

    fn held(&self, limit: &Limit, run: &Run) -> Option<Vec<Held>> {
        let scenarios = self.experiment.scenarios.iter();
        let about = scenarios.filter(|scenario| limit.is_about(&scenario.id));
        let held = about.map(|scenario| {
            let point = point(self.experiment, scenario, run)?;
            let known = self.variables(limit, scenario, point);
            let reference = reference(self.experiment, scenario);
            let judged = judge(self.measured, limit, &known, point, reference);
            if judged.verdict == Verdict::Missing {
                return None;
            }
            Some(Held {
                scenario: scenario.id.clone(),
                bound: judged.bound?,
                distance: judged.distance?,
                value: judged
                    .value
                    .and_then(|value| value.mean())
                    .map(|(mean, _)| mean),
            })
        });
        held.collect::<Option<Vec<_>>>()
            .filter(|held| !held.is_empty())
    }

    /// The parameters of a scenario, and the values of all controllers in it.
    fn variables(&self, limit: &Limit, scenario: &Scenario, at: &Point) -> Variables {
        let mut known = variables(scenario, &at.setup);
        known.extend(self.controllers.iter().filter_map(|run| {
            let own = point(self.experiment, scenario, run)?;
            let value = self
                .measured
                .mean(own.number, &limit.subject, &limit.metric)?;
            Some((variable(&run.id), value.mean()?.0))
        }));
        known
    }
}

fn result(goal: &Goal, limit: &Limit, run: &Run, held: &[Held]) -> GoalResult {
    let met = held.iter().filter(|one| one.distance >= 0.0).count();
    let farthest = held
        .iter()
        .min_by(|one, other| one.distance.total_cmp(&other.distance));
    let values: Option<Vec<f64>> = held.iter().map(|one| one.value).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (is_reached, scenario, value) = match goal.across {
        Across::Each => (
            met as f64 >= goal.part * held.len() as f64 - 1e-9,
            farthest.map(|one| one.scenario.clone()),
            farthest.and_then(|one| one.value),
        ),
        Across::Mean => {
            let value = values.as_deref().map(mean);
            let bounds: Vec<f64> = held.iter().map(|one| one.bound).collect();
            let is_inside = |value| limit.bound().0.allows(mean(&bounds), value);
            (value.is_some_and(is_inside), None, value)
        }
    };
    GoalResult {
        controller: run.id.clone(),
        is_reached,
        met,
        of: held.len(),
        scenario,
        value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(more: &str) -> Goal {
        let text = "title = \"t\"\nmetric = \"utilisation\"\nsubject = \"link/l\"\nlow = 0.9\n";
        toml::from_str(&format!("{text}{more}")).expect("a goal")
    }

    fn run() -> Run {
        Run {
            id: "vegas".to_owned(),
            title: "vegas".to_owned(),
            cc: None,
        }
    }

    fn held(values: [f64; 4]) -> Vec<Held> {
        let names = ["a", "b", "c", "d"];
        let held = |(name, value): (&str, f64)| Held {
            scenario: name.to_owned(),
            bound: 0.9,
            distance: value - 0.9,
            value: Some(value),
        };
        names.into_iter().zip(values).map(held).collect()
    }

    fn of(more: &str, values: [f64; 4]) -> GoalResult {
        let goal = goal(more);
        result(&goal, &goal.limit(), &run(), &held(values))
    }

    #[test]
    fn a_goal_for_a_part_of_the_scenarios_is_reached_with_that_part() {
        let values = [1.0, 0.95, 0.5, 0.9];
        let most = of("part = 0.75", values);
        assert_eq!((most.is_reached, most.met, most.of), (true, 3, 4));
        assert_eq!(
            (most.scenario.as_deref(), most.value),
            (Some("c"), Some(0.5))
        );
        assert!(!of("", values).is_reached);
        assert!(!of("part = 0.76", values).is_reached);
    }

    #[test]
    fn a_goal_for_the_mean_is_reached_with_the_mean() {
        let mean = of("across = \"mean\"", [1.0, 1.0, 0.625, 1.0]);
        assert_eq!((mean.is_reached, mean.value), (true, Some(0.90625)));
        assert_eq!(mean.scenario, None);
        assert!(!of("across = \"mean\"", [1.0, 1.0, 0.5, 1.0]).is_reached);
    }
}
