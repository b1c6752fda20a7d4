//! A connection as the simulator drives it, and the failures of its operations.

use std::time::Duration;

use quiche::h3;

use crate::endpoint::buffers::StreamBuffers;

/// A connection as the simulator drives it.
pub type Connection = quiche::Connection<StreamBuffers>;

/// An operation of a connection that failed.
#[derive(Debug, thiserror::Error)]
#[error("{operation} failed: {error}")]
pub struct ConnectionError {
    operation: &'static str,
    error: StackError,
}

/// An error that quiche reported.
#[derive(Debug, thiserror::Error)]
enum StackError {
    #[error(transparent)]
    Quic(quiche::Error),
    #[error("HTTP/3: {0}")]
    Http3(h3::Error),
    #[error("{0}")]
    Other(String),
    #[error("only quiche has it here")]
    QuicheOnly,
}

/// HTTP/3 over a connection that is not quiche's.
pub(crate) const NO_HTTP3: ConnectionError = ConnectionError {
    operation: "HTTP/3",
    error: StackError::QuicheOnly,
};

/// The error of a stack that is not quiche.
pub(crate) fn failed_elsewhere(operation: &'static str) -> impl Fn(String) -> ConnectionError {
    move |error| ConnectionError {
        operation,
        error: StackError::Other(error),
    }
}

pub(crate) fn failed(operation: &'static str) -> impl Fn(quiche::Error) -> ConnectionError {
    move |error| ConnectionError {
        operation,
        error: StackError::Quic(error),
    }
}

pub(crate) fn failed_http3(operation: &'static str) -> impl Fn(h3::Error) -> ConnectionError {
    move |error| ConnectionError {
        operation,
        error: StackError::Http3(error),
    }
}

/// The sender's estimate of the RTT without queues: the controller's BaseRTT, or the least RTT.
pub(crate) fn base_rtt(connection: &Connection) -> Option<Duration> {
    let mut base_rtt_ms = None;
    if let Some(controller) = connection.congestion_controller() {
        controller.metrics(&mut |name, value| {
            if name == "vegas_base_rtt_ms" {
                base_rtt_ms = Some(value);
            }
        });
    }
    match base_rtt_ms {
        Some(milliseconds) => Duration::try_from_secs_f64(milliseconds / 1e3).ok(),
        None => connection.path_stats().find(|path| path.active)?.min_rtt,
    }
}
