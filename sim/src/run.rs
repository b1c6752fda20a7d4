//! Runs a whole comparison: every controller of every group in a simulation of
//! its own, several at a time, and writes what they leave behind.

use crate::acks::AckPolicy;
use crate::comparison::{Comparison, ComparisonError, Run, Scenario};
use crate::engine::Simulation;
use crate::error::SimulationError;
use crate::flow::Flow;
use crate::isolation::{SelfCheckError, isolated, self_check};
use crate::record::{
    BottleneckRecord, FlowRecord, QUEUE_FILE_NAME, RUN_FILE_NAME, RunRecord, trace_file_name,
};
use crate::settings::Controller;
use crate::topology::{Dumbbell, LinkId};
use crate::trace_file::TraceFile;
use crate::units::WIRE_OVERHEAD_BYTES;
use gallop::AlgorithmError;
use gallop::stack::quiche::Selection;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use thiserror::Error;

/// One row of the queue's table per so much simulated time.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);

/// The progress of a run is told that often, in simulated time.
const STEP: Duration = Duration::from_millis(100);

/// Why a comparison could not be run.
#[derive(Debug, Error)]
pub enum RunError {
    /// The comparison itself.
    #[error(transparent)]
    Comparison(#[from] ComparisonError),
    /// This program cannot simulate deterministically.
    #[error("self-check: {0}")]
    SelfCheck(#[from] SelfCheckError),
    /// Our controllers cannot be made known to quiche.
    #[error("quiche refuses a controller of ours: {0}")]
    Register(quiche::Error),
    /// A controller that there is not, or an option that it does not take.
    #[error("{place}: {error}")]
    Algorithm {
        /// Where in the comparison.
        place: String,
        /// What is wrong.
        error: AlgorithmError,
    },
    /// A simulation failed.
    #[error("run {run}: {error}")]
    Simulation {
        /// Group and run.
        run: String,
        /// Why.
        error: SimulationError,
    },
    /// A flow got nothing through.
    #[error("run {run}: no progress: flow {flow} received nothing in {simulated_s} s")]
    Nothing {
        /// Group and run.
        run: String,
        /// The flow.
        flow: usize,
        /// How long was simulated.
        simulated_s: f64,
    },
    /// A result cannot be written.
    #[error("cannot write {path}: {error}")]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another run failed first.
    #[error("run {run}: stopped because another failed")]
    Stopped {
        /// Group and run.
        run: String,
    },
}

/// A comparison, ready to run.
#[derive(Debug)]
pub struct Plan {
    jobs: Vec<Job>,
}

/// One run of a plan, and how far it has come.
#[derive(Debug)]
pub struct Job {
    label: String,
    directory: PathBuf,
    scenario: Scenario,
    run: Run,
    parameters: Option<BTreeMap<String, f64>>,
    simulated_ns: AtomicU64,
}

impl Job {
    /// Group and run, with a slash between.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// How long it simulates.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.scenario.duration_s.duration()
    }

    /// How much of that it has simulated.
    #[must_use]
    pub fn simulated(&self) -> Duration {
        Duration::from_nanos(self.simulated_ns.load(Ordering::Relaxed))
    }
}

impl Plan {
    /// Reads the comparison at `path`; its runs go to `runs/` beside it.
    ///
    /// # Errors
    /// Fails when the comparison cannot be used, when a controller is unknown or
    /// refuses its options, and when this program cannot be deterministic.
    pub fn read(path: &Path) -> Result<Plan, RunError> {
        self_check()?;
        gallop::register().map_err(RunError::Register)?;
        let comparison = Comparison::read(path)?;
        let runs = path.parent().unwrap_or(Path::new("")).join("runs");
        let mut jobs = Vec::new();
        for (g, group) in comparison.groups.into_iter().enumerate() {
            for (r, run) in group.runs.into_iter().enumerate() {
                let place = || format!("{}: groups[{g}].runs[{r}].cc", path.display());
                jobs.push(Job {
                    label: format!("{}/{}", group.id, run.id),
                    directory: runs.join(&group.id),
                    scenario: group.scenario.clone(),
                    parameters: parameters(&run, place)?,
                    run,
                    simulated_ns: AtomicU64::new(0),
                });
            }
        }
        Ok(Plan { jobs })
    }

