//! Deterministic network simulator that drives real quiche connections, TLS and
//! all, in virtual time.
//!
//! Same seed, same packets and same qlog, to the byte. Everything runs in one
//! thread of its own ([`isolated`]), so simulations run in parallel by running
//! several.
//!
//! ```
//! use gallop_sim::{Controller, Dumbbell, Flow, Simulation, isolated};
//! use std::time::Duration;
//!
//! let seed = 1;
//! let received = isolated(seed, || {
//!     let path = Dumbbell::new("10mbit".parse()?, Duration::from_millis(40), "50p".parse()?)
//!         .build(1, seed);
//!     let mut simulation = Simulation::new(path.topology)?;
//!     let flow = simulation.add_flow(Flow::new(Controller::named("reno")))?;
//!     simulation.run_until(Duration::from_secs(2))?;
//!     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(
//!         simulation.report(flow).map_or(0, |report| report.received_bytes),
//!     )
//! })??;
//! assert!(received > 1_500_000);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! The parts fit together: [`queue::Queue`]s and [`impairment::Impairment`]s
//! make a [`link::Link`], links and routes a [`topology::Topology`] (a
//! [`Dumbbell`] is one), a [`traffic::Source`] and a [`Controller`] a [`Flow`].
//!
//! Rates count bytes on the wire: UDP payload and
//! [`units::WIRE_OVERHEAD_BYTES`].

pub mod acks;
mod agenda;
mod application;
pub mod baselines;
mod buffers;
pub mod clock;
pub mod comparison;
pub mod conversation;
mod endpoint;
mod ends;
mod engine;
pub mod entropy;
mod error;
pub mod experiment;
mod flow;
pub mod flow_meter;
pub mod graph;
mod isolation;
pub mod lab;
mod moves;
mod player;
pub mod record;
pub mod run;
mod settings;
pub mod soak;
mod tls;
pub mod topology;
mod trace_file;
pub mod traffic;

pub use acks::AckPolicy;
pub use buffers::{StreamBuffers, StreamData};
pub use conversation::Conversation;
pub use endpoint::{Action, Connection, ConnectionError};
pub use engine::Simulation;
pub use error::SimulationError;
pub use flow::{Flow, FlowReport, Observation, Observer};
pub use isolation::{SelfCheckError, isolated, self_check};
pub use moves::Move;
pub use player::Player;
pub use settings::{ConfigError, Controller};
pub use topology::{Dumbbell, DumbbellTopology};

/// The parts of networks, which this crate's interface is made of.
pub use gallop_network::{
    Invalid, Side, impairment, link, measure, meter, packet, queue, random, rate_course, time,
    units,
};

use gallop_network::invalid;
