//! CPU time and memory of processes, from Linux (proc(5)).

use std::fs;

use anyhow::{Context, Result};

/// Clock ticks per second, as Linux counts them for programs.
const TICKS_PER_S: f64 = 100.0;

/// The CPU time that processes have used, without threads that have ended.
///
/// # Errors
///
/// There is no such process, or the kernel counts no such times.
pub fn cpu_s(processes: &[u32]) -> Result<f64> {
    let mut sum_ns = 0;
    for process in processes {
        sum_ns += thread_cpu_ns(*process)?.iter().sum::<u64>();
    }
    Ok(sum_ns as f64 / 1e9)
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

/// A process and all that it and its children have started.
///
/// # Errors
///
/// The system does not tell it.
pub fn family(process: u32) -> Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").context("cannot read /proc")? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // It may have ended meanwhile.
        let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else {
            continue;
        };
        let parent = after_name(&stat).and_then(|fields| fields.get(1).copied());
        parents.push((id, parent.and_then(|parent| u32::try_from(parent).ok())));
    }
    let mut family = vec![process];
    let mut next = 0;
    while let Some(elder) = family.get(next).copied() {
        let children = parents.iter().filter(|(_, parent)| *parent == Some(elder));
        family.extend(children.map(|(id, _)| *id));
        next += 1;
    }
    Ok(family)
}

/// The CPU time of each thread of a process, in nanoseconds.
///
/// # Errors
///
/// There is no such process, or the kernel counts no such times.
pub fn thread_cpu_ns(process: u32) -> Result<Vec<u64>> {
    let folder = format!("/proc/{process}/task");
    let mut times = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
        let file = entry?.path().join("schedstat");
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let time = text
            .split_whitespace()
            .next()
            .and_then(|time| time.parse().ok());
        times.push(time.with_context(|| format!("{}: not {text:?}", file.display()))?);
    }
    Ok(times)
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

/// The sum over several processes.
///
/// # Errors
///
/// There is no such process.
pub fn memory_of_all_kib(processes: &[u32], which: &str) -> Result<u64> {
    let memory = processes.iter().map(|process| memory_kib(*process, which));
    memory.sum()
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
        assert!(cpu_s(&[own]).unwrap() > 0.0 && cpu_of_children_s().is_ok());
        assert!(memory_kib(own, "VmNothing").is_err());
        assert!(family(own).unwrap().contains(&own));
    }
}
