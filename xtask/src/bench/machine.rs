//! The machine that benchmarks ran on.

use std::fs;
use std::process::Command;

use crate::process;

/// Processor, cores, memory, kernel and compiler, in one line.
pub fn description() -> String {
    let first = |file: &str, key: &str| -> Option<String> {
        let text = fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let unknown = || "unknown".to_owned();
    let processor = first("/proc/cpuinfo", "model name").unwrap_or_else(unknown);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = first("/proc/meminfo", "MemTotal")
        .and_then(|memory| memory.split(' ').next()?.parse::<u64>().ok())
        .map_or_else(unknown, |kilobytes| {
            format!("{} GiB", kilobytes.div_ceil(1 << 20))
        });
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")
        .ok()
        .and_then(|release| Some(release.split(['-', '+']).next()?.trim().to_owned()))
        .unwrap_or_else(unknown);
    let compiler = process::output(Command::new("rustc").arg("--version"));
    let compiler = compiler.map_or_else(|_| unknown(), |version| version.trim().to_owned());
    format!("{processor}, {cores} cores, {memory}, Linux {kernel}, {compiler}")
}
