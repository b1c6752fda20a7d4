//! See src/lib.rs.

mod tools;

use std::process::ExitCode;

fn main() -> ExitCode {
    let libclang = clang_sys::load().is_ok();
    let missing = tools::missing(|name| std::env::var_os(name), libclang);
    if !missing.is_empty() {
        // The script prints nothing else: cargo shows all output of a build script that failed.
        println!("cargo::error={}", tools::message(&missing));
        return ExitCode::FAILURE;
    }

    // The environment is no reason to run again. A script that failed runs again in any case, and
    // tools that were found are there. Cargo itself changes PATH and LD_LIBRARY_PATH for the
    // commands that it runs, so every change between `cargo` and a command that runs cargo would
    // compile quiche anew.
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=tools.rs");
    ExitCode::SUCCESS
}
