//! The settings of a connection.

use std::time::Duration;

use gallop::AlgorithmError;

/// Settings of a connection. All others are the stack's own, but for flow control, which never
/// limits, and the idle timeout, which there is none of.
#[derive(Clone, Debug)]
pub struct Settings<F> {
    /// The congestion controller.
    pub factory: F,
    /// The largest datagram: UDP payload. It is taken for granted, not probed for.
    pub datagram_bytes: u16,
    /// The number of packets that one acknowledgment is for, and the longest time that it is held
    /// back, which this end asks its peer for (draft-ietf-quic-ack-frequency); `None` leaves both to
    /// the peer.
    pub acks: Option<(u32, Duration)>,
    /// Decides connection ids, packet numbers that are left out, and whatever else is drawn.
    pub seed: u64,
}

/// A connection that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The certificate, its key, or the cipher suites.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The suites lack the one of first packets.
    #[error("TLS: no cipher suite for QUIC's first packets")]
    NoInitialSuite,
    /// The stack refuses to connect.
    #[error("connecting: {0}")]
    Connect(String),
}

/// A name that neither the stack nor the catalogue has.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UnknownController {
    /// Of the stack's own, no one has this name.
    #[error("{stack} has no congestion controller `{name}` of its own: it has {known}")]
    BuiltIn {
        /// The stack.
        stack: &'static str,
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The catalogue has none, or refuses its options.
    #[error(transparent)]
    Catalogue(#[from] AlgorithmError),
}
