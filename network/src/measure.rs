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

/// Number, mean, 95th and 99th percentile (nearest rank) of some times, under these names; of none,
/// only the number.
#[must_use]
pub fn times(mut times_s: Vec<f64>, [count, mean, p95, p99]: [&'static str; 4]) -> Vec<Measure> {
    let number = times_s.len();
    let mut measures = vec![Measure::new(count, "", number as f64)];
    times_s.sort_by(f64::total_cmp);
    let percentile = |percent: usize| {
        let rank = (number * percent).div_ceil(100);
        times_s.get(rank.saturating_sub(1)).copied()
    };
    if let (Some(p95_s), Some(p99_s)) = (percentile(95), percentile(99)) {
        let sum: f64 = times_s.iter().sum();
        measures.extend([
            Measure::new(mean, "s", sum / number as f64),
            Measure::new(p95, "s", p95_s),
            Measure::new(p99, "s", p99_s),
        ]);
    }
    measures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let names = ["n", "mean", "p95", "p99"];
        let values = |n: u32| -> Vec<f64> {
            let all = (1..=n).rev().map(f64::from).collect();
            times(all, names).iter().map(|m| m.value).collect()
        };
        assert_eq!(values(0), [0.0]);
        assert_eq!(values(1), [1.0, 1.0, 1.0, 1.0]);
        assert_eq!(values(100), [100.0, 50.5, 95.0, 99.0]);
    }
}
