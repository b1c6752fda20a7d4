//! One run: a point of an experiment under one seed.

use super::flows::{Member, members};
use super::outcome::{Course, RunOutcome, Subject};
use crate::engine::Simulation;
use crate::experiment::network::{BuildError, Built, PathFacts};
use crate::experiment::{Experiment, Point, Setup};
use crate::measure::Measure;
use crate::topology::LinkId;
use crate::trace_file::{self, Failure};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Between two looks at how far it is, so much virtual time passes.
const STEP: Duration = Duration::from_secs(1);

/// Why a run has no results.
#[derive(Debug, Error)]
pub(super) enum RunFailure {
    /// The network cannot be built.
    #[error(transparent)]
    Network(#[from] BuildError),
    /// The simulation cannot go on.
    #[error(transparent)]
    Simulation(#[from] crate::error::SimulationError),
    /// A qlog cannot be written.
    #[error("cannot write {path}: {error}")]
    Write { path: PathBuf, error: io::Error },
}

/// What a run is to do.
pub(super) struct Run<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) point: &'a Point,
    pub(super) seed: u64,
    /// Where qlogs go.
    pub(super) traces: PathBuf,
}

/// A simulation and what belongs to what in it.
struct Running<'a> {
    setup: &'a Setup,
    simulation: Simulation,
    links: Vec<(String, LinkId)>,
    members: Vec<Member>,
    traces: Vec<(PathBuf, Failure)>,
    courses: Courses,
}

impl Run<'_> {
    /// Simulates, within [`isolated`](crate::isolated); tells how far it is.
    pub(super) fn simulate(&self, told: impl Fn(Duration)) -> Result<RunOutcome, RunFailure> {
        let setup = &self.point.setup;
        let directory = self.experiment.path.parent().unwrap_or(Path::new(""));
        let Built {
            topology,
            links,
            paths,
        } = setup.network.build(
            &setup.places,
            setup.datagram_bytes,
            setup.host_jitter,
            self.seed,
            directory,
        )?;
        let mut running = Running {
            setup,
            simulation: Simulation::new(topology)?,
            links,
            members: Vec::new(),
            traces: Vec::new(),
            courses: Courses::default(),
        };
        running.add_flows(&paths, self)?;
        let series = self.experiment.series;
        let every = series.filter(|series| self.seed <= series.seeds.get());
        running.run(every.map(|series| series.every.duration()), told)?;

        let mut subjects = running.subjects();
        if let (Some(analysis), Some(path)) = (self.experiment.analysis, paths.first()) {
            let base_rtt_s = path.round_trip.as_secs_f64();
            let measures = analysis.measures(setup.packets_per_s(path), base_rtt_s);
            subjects.push(Subject::new("analysis".to_owned(), measures));
        }
        let outcome = RunOutcome {
            point: self.point.number,
            seed: self.seed,
            failed: None,
            subjects,
            courses: running.courses.into_list(),
        };
        // Only now all is written.
        drop(running.simulation);
        for (path, failure) in running.traces {
            let kept = failure.check();
            let kept = kept.and_then(|()| fs::rename(partial(&path), &path));
            kept.map_err(|error| RunFailure::Write { path, error })?;
        }
        Ok(outcome)
    }
}

/// Where a file grows until it is whole.
fn partial(path: &Path) -> PathBuf {
    path.with_extension("partial")
}

