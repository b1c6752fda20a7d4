//! Measured values, with their names and units.

/// A value that was measured in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// The name of the metric, such as `queue_mean_packets`.
    pub metric: &'static str,
    /// Unit of the value; empty for counts and ratios without one.
    pub unit: &'static str,
    /// The value.
    pub value: f64,
}

impl Measure {
    /// A value of `metric` in `unit`.
    #[must_use]
    pub fn new(metric: &'static str, unit: &'static str, value: f64) -> Measure {
        Measure {
            metric,
            unit,
            value,
        }
    }
}
