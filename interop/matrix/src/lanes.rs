//! Runs cells side by side.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cell::Cell;
use crate::fixture::Fixture;
use crate::outcome::{Outcome, Verdict};
use crate::programs::Programs;

/// The file that says how a cell ended.
const OUTCOME: &str = "outcome.json";

/// The time for which a measurement is repeated until its path is not late.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs all cells, `lanes` at a time, each in its own folder below `out`. A cell that fails is run
/// once more, because lanes share cores and some cases lose packets by chance; if it then succeeds,
/// its reason says so. A measurement whose path was late because other work had the cores is
/// repeated for two minutes at most.
///
/// With `resume` a cell that has an outcome below `out` is not run again.
///
/// A signal to end ends the programs of all lanes first: they are in process groups of their own.
///
/// # Errors
///
/// A cell cannot be run at all, or a signal came.
pub fn run(
    cells: &[Cell],
    lanes: usize,
    resume: bool,
    out: &Path,
    fixture: &Fixture,
    programs: &Programs,
) -> Result<Vec<Outcome>> {
    let progress = ProgressBar::new(cells.len() as u64);
    if let Ok(style) = ProgressStyle::with_template(
        "{elapsed} {wide_bar} {pos}/{len} cells, about {eta} to go  {msg}",
    ) {
        progress.set_style(style);
    }
    progress.enable_steady_tick(Duration::from_secs(1));
    let all = side_by_side(cells, lanes, |cell, is_over| {
        let outcome = match resume.then(|| finished(cell, out)).flatten() {
            Some(outcome) => outcome,
            None => run_one(cell, out, fixture, programs, is_over)?,
        };
        if outcome.result == Verdict::Failed {
            let text = format!(
                "failed: {} of {} by {}: {}",
                cell.case.name, cell.server, cell.client, outcome.reason
            );
            match progress.is_hidden() {
                true => eprintln!("{text}"),
                false => progress.println(text),
            }
        }
        progress.set_message(cell.case.name);
        progress.inc(1);
        Ok(outcome)
    });
    progress.finish_and_clear();
    all.context("--resume goes on")
}

/// Does the work for each item, `lanes` at a time, until one fails or a signal to end comes; then
/// the flag that the work is given becomes true.
///
/// # Errors
///
/// The first failure, or the signal.
pub fn side_by_side<Item: Sync, Done: Send>(
    items: &[Item],
    lanes: usize,
    work: impl Fn(&Item, &AtomicBool) -> Result<Done> + Sync,
) -> Result<Vec<Done>> {
    let next = AtomicUsize::new(0);
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&is_over))?;
    }
    let results: Mutex<Vec<Option<Result<Done>>>> =
        Mutex::new(items.iter().map(|_| None).collect());
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(item, &is_over);
                    if result.is_err() {
                        is_over.store(true, Ordering::Relaxed);
                    }
                    if let Ok(mut results) = results.lock() {
                        results[index] = Some(result);
                    }
                }
            });
        }
    });
    let results = results
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    // The first error is why others are missing.
    let all: Vec<Done> = results.into_iter().flatten().collect::<Result<_>>()?;
    ensure!(all.len() == items.len(), "interrupted");
    Ok(all)
}

/// The outcome of a cell that an earlier run finished.
fn finished(cell: &Cell, out: &Path) -> Option<Outcome> {
    let json = fs::read(out.join(cell.folder()).join(OUTCOME)).ok()?;
    serde_json::from_slice(&json).ok()
}

fn run_one(
    cell: &Cell,
    out: &Path,
    fixture: &Fixture,
    programs: &Programs,
    is_over: &AtomicBool,
) -> Result<Outcome> {
    let folder = out.join(cell.folder());
    let place = || format!("{} of {} by {}", cell.case.name, cell.server, cell.client);
    fs::create_dir_all(&folder).with_context(place)?;
    // An outcome of an earlier run is not for this one.
    match fs::remove_file(folder.join(OUTCOME)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(place);
        }
        _ => {}
    }
    let start = Instant::now();
    let mut failure = None;
    let outcome = loop {
        let mut outcome = cell
            .run(&folder, fixture, programs, is_over)
            .with_context(place)?;
        match outcome.result {
            Verdict::Failed if failure.is_none() => {
                failure = Some(outcome.reason);
                continue;
            }
            Verdict::Succeeded
                if cell.case.is_measurement()
                    && outcome.is_late()
                    && start.elapsed() < PATIENCE =>
            {
                continue;
            }
            Verdict::Succeeded => {
                if let Some(first) = failure {
                    outcome.reason = format!("at the second attempt; before: {first}");
                }
            }
            _ => {}
        }
        break outcome;
    };
    let json = serde_json::to_vec_pretty(&outcome)?;
    gallop_files::write(&folder.join(OUTCOME), &json).with_context(place)?;
    Ok(outcome)
}
