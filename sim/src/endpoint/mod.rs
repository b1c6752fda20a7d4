//! The ends of a connection: a real quiche connection, its driver, and the application on it.

pub(crate) mod acks;
pub(crate) mod application;
pub(crate) mod buffers;
mod connection;
mod driver;
pub(crate) mod moves;
mod pool;
pub(crate) mod settings;
mod tls;

pub use acks::AckPolicy;
pub use buffers::{StreamBuffers, StreamData};
pub use connection::{Connection, ConnectionError};
pub use driver::Action;
pub use moves::Move;
pub use settings::{ConfigError, Controller};

pub(crate) use connection::{base_rtt, failed};
pub(crate) use driver::{Endpoint, Packets, Place};
pub(crate) use pool::Pool;
