//! See src/lib.rs.

mod tools;

use std::process::ExitCode;

fn main() -> ExitCode {
    let libclang = clang_sys::load().is_ok();
    let missing = tools::missing(|name| std::env::var_os(name), libclang);
    if !missing.is_empty() {
        // Nothing else: cargo shows all that a build script that failed has said.
        println!("cargo::error={}", tools::message(&missing));
        return ExitCode::FAILURE;
    }

    // Not the environment: what has failed runs again in any case, and what was found has been
    // found. Cargo itself changes PATH and LD_LIBRARY_PATH for what it runs, so that every change
    // from `cargo` to a command that runs cargo would compile quiche anew.
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=tools.rs");
    ExitCode::SUCCESS
}
