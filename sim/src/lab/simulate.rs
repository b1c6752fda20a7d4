//! One run: a point of an experiment under one seed.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use super::flows::{MOST, Member, Paths, members};
use super::outcome::{Course, RunOutcome, Subject};
use crate::engine::Simulation;
use crate::experiment::network::{BuildError, Built, Circumstances};
use crate::experiment::{Experiment, Point, Setup};
use crate::measure::Measure;
use crate::topology::LinkId;
use crate::trace_file::TraceFile;

/// The virtual time between two looks at the progress and at the data that the clients have.
const STEP: Duration = Duration::from_millis(100);

/// The second in which a flow has most of its share of the capacity, in steps.
const SECOND: usize = 10;

/// The reason for which a run has no results.
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

/// The task of a run.
pub(super) struct Run<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) point: &'a Point,
    pub(super) seed: u64,
    /// The experiment's directory.
    pub(super) directory: &'a Path,
}

/// A simulation and the numbers of its parts.
struct Running<'a> {
    setup: &'a Setup,
    simulation: Simulation,
    links: Vec<(String, LinkId)>,
    members: Vec<Member>,
    traces: Vec<(PathBuf, TraceFile)>,
    /// The deliveries to each member.
    deliveries: Vec<Delivery>,
    courses: Courses,
}

impl Run<'_> {
    /// Simulates, within [`isolated`](crate::isolated), and reports the progress.
    pub(super) fn simulate(&self, told: impl Fn(Duration)) -> Result<RunOutcome, RunFailure> {
        let setup = &self.point.setup;
        let directory = self.experiment.path.parent().unwrap_or(Path::new(""));
        let circumstances = Circumstances {
            datagram_bytes: setup.datagram_bytes,
            duration: setup.duration,
            host_jitter: setup.host_jitter,
            host_stalls: setup.host_stalls,
            seed: self.seed,
            directory,
        };
        let built = setup.network.build(&setup.places, circumstances)?;
        let after = setup.change_at.map(|at| built.paths_at(at));
        let Built {
            topology,
            links,
            paths: before,
            ..
        } = built;
        let paths = Paths {
            before,
            after: after.unwrap_or_default(),
        };
        let mut running = Running {
            setup,
            simulation: Simulation::new(topology)?,
            links,
            members: Vec::new(),
            traces: Vec::new(),
            deliveries: Vec::new(),
            courses: Courses::default(),
        };
        running.add_flows(&paths, self)?;
        let number = self.seed - self.experiment.first_seed;
        let series = self.experiment.series;
        let every = series.filter(|series| number < series.seeds.get());
        running.run(every.map(|series| series.every.duration()), told)?;

        let mut subjects = running.subjects();
        if let (Some(analysis), Some(path)) = (self.experiment.analysis, paths.before.first()) {
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
        // This writes the rest of the qlogs.
        drop(running.simulation);
        for (path, file) in running.traces {
            file.finish()
                .map_err(|error| RunFailure::Write { path, error })?;
        }
        Ok(outcome)
    }
}

