//! The ends of a connection: a real quiche connection, its driver, and the application on it.

pub(crate) mod acks;
pub(crate) mod application;
pub(crate) mod buffers;
mod driver;
pub(crate) mod moves;
pub(crate) mod settings;
mod tls;

pub use acks::AckPolicy;
pub use buffers::{StreamBuffers, StreamData};
pub use driver::{Action, Connection, ConnectionError};
pub use moves::Move;
pub use settings::{ConfigError, Controller};

pub(crate) use driver::{Endpoint, Packets, Place, Pool, failed, failed_http3};
