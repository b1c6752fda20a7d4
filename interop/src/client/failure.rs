//! Reasons why the client ends without success.

use gallop_network::units::Span;

/// A reason why the client cannot complete its task.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// Some transfers failed; the report says why.
    #[error("{0} of {1} transfers failed")]
    Transfers(usize, usize),
    /// A server cannot be reached, or ended the connection.
    #[error("{0}")]
    Connect(String),
    /// The time limit has passed.
    #[error("not done after {0}")]
    Timeout(Span),
    /// A server's certificate is not trusted or not for it.
    #[error("{0}")]
    Certificate(String),
    /// A local file cannot be read or written.
    #[error("{0}")]
    Local(String),
    /// A signal ended the client.
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// The exit status of a program.
    pub fn exit_status(&self) -> u8 {
        match self {
            Failure::Transfers(..) => 1,
            Failure::Connect(_) => 3,
            Failure::Timeout(_) => 4,
            Failure::Certificate(_) => 5,
            Failure::Local(_) => 6,
            Failure::Interrupted => 7,
        }
    }
}
