//! A transfer over a path that is hurt, under both controllers and many seeds.

use std::num::NonZeroU32;
use std::time::Duration;

use gallop_sim::experiment::network::{Circumstances, DumbbellSpec, FlowPlace, Network};
use gallop_sim::traffic::Bulk;
use gallop_sim::{
    AckPolicy, Controller, Conversation, Flow, Move, Observation, Simulation, isolated,
};
use serde::Deserialize;

use crate::path::{DATAGRAM_BYTES, Path};

/// Seeds per scenario and controller, unless the environment gives another number.
const SEEDS: u64 = 2;

/// Environment variable with the number of seeds.
const SEEDS_VARIABLE: &str = "HOSTILE_SEEDS";

/// The controllers under test.
pub const CONTROLLERS: [&str; 3] = ["vegas", "gallop-vegas", "canter"];

/// A transfer, its impairments, and the bound that it has to keep nevertheless.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name that a failure shows.
    pub name: String,
    /// The path that the bounds are derived from.
    pub path: Path,
    /// The impairments, as keys of an experiment's `[dumbbell]`.
    pub hurt: String,
    /// The begin and the end of the impairments; `None` if they last.
    pub during: Option<(Duration, Duration)>,
    /// Stream bytes of the transfer.
    pub bytes: u64,
    /// The latest end.
    pub limit: Duration,
    /// The number of packets for one acknowledgment.
    pub ack_every: u32,
    /// True if the endpoints search for datagrams larger than 1200 bytes.
    pub discovers_mtu: bool,
    /// The client's changes of address.
    pub moves: Vec<(Duration, Move)>,
}

/// Stream bytes of most transfers: 4 s at 10 Mbit/s.
pub const BYTES: u64 = 5_000_000;

impl Scenario {
    /// A transfer over a path that is hurt between two times and heals.
    pub fn healing(path: Path, hurt: impl Into<String>, from: Duration, to: Duration) -> Scenario {
        let hurt = hurt.into();
        Scenario {
            name: hurt.clone(),
            path,
            hurt,
            during: Some((from, to)),
            bytes: BYTES,
            limit: path.completion_after(to, to - from, BYTES),
            ack_every: 2,
            discovers_mtu: false,
            moves: Vec::new(),
        }
    }

    /// The same, with impairments at those times only.
    pub fn passing(path: Path, hurt: &str, from: Duration, to: Duration) -> Scenario {
        let during = format!(
            "impaired-during = {{ from = \"{}us\", to = \"{}us\" }}\n",
            from.as_micros(),
            to.as_micros()
        );
        let reverse = if hurt.contains("reverse.") {
            format!("reverse.{during}")
        } else {
            String::new()
        };
        let name = hurt.to_owned();
        let hurt = format!("{hurt}\n{during}{reverse}");
        Scenario {
            name,
            ..Scenario::healing(path, hurt, from, to)
        }
    }

    /// A transfer over a path that stays as it is.
    pub fn lasting(path: Path, hurt: impl Into<String>, bytes: u64, limit: Duration) -> Scenario {
        let hurt = hurt.into();
        Scenario {
            name: format!("{}{hurt}", path.toml()),
            path,
            hurt,
            during: None,
            bytes,
            limit,
            ack_every: 2,
            discovers_mtu: false,
            moves: Vec::new(),
        }
    }

    /// Its name in one line.
    fn name(&self) -> String {
        self.name.trim_end().replace('\n', ", ")
    }

    /// The network as an experiment's file has it.
    pub fn text(&self) -> String {
        format!("{}{}", self.path.toml(), self.hurt)
    }

    /// The transfer.
    pub fn flow(&self, controller: &str) -> Flow {
        Flow {
            conversation: Conversation::answer(Box::new(Bulk::Bytes(self.bytes))),
            checks_content: true,
            observer: Some(Box::new(observe)),
            datagram_bytes: DATAGRAM_BYTES,
            discovers_mtu: self.discovers_mtu,
            moves: self.moves.clone(),
            acks: AckPolicy {
                every: NonZeroU32::new(self.ack_every).expect("not zero"),
                max_delay: self.path.max_ack_delay,
            },
            ..Flow::new(Controller::named(controller))
        }
    }

