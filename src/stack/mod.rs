//! Adapters between QUIC stacks and [`Controller`](crate::controller::Controller), a file and a
//! feature each.

#[cfg(feature = "quiche")]
pub mod quiche;
