//! Requests over the loopback interface.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::contestants::Contestant;
use super::median;
use super::running::{Burners, CLIENT_CORE, Perf, Running, SERVER_CORE, counted, pinned};
use crate::bench::{Place, release, usage};

/// A load of requests.
pub(super) struct Load {
    pub(super) name: &'static str,
    connections: u64,
    requests: u64,
    /// Requests at once on each connection.
    parallel: u64,
    /// Bytes of each answer.
    pub(super) bytes: usize,
}

pub(super) const LOADS: [Load; 4] = [
    Load {
        name: "One file of 100 MB",
        connections: 1,
        requests: 1,
        parallel: 1,
        bytes: 100_000_000,
    },
    Load {
        name: "10 000 × 1 kB over one connection",
        connections: 1,
        requests: 10_000,
        parallel: 16,
        bytes: 1_000,
    },
    Load {
        name: "1000 × 100 kB over 100 connections",
        connections: 100,
        requests: 1000,
        parallel: 1,
        bytes: 100_000,
    },
    Load {
        name: "1000 × 100 kB over 1000 connections",
        connections: 1000,
        requests: 1000,
        parallel: 1,
        bytes: 100_000,
    },
];

/// The time after which a load counts as failed.
const LIMIT_S: u64 = 60;

/// The number of runs, of which the median counts. One before them counts system calls.
const RUNS: usize = 3;

impl Load {
    pub(super) const fn new(
        name: &'static str,
        connections: u64,
        requests: u64,
        bytes: usize,
    ) -> Self {
        Load {
            name,
            connections,
            requests,
            parallel: 1,
            bytes,
        }
    }

    pub(super) fn file(&self) -> String {
        format!("{}.bin", self.bytes)
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    /// A client that puts this load on the server at an address.
    pub(super) fn client(&self, place: &Place, address: &str) -> Command {
        self.client_for(place, address, self.connections, self.requests)
    }

    fn client_for(&self, place: &Place, address: &str, connections: u64, requests: u64) -> Command {
        let mut command = Command::new(release(&place.target).join("gallop-client"));
        command
            .args(["--insecure", "--json", "--quiet"])
            .args(["--parallel", &self.parallel.to_string()])
            // If many begin at once, a socket's buffer has no room for all, and handshakes are
            // repeated.
            .args(["--connect-timeout", "60s", "--idle-timeout", "60s"])
            .args(["--timeout", &format!("{LIMIT_S}s")])
            .args(["--connections", &connections.to_string()])
            .args(["--repeat", &requests.to_string()])
            .arg(format!("https://{address}/{}", self.file()));
        command
    }

    /// Puts this load on the server at an address of this machine.
    pub(super) fn put(&self, place: &Place, port: u16, cores: &str) -> Result<Report> {
        let client = self.client(place, &format!("127.0.0.1:{port}"));
        let report = Report::of(&mut pinned(cores, &client))?;
        report.check(self)?;
        Ok(report)
    }

    /// Waits until the server answers. With the first answer, the file has been read once.
    pub(super) fn wait_until_served(
        &self,
        place: &Place,
        port: u16,
        server: &mut Running,
    ) -> Result<()> {
        let begun = Instant::now();
        let client = self.client_for(place, &format!("127.0.0.1:{port}"), 1, 1);
        loop {
            server.check()?;
            match Report::of(&mut pinned(CLIENT_CORE, &client)) {
                Ok(_) => return Ok(()),
                Err(error) if begun.elapsed() > Duration::from_secs(20) => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    }
}

/// The part of the output of `gallop-client --json` that matters here.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    pub(super) duration_s: f64,
    transfers: Vec<Transfer>,
}

#[derive(Debug, Deserialize)]
struct Transfer {
    received_bytes: u64,
    error: Option<String>,
}

impl Report {
    fn of(client: &mut Command) -> Result<Self> {
        let output = client.output().context("cannot run gallop-client")?;
        // It also names its failures there.
        let report = Report::read(&output.stdout).with_context(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            format!("gallop-client: {}: {}", output.status, said.trim())
        })?;
        report.failure()?;
        Ok(report)
    }

    /// Reads what the client has written.
    pub(super) fn read(json: &[u8]) -> Result<Self> {
        Ok(serde_json::from_slice(json)?)
    }

    fn failure(&self) -> Result<()> {
        match self.transfers.iter().find_map(|one| one.error.as_ref()) {
            Some(error) => bail!("a transfer failed: {error}"),
            None => Ok(()),
        }
    }

    /// Fails if the answers to a load were not complete.
    pub(super) fn check(&self, load: &Load) -> Result<()> {
        self.failure()?;
        let bytes: u64 = self.transfers.iter().map(|one| one.received_bytes).sum();
        let expected = load.requests * load.bytes as u64;
        ensure!(bytes == expected, "{bytes} bytes of {expected} were sent");
        Ok(())
    }
}

/// The state of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    Idle,
    Busy,
}

/// The performance of a server under a load.
#[derive(Debug, Serialize)]
pub(super) struct Served {
    server: String,
    load: &'static str,
    #[serde(flatten)]
    figures: Option<Figures>,
    /// The reason for which there are no figures.
    error: Option<String>,
}

/// The measured values.
#[derive(Debug, Serialize)]
struct Figures {
    requests_per_s: f64,
    megabytes_per_s: f64,
    /// CPU time of the server.
    cpu_ms_per_megabyte: f64,
    /// The most memory, without that which the server had before the load, by connection.
    memory_kib_per_connection: f64,
    /// Bytes of answers per system call that sends, if they could be counted.
    bytes_per_call: Option<f64>,
}

