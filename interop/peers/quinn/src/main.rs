//! quinn as an endpoint of the QUIC interop runner: its roles, test cases and folders.

mod client;
mod server;
mod settings;

use std::env;
use std::process::ExitCode;

/// What the runner expects for a test case that is not supported.
const UNSUPPORTED: u8 = 127;

const CASES: [&str; 10] = [
    "chacha20",
    "handshake",
    "http3",
    "keyupdate",
    "multiconnect",
    "resumption",
    "retry",
    "transfer",
    "upload",
    "zerortt",
];

fn main() -> ExitCode {
    let role = env::var("ROLE").unwrap_or_default();
    let case = env::var("TESTCASE").unwrap_or_default();
    if !CASES.contains(&case.as_str()) || (role == "client" && case == "upload") {
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
