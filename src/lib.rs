//! TCP Vegas and Gallop-Vegas congestion control for QUIC.
//!
//! Both watch the RTT and keep a few datagrams queued in the network, instead of filling the queue
//! until packets are lost. Gallop-Vegas finds the available window of a large path several times
//! faster, without bursts. The controllers know no QUIC stack, and no feature is on by default; the
//! feature `quiche` plugs them into quiche:
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
//! The papers are cited by number: 000 is "TCP Vegas: New Techniques for Congestion Detection and
//! Avoidance" (Brakmo, O'Malley, Peterson), 003 is "Gallop-Vegas: An Enhanced Slow-Start Mechanism
//! for TCP Vegas" (Ho, Chan, Chen), 004 is a study of Vegas for streaming media.

// Controllers are told the time and have no entropy: clippy.toml.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod algorithm;
mod base_rtt;
pub mod controller;
pub mod gallop;
mod options;
mod pacing;
pub mod persistent_congestion;
#[cfg(feature = "quiche")]
mod quiche;
mod round;
pub mod vegas;
mod window;

#[cfg(feature = "quiche")]
pub use self::quiche::register;
pub use algorithm::{Algorithm, AlgorithmError};
pub use options::{Options, OptionsError};
pub use round::RttMeasure;
