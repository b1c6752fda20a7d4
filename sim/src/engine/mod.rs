//! The engine: flows over a topology of links, moved by events in virtual time.

mod agenda;
mod connect;
mod ends;
pub(crate) mod error;
pub(crate) mod flow;
pub(crate) mod flow_meter;
mod host;
mod measures;
mod over_time;
mod running;
mod share;
mod simulation;
pub mod topology;

pub use error::SimulationError;
pub use flow::{Flow, FlowReport, Follow, Observation, Observer};
pub use share::ShareWindow;
pub use simulation::Simulation;
pub use topology::{Dumbbell, DumbbellTopology};
