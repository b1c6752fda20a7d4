//! `gallop-client`: see `--help`.

use std::process::ExitCode;

use clap::Parser;
use gallop_interop::client::{Arguments, run};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.log.start("warn");
    let (report, result) = run(&arguments);
    if arguments.json {
        match serde_json::to_string_pretty(&report) {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("gallop-client: {error}"),
        }
    } else if !arguments.quiet {
        eprintln!("{report}");
    }
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("gallop-client: {failure}");
            ExitCode::from(failure.exit_status())
        }
    }
}
