//! A long run: flows come and go for hours over a path that keeps changing, under our controllers
//! and others, and their invariants are checked all the time.

mod watch;
mod world;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;

use crate::engine::Simulation;
use crate::engine::error::SimulationError;
use crate::isolation::{SelfCheckError, isolated};
use watch::{Violation, Violations};
use world::World;

/// The number of flows that may be open at once; more do not come. Their smallest windows, of up to
/// four packets, fit into the buffer; otherwise one of them might find it full for hours.
const MOST_OPEN: usize = 14;

/// The interval of checks of pending events and memory.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The time that flows have to finish at the end, over a path that no longer changes.
const DRAIN: Duration = Duration::from_secs(4 * 3600);

/// The time for which an end may probe: longer than two of the longest outages and the backoff
/// after them.
const STALL_LIMIT: Duration = Duration::from_secs(600);

/// The number of events that may be pending per open connection: its packets and its timers.
const EVENTS_PER_CONNECTION: usize = 500;

/// The limit of the process' growth after the first tenth of a run, in bytes: it keeps a few
/// hundred bytes per flow.
const GROWTH_LIMIT_BYTES: u64 = 64 << 20;

/// The options of a long run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Simulated time in which flows come; those that are left then finish.
    pub duration: Duration,
    /// The seed, which determines everything.
    pub seed: u64,
}

/// The reason for which a long run failed.
#[derive(Debug, Error)]
pub enum SoakError {
    /// This program cannot simulate deterministically.
    #[error("self-check: {0}")]
    SelfCheck(#[from] SelfCheckError),
    /// Controllers cannot be made known to quiche.
    #[error("quiche refuses a controller of ours: {0}")]
    Register(quiche::Error),
    /// The simulation cannot go on.
    #[error("{0}")]
    Simulation(#[from] SimulationError),
    /// An invariant does not hold.
    #[error("at {time}, flow {flow} ({controller}): {what}")]
    Violation {
        /// The time.
        time: crate::time::Time,
        /// The flow.
        flow: usize,
        /// Its controller.
        controller: String,
        /// The invariant that does not hold.
        what: String,
    },
    /// More events are pending than can be explained.
    #[error(
        "after {simulated_s} s {pending} events are pending for {open} connections; at most {EVENTS_PER_CONNECTION} each are explained"
    )]
    Agenda {
        /// The time, in seconds.
        simulated_s: f64,
        /// Events.
        pending: usize,
        /// Open connections.
        open: usize,
    },
    /// Events or connections are left when all flows have gone.
    #[error("when all flows had gone, {pending} events and {open} connections were left")]
    Left {
        /// Events.
        pending: usize,
        /// Open connections.
        open: usize,
    },
    /// The process has grown.
    #[error(
        "the process grew from {before} to {after} bytes after the first tenth of the run; {GROWTH_LIMIT_BYTES} are explained"
    )]
    Memory {
        /// Bytes after a tenth.
        before: u64,
        /// Bytes at the end.
        after: u64,
    },
}

impl From<Violation> for SoakError {
    fn from(violation: Violation) -> SoakError {
        let Violation {
            time,
            flow,
            controller,
            what,
        } = violation;
        SoakError::Violation {
            time,
            flow,
            controller,
            what,
        }
    }
}

/// Counters of the flows of one controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Flows that came and went.
    pub flows: u64,
    /// Stream bytes that they carried.
    pub received_bytes: u64,
    /// Packets that they sent.
    pub packets_sent: u64,
    /// Packets that were declared lost.
    pub packets_lost: u64,
    /// Probe timeouts.
    pub timeouts: u64,
}

/// The results of a long run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The seed.
    pub seed: u64,
    /// Simulated time, until the last flow had gone.
    pub simulated_s: f64,
    /// Events.
    pub events: u64,
    /// The number of times that the invariants of a connection were checked.
    pub checks: u64,
    /// The most connections at one time.
    pub most_open: usize,
    /// The most events pending at one time.
    pub most_pending: usize,
    /// Memory of the process after a tenth of the run, in bytes, if the system tells it.
    pub resident_bytes_early: Option<u64>,
    /// The same at the end.
    pub resident_bytes_late: Option<u64>,
    /// Counters by controller.
    pub controllers: BTreeMap<String, Tally>,
}

/// A long run and its progress.
#[derive(Debug)]
pub struct Soak {
    options: Options,
    simulated_ns: AtomicU64,
    flows: AtomicU64,
}

impl Soak {
    /// A long run that has not begun.
    #[must_use]
    pub fn new(options: Options) -> Soak {
        Soak {
            options,
            simulated_ns: AtomicU64::new(0),
            flows: AtomicU64::new(0),
        }
    }

