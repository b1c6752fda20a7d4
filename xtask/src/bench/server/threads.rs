//! Our server with one thread and with two.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::contestants::Contestant;
use super::load::Load;
use super::median;
use super::running::{ALL_CORES, Running, pinned};
use crate::bench::{Place, usage};

pub(super) const LOAD: Load = Load::new("20 000 × 10 kB over 200 connections", 200, 20_000, 10_000);

/// The number of runs, of which the median counts.
const RUNS: usize = 5;

/// The cost of requests to a server with some threads.
#[derive(Debug, Serialize)]
pub(super) struct Served {
    threads: usize,
    /// While the client takes its part of the same cores.
    requests_per_s: f64,
    /// CPU time of the whole server.
    cpu_us_per_request: f64,
    /// CPU time of the thread that takes most, for all requests.
    busiest_us_per_request: f64,
}

pub(super) fn measure(place: &Place, folder: &Path) -> Result<Vec<Served>> {
    let mut runs = [1, 2].map(|threads| (threads, Vec::new()));
    for run in 1..=RUNS {
        for (threads, runs) in &mut runs {
            eprintln!("  {threads} threads, {run} of {RUNS}");
            runs.push(serve(place, folder, *threads)?);
        }
    }
    let served = runs.map(|(threads, runs)| {
        let of = |index: usize| median(runs.iter().map(|run| run[index]).collect());
        Served {
            threads,
            requests_per_s: of(0),
            cpu_us_per_request: of(1),
            busiest_us_per_request: of(2),
        }
    });
    Ok(served.into())
}

fn serve(place: &Place, folder: &Path, threads: usize) -> Result<[f64; 3]> {
    let contestant = Contestant::ours("cubic");
    let mut command = contestant.command(place, folder, "127.0.0.1");
    command.args(["--threads", &threads.to_string()]);
    let mut server = Running::start(pinned(ALL_CORES, &command))?;
    LOAD.wait_until_served(place, contestant.port, &mut server)?;
    let process = server.processes()?[0];
    let before = usage::thread_cpu_ns(process)?;
    let report = LOAD.put(place, contestant.port, ALL_CORES)?;
    let after = usage::thread_cpu_ns(process)?;
    let spent_ns = || {
        after
            .iter()
            .zip(&before)
            .map(|(after, before)| after - before)
    };
    let requests = LOAD.requests() as f64;
    let per_request = |ns: u64| ns as f64 / 1e3 / requests;
    Ok([
        requests / report.duration_s,
        per_request(spent_ns().sum()),
        per_request(spent_ns().max().unwrap_or_default()),
    ])
}

pub(super) fn markdown(served: &[Served]) -> String {
    let mut text = "20 000 × 10 kB over 200 connections, `cubic`. Client and server share two cores; the last \
                    column is what the server could answer if clients had cores of their own, by the \
                    CPU time of its busiest thread:\n\n\
                    | threads | requests/s | CPU µs per request | of the busiest thread | possible \
                    requests/s | ratio |\n|---|---|---|---|---|---|\n"
        .to_owned();
    let one = served
        .first()
        .map_or(f64::NAN, |one| one.busiest_us_per_request);
    for row in served {
        let _ = writeln!(
            text,
            "| {} | {:.0} | {:.1} | {:.1} | {:.0} | {:.2} |",
            row.threads,
            row.requests_per_s,
            row.cpu_us_per_request,
            row.busiest_us_per_request,
            1e6 / row.busiest_us_per_request,
            one / row.busiest_us_per_request
        );
    }
    text.push('\n');
    text
}
