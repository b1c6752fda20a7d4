//! Counts instructions with valgrind's callgrind.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process;

/// The instructions of a program within one function, from each time that the function was entered
/// until it returned.
#[derive(Debug, Default)]
pub struct Counts {
    /// The lines that the program wrote on standard output.
    pub lines: Vec<String>,
    /// Instructions by function called, each with the functions that it called itself: one table
    /// for each time.
    pub calls: Vec<BTreeMap<String, u64>>,
    /// All instructions: one number for each time.
    pub totals: Vec<u64>,
}

/// Runs `program` and counts the instructions within `function`, named as in Rust.
///
/// # Errors
///
/// valgrind is missing, or the program fails.
pub fn count<A: AsRef<OsStr>>(
    folder: &Path,
    function: &str,
    program: &Path,
    arguments: &[A],
) -> Result<Counts> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let out = folder.join("out");
    let printed = process::output(
        Command::new("valgrind")
            .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(format!("--toggle-collect={function}"))
            .arg(format!("--dump-after={function}"))
            .arg(program)
            .args(arguments),
    )?;
    let mut counts = Counts {
        lines: printed.lines().map(str::to_owned).collect(),
        ..Counts::default()
    };
    let mut names = BTreeMap::new();
    for dump in dumps(&out) {
        let text = fs::read(&dump).with_context(|| format!("cannot read {}", dump.display()))?;
        let (total, calls) = read(&String::from_utf8_lossy(&text), &mut names);
        counts.totals.push(total);
        counts.calls.push(calls);
    }
    ensure!(
        !counts.totals.is_empty(),
        "callgrind saw no call of {function} in {}",
        program.display()
    );
    Ok(counts)
}

/// The dumps that are there, in order.
fn dumps(out: &Path) -> impl Iterator<Item = PathBuf> {
    (1..)
        .map(move |number| out.with_extension(number.to_string()))
        .take_while(|dump| dump.is_file())
}

/// Reads a dump (valgrind's manual, "Callgrind Format Specification"): its total, and the inclusive
/// cost of the calls of each function. A function's name is written out where its number occurs for
/// the first time, in this or an earlier dump: `names` has those.
fn read(text: &str, names: &mut BTreeMap<String, String>) -> (u64, BTreeMap<String, u64>) {
    let mut total = 0;
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    let mut callee = String::new();
    let mut is_call = false;
    let mut name = |compressed: &str| -> String {
        let (number, name) = compressed.split_once(' ').unwrap_or((compressed, ""));
        if !name.is_empty() {
            names.insert(number.to_owned(), name.to_owned());
        }
        names.get(number).cloned().unwrap_or_default()
    };
    for line in text.lines() {
        if let Some(compressed) = line.strip_prefix("fn=") {
            name(compressed);
        } else if let Some(compressed) = line.strip_prefix("cfn=") {
            callee = name(compressed);
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if let Some(cost) = cost(line) {
            match is_call {
                true => *calls.entry(callee.clone()).or_default() += cost,
                false => total += cost,
            }
            is_call = false;
        }
    }
    (total, calls)
}

/// The cost in a line of a position and a number.
fn cost(line: &str) -> Option<u64> {
    let (position, cost) = line.split_once(' ')?;
    let is_position =
        position.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first));
    is_position.then(|| cost.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read_with_names_of_earlier_dumps() {
        let mut names = BTreeMap::new();
        let first = "\
# callgrind format
version: 1
events: Ir
summary: 21

ob=(8) program
fl=(1) file
fn=(1) measure
0 7
cfn=(2) send
calls=3 0 
0 10
+2 1
cfn=(3) acknowledge
calls=1 0 
* 3

fn=(2)
0 10

fn=(3)
0 3
";
        let (total, calls) = read(first, &mut names);
        assert_eq!(total, 21);
        assert_eq!((calls["send"], calls["acknowledge"]), (10, 3));
        let second =
            "fn=(1)\n0 1\ncfn=(2)\ncalls=1 0 \n0 5\ncfn=(2)\ncalls=1 0\n0 4\n\nfn=(2)\n0 9\n";
        let (total, calls) = read(second, &mut names);
        assert_eq!((total, calls["send"]), (10, 9));
    }
}