    /// The runs, in the comparison's order.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Runs everything, so many simulations at a time. A run's directory appears
    /// when it is whole and replaces one of that name.
    ///
    /// # Errors
    /// The first run that fails stops the others and is named.
    pub fn execute(&self, threads: NonZeroUsize) -> Result<(), RunError> {
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let work = || -> Result<(), RunError> {
            while let Some(job) = self.jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                job.execute(&stop)
                    .inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            }
            Ok(())
        };
        let results: Vec<Result<(), RunError>> = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads.get().min(self.jobs.len()))
                .map(|_| scope.spawn(work))
                .collect();
            workers
                .into_iter()
                .map(|worker| {
                    worker
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        });
        let mut errors: Vec<RunError> = results.into_iter().filter_map(Result::err).collect();
        let cause = errors
            .iter()
            .position(|error| !matches!(error, RunError::Stopped { .. }));
        match cause {
            Some(cause) => Err(errors.swap_remove(cause)),
            None => errors.pop().map_or(Ok(()), Err),
        }
    }
}

/// The options of a controller of the catalogue that are numbers.
fn parameters(
    run: &Run,
    place: impl Fn() -> String,
) -> Result<Option<BTreeMap<String, f64>>, RunError> {
    let selection: Selection = run.cc.parse().map_err(|error| RunError::Algorithm {
        place: place(),
        error,
    })?;
    Ok(selection.algorithm().map(|algorithm| {
        let specs = gallop::catalog::CATALOG
            .iter()
            .flat_map(|entry| entry.options);
        specs
            .filter_map(|spec| {
                let value = algorithm.options().number_if_any(spec.name)?;
                Some((spec.name.to_owned(), value))
            })
            .collect()
    }))
}

impl Job {
    /// Simulates into a directory with a temporary name, and renames that.
    fn execute(&self, stop: &AtomicBool) -> Result<(), RunError> {
        let partial = self.directory.join(format!(".{}.partial", self.run.id));
        let whole = self.directory.join(&self.run.id);
        remove(&partial)?;
        fs::create_dir_all(&partial).map_err(cannot_write(&partial))?;
        let simulated = isolated(self.scenario.seed, || self.simulate(&partial, stop))?;
        if simulated.is_err() {
            remove(&partial)?;
        }
        simulated?;
        remove(&whole)?;
        fs::rename(&partial, &whole).map_err(cannot_write(&whole))
    }

    /// Runs the simulation and writes everything into `directory`.
    fn simulate(&self, directory: &Path, stop: &AtomicBool) -> Result<(), RunError> {
        let failed = |error| RunError::Simulation {
            run: self.label.clone(),
            error,
        };
        let scenario = &self.scenario;
        let mut dumbbell = Dumbbell::new(scenario.rate_bps, scenario.rtt_s.into(), scenario.buffer);
        // A flow alone has nothing to fall into step with, and a jitter of 60 µs in
        // the mean looks like a fraction of a packet of backlog to a controller
        // that watches delays.
        if scenario.flows == 1 {
            dumbbell.host_jitter = Duration::ZERO;
        }
        if let Some(jitter) = scenario.host_jitter_s {
            dumbbell.host_jitter = jitter.into();
        }
        let path = dumbbell.build(scenario.flows, scenario.seed);
        let mut simulation = Simulation::new(path.topology).map_err(failed)?;
        simulation.sample_queue(path.bottleneck, SAMPLE_EVERY);

        let mut traces = Vec::new();
        for flow in 0..scenario.flows {
            let file = directory.join(trace_file_name(flow));
            let (kept, writer) = TraceFile::create(&file).map_err(cannot_write(&file))?;
            traces.push((file, kept));
            let flow = Flow {
                initial_window_packets: scenario.initial_window_packets,
                datagram_bytes: scenario.datagram_bytes,
                acks: AckPolicy {
                    every: NonZeroU32::new(scenario.ack_every).unwrap_or(NonZeroU32::MIN),
                    max_delay: scenario.max_ack_delay_s.into(),
                },
                server_qlog: Some(writer),
                ..Flow::new(Controller::named(&self.run.cc))
            };
            simulation.add_flow(flow).map_err(failed)?;
        }

        let end = self.duration();
        let mut now = Duration::ZERO;
        while now < end {
            if stop.load(Ordering::Relaxed) {
                let run = self.label.clone();
                return Err(RunError::Stopped { run });
            }
            now = (now + STEP).min(end);
            simulation.run_until(now).map_err(failed)?;
            let simulated_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
            self.simulated_ns.store(simulated_ns, Ordering::Relaxed);
        }

        self.write_record(directory, &simulation, path.bottleneck)?;
        write_queue(directory, &simulation, path.bottleneck)?;
        drop(simulation);
        for (file, kept) in traces {
            kept.finish().map_err(cannot_write(&file))?;
        }
        Ok(())
    }