impl Running<'_> {
    /// Adds every member of every flow, with its qlog if that is kept.
    fn add_flows(&mut self, paths: &Paths, run: &Run<'_>) -> Result<(), RunFailure> {
        for (route, (mut member, flows)) in members(self.setup, paths, run.seed).enumerate() {
            for mut flow in flows {
                let name = &member.setup(self.setup).name;
                let kept = run.seed == run.experiment.first_seed
                    && member.flows.is_empty()
                    && run.experiment.keeps_trace(run.point, name, member.index);
                if kept {
                    let file = run.experiment.trace_file(run.point, name, member.index);
                    flow.server_qlog = Some(self.trace(run.directory.join(file))?);
                }
                let number = self.simulation.add_flow_over(route, flow)?;
                member.flows.push(number);
            }
            self.members.push(member);
            self.deliveries.push(Delivery::default());
        }
        Ok(())
    }

    /// Opens a qlog.
    fn trace(&mut self, path: PathBuf) -> Result<Box<dyn io::Write + Send + Sync>, RunFailure> {
        let created = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| TraceFile::create(&path));
        match created {
            Ok((file, writer)) => {
                self.traces.push((path, file));
                Ok(writer)
            }
            Err(error) => Err(RunFailure::Write { path, error }),
        }
    }

    /// Runs to the end, measures from the time that the setup gives and keeps the series.
    fn run(&mut self, every: Option<Duration>, told: impl Fn(Duration)) -> Result<(), RunFailure> {
        let Setup {
            duration: end,
            measure_from,
            ..
        } = *self.setup;
        let mut now = Duration::ZERO;
        let mut measuring = false;
        let mut sampled = Duration::ZERO;
        let mut looked = Duration::ZERO;
        while now < end {
            let mut next = (looked + STEP).min(end);
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
            if now == looked + STEP {
                looked = now;
                self.look(now);
                told(now);
            }
        }
        told(now);
        Ok(())
    }

    /// Notes the data that have come to the clients.
    fn look(&mut self, now: Duration) {
        for (member, delivery) in self.members.iter().zip(&mut self.deliveries) {
            let [flow] = member.flows[..] else { continue };
            if delivery.reached.is_none()
                && let Some(received) = self.simulation.datagram_bytes_received(flow)
            {
                let share = member.fair_packets_per_s * self.setup.datagram_bytes as f64;
                delivery.note(now, received, MOST * share);
            }
        }
    }

    /// All measurements.
    fn subjects(&self) -> Vec<Subject> {
        let now = self.simulation.now();
        let members = self.members.iter().zip(&self.deliveries);
        let mut subjects: Vec<Subject> = members
            .map(|(member, delivery)| {
                member.measured(&self.simulation, self.setup, delivery.reached)
            })
            .collect();
        add_shares(&mut subjects);
        let run = self.run_measures(&subjects);
        subjects.extend(self.links.iter().filter_map(|(name, id)| {
            let measures = self.simulation.link(*id)?.measures(now);
            Some(Subject::new(format!("link/{name}"), measures))
        }));
        subjects.push(Subject::new("run".to_owned(), run));
        subjects
    }

    /// The measurements of all flows together.
    fn run_measures(&self, flows: &[Subject]) -> Vec<Measure> {
        let foreground: Vec<&Subject> = flows.iter().filter(|flow| !flow.background).collect();
        let values = |metric: &str| -> Vec<f64> {
            let all = foreground.iter().filter_map(|flow| flow.get(metric));
            all.collect()
        };
        // There is none if one flow has no value.
        let of_all = |metric: &str| -> Option<Vec<f64>> {
            let values = values(metric);
            (values.len() == foreground.len() && !values.is_empty()).then_some(values)
        };
        let greatest = |values: Vec<f64>| values.into_iter().fold(f64::MIN, f64::max);
        let least = |values: Vec<f64>| values.into_iter().fold(f64::MAX, f64::min);
        let throughputs = values("throughput_bps");
        let sum = |metric: &str| -> f64 { values(metric).iter().sum() };
        let (sent, lost) = (sum("sent_packets"), sum("lost_packets"));
        let mut measures = vec![
            Measure::new("throughput_sum_bps", "bit/s", throughputs.iter().sum()),
            Measure::new("sent_packets", "packets", sent),
            Measure::new("lost_packets", "packets", lost),
            Measure::new("loss_ratio", "", lost / sent),
            Measure::new("simulated_s", "s", self.simulation.now().as_secs_f64()),
            Measure::new("events", "", self.simulation.events() as f64),
        ];
        if let Some(again) = of_all("retransmitted_bytes") {
            let again = again.iter().sum();
            measures.push(Measure::new("retransmitted_bytes", "bytes", again));
        }
        let latest = [
            "slow_start_exit_s",
            "slow_start_s",
            "available_window_reached_s",
            "time_to_95_percent_s",
            "ramp_up_s",
            "recovered_s",
            "rtt_p95_s",
        ];
        for metric in latest {
            let value = of_all(metric).map(greatest);
            measures.extend(value.map(|value| Measure::new(metric, "s", value)));
        }
        let worst = [
            ("ramp_up_rounds", of_all("ramp_up_rounds").map(greatest)),
            ("share", of_all("share").map(least)),
            ("power_ratio", of_all("power_ratio").map(least)),
        ];
        for (metric, value) in worst {
            measures.extend(value.map(|value| Measure::new(metric, "", value)));
        }
        if let Some(means) = of_all("rtt_mean_s") {
            let mean = means.iter().sum::<f64>() / means.len() as f64;
            measures.push(Measure::new("rtt_mean_s", "s", mean));
        }
        measures.extend(jain(&throughputs).map(|index| Measure::new("jain", "", index)));
        measures
    }
}

