//! The outcome of a run, as the journal keeps it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::measure::Measure;

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RunOutcome {
    pub(super) point: usize,
    pub(super) seed: u64,
    /// The reason for which there are no results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failed: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) subjects: Vec<Subject>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) courses: Vec<Course>,
}

/// A subject that was measured in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Subject {
    /// "flow/NAME", "link/NAME", "run" or "analysis".
    pub(super) subject: String,
    /// The member of a flow that stands for several.
    pub(super) index: usize,
    /// A flow's controller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) cc: String,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) background: bool,
    pub(super) values: Vec<Value>,
}

// serde asks with a reference.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_false(value: &bool) -> bool {
    !value
}

/// A measured value: metric, unit and number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Value(
    pub(super) Cow<'static, str>,
    pub(super) Cow<'static, str>,
    pub(super) f64,
);

impl Subject {
    /// A subject with its measurements. Values that are not finite are left out.
    pub(super) fn new(subject: String, measures: Vec<Measure>) -> Subject {
        let mut subject = Subject {
            subject,
            index: 0,
            cc: String::new(),
            background: false,
            values: Vec::new(),
        };
        measures.into_iter().for_each(|one| subject.add(one));
        subject
    }

    /// Adds a measurement, if its value is finite.
    pub(super) fn add(&mut self, one: Measure) {
        if one.value.is_finite() {
            let value = Value(one.metric.into(), one.unit.into(), one.value);
            self.values.push(value);
        }
    }

    /// The value of a metric.
    pub(super) fn get(&self, metric: &str) -> Option<f64> {
        let value = self.values.iter().find(|value| value.0 == metric);
        value.map(|value| value.2)
    }
}

/// A metric over time: its values at regular times, `None` if there was none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Course {
    pub(super) subject: String,
    pub(super) index: usize,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) cc: String,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) background: bool,
    pub(super) metric: Cow<'static, str>,
    pub(super) unit: Cow<'static, str>,
    pub(super) values: Vec<Option<f64>>,
}
