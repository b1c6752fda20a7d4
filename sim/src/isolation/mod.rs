//! A world of its own for every simulation: a thread with a virtual clock and seeded entropy.

pub mod clock;
pub mod entropy;
mod thread;

pub use thread::{SelfCheckError, isolated, self_check};
