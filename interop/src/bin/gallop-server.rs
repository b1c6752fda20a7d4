//! `gallop-server`: see `--help`.

use std::process::ExitCode;

use clap::Parser;
use gallop_interop::server::{Arguments, Server};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.log.start("info");
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gallop-server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(arguments)?;
    let _signals = server.stop().on_signals()?;
    for address in server.addresses() {
        let (controller, threads) = (&arguments.cc, server.threads());
        tracing::info!(%address, %controller, threads, "listening");
    }
    if let Some(address) = server.metrics_address() {
        tracing::info!(url = %format!("http://{address}/metrics"), "metrics");
    }
    if arguments.cert.is_none()
        && let Some(address) = server.addresses().next()
    {
        eprintln!(
            "try:  gallop-client --ca {} https://localhost:{}/",
            server.certificate().chain.display(),
            address.port(),
        );
    }
    server.run()?;
    Ok(())
}
