//! The statements of papers and the contents of the report: `[[claim]]`, `[[table]]` and
//! `[[plot]]`.

use serde::{Deserialize, Serialize};

use super::axes::{Axis, RUN_AXIS};
use super::choice::Where;
use super::document::unknown_name;
use super::metric;
use crate::invalid::{Invalid, require};

/// A paper's statement about a quantity, and the values of it that reproduce the statement.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claim {
    /// A name for it, such as "ns2/table-3/vegas-ratio-70".
    pub id: String,
    /// The claim in words.
    pub title: String,
    /// The paper's value.
    pub paper: Option<f64>,
    /// The least value that reproduces it; without it, there is no lower bound.
    pub low: Option<f64>,
    /// The greatest value that reproduces it; without it, there is no upper bound.
    pub high: Option<f64>,
    /// In place of both, the allowed distance from the paper's value on either side, relative to
    /// it.
    pub tolerance: Option<f64>,
    /// Unit of the values.
    #[serde(default)]
    pub unit: String,
    /// The place in the paper.
    pub source: String,
    /// The quantity.
    pub value: Quantity,
    /// A second quantity by which the first is divided.
    pub ratio_to: Option<Override>,
    /// The way in which several points become one value; the mean by default.
    pub across: Option<Across>,
    /// The axis along which the value crosses the level, for "crossing".
    pub axis: Option<String>,
    /// The level, for "crossing".
    pub level: Option<f64>,
    /// A remark.
    #[serde(default)]
    pub note: String,
    /// True if it depends little on details that a paper does not tell.
    #[serde(default)]
    pub robust: bool,
}

/// A metric of a subject at some points.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Quantity {
    /// The metric.
    pub metric: String,
    /// The subject: "flow/NAME", "link/NAME", "run" or "analysis".
    pub subject: String,
    /// The points.
    #[serde(default, rename = "where")]
    pub points: Where,
}

/// The differences of another quantity from a first one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Override {
    /// Another metric.
    pub metric: Option<String>,
    /// Another subject.
    pub subject: Option<String>,
    /// Other values of axes.
    #[serde(default, rename = "where")]
    pub points: Where,
}

/// The way in which several points become one value.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "\"mean\", \"min\", \"max\", \"sum\" or \"crossing\" (with axis and level)"
)]
pub enum Across {
    /// By name; a crossing has axis and level beside it.
    Named(AcrossName),
    /// A crossing with axis and level.
    Crossing(Crossing),
}

/// The names of the ways in which several points become one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcrossName {
    /// Their mean.
    Mean,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// Their sum.
    Sum,
    /// The place along an axis at which the value crosses a level.
    Crossing,
}

/// The place along an axis at which the value crosses a level, interpolated linearly.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Crossing {
    /// Always [`AcrossName::Crossing`].
    pub across: AcrossName,
    /// The axis.
    pub axis: String,
    /// The level.
    pub level: f64,
}

/// A table of the report.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Table {
    /// The title.
    pub title: String,
    /// One metric …
    pub metric: Option<String>,
    /// … or several.
    pub metrics: Option<Vec<String>>,
    /// One subject …
    pub subject: Option<String>,
    /// … or several.
    pub subjects: Option<Vec<String>>,
    /// An axis, "metric" or "subject".
    pub rows: String,
    /// An axis, "metric" or "subject".
    pub columns: String,
    /// A second quantity by which the first is divided.
    pub ratio_to: Option<Override>,
    /// The points.
    #[serde(default, rename = "where")]
    pub points: Where,
}

/// A plot of the report.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plot {
    /// The title.
    pub title: String,
    /// The quantity on its x-axis.
    pub kind: PlotKind,
    /// The metric, unless the plot is a trace graph.
    pub metric: Option<String>,
    /// One subject …
    pub subject: Option<String>,
    /// … or several.
    pub subjects: Option<Vec<String>>,
    /// The axis, which must have numbers, for the kind "axis".
    pub x: Option<String>,
    /// An axis or "subject", whose values have a line each; the runs by default.
    pub lines: Option<String>,
    /// True if the x-axis is logarithmic.
    #[serde(default)]
    pub log_x: bool,
    /// The flow, for the kind "trace".
    pub flow: Option<String>,
    /// A second quantity by which the first is divided.
    pub ratio_to: Option<Override>,
    /// The points.
    #[serde(default, rename = "where")]
    pub points: Where,
}

/// The quantity on the x-axis of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlotKind {
    /// An axis of the experiment.
    Axis,
    /// Time, from the series.
    Time,
    /// Time, with the trace graph of Brakmo et al. 1994 §2.2.
    Trace,
}

/// The names that claims, tables and plots may use.
pub(super) struct Subjects<'a> {
    pub(super) axes: &'a [Axis],
    /// For each point the values of its axes.
    pub(super) labels: &'a [Vec<String>],
    /// "flow/NAME", "link/NAME", "run" and "analysis".
    pub(super) names: Vec<String>,
    /// Flows whose traces are kept.
    pub(super) traced: Vec<&'a str>,
    /// True if there are series.
    pub(super) series: bool,
}

