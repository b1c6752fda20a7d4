//! Reasons why a path cannot be made or cannot go on.

use std::io;

use thiserror::Error;

/// The remedy where namespaces or devices are refused.
const RIGHTS: &str =
    "run it as root, or in a user namespace (unshare --user --map-root-user COMMAND)";

/// A reason why a path cannot be made or cannot go on.
#[derive(Debug, Error)]
pub enum PathError {
    /// No namespace can be made or entered.
    #[error("cannot {action} a network namespace: {error}; {RIGHTS}")]
    Namespace {
        /// The action that failed.
        action: &'static str,
        /// The system's reason.
        error: io::Error,
    },
    /// No TUN device can be made.
    #[error(
        "cannot make a TUN device: {error}; the kernel must have TUN (CONFIG_TUN, /dev/net/tun), and {RIGHTS}"
    )]
    Device {
        /// The system's reason.
        error: io::Error,
    },
    /// The command `ip` cannot be run.
    #[error("cannot run the command \"ip\": {error}; install iproute2")]
    IpMissing {
        /// The system's reason.
        error: io::Error,
    },
    /// The command `ip` fails.
    #[error("\"ip -batch\" cannot set up the {side}'s device: {message}")]
    IpFailed {
        /// The side: client or server.
        side: &'static str,
        /// Its message.
        message: String,
    },
    /// The settings contradict themselves.
    #[error(transparent)]
    Settings(#[from] gallop_network::Invalid),
    /// A file for the packets cannot be written.
    #[error("cannot write {path}: {error}")]
    Capture {
        /// The file.
        path: String,
        /// The system's reason.
        error: io::Error,
    },
    /// A command cannot be started.
    #[error("cannot start {program}: {error}")]
    Spawn {
        /// The command.
        program: String,
        /// The system's reason.
        error: io::Error,
    },
    /// The system fails the path while it works.
    #[error("the path cannot go on: {error}")]
    Failed {
        /// The system's reason.
        error: io::Error,
    },
}
