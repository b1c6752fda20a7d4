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
//!
//! Without the feature `engine` only what describes experiments and their
//! results is there ([`units`], [`graph`], [`experiment`], [`comparison`], [`record`],
//! [`measure`]), and
//! nothing of quiche is built. The feature `network` adds links with their queues
//! and impairments, and the [`conveyor`] that drives one by any clock, still
//! without quiche and without replacing the clock of the program.

#![cfg_attr(
    all(feature = "network", not(feature = "engine")),
    expect(
        dead_code,
        reason = "the engine alone uses some of what packets and meters offer"
    )
)]

pub mod baselines;
pub mod comparison;
pub mod experiment;
pub mod graph;
mod invalid;
pub mod measure;
pub mod record;
pub mod units;

#[cfg(feature = "engine")]
pub mod acks;
#[cfg(feature = "engine")]
mod agenda;
#[cfg(feature = "engine")]
mod application;
#[cfg(feature = "engine")]
mod buffers;
#[cfg(feature = "engine")]
pub mod clock;
#[cfg(feature = "engine")]
pub mod conversation;
#[cfg(feature = "network")]
pub mod conveyor;
#[cfg(feature = "engine")]
mod endpoint;
#[cfg(feature = "engine")]
mod ends;
#[cfg(feature = "engine")]
mod engine;
#[cfg(feature = "engine")]
pub mod entropy;
#[cfg(feature = "engine")]
mod error;
#[cfg(feature = "engine")]
mod flow;
#[cfg(feature = "engine")]
pub mod flow_meter;
#[cfg(feature = "network")]
pub mod impairment;
#[cfg(feature = "engine")]
mod isolation;
#[cfg(feature = "engine")]
pub mod lab;
#[cfg(feature = "network")]
pub mod link;
#[cfg(feature = "network")]
pub mod meter;
#[cfg(feature = "engine")]
mod moves;
#[cfg(feature = "network")]
pub mod packet;
#[cfg(feature = "engine")]
mod player;
#[cfg(feature = "network")]
pub mod queue;
#[cfg(feature = "network")]
pub mod random;
#[cfg(feature = "network")]
pub mod rate_course;
#[cfg(feature = "engine")]
pub mod run;
#[cfg(feature = "engine")]
mod settings;
#[cfg(feature = "engine")]
pub mod soak;
#[cfg(feature = "network")]
pub mod time;
#[cfg(feature = "engine")]
mod tls;
#[cfg(feature = "engine")]
pub mod topology;
#[cfg(feature = "engine")]
mod trace_file;
#[cfg(feature = "engine")]
pub mod traffic;

pub use invalid::Invalid;
#[cfg(feature = "network")]
pub use packet::Side;

#[cfg(feature = "engine")]
pub use {
    acks::AckPolicy,
    buffers::{StreamBuffers, StreamData},
    conversation::Conversation,
    endpoint::{Action, Connection, ConnectionError},
    engine::Simulation,
    error::SimulationError,
    flow::{Flow, FlowReport, Observation, Observer},
    isolation::{SelfCheckError, isolated, self_check},
    moves::Move,
    player::Player,
    settings::{ConfigError, Controller},
    topology::{Dumbbell, DumbbellTopology},
};