impl Subjects<'_> {
    pub(super) fn subject(&self, subject: &str, place: &str) -> Result<(), Invalid> {
        require(self.names.iter().any(|name| name == subject), place, || {
            let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
            unknown_name("subject", subject, &names)
        })
    }

    /// Checks subjects, and that each metric is one of theirs.
    fn check_all(
        &self,
        metrics: &[(String, &str)],
        subjects: &[(String, &str)],
        over_time: bool,
    ) -> Result<(), Invalid> {
        for (place, subject) in subjects {
            self.subject(subject, place)?;
        }
        let subjects = names(subjects);
        metrics.iter().try_for_each(|(place, metric)| {
            let known = metric::check(metric, &subjects, over_time);
            known.map_err(|problem| Invalid::new(place, problem))
        })
    }

    /// An axis of that name, or one of `others`.
    fn axis(&self, name: &str, others: &[&str], place: &str) -> Result<Option<&Axis>, Invalid> {
        let axis = self.axes.iter().find(|axis| axis.name == name);
        require(axis.is_some() || others.contains(&name), place, || {
            let axes = self.axes.iter().map(|axis| axis.name.as_str());
            let known: Vec<&str> = axes.chain(others.iter().copied()).collect();
            unknown_name("axis", name, &known)
        })?;
        Ok(axis)
    }

    pub(super) fn points(&self, points: &mut Where, place: &str) -> Result<(), Invalid> {
        let place = format!("{place}.where");
        points.resolve(self.axes, &place)?;
        let any = self
            .labels
            .iter()
            .any(|labels| points.includes(self.axes, labels));
        require(any, &place, || "no point has all these values".to_owned())
    }

    /// Checks the divisor of a quantity; it has `metrics` and `subjects` unless it gives its own.
    fn ratio(
        &self,
        ratio: &mut Option<Override>,
        points: &Where,
        metrics: &[&str],
        subjects: &[&str],
        place: &str,
    ) -> Result<(), Invalid> {
        let Some(other) = ratio else { return Ok(()) };
        let place = format!("{place}.ratio-to");
        let own = other.subject.as_deref();
        if let Some(subject) = own {
            self.subject(subject, &format!("{place}.subject"))?;
        }
        let subjects = own.as_ref().map_or(subjects, std::slice::from_ref);
        let own = other.metric.as_deref();
        for metric in own.as_ref().map_or(metrics, std::slice::from_ref) {
            metric::check(metric, subjects, false)
                .map_err(|problem| Invalid::new(format!("{place}.metric"), problem))?;
        }
        self.points(&mut other.points, &place)?;
        let mut both = points.overridden(&other.points);
        self.points(&mut both, &place)
    }
}

impl Claim {
    /// The least and the greatest value that reproduce it; `None` for a missing bound.
    #[must_use]
    pub fn bounds(&self) -> (Option<f64>, Option<f64>) {
        match (self.paper, self.tolerance) {
            (Some(paper), Some(tolerance)) => {
                let far = (paper * tolerance).abs();
                (Some(paper - far), Some(paper + far))
            }
            _ => (self.low, self.high),
        }
    }

    pub(super) fn check(&mut self, place: &str, subjects: &Subjects<'_>) -> Result<(), Invalid> {
        let at = |key: &str| format!("{place}.{key}");
        require(!self.id.is_empty(), &at("id"), || "it is empty".to_owned())?;
        self.check_bounds(place)?;
        subjects.subject(&self.value.subject, &at("value.subject"))?;
        let (metric, subject) = (self.value.metric.as_str(), self.value.subject.as_str());
        metric::check(metric, &[subject], false)
            .map_err(|problem| Invalid::new(at("value.metric"), problem))?;
        subjects.points(&mut self.value.points, &at("value"))?;
        subjects.ratio(
            &mut self.ratio_to,
            &self.value.points,
            &[metric],
            &[subject],
            place,
        )?;
        self.check_crossing(place, subjects)
    }

    fn check_bounds(&self, place: &str) -> Result<(), Invalid> {
        let at = |key: &str| format!("{place}.{key}");
        let numbers = [
            ("paper", self.paper),
            ("low", self.low),
            ("high", self.high),
            ("tolerance", self.tolerance),
        ];
        for (key, value) in numbers {
            require(value.is_none_or(f64::is_finite), &at(key), || {
                "it is not a number".to_owned()
            })?;
        }
        match (self.tolerance, self.low, self.high) {
            (Some(tolerance), None, None) => {
                require(tolerance >= 0.0, &at("tolerance"), || {
                    format!("it is {tolerance}; it must not be negative")
                })?;
                require(self.paper.is_some(), &at("tolerance"), || {
                    "it is relative to `paper`, which is missing".to_owned()
                })
            }
            (Some(_), ..) => Err(Invalid::new(
                at("tolerance"),
                "it stands in place of `low` and `high`; give one or the other",
            )),
            (None, None, None) => Err(Invalid::new(
                place,
                "it has neither `low` nor `high` nor `tolerance`, so that any value would reproduce it",
            )),
            (None, low, high) => {
                let (low, high) = (low.unwrap_or(f64::MIN), high.unwrap_or(f64::MAX));
                require(low <= high, &at("low"), || {
                    format!("it is {low}, above `high`, {high}")
                })
            }
        }
    }