/// Adds to flows that are no background the part that each has of the throughput of all of them, if
/// there are several.
fn add_shares(flows: &mut [Subject]) {
    let rates = flows.iter().filter(|flow| !flow.background);
    let rates: Vec<f64> = rates
        .filter_map(|flow| flow.get("throughput_bps"))
        .collect();
    let all: f64 = rates.iter().sum();
    if rates.len() < 2 || all <= 0.0 {
        return;
    }
    for flow in flows.iter_mut().filter(|flow| !flow.background) {
        if let Some(rate) = flow.get("throughput_bps") {
            flow.add(Measure::new("share", "", rate / all));
        }
    }
}

/// Jain's index of fairness: 1 if all are equal, 1/n if one has all. One flow has none.
fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    (values.len() > 1 && squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// The data that have come to a client, and the time at which that was most of its share for a
/// second.
#[derive(Default)]
struct Delivery {
    /// Bytes until each of the last steps, the latest last.
    bytes: VecDeque<u64>,
    reached: Option<Duration>,
}

impl Delivery {
    /// Notes the bytes that have come until `now`, a whole number of steps.
    fn note(&mut self, now: Duration, bytes: u64, bytes_per_s: f64) {
        self.bytes.push_back(bytes);
        if self.bytes.len() > SECOND + 1 {
            self.bytes.pop_front();
        }
        // Before the first look no data had come.
        let whole = now >= STEP * SECOND as u32;
        let before = match self.bytes.len() > SECOND {
            true => self.bytes[0],
            false => 0,
        };
        if whole && (bytes - before) as f64 >= bytes_per_s {
            self.reached = Some(now);
        }
    }
}

/// Values over time, by subject, member and metric.
#[derive(Default)]
struct Courses {
    samples: usize,
    list: BTreeMap<(String, usize, &'static str), Course>,
    /// The value of a counter at the last sample.
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
            self.add(&subject, Measure::new("drops", "packets", drops));
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

    /// The growth of a subject's counter since the last sample; a counter that has become smaller
    /// began anew.
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
        assert_eq!(jain(&[3.0]), None);
        assert_eq!(jain(&[0.0, 0.0]), None);
    }

    #[test]
    fn shares_are_of_all_that_is_no_background() {
        let flow = |bps: f64, background| Subject {
            background,
            ..Subject::new(
                "flow/a".to_owned(),
                vec![Measure::new("throughput_bps", "bit/s", bps)],
            )
        };
        let shares = |mut flows: Vec<Subject>| -> Vec<Option<f64>> {
            add_shares(&mut flows);
            flows.iter().map(|flow| flow.get("share")).collect()
        };
        let three = vec![flow(6.0, false), flow(5.0, true), flow(2.0, false)];
        assert_eq!(shares(three), [Some(0.75), None, Some(0.25)]);
        assert_eq!(shares(vec![flow(6.0, false), flow(5.0, true)]), [None; 2]);
        assert_eq!(shares(vec![flow(0.0, false); 2]), [None; 2]);
    }

    #[test]
    fn a_flow_has_its_share_when_a_whole_second_had_it() {
        let mut delivery = Delivery::default();
        // 50 bytes in each of the first 20 steps, then 100 bytes.
        let mut bytes = 0;
        let mut reached = |step: u32| {
            bytes += if step <= 20 { 50 } else { 100 };
            delivery.note(STEP * step, bytes, 950.0);
            delivery.reached
        };
        for step in 1..=28 {
            assert_eq!(reached(step), None, "{step}");
        }
        // 9 steps of 100 bytes, and one of 50.
        assert_eq!(reached(29), Some(STEP * 29));
    }

    #[test]
    fn a_burst_in_less_than_a_second_is_no_second() {
        let mut delivery = Delivery::default();
        delivery.note(STEP, 10_000, 950.0);
        assert_eq!(delivery.reached, None);
        delivery.note(STEP * SECOND as u32, 10_000, 950.0);
        assert_eq!(delivery.reached, Some(Duration::from_secs(1)));
    }
}
