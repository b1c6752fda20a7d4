//! Errors in building a network.

use std::io;
use std::path::PathBuf;

use gallop_network::Invalid;
use gallop_network::rate_course::TraceError;
use thiserror::Error;

/// A reason for which a network cannot be built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The description is wrong.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A trace cannot be read.
    #[error("{place}: cannot read {path}: {error}")]
    ReadTrace {
        /// Its place in the experiment's file.
        place: String,
        /// The trace.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The file of a trace has no trace.
    #[error("{place}: {path} is not a trace of Mahimahi: {error}")]
    Trace {
        /// Its place in the experiment's file.
        place: String,
        /// The trace.
        path: PathBuf,
        /// The reason.
        error: TraceError,
    },
}
