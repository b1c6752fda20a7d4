//! The results of a comparison: every metric of every controller over all seeds.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::experiment::{Experiment, PlainPath};
use crate::lab::Sample;
use crate::results::{Estimate, Measured};

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
        let measured = Measured::new(experiment, samples);
        let controllers = experiment.points.iter().zip(&experiment.runs);
        let controllers = controllers.map(|(point, run)| {
            let mut metrics = Metrics::new();
            for (subject, name, estimate) in measured.of_point(point.number) {
                let of_subject = metrics.entry(subject.to_owned()).or_default();
                of_subject.insert(name.to_owned(), estimate);
            }
            Contender {
                id: run.id.clone(),
                title: run.title.clone(),
                cc: run.cc.clone().unwrap_or_default(),
                metrics,
            }
        });
        Estimates {
            id: experiment.directory.display().to_string(),
            title: experiment.title.clone(),
            first_seed: experiment.first_seed,
            seeds: experiment.seeds,
            path: experiment
                .points
                .first()
                .and_then(|point| PlainPath::of(&point.setup).ok()),
            controllers: controllers.collect(),
        }
    }
}
