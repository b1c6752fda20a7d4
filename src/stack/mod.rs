//! Adapters between QUIC stacks and [`Controller`], a file and a feature each.

#[cfg(feature = "noq")]
pub mod noq;
#[cfg(any(feature = "noq", feature = "quinn", feature = "s2n-quic"))]
mod numbers;
#[cfg(any(feature = "noq", feature = "quinn"))]
mod per_packet;
#[cfg(feature = "quiche")]
pub mod quiche;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "s2n-quic")]
pub mod s2n_quic;

use crate::controller::{Controller, PathConfig};

/// The factory of a controller that is not in the catalogue: a function that builds it for a new
/// path. Every stack takes it where it takes an [`Algorithm`](crate::Algorithm).
#[derive(Clone, Copy, Debug)]
pub struct Factory(pub fn(&PathConfig) -> Box<dyn Controller>);

/// The initial window of the stacks that leave it to the controller (RFC 9002 §7.2).
#[cfg(any(feature = "noq", feature = "quinn", feature = "s2n-quic"))]
const INITIAL_WINDOW_PACKETS: u64 = 10;
