//! The limits of an evaluation: `[[limit]]`, which every controller must keep in the scenarios that
//! it is about.

use std::collections::BTreeMap;
use std::fmt;

use exmex::{Express, FlatEx};
use serde::{Deserialize, Serialize};

use super::axes::quantity;
use super::choice::Where;
use super::claim::Subjects;
use super::metric;
use super::scenario::{SCENARIO_AXIS, Scenario};
use super::setup::Setup;
use crate::invalid::{Invalid, require};
use crate::units::{LinkRate, Span, WIRE_OVERHEAD_BYTES};

/// A limit of a metric, and the reason for it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limit {
    /// The metric.
    pub metric: String,
    /// The subject: "flow/NAME", "link/NAME" or "run". Of a flow that stands for several, the mean
    /// over its members counts.
    pub subject: String,
    /// The least value that passes …
    pub low: Option<Bound>,
    /// … or the greatest; a limit has one of the two.
    pub high: Option<Bound>,
    /// The physics, the RFC or the custom that the limit comes from.
    pub why: String,
    /// The scenarios.
    #[serde(default, rename = "where")]
    pub points: Where,
}

/// A bound: a number, or a formula of the scenario's parameters.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "a number, or a formula such as \"max(0.005, 6 * packet)\""
)]
pub enum Bound {
    /// A number.
    Number(f64),
    /// A formula.
    Formula(String),
}

/// The side of a bound on which values pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Values from the bound up pass.
    AtLeast,
    /// Values up to the bound pass.
    AtMost,
}

impl Side {
    /// True if a value passes at this bound.
    #[must_use]
    pub fn allows(self, bound: f64, value: f64) -> bool {
        match self {
            Side::AtLeast => value >= bound,
            Side::AtMost => value <= bound,
        }
    }
}

/// The numbers that formulas may name.
pub type Variables = BTreeMap<String, f64>;

/// The variable for the metric's value in the runs of the scenario's reference.
pub const REFERENCE: &str = "reference";

/// The metrics' texts have a unit where this is needed; a bound has the metric's own.
impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Number(number) => number.fmt(f),
            Bound::Formula(text) => f.write_str(text),
        }
    }
}

impl Bound {
    /// The bound's value.
    ///
    /// # Errors
    /// The formula is none, names what is not there, or has no finite value.
    pub fn value(&self, variables: &Variables) -> Result<f64, String> {
        let text = match self {
            Bound::Number(number) => return Ok(*number),
            Bound::Formula(text) => text,
        };
        let formula: FlatEx<f64> = exmex::parse(text)
            .map_err(|error| format!("\"{text}\" is no formula: {}", error.msg()))?;
        let value = |name: &String| {
            variables.get(name).copied().ok_or_else(|| {
                let known: Vec<&str> = variables.keys().map(String::as_str).collect();
                super::document::unknown_name("parameter", name, &known)
            })
        };
        let values: Vec<f64> = formula
            .var_names()
            .iter()
            .map(value)
            .collect::<Result<_, _>>()?;
        match formula.eval(&values) {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(format!("\"{text}\" has no finite value")),
        }
    }
}

impl Limit {
    /// The bound and the side on which values pass.
    #[must_use]
    pub fn bound(&self) -> (Side, &Bound) {
        match (&self.low, &self.high) {
            (Some(low), _) => (Side::AtLeast, low),
            (None, Some(high)) => (Side::AtMost, high),
            // `check` refuses a limit without a bound.
            (None, None) => (Side::AtMost, &Bound::Number(f64::INFINITY)),
        }
    }

    /// True if the limit is about a scenario.
    #[must_use]
    pub fn is_about(&self, scenario: &str) -> bool {
        let scenarios = self.points.values(SCENARIO_AXIS);
        scenarios.is_empty() || scenarios.contains(&scenario)
    }

