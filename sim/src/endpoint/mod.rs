//! The ends of a connection: a real quiche connection, its driver, and the application on it.

pub(crate) mod acks;
pub(crate) mod application;
pub(crate) mod buffers;
mod connection;
mod driver;
pub(crate) mod foreign;
pub(crate) mod moves;
mod pool;
mod sender;
pub(crate) mod settings;
mod streams;
pub(crate) mod tcp;
mod tls;

pub use acks::AckPolicy;
pub use buffers::{StreamBuffers, StreamData};
pub use connection::{Connection, ConnectionError};
pub use driver::Action;
pub use moves::Move;
pub use settings::{ConfigError, Controller};

pub(crate) use connection::{base_rtt, failed};
pub(crate) use driver::{Endpoint, Packets, Place, Watch, Woken};
pub(crate) use pool::Pool;
pub(crate) use sender::Sender;
