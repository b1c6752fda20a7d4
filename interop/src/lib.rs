//! An HTTP/3 and hq-interop server and client that take any congestion controller by flag: for
//! trying the controllers out, for running them on part of a site's traffic, and for the QUIC
//! interop runner.

pub mod arguments;
pub mod body;
pub mod client;
pub mod congestion_control;
mod fields;
pub mod outbox;
pub mod qvis;
pub mod server;
pub mod socket;
pub mod stop;
pub mod timer;
pub mod trace;
pub mod transport;
#[cfg(target_os = "linux")]
mod txtime;