    /// Checks it, with the variables of each scenario.
    pub(super) fn check(
        &mut self,
        place: &str,
        subjects: &Subjects<'_>,
        variables: &[(&Scenario, Variables)],
    ) -> Result<(), Invalid> {
        let at = |key: &str| format!("{place}.{key}");
        subjects.subject(&self.subject, &at("subject"))?;
        metric::check(&self.metric, &[self.subject.as_str()], false)
            .map_err(|problem| Invalid::new(at("metric"), problem))?;
        require(!self.why.is_empty(), &at("why"), || {
            "it is empty".to_owned()
        })?;
        let key = match (&self.low, &self.high) {
            (Some(_), None) => "low",
            (None, Some(_)) => "high",
            _ => return Err(Invalid::new(place, "give either `low` or `high`")),
        };
        let points = subjects.points(&mut self.points, place);
        points?;
        let (_, bound) = self.bound();
        let about = variables.iter().filter(|(one, _)| self.is_about(&one.id));
        for (scenario, variables) in about {
            bound.value(variables).map_err(|problem| {
                let problem = format!("in scenario {}: {problem}", scenario.id);
                Invalid::new(at(key), problem)
            })?;
        }
        Ok(())
    }
}

/// The numbers that a scenario's formulas may name, but for the reference's value.
///
/// They are the parameters that are quantities, in base units (s, bit/s, packets), with `_` for
/// `-`; `packet`, the time that a full datagram takes at `rate`; `bdp`, the bandwidth-delay product
/// of `rate` and `rtt` in full datagrams; and `iw`, the initial window in datagrams.
pub fn variables(scenario: &Scenario, setup: &Setup) -> Variables {
    let named = |(name, text): &(String, String)| {
        let (_, number) = quantity(text)?;
        Some((name.replace('-', "_"), number))
    };
    let mut variables: Variables = scenario.parameters.iter().filter_map(named).collect();
    let bits = (8 * (setup.datagram_bytes + WIRE_OVERHEAD_BYTES)) as f64;
    let rate = scenario
        .parameter("rate")
        .and_then(|text| text.parse().ok());
    let packets_per_s = rate.map(|rate| match rate {
        LinkRate::Bits(rate) => rate.bps() as f64 / bits,
        LinkRate::Packets(packets) => packets,
    });
    let rtt: Option<Span> = scenario.parameter("rtt").and_then(|text| text.parse().ok());
    if let Some(packets_per_s) = packets_per_s {
        variables.insert("packet".to_owned(), 1.0 / packets_per_s);
        if let Some(rtt) = rtt {
            let bdp = packets_per_s * rtt.duration().as_secs_f64();
            variables.insert("bdp".to_owned(), bdp);
        }
    }
    variables.insert("iw".to_owned(), setup.initial_window_packets as f64);
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, variables: &[(&str, f64)]) -> Result<f64, String> {
        let variables = variables.iter();
        let variables = variables.map(|&(name, value)| (name.to_owned(), value));
        Bound::Formula(text.to_owned()).value(&variables.collect())
    }

    #[test]
    fn a_formula_has_the_value_that_one_computes_by_hand() {
        assert_eq!(
            value("max(0.005, 6 * packet)", &[("packet", 0.001)]),
            Ok(0.006)
        );
        assert_eq!(
            value("log2(bdp / iw) + 2", &[("bdp", 80.0), ("iw", 10.0)]),
            Ok(5.0)
        );
        assert_eq!(value("0.9 * reference", &[(REFERENCE, 2.0)]), Ok(1.8));
    }

    #[test]
    fn a_formula_that_makes_no_sense_is_refused() {
        for (text, message) in [
            ("max(1,", "is no formula"),
            (
                "6 * paket",
                "unknown parameter `paket`: did you mean `packet`?",
            ),
            ("1 / (packet - packet)", "has no finite value"),
            ("", "is no formula"),
        ] {
            let error = value(text, &[("packet", 0.001)]).expect_err(text);
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
