//! CPU time and memory of processes, from Linux (proc(5)).

use std::fs;

use anyhow::{Context, Result};

/// Clock ticks per second, as Linux counts them for programs.
const TICKS_PER_S: f64 = 100.0;

/// The CPU time that a process has used.
///
/// # Errors
///
/// There is no such process.
pub fn cpu_s(process: u32) -> Result<f64> {
    ticks(process, 11)
}

/// The CPU time of the programs that this one has run to their end.
///
/// # Errors
///
/// The system does not tell it.
pub fn cpu_of_children_s() -> Result<f64> {
    ticks(std::process::id(), 13)
}

/// User and system time; `index` counts the fields after the program's name.
fn ticks(process: u32, index: usize) -> Result<f64> {
    let file = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    let sum = after_name(&text)
        .and_then(|fields| Some(fields.get(index)? + fields.get(index + 1)?))
        .with_context(|| format!("{file}: expected the fields of proc(5), not {text:?}"))?;
    Ok(sum as f64 / TICKS_PER_S)
}

/// The numbers after the program's name, which may itself have blanks.
fn after_name(stat: &str) -> Option<Vec<i64>> {
    let (_, fields) = stat.rsplit_once(')')?;
    let number = |field: &str| field.parse().unwrap_or(0);
    Some(fields.split_whitespace().map(number).collect())
}

/// Memory of a process in kibibytes: `VmRSS` now, `VmHWM` at most until now.
///
/// # Errors
///
/// There is no such process.
pub fn memory_kib(process: u32, which: &str) -> Result<u64> {
    let file = format!("/proc/{process}/status");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    text.lines()
        .find_map(|line| line.strip_prefix(which)?.strip_prefix(':'))
        .and_then(|value| value.trim().strip_suffix(" kB")?.parse().ok())
        .with_context(|| format!("{file} has no {which}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_blanks_and_brackets_are_skipped() {
        let stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 55 66 77 88 20";
        let fields = after_name(stat).unwrap();
        assert_eq!((fields[11], fields[12]), (55, 66));
        assert_eq!((fields[13], fields[14]), (77, 88));
    }

    #[test]
    fn this_process_uses_memory() {
        let own = std::process::id();
        assert!(memory_kib(own, "VmHWM").unwrap() >= memory_kib(own, "VmRSS").unwrap() / 2);
        assert!(cpu_s(own).is_ok() && cpu_of_children_s().is_ok());
        assert!(memory_kib(own, "VmNothing").is_err());
    }
}
