//! Verdicts: the measurements of a controller in a scenario, held against the scenario's limits.

use serde::Serialize;

use crate::experiment::Point;
use crate::experiment::limit::{Limit, REFERENCE, Side, Variables};
use crate::results::{Estimate, Measured};

/// The value of a controller in a scenario, or of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All limits are kept.
    Pass,
    /// A limit is not kept, or what it is about did not happen under some seed.
    Fail,
    /// A run failed.
    Broken,
    /// Something was not run.
    Missing,
}

/// A value held against a limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The bound, in the metric's unit; `None` if it rests on runs that are missing.
    pub bound: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// The distance from the bound in parts of the bound; positive inside.
    pub distance: Option<f64>,
    /// The value under each seed.
    pub value: Option<Estimate>,
}

/// The largest distance that is told apart from greater ones.
const FARTHEST: f64 = 10.0;

/// The least size of a bound by which distances are divided.
const LEAST_BOUND: f64 = 1e-9;

/// Holds a point against a limit; `reference` is the point of the scenario's reference.
pub(super) fn judge(
    measured: &Measured<'_>,
    limit: &Limit,
    variables: &Variables,
    point: &Point,
    reference: Option<usize>,
) -> Judged {
    let mut variables = variables.clone();
    let of_reference = reference.and_then(|reference| {
        let estimate = measured.mean(reference, &limit.subject, &limit.metric)?;
        mean_of_present(&estimate)
    });
    if let Some(value) = of_reference {
        variables.insert(REFERENCE.to_owned(), value);
    }
    let (side, bound) = limit.bound();
    let bound = bound.value(&variables).ok();
    let value = measured.mean(point.number, &limit.subject, &limit.metric);
    let seeds_run = measured.seeds_run(point.number);
    let Some(bound) = bound.filter(|_| seeds_run == measured.seeds()) else {
        return Judged {
            bound,
            verdict: Verdict::Missing,
            distance: None,
            value,
        };
    };
    let mean = value
        .as_ref()
        .and_then(Estimate::mean)
        .map(|(mean, _)| mean);
    // A thing that did not happen under some seed is beyond every bound.
    let distance = mean.map_or(-FARTHEST, |mean| distance(side, bound, mean));
    Judged {
        bound: Some(bound),
        verdict: match distance >= 0.0 {
            true => Verdict::Pass,
            false => Verdict::Fail,
        },
        distance: Some(distance),
        value,
    }
}

/// The mean over the seeds under which there was a value.
fn mean_of_present(estimate: &Estimate) -> Option<f64> {
    let present: Vec<f64> = estimate.values.iter().flatten().copied().collect();
    (!present.is_empty()).then(|| present.iter().sum::<f64>() / present.len() as f64)
}

/// The distance of a value from a bound in parts of the bound; positive on the good side.
fn distance(side: Side, bound: f64, value: f64) -> f64 {
    let inside = match side {
        Side::AtLeast => value - bound,
        Side::AtMost => bound - value,
    };
    (inside / bound.abs().max(LEAST_BOUND)).clamp(-FARTHEST, 1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_distance_is_in_parts_of_the_bound() {
        assert_eq!(distance(Side::AtLeast, 0.5, 0.75), 0.5);
        assert_eq!(distance(Side::AtMost, 0.5, 0.75), -0.5);
        assert_eq!(distance(Side::AtMost, 0.0, 0.0), 0.0);
        assert_eq!(distance(Side::AtMost, 0.0, 1.0), -FARTHEST);
        assert_eq!(distance(Side::AtLeast, 1.0, 3.0), 1.0);
    }

    proptest! {
        #[test]
        fn a_value_passes_on_its_side_of_the_bound_only(
            bound in -1e6..1e6,
            value in -1e6..1e6,
        ) {
            prop_assert_eq!(distance(Side::AtLeast, bound, value) >= 0.0, value >= bound);
            prop_assert_eq!(distance(Side::AtMost, bound, value) >= 0.0, value <= bound);
        }
    }
}
