//! The measurements of an experiment, by point, subject and metric, under all seeds.

use std::collections::BTreeMap;

use super::Estimate;
use crate::experiment::{Experiment, metric};
use crate::lab::Sample;

/// Of each seed the sum over the members of a flow, and their number.
type Sums = BTreeMap<u64, (f64, usize)>;

/// The measurements of an experiment.
#[derive(Clone, Debug)]
pub struct Measured<'a> {
    /// By point, subject and metric.
    sums: BTreeMap<(usize, &'a str, &'a str), Sums>,
    first_seed: u64,
    seeds: usize,
}

impl<'a> Measured<'a> {
    /// Puts the samples of an experiment together.
    #[must_use]
    pub fn new(experiment: &Experiment, samples: &'a [Sample]) -> Measured<'a> {
        let mut sums: BTreeMap<_, Sums> = BTreeMap::new();
        for sample in samples {
            let key = (
                sample.point,
                sample.subject.as_str(),
                sample.metric.as_str(),
            );
            let of_seed = sums.entry(key).or_default().entry(sample.seed);
            let (sum, members) = of_seed.or_default();
            *sum += sample.value;
            *members += 1;
        }
        Measured {
            sums,
            first_seed: experiment.first_seed,
            seeds: usize::try_from(experiment.seeds).unwrap_or(usize::MAX),
        }
    }

    /// The mean over members under each seed; `None` if the point has no such metric.
    #[must_use]
    pub fn mean(&self, point: usize, subject: &str, name: &str) -> Option<Estimate> {
        self.estimate(point, subject, name, |sum, members| sum / members as f64)
    }

    /// The sum over members under each seed; `None` if the point has no such metric.
    #[must_use]
    pub fn sum(&self, point: usize, subject: &str, name: &str) -> Option<Estimate> {
        self.estimate(point, subject, name, |sum, _| sum)
    }

    fn estimate(
        &self,
        point: usize,
        subject: &str,
        name: &str,
        value: impl Fn(f64, usize) -> f64,
    ) -> Option<Estimate> {
        let unit = metric::find(subject, name, false)?.unit;
        let of_seeds = self.sums.get(&(point, subject, name))?;
        let mut values = vec![None; self.seeds];
        for (seed, &(sum, members)) in of_seeds {
            let at = usize::try_from(seed.checked_sub(self.first_seed)?).ok()?;
            *values.get_mut(at)? = Some(value(sum, members));
        }
        Some(Estimate { unit, values })
    }

    /// All metrics of a point: subject, name, and the mean over members under each seed.
    pub fn of_point(&self, point: usize) -> impl Iterator<Item = (&'a str, &'a str, Estimate)> {
        let all = self.sums.range((point, "", "")..(point + 1, "", ""));
        all.filter_map(move |(&(_, subject, name), _)| {
            Some((subject, name, self.mean(point, subject, name)?))
        })
    }

    /// The number of seeds that were asked for.
    #[must_use]
    pub fn seeds(&self) -> usize {
        self.seeds
    }

    /// The number of seeds under which a point was run.
    #[must_use]
    pub fn seeds_run(&self, point: usize) -> usize {
        let first = (point, "run", "simulated_s");
        self.sums.get(&first).map_or(0, BTreeMap::len)
    }
}