impl Running<'_> {
    /// Adds every member of every flow, with its qlog if that is kept.
    fn add_flows(&mut self, paths: &[PathFacts], run: &Run<'_>) -> Result<(), RunFailure> {
        let traced = run.experiment.traces_of(run.point);
        for (route, (mut member, flows)) in members(self.setup, paths, run.seed).enumerate() {
            for mut flow in flows {
                let first = member.flows.is_empty() && member.index == 0;
                if first
                    && run.seed == 1
                    && traced.contains(&member.setup(self.setup).name.as_str())
                {
                    flow.server_qlog = Some(self.trace(run, &member)?);
                }
                let number = self.simulation.add_flow_over(route, flow)?;
                member.flows.push(number);
            }
            self.members.push(member);
        }
        Ok(())
    }

    /// A qlog for the first flow of a member.
    fn trace(
        &mut self,
        run: &Run<'_>,
        member: &Member,
    ) -> Result<Box<dyn io::Write + Send + Sync>, RunFailure> {
        let flow = &member.setup(self.setup).name;
        let name = format!("{}-{flow}-{}.sqlog", run.point.number, member.index);
        let path = run.traces.join(name);
        let created =
            fs::create_dir_all(&run.traces).and_then(|()| trace_file::create(&partial(&path)));
        match created {
            Ok((writer, failure)) => {
                self.traces.push((path, failure));
                Ok(writer)
            }
            Err(error) => Err(RunFailure::Write { path, error }),
        }
    }

    /// Runs to the end, measures from when it shall and keeps the series.
    fn run(&mut self, every: Option<Duration>, told: impl Fn(Duration)) -> Result<(), RunFailure> {
        let Setup {
            duration: end,
            measure_from,
            ..
        } = *self.setup;
        let mut now = Duration::ZERO;
        let mut measuring = false;
        let mut sampled = Duration::ZERO;
        while now < end {
            let mut next = (now + STEP).min(end);
            if !measuring {
                next = next.min(measure_from);
            }
            if let Some(every) = every {
                next = next.min(sampled + every);
            }
            self.simulation.run_until(next)?;
            now = next;
            if !measuring && now == measure_from {
                self.simulation.start_measuring();
                measuring = true;
            }
            if let Some(every) = every.filter(|&every| now == sampled + every) {
                sampled = now;
                self.courses.sample(
                    &self.simulation,
                    &self.links,
                    &self.members,
                    self.setup,
                    every,
                );
            }
            told(now);
        }
        Ok(())
    }

    /// Everything that was measured.
    fn subjects(&self) -> Vec<Subject> {
        let now = self.simulation.now();
        let mut subjects: Vec<Subject> = self
            .members
            .iter()
            .map(|member| member.measured(&self.simulation, self.setup))
            .collect();
        let run = self.run_measures(&subjects);
        subjects.extend(self.links.iter().filter_map(|(name, id)| {
            let measures = self.simulation.link(*id)?.measures(now);
            Some(Subject::new(format!("link/{name}"), measures))
        }));
        subjects.push(Subject::new("run".to_owned(), run));
        subjects
    }

    /// What is measured of the flows together.
    fn run_measures(&self, flows: &[Subject]) -> Vec<Measure> {
        let foreground = || flows.iter().filter(|flow| !flow.background);
        let values = |metric: &str| foreground().filter_map(|flow| flow.get(metric)).collect();
        let throughputs: Vec<f64> = values("throughput_bps");
        let lost: Vec<f64> = values("lost_packets");
        let mut measures = vec![
            Measure::new("throughput_sum_bps", "bit/s", throughputs.iter().sum()),
            Measure::new("lost_packets", "packets", lost.iter().sum()),
            Measure::new("simulated_s", "s", self.simulation.now().as_secs_f64()),
            Measure::new("events", "", self.simulation.events() as f64),
        ];
        if let Some(index) = jain(&throughputs) {
            measures.push(Measure::new("jain", "", index));
        }
        measures
    }
}

/// Jain's index of fairness: 1 when all are equal, 1/n when one has all.
fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// Values over time, by subject, member and metric.
#[derive(Default)]
struct Courses {
    samples: usize,
    list: BTreeMap<(String, usize, &'static str), Course>,
    /// What a counter was at the last sample.
    counters: BTreeMap<(String, usize), f64>,
}

impl Courses {
    fn sample(
        &mut self,
        simulation: &Simulation,
        links: &[(String, LinkId)],
        members: &[Member],
        setup: &Setup,
        every: Duration,
    ) {
        for (name, id) in links {
            let Some(link) = simulation.link(*id) else {
                continue;
            };
            let subject = Subject::new(format!("link/{name}"), Vec::new());
            let meter = link.meter();
            let drops = self.growth(&subject, meter.drops() as f64);
            let queue = meter.backlog().packets as f64;
            self.add(&subject, Measure::new("queue_packets", "packets", queue));
            self.add(&subject, Measure::new("drops", "", drops));
        }
        for member in members {
            let [flow] = member.flows[..] else { continue };
            let subject = member.subject(setup, Vec::new());
            for measure in simulation.observe_flow(flow) {
                match measure.metric {
                    "received_bytes" => {
                        let bytes = self.growth(&subject, measure.value);
                        let bps = 8.0 * bytes / every.as_secs_f64();
                        self.add(&subject, Measure::new("throughput_bps", "bit/s", bps));
                    }
                    _ => self.add(&subject, measure),
                }
            }
        }
        self.samples += 1;
    }

    /// How much a subject's counter has grown since the last sample; a counter
    /// that has become smaller began anew.
    fn growth(&mut self, subject: &Subject, value: f64) -> f64 {
        let key = (subject.subject.clone(), subject.index);
        let before = self.counters.insert(key, value).unwrap_or(0.0);
        if value < before {
            value
        } else {
            value - before
        }
    }

    fn add(&mut self, subject: &Subject, measure: Measure) {
        let key = (subject.subject.clone(), subject.index, measure.metric);
        let course = self.list.entry(key).or_insert_with(|| Course {
            subject: subject.subject.clone(),
            index: subject.index,
            cc: subject.cc.clone(),
            background: subject.background,
            metric: measure.metric.into(),
            unit: measure.unit.into(),
            values: Vec::new(),
        });
        course.values.resize(self.samples, None);
        course
            .values
            .push(Some(measure.value).filter(|value| value.is_finite()));
    }

    fn into_list(self) -> Vec<Course> {
        self.list.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_equals_and_one_over_n_for_a_monopoly() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[7.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[]), None);
        assert_eq!(jain(&[0.0]), None);
    }
}