/// The values of one run.
struct Run {
    duration_s: f64,
    cpu_s: f64,
    memory_kib: f64,
}

/// Measures servers under loads. Runs of all servers alternate.
pub(super) fn measure<'a>(
    place: &Place,
    folder: &Path,
    contestants: &[Contestant],
    loads: impl IntoIterator<Item = &'a Load>,
    machine: Machine,
) -> Result<Vec<Served>> {
    let mut served = Vec::new();
    for load in loads {
        let mut runs: Vec<Result<(Option<u64>, Vec<Run>)>> =
            contestants.iter().map(|_| Ok((None, Vec::new()))).collect();
        for run in 0..=RUNS {
            for (contestant, runs) in contestants.iter().zip(&mut runs) {
                let Ok((calls, done)) = runs else { continue };
                eprintln!("  {}: {}, {run} of {RUNS}", load.name, contestant.name);
                match serve(place, folder, contestant, load, machine, run == 0) {
                    Ok((counted, _)) if run == 0 => *calls = counted,
                    Ok((_, one)) => done.push(one),
                    Err(error) => *runs = Err(error),
                }
            }
        }
        for (contestant, runs) in contestants.iter().zip(runs) {
            let (figures, error) = match runs {
                Ok((calls, runs)) => (Some(figures(load, calls, &runs)), None),
                Err(error) if contestant.is_ours => {
                    return Err(error.context(format!("{}: {}", contestant.name, load.name)));
                }
                Err(error) => (None, Some(format!("{error:#}"))),
            };
            served.push(Served {
                server: contestant.name.clone(),
                load: load.name,
                figures,
                error,
            });
        }
    }
    Ok(served)
}

fn figures(load: &Load, calls: Option<u64>, runs: &[Run]) -> Figures {
    let bytes = (load.requests * load.bytes as u64) as f64;
    let of = |value: &dyn Fn(&Run) -> f64| median(runs.iter().map(value).collect());
    let duration_s = of(&|run| run.duration_s);
    Figures {
        requests_per_s: load.requests as f64 / duration_s,
        megabytes_per_s: bytes / 1e6 / duration_s,
        cpu_ms_per_megabyte: of(&|run| run.cpu_s) * 1e3 / (bytes / 1e6),
        memory_kib_per_connection: of(&|run| run.memory_kib) / load.connections as f64,
        bytes_per_call: calls.map(|calls| bytes / calls as f64),
    }
}

/// Starts a server and puts the load on it; counts its system calls if that is asked for.
fn serve(
    place: &Place,
    folder: &Path,
    contestant: &Contestant,
    load: &Load,
    machine: Machine,
    counts: bool,
) -> Result<(Option<u64>, Run)> {
    let command = contestant.command(place, folder, "127.0.0.1");
    let mut server = Running::start(pinned(SERVER_CORE, &command))?;
    load.wait_until_served(place, contestant.port, &mut server)?;
    let processes = server.processes()?;
    let file = folder.join("calls");
    let perf = counts
        .then(|| Perf::count(&processes, &file).ok())
        .flatten();
    let _burners = match machine {
        Machine::Idle => None,
        Machine::Busy => Some(Burners::start()?),
    };
    let cpu_before = usage::cpu_s(&processes)?;
    let memory_before = usage::memory_of_all_kib(&processes, "VmRSS")?;
    let report = load.put(place, contestant.port, CLIENT_CORE)?;
    let run = Run {
        duration_s: report.duration_s,
        cpu_s: usage::cpu_s(&processes)? - cpu_before,
        memory_kib: usage::memory_of_all_kib(&processes, "VmHWM")?.saturating_sub(memory_before)
            as f64,
    };
    let calls = match perf {
        Some(perf) => {
            perf.stop()?;
            counted(&fs::read_to_string(&file).unwrap_or_default())
        }
        None => None,
    };
    Ok((calls, run))
}

pub(super) fn markdown(served: &[Served], machine: &str) -> String {
    let mut text = String::new();
    let mut loads: Vec<_> = served.iter().map(|one| one.load).collect();
    loads.dedup();
    for load in loads {
        let _ = writeln!(
            text,
            "{load}, {machine}:\n\n| server | requests/s | MB/s | ratio | CPU ms per MB | ratio | \
             bytes per call | KiB per connection |\n|---|---|---|---|---|---|---|---|"
        );
        let under: Vec<_> = served.iter().filter(|one| one.load == load).collect();
        // The first one is our server with quiche's CUBIC.
        let cubic = under.first().and_then(|one| one.figures.as_ref());
        for one in &under {
            let Some(figures) = &one.figures else {
                let error = one.error.as_deref().unwrap_or_default();
                let _ = writeln!(text, "| {} | {error} | | | | | | |", one.server);
                continue;
            };
            let ratio =
                |of: fn(&Figures) -> f64| cubic.map_or(f64::NAN, |cubic| of(figures) / of(cubic));
            let calls = figures.bytes_per_call;
            let _ = writeln!(
                text,
                "| {} | {:.0} | {:.0} | {:.2} | {:.2} | {:.2} | {} | {:.0} |",
                one.server,
                figures.requests_per_s,
                figures.megabytes_per_s,
                ratio(|figures| figures.megabytes_per_s),
                figures.cpu_ms_per_megabyte,
                ratio(|figures| figures.cpu_ms_per_megabyte),
                calls.map_or_else(String::new, |bytes| format!("{bytes:.0}")),
                figures.memory_kib_per_connection
            );
        }
        text.push('\n');
    }
    text
}
