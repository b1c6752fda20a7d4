//! The goals of an evaluation: `[[goal]]`, which a controller is developed towards.
//!
//! A goal says more than limits do: of several scenarios together, or beside other controllers. No
//! verdict rests on it.

use serde::{Deserialize, Serialize};

use super::choice::Where;
use super::claim::Subjects;
use super::limit::{Bound, Limit, Variables};
use super::scenario::Scenario;
use crate::invalid::{Invalid, require};
use crate::stack::{Selection, Stack};

/// A goal, and the reason for it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Goal {
    /// The goal in words.
    pub title: String,
    /// The part of the scenarios in which it must be met.
    #[serde(default = "all")]
    pub part: f64,
    /// The values that are held against the bound.
    #[serde(default)]
    pub across: Across,
    /// The metric.
    metric: String,
    /// The subject, as that of a limit.
    subject: String,
    /// The least value, or …
    low: Option<Bound>,
    /// … the greatest. Formulas may name controllers, with `_` for `-`: their values in the same
    /// scenario.
    high: Option<Bound>,
    /// The scenarios.
    #[serde(default, rename = "where")]
    points: Where,
}

/// The values of a goal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Across {
    /// That of each scenario.
    #[default]
    Each,
    /// The mean over the scenarios.
    Mean,
}

fn all() -> f64 {
    1.0
}

/// The variable for a controller's value.
#[must_use]
pub fn variable(controller: &str) -> String {
    controller.replace('-', "_")
}

impl Goal {
    /// The bound in each scenario.
    #[must_use]
    pub fn limit(&self) -> Limit {
        Limit {
            metric: self.metric.clone(),
            subject: self.subject.clone(),
            low: self.low.clone(),
            high: self.high.clone(),
            why: self.title.clone(),
            points: self.points.clone(),
        }
    }

    /// Checks it, with the variables of each scenario.
    pub(super) fn check(
        &mut self,
        place: &str,
        subjects: &Subjects<'_>,
        variables: &[(&Scenario, Variables)],
    ) -> Result<(), Invalid> {
        require(!self.title.is_empty(), &format!("{place}.title"), || {
            "it is empty".to_owned()
        })?;
        require(
            self.part > 0.0 && self.part <= 1.0,
            &format!("{place}.part"),
            || format!("{} is no part: give more than 0, and 1 at most", self.part),
        )?;
        let controllers = Selection::names_in(Stack::Quiche);
        let with_controllers = |(scenario, known): &(_, Variables)| {
            let mut known = known.clone();
            known.extend(controllers.iter().map(|name| (variable(name), 1.0)));
            (*scenario, known)
        };
        let variables: Vec<_> = variables.iter().map(with_controllers).collect();
        let mut limit = self.limit();
        limit.check(place, subjects, &variables)?;
        self.points = limit.points;
        Ok(())
    }
}
