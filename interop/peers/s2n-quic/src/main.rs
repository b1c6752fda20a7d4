//! s2n-quic as an endpoint of the QUIC interop runner: its roles, test cases and folders.

mod chacha20;
mod client;
mod server;
mod session;

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use s2n_quic::provider::limits::Limits;

/// What the runner expects for a test case that is not supported.
const UNSUPPORTED: u8 = 127;

/// s2n-quic has no 0-RTT and gives no way to start a key update; its HTTP/3 is on no registry.
const CASES: [&str; 6] = [
    "chacha20",
    "handshake",
    "multiconnect",
    "resumption",
    "retry",
    "transfer",
];

/// When 30 % of the packets are lost, a handshake can take longer than the usual 10 s, and probes
/// back off for longer than the usual 30 s.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let role = env::var("ROLE").unwrap_or_default();
    let case = env::var("TESTCASE").unwrap_or_default();
    if !CASES.contains(&case.as_str()) {
        eprintln!("test case {case} is not supported as {role}");
        return ExitCode::from(UNSUPPORTED);
    }
    match run(&role, &case) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(role: &str, case: &str) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match role {
        "server" => runtime.block_on(server::run(case)),
        "client" => runtime.block_on(client::run(case)),
        _ => anyhow::bail!("ROLE is server or client, not {role:?}"),
    }
}

/// Limits of a connection in either role.
fn limits() -> anyhow::Result<Limits> {
    Ok(Limits::new()
        .with_max_handshake_duration(PATIENCE)?
        .with_max_idle_timeout(PATIENCE)?)
}