    fn write_record(
        &self,
        directory: &Path,
        simulation: &Simulation,
        bottleneck: LinkId,
    ) -> Result<(), RunError> {
        let simulated_s = simulation.now().as_secs_f64();
        let flows = (0..self.scenario.flows).map_while(|number| {
            let report = simulation.report(number)?;
            if report.received_bytes == 0 {
                return Some(Err(RunError::Nothing {
                    run: self.label.clone(),
                    flow: number,
                    simulated_s,
                }));
            }
            Some(Ok(FlowRecord {
                trace: trace_file_name(number),
                packets_sent: report.packets_sent,
                packets_lost: report.packets_lost,
                bytes_sent: report.bytes_sent,
                bytes_lost: report.bytes_lost,
                retransmitted_bytes: report.retransmitted_bytes,
                received_bytes: report.received_bytes,
                start_s: 0.0,
            }))
        });
        let flows = flows.collect::<Result<Vec<FlowRecord>, RunError>>()?;
        let meter = simulation.link(bottleneck).map(|link| link.meter());
        let (name, options) = self.run.name_and_options();
        let record = RunRecord {
            id: self.run.id.clone(),
            name: name.to_owned(),
            options: options.to_owned(),
            parameters: self.parameters.clone(),
            packet_wire_bytes: self.scenario.datagram_bytes + WIRE_OVERHEAD_BYTES,
            flows,
            bottleneck: BottleneckRecord {
                queue_mean_packets: meter.map_or(0.0, |m| m.mean_packets(simulation.now())),
                queue_max_packets: meter.map_or(0, |m| m.max_packets() as u64),
                drops: meter.map_or(0, |m| m.drops()),
                forwarded_bytes: meter.map_or(0, |m| m.forwarded_bytes()),
            },
            simulated_s,
            events: simulation.events(),
        };
        let file = directory.join(RUN_FILE_NAME);
        let write = || -> io::Result<()> {
            let mut text = serde_json::to_string_pretty(&record)?;
            text.push('\n');
            fs::write(&file, text)
        };
        write().map_err(cannot_write(&file))
    }
}

/// Writes the table of the bottleneck's queue.
fn write_queue(
    directory: &Path,
    simulation: &Simulation,
    bottleneck: LinkId,
) -> Result<(), RunError> {
    let file = directory.join(QUEUE_FILE_NAME);
    let write = || -> io::Result<()> {
        let mut table = BufWriter::new(File::create(&file)?);
        writeln!(table, "time_s,packets,bytes,drops")?;
        for sample in simulation.samples(bottleneck) {
            writeln!(
                table,
                "{},{},{},{}",
                sample.time.as_secs_f64(),
                sample.backlog.packets,
                sample.backlog.bytes,
                sample.drops
            )?;
        }
        table.flush()
    };
    write().map_err(cannot_write(&file))
}

/// Removes a directory of an earlier run, if there is one.
fn remove(directory: &Path) -> Result<(), RunError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(cannot_write(directory)(error))
        }
        _ => Ok(()),
    }
}

fn cannot_write(path: &Path) -> impl Fn(io::Error) -> RunError {
    move |error| RunError::Write {
        path: path.to_path_buf(),
        error,
    }
}
