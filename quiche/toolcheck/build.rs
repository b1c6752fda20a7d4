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

    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=tools.rs");
    let environment = |name: &str| std::env::var(name).unwrap_or_default();
    let (host, target) = (environment("HOST"), environment("TARGET"));
    for variable in tools::VARIABLES {
        for name in tools::names(variable, &host, &target) {
            println!("cargo::rerun-if-env-changed={name}");
        }
    }
    ExitCode::SUCCESS
}