    /// Runs the transfer and checks that it arrives whole and in time; returns the time of its end.
    fn transfer(&self, controller: &str, seed: u64) -> Result<Duration, String> {
        let mut simulation = simulation(&self.text(), seed)?;
        let stall = self.during.map_or(self.limit, |(from, to)| {
            to - from + self.path.progress(to - from)
        });
        simulation.set_stall_limit(stall.max(Duration::from_secs(60)));
        let show = |error: gallop_sim::SimulationError| error.to_string();
        simulation.add_flow(self.flow(controller)).map_err(show)?;
        if let Some((from, to)) = self.during {
            simulation.run_until(from).map_err(show)?;
            if has_ended(&simulation) {
                return Err("it ended before it was hurt".to_owned());
            }
            simulation.run_until(to).map_err(show)?;
            let bound = self.path.progress(to - from);
            let before = received(&simulation);
            simulation.run_until(to + bound).map_err(show)?;
            if received(&simulation) == before && !has_ended(&simulation) {
                return Err(format!(
                    "nothing was read in {bound:?} after the path had healed"
                ));
            }
        }
        let end = simulation.run_to_completion(self.limit).map_err(show)?;
        let report = simulation.report(0).ok_or("no flow")?;
        if report.received_bytes != self.bytes {
            return Err(format!("{} of {} bytes", report.received_bytes, self.bytes));
        }
        Ok(report.finished.unwrap_or(end) - gallop_sim::clock::Time::ZERO)
    }
}

fn received(simulation: &Simulation) -> u64 {
    simulation
        .report(0)
        .map_or(0, |report| report.received_bytes)
}

fn has_ended(simulation: &Simulation) -> bool {
    simulation
        .report(0)
        .is_some_and(|report| report.finished.is_some())
}

/// The part of an experiment's file that describes a dumbbell.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    dumbbell: Box<DumbbellSpec>,
}

/// A simulation of one flow over the dumbbell that `text` describes.
pub fn simulation(text: &str, seed: u64) -> Result<Simulation, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let place = FlowPlace {
        name: "flow".to_owned(),
        count: 1,
        ..FlowPlace::default()
    };
    let built = Network::Dumbbell(file.dumbbell)
        .build(
            &[place],
            Circumstances {
                datagram_bytes: DATAGRAM_BYTES,
                // It would only be used for courses.
                duration: Duration::ZERO,
                host_jitter: Duration::from_micros(120),
                host_stalls: None,
                seed,
                directory: std::path::Path::new("."),
            },
        )
        .map_err(|error| error.to_string())?;
    Simulation::new(built.topology).map_err(|error| error.to_string())
}

/// Checks that windows keep their bounds and that all figures are finite.
pub fn observe(seen: Observation<'_>) {
    for path in seen.connection.path_stats() {
        assert!(path.cwnd > 0, "a window of nothing");
    }
    if let Some(controller) = seen.connection.congestion_controller() {
        let window = controller.congestion_window();
        assert!(window >= 2 * 1200, "a window of {window} bytes");
        controller.metrics(&mut |name, value| {
            assert!(value.is_finite() && value >= 0.0, "{name} is {value}");
        });
    }
}

/// The seeds to run.
pub fn seeds() -> u64 {
    match std::env::var(SEEDS_VARIABLE) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{SEEDS_VARIABLE}={text} is not a number of seeds")),
        Err(_) => SEEDS,
    }
}

/// Runs `simulate` with both of our controllers registered.
pub fn alone<T: Send>(seed: u64, simulate: impl FnOnce() -> T + Send) -> T {
    isolated(seed, || {
        gallop::register().expect("names that quiche does not have");
        simulate()
    })
    .expect("clock and entropy are linked")
}

/// Runs all scenarios under both controllers and all seeds; panics with all that fails.
pub fn check(scenarios: impl IntoIterator<Item = Scenario>) {
    let mut failures = Vec::new();
    for scenario in scenarios {
        for controller in CONTROLLERS {
            let mut latest = Duration::ZERO;
            for seed in 1..=seeds() {
                match alone(seed, || scenario.transfer(controller, seed)) {
                    Ok(end) => latest = latest.max(end),
                    Err(problem) => failures.push(format!(
                        "{controller}, seed {seed}, {}: {problem}",
                        scenario.name()
                    )),
                }
            }
            println!(
                "{controller:12} {:6.1} s of {:6.1} s allowed  {}",
                latest.as_secs_f64(),
                scenario.limit.as_secs_f64(),
                scenario.name()
            );
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}
