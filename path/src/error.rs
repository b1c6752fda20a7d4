//! Why there is no path.

use std::io;
use thiserror::Error;

/// What is the matter where namespaces or devices are refused.
const RIGHTS: &str =
    "run it as root, or in a user namespace (unshare --user --map-root-user COMMAND)";

/// Why there is no path.
#[derive(Debug, Error)]
pub enum PathError {
    /// No namespace can be made or entered.
    #[error("cannot {action} a network namespace: {error}; {RIGHTS}")]
    Namespace {
        /// What was tried.
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
        /// Whose.
        side: &'static str,
        /// What it says.
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
