//! Deterministic network simulator that drives real quiche connections, TLS and all, in virtual
//! time.
//!
//! The same seed gives the same packets and the same qlog, to the byte. Each simulation runs in one
//! thread of its own ([`isolated`]), so several of them can run in parallel.
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
//! The parts fit together: [`queue::Queue`]s and [`impairment::Impairment`]s make a [`link::Link`],
//! links and routes make a [`topology::Topology`] (a [`Dumbbell`] is one), and a
//! [`traffic::Source`] and a [`Controller`] make a [`Flow`].
//!
//! Rates count bytes on the wire: UDP payload and [`units::WIRE_OVERHEAD_BYTES`].

pub mod compare;
mod endpoint;
mod engine;
pub mod evaluate;
pub mod experiment;
mod isolation;
pub mod lab;
pub mod results;
pub mod soak;
pub mod stack;
mod tcp;
mod trace_file;
pub mod traffic;

pub use endpoint::{
    AckPolicy, Action, ConfigError, Connection, ConnectionError, Controller, Move, StreamBuffers,
    StreamData,
};
pub use engine::{
    Dumbbell, DumbbellTopology, Flow, FlowReport, Follow, Observation, Observer, ShareWindow,
    Simulation, SimulationError, topology,
};
pub use isolation::{SelfCheckError, clock, entropy, isolated, self_check};
pub use traffic::{Conversation, Player, conversation};

/// The parts of networks, which this crate's interface is made of.
pub use gallop_network::{
    Invalid, Side, impairment, link, measure, meter, packet, queue, random, rate_course, stalls,
    time, units,
};

use gallop_network::invalid;

use endpoint::{acks, moves, settings};
use engine::{error, flow};
