//! Delay-based congestion control for QUIC: Canter, TCP Vegas and Gallop-Vegas, and the controllers
//! that they are compared with.
//!
//! Vegas and Gallop-Vegas watch the RTT and keep a few datagrams queued in the network, instead of
//! filling the queue until packets are lost. Gallop-Vegas finds the available window of a large
//! path several times faster, without bursts. Canter keeps as short a queue where they fail: after
//! reroutes, with jitter, with random loss. The controllers know no QUIC stack, and no feature is
//! on by default; the features `quinn`, `noq` and `s2n-quic` make an [`Algorithm`] a controller factory of
//! these stacks, and the feature `quiche` plugs them into quiche:
//!
#![cfg_attr(feature = "quiche", doc = "```")]
#![cfg_attr(not(feature = "quiche"), doc = "```ignore")]
//! use std::sync::Arc;
//!
//! // By name, with options, wherever quiche takes the name of an algorithm …
//! gallop::register()?;
//! let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
//! config.set_cc_algorithm_name("gallop-vegas:alpha=1,beta=3")?;
//!
//! // … or as a value, with an error that says what is wrong with the text.
//! let algorithm: gallop::Algorithm = "vegas:gamma=3".parse()?;
//! config.set_cc_controller_factory(Arc::new(algorithm));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`CATALOG`] has every controller with its options. Papers are cited by author and year;
//! `docs/references.md` lists them.

// Controllers are told the time and have no entropy: clippy.toml.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod base_rtt;
pub mod canter;
pub mod catalog;
pub mod controller;
pub mod copa;
mod cubic;
pub mod gallop;
mod hystart;
mod loss_based;
pub mod options;
mod pacing;
pub mod persistent_congestion;
mod recovery;
mod reno;
mod round;
pub mod stack;
pub mod vegas;
mod window;

pub use catalog::{Algorithm, AlgorithmError, CATALOG};
pub use options::OptionsError;
#[cfg(feature = "quiche")]
pub use stack::quiche::register;
