//! quinn as an endpoint of the QUIC interop runner: its roles, test cases and folders.

mod client;
#[path = "../../contract.rs"]
mod contract;
mod server;
mod settings;

use std::process::ExitCode;

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
    let supports =
        |role: &str, case: &str| CASES.contains(&case) && !(role == "client" && case == "upload");
    contract::run(supports, server::run, client::run)
}