    fn check_crossing(&self, place: &str, subjects: &Subjects<'_>) -> Result<(), Invalid> {
        let axis = match &self.across {
            Some(Across::Crossing(crossing)) => Some(&crossing.axis),
            Some(Across::Named(AcrossName::Crossing)) => {
                require(self.level.is_some(), place, || {
                    "a crossing needs `level`".to_owned()
                })?;
                self.axis.as_ref()
            }
            _ => return Ok(()),
        };
        let Some(axis) = axis else {
            return Err(Invalid::new(place, "a crossing needs `axis`"));
        };
        numeric(subjects, axis, &format!("{place}.axis"))
    }
}

/// Checks that an axis has numbers.
fn numeric(subjects: &Subjects<'_>, name: &str, place: &str) -> Result<(), Invalid> {
    let axis = subjects.axis(name, &[], place)?;
    let numbers = axis.is_some_and(|axis| axis.numbers().is_some());
    require(numbers, place, || {
        format!("the values of the axis `{name}` are not numbers of one kind")
    })
}

/// The one or several names of a key, of which there must be at least one.
fn one_or_more<'a>(
    one: &'a Option<String>,
    several: &'a Option<Vec<String>>,
    key: &str,
    place: &str,
) -> Result<Vec<(String, &'a str)>, Invalid> {
    let place = |key: &str| format!("{place}.{key}");
    match (one, several) {
        (Some(one), None) => Ok(vec![(place(key), one)]),
        (None, Some(several)) if !several.is_empty() => {
            let place = |number| format!("{}[{number}]", place(&format!("{key}s")));
            let names = several.iter().enumerate();
            Ok(names.map(|(n, name)| (place(n), name.as_str())).collect())
        }
        (None, None) => Err(Invalid::new(
            place(key),
            format!("the key `{key}` is missing"),
        )),
        _ => Err(Invalid::new(
            place(key),
            format!("give either `{key}` or `{key}s`, a list of at least one"),
        )),
    }
}

impl Table {
    pub(super) fn check(&mut self, place: &str, subjects: &Subjects<'_>) -> Result<(), Invalid> {
        let metrics = one_or_more(&self.metric, &self.metrics, "metric", place)?;
        let own = one_or_more(&self.subject, &self.subjects, "subject", place)?;
        subjects.check_all(&metrics, &own, false)?;
        for (key, name) in [("rows", &self.rows), ("columns", &self.columns)] {
            subjects.axis(name, &["metric", "subject"], &format!("{place}.{key}"))?;
        }
        subjects.points(&mut self.points, place)?;
        let (metrics, own) = (names(&metrics), names(&own));
        subjects.ratio(&mut self.ratio_to, &self.points, &metrics, &own, place)
    }
}

/// Names without their places.
fn names<'a>(placed: &[(String, &'a str)]) -> Vec<&'a str> {
    placed.iter().map(|(_, name)| *name).collect()
}

impl Plot {
    pub(super) fn check(&mut self, place: &str, subjects: &Subjects<'_>) -> Result<(), Invalid> {
        let at = |key: &str| format!("{place}.{key}");
        subjects.points(&mut self.points, place)?;
        if self.kind == PlotKind::Trace {
            let flow = self.flow.as_deref().unwrap_or_default();
            return require(subjects.traced.contains(&flow), &at("flow"), || {
                unknown_name("flow with a [[trace]]", flow, &subjects.traced)
            });
        }
        let metrics = one_or_more(&self.metric, &None, "metric", place)?;
        let own = one_or_more(&self.subject, &self.subjects, "subject", place)?;
        subjects.check_all(&metrics, &own, self.kind == PlotKind::Time)?;
        let lines = self.lines.as_deref().unwrap_or(RUN_AXIS);
        subjects.axis(lines, &["subject"], &at("lines"))?;
        match (&self.kind, &self.x) {
            (PlotKind::Time, _) => require(subjects.series, &at("kind"), || {
                "a plot over time needs the table [series]".to_owned()
            })?,
            (_, Some(x)) => numeric(subjects, x, &at("x"))?,
            (_, None) => {
                return Err(Invalid::new(
                    place,
                    "a plot over an axis needs `x`, its name",
                ));
            }
        }
        let (metrics, own) = (names(&metrics), names(&own));
        subjects.ratio(&mut self.ratio_to, &self.points, &metrics, &own, place)
    }
}
