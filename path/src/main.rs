//! `gallop-path`: see `--help`.

#[cfg(target_os = "linux")]
mod command;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    command::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!("gallop-path: it needs Linux, for its network namespaces and TUN devices");
    std::process::ExitCode::FAILURE
}