    /// Simulated time in which flows come.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.options.duration
    }

    /// The time that has been simulated.
    #[must_use]
    pub fn simulated(&self) -> Duration {
        Duration::from_nanos(self.simulated_ns.load(Ordering::Relaxed))
    }

    /// Flows that have gone.
    #[must_use]
    pub fn flows(&self) -> u64 {
        self.flows.load(Ordering::Relaxed)
    }

    /// Runs it.
    ///
    /// # Errors
    /// The first invariant that does not hold, or a failure of the simulation.
    pub fn execute(&self) -> Result<Summary, SoakError> {
        gallop::register().map_err(SoakError::Register)?;
        isolated(self.options.seed, || Run::new(self)?.run())?
    }
}

/// A run under way.
struct Run<'a> {
    soak: &'a Soak,
    simulation: Simulation,
    world: World,
    violations: Violations,
    /// Flows that have not gone, and their controllers.
    open: Vec<(usize, &'static str)>,
    summary: Summary,
}

impl<'a> Run<'a> {
    fn new(soak: &'a Soak) -> Result<Run<'a>, SoakError> {
        let (world, topology) = World::new(soak.options.duration, soak.options.seed);
        let mut simulation = Simulation::new(topology)?;
        simulation.set_stall_limit(STALL_LIMIT);
        Ok(Run {
            soak,
            simulation,
            world,
            violations: Violations::default(),
            open: Vec::new(),
            summary: Summary {
                seed: soak.options.seed,
                simulated_s: 0.0,
                events: 0,
                checks: 0,
                most_open: 0,
                most_pending: 0,
                resident_bytes_early: None,
                resident_bytes_late: None,
                controllers: BTreeMap::new(),
            },
        })
    }

    fn run(mut self) -> Result<Summary, SoakError> {
        let end = self.soak.options.duration;
        let (mut now, mut next_look) = (Duration::ZERO, LOOK_EVERY);
        let mut next_flow = self.world.until_next_flow();
        while now < end {
            now = next_flow.min(next_look).min(end);
            self.run_until(now)?;
            if now == next_look {
                next_look += LOOK_EVERY;
                self.look()?;
                if self.summary.resident_bytes_early.is_none() && now >= end / 10 {
                    self.summary.resident_bytes_early = resident_bytes();
                }
            }
            if now == next_flow {
                next_flow += self.world.until_next_flow();
                if self.open.len() < MOST_OPEN {
                    self.add_flow(now)?;
                }
            }
        }
        while !self.open.is_empty() && now < end + DRAIN {
            now += LOOK_EVERY;
            self.run_until(now)?;
            self.look()?;
        }
        self.finish()
    }

    fn run_until(&mut self, now: Duration) -> Result<(), SoakError> {
        self.simulation.run_until(now)?;
        let nanoseconds = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.soak.simulated_ns.store(nanoseconds, Ordering::Relaxed);
        match self.violations.take() {
            Some(violation) => Err(violation.into()),
            None => Ok(()),
        }
    }

    fn add_flow(&mut self, now: Duration) -> Result<(), SoakError> {
        let (route, controller, mut flow) = self.world.flow(now);
        let number = self.simulation.flows();
        flow.observer = Some(self.violations.observer(number, controller));
        self.simulation.add_flow_over(route, flow)?;
        self.open.push((number, controller));
        self.summary.most_open = self.summary.most_open.max(self.open.len());
        Ok(())
    }

    /// Counts and forgets the flows that have gone, and checks pending events and memory.
    fn look(&mut self) -> Result<(), SoakError> {
        let (open, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|&(flow, _)| !self.simulation.has_closed(flow));
        self.open = open;
        for (flow, controller) in gone {
            let Some(report) = self.simulation.forget(flow) else {
                continue;
            };
            let tally = self
                .summary
                .controllers
                .entry(controller.to_owned())
                .or_default();
            tally.flows += 1;
            tally.received_bytes += report.received_bytes;
            tally.packets_sent += report.packets_sent;
            tally.packets_lost += report.packets_lost;
            tally.timeouts += report.timeouts;
            self.soak.flows.fetch_add(1, Ordering::Relaxed);
        }
        let (pending, open) = (self.simulation.pending_events(), self.open.len());
        self.summary.most_pending = self.summary.most_pending.max(pending);
        match pending > EVENTS_PER_CONNECTION * (open + 1) {
            true => Err(SoakError::Agenda {
                simulated_s: self.simulation.now().as_secs_f64(),
                pending,
                open,
            }),
            false => Ok(()),
        }
    }

    fn finish(mut self) -> Result<Summary, SoakError> {
        let (pending, open) = (self.simulation.pending_events(), self.open.len());
        if pending + open > 0 {
            return Err(SoakError::Left { pending, open });
        }
        self.summary.simulated_s = self.simulation.now().as_secs_f64();
        self.summary.events = self.simulation.events();
        self.summary.checks = self.violations.checks();
        self.summary.resident_bytes_late = resident_bytes();
        let memory = (
            self.summary.resident_bytes_early,
            self.summary.resident_bytes_late,
        );
        match memory {
            (Some(before), Some(after)) if after > before + GROWTH_LIMIT_BYTES => {
                Err(SoakError::Memory { before, after })
            }
            _ => Ok(self.summary),
        }
    }
}

/// The memory of this process, if the system tells it.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
