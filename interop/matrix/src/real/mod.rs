//! Experiments of the simulator run in real time: over a path of `gallop-path`, with the real
//! programs and the kernel's TCP, and their figures beside the simulated ones.

pub mod figures;
mod measured;
pub mod plan;
mod qlog;
pub mod results;
pub mod simulated;
pub mod verdict;

pub use measured::{Place, run};
