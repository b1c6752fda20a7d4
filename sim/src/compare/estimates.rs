//! The results of a comparison: every metric of every controller over all seeds.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::experiment::{Experiment, PlainPath, metric};
use crate::lab::Sample;
use crate::results::Estimate;

/// The metrics of a controller, by subject and name.
pub type Metrics = BTreeMap<String, BTreeMap<String, Estimate>>;

/// A controller with its measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contender {
    /// Its name in tables.
    pub id: String,
    /// Its name for people.
    pub title: String,
    /// Its name and options.
    pub cc: String,
    /// The number of its point.
    #[serde(skip)]
    pub point: usize,
    /// Its measurements.
    pub metrics: Metrics,
}

/// The controllers over one path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimates {
    /// The folder with its results.
    pub id: String,
    /// Its title, for people.
    pub title: String,
    /// The first seed.
    pub first_seed: u64,
    /// The number of seeds that were run.
    pub seeds: u64,
    /// The path, if it is a plain one.
    pub path: Option<PlainPath>,
    /// The controllers, in their order.
    pub controllers: Vec<Contender>,
}

impl Estimates {
    /// Puts the samples of an experiment together.
    #[must_use]
    pub fn new(experiment: &Experiment, samples: &[Sample]) -> Estimates {
        let seeds = usize::try_from(experiment.seeds).unwrap_or(usize::MAX);
        let mut sums: BTreeMap<_, BTreeMap<u64, (f64, f64)>> = BTreeMap::new();
        for sample in samples {
            let key = (
                sample.point,
                sample.subject.as_str(),
                sample.metric.as_str(),
            );
            let of_seed = sums.entry(key).or_default().entry(sample.seed);
            let (sum, number) = of_seed.or_default();
            *sum += sample.value;
            *number += 1.0;
        }
        let controllers = experiment.points.iter().zip(&experiment.runs);
        let mut controllers: Vec<Contender> = controllers
            .map(|(point, run)| Contender {
                id: run.id.clone(),
                title: run.title.clone(),
                cc: run.cc.clone().unwrap_or_default(),
                point: point.number,
                metrics: Metrics::new(),
            })
            .collect();
        for ((point, subject, name), of_seeds) in sums {
            let own = controllers.iter_mut().find(|own| own.point == point);
            let (Some(own), Some(metric)) = (own, metric::find(subject, name, false)) else {
                continue;
            };
            let mut values = vec![None; seeds];
            for (seed, (sum, number)) in of_seeds {
                let at = usize::try_from(seed - experiment.first_seed).unwrap_or(usize::MAX);
                if let Some(value) = values.get_mut(at) {
                    *value = Some(sum / number);
                }
            }
            let estimate = Estimate {
                unit: metric.unit,
                values,
            };
            let of_subject = own.metrics.entry(subject.to_owned()).or_default();
            of_subject.insert(name.to_owned(), estimate);
        }
        Estimates {
            id: experiment.directory.display().to_string(),
            title: experiment.title.clone(),
            first_seed: experiment.first_seed,
            seeds: experiment.seeds,
            path: experiment
                .points
                .first()
                .and_then(|point| PlainPath::of(&point.setup).ok()),
            controllers,
        }
    }
}
