//! s2n-quic as an endpoint of the QUIC interop runner: its roles, test cases and folders.

mod chacha20;
mod client;
#[path = "../../contract.rs"]
mod contract;
mod server;
mod session;

use std::process::ExitCode;
use std::time::Duration;

use s2n_quic::provider::limits::Limits;

/// s2n-quic has no 0-RTT and gives no way to start a key update; its HTTP/3 is on no registry.
const CASES: [&str; 6] = [
    "chacha20",
    "handshake",
    "multiconnect",
    "resumption",
    "retry",
    "transfer",
];

/// If 30 % of the packets are lost, a handshake can take longer than the usual 10 s, and probes
/// back off for longer than the usual 30 s.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let supports = |_: &str, case: &str| CASES.contains(&case);
    contract::run(supports, server::run, client::run)
}

/// Limits of a connection in either role.
fn limits() -> anyhow::Result<Limits> {
    Ok(Limits::new()
        .with_max_handshake_duration(PATIENCE)?
        .with_max_idle_timeout(PATIENCE)?)
}
