//! One file over an emulated path (gallop-path) with a delay.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::contestants::Contestant;
use super::load::{Load, Report};
use super::median;
use super::running::{CLIENT_CORE, SERVER_CORE, pinned};
use crate::bench::{Place, release};

/// A path with an RTT of 10 ms and a buffer of as much as it holds.
pub(super) struct Emulated {
    name: &'static str,
    rate: &'static str,
    queue: &'static str,
    pub(super) load: Load,
}

pub(super) const PATHS: [Emulated; 2] = [
    Emulated {
        name: "100 Mbit/s",
        rate: "100mbit",
        queue: "125kb",
        load: Load::new("25 MB", 1, 1, 25_000_000),
    },
    Emulated {
        name: "1 Gbit/s",
        rate: "1gbit",
        queue: "1250kb",
        load: Load::new("100 MB", 1, 1, 100_000_000),
    },
];

/// One way.
const DELAY: &str = "5ms";

/// The number of runs, of which the median counts.
const RUNS: usize = 3;

/// The server's address at its end of the path.
const ADDRESS: &str = "10.18.100.100";

/// The performance of a server over a path.
#[derive(Debug, Serialize)]
pub(super) struct Served {
    server: String,
    path: &'static str,
    megabytes_per_s: Option<f64>,
    cpu_ms_per_megabyte: Option<f64>,
    /// The reason for which there are no figures.
    error: Option<String>,
}

/// Measures servers over paths. Runs of all servers alternate.
pub(super) fn measure(
    place: &Place,
    folder: &Path,
    contestants: &[Contestant],
) -> Result<Vec<Served>> {
    let mut served = Vec::new();
    for path in &PATHS {
        let mut runs: Vec<Result<Vec<(f64, f64)>>> =
            contestants.iter().map(|_| Ok(Vec::new())).collect();
        for run in 1..=RUNS {
            for (contestant, runs) in contestants.iter().zip(&mut runs) {
                let Ok(done) = runs else { continue };
                eprintln!("  {}: {}, {run} of {RUNS}", path.name, contestant.name);
                match transfer(place, folder, contestant, path) {
                    Ok(one) => done.push(one),
                    Err(error) => *runs = Err(error),
                }
            }
        }
        for (contestant, runs) in contestants.iter().zip(runs) {
            let server = contestant.name.clone();
            let megabytes = path.load.bytes as f64 / 1e6;
            let (duration_s, cpu_s, error) = match runs {
                Ok(runs) => (
                    Some(median(runs.iter().map(|run| run.0).collect())),
                    Some(median(runs.iter().map(|run| run.1).collect())),
                    None,
                ),
                Err(error) if contestant.is_ours => {
                    return Err(error.context(format!("{server}: {}", path.name)));
                }
                Err(error) => (None, None, Some(format!("{error:#}"))),
            };
            served.push(Served {
                server,
                path: path.name,
                megabytes_per_s: duration_s.map(|duration_s| megabytes / duration_s),
                cpu_ms_per_megabyte: cpu_s.map(|cpu_s| cpu_s * 1e3 / megabytes),
                error,
            });
        }
    }
    Ok(served)
}

/// Runs server and client at the ends of a path; returns the time of the transfer and the CPU time of
/// the server, in seconds.
fn transfer(
    place: &Place,
    folder: &Path,
    contestant: &Contestant,
    path: &Emulated,
) -> Result<(f64, f64)> {
    let file = |name: &str| folder.join(name).display().to_string();
    let server = pinned(SERVER_CORE, &contestant.command(place, folder, ADDRESS));
    let address = format!("{ADDRESS}:{}", contestant.port);
    let client = pinned(CLIENT_CORE, &path.load.client(place, &address));
    let (id, report, cpu) = (file("id"), file("report.json"), file("cpu"));
    for old in [&id, &report, &cpu] {
        let _ = fs::remove_file(old);
    }
    let quoted = |text: &str| Ok::<_, anyhow::Error>(shlex::try_quote(text)?.into_owned());
    let (id, report, cpu) = (quoted(&id)?, quoted(&report)?, quoted(&cpu)?);
    let serve = format!("echo $$ > {id}; exec {}", shell(&server)?);
    // Below two headlines, the sockets of the server's end are listed once it listens.
    let fetch = format!(
        "tries=0
        until [ -s {id} ] && [ \"$(cat /proc/$(cat {id})/net/udp* | wc -l)\" -gt 2 ]; do
            tries=$((tries + 1)); [ $tries -lt 200 ] || exit 1; sleep 0.05
        done
        family() {{ echo $1; for child in $(pgrep -P $1); do family $child; done; }}
        spent() {{ for one in $(family $(cat {id})); do cat /proc/$one/task/*/schedstat; done; }}
        spent > {cpu}.before
        {} > {report}
        status=$?
        spent > {cpu}
        exit $status",
        shell(&client)?
    );
    let status = Command::new(release(&place.target).join("gallop-path"))
        .args(["run", "--rate", path.rate, "--delay", DELAY])
        .args(["--queue", path.queue, "--server", &serve])
        .args(["--", "sh", "-c", &fetch])
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot run gallop-path")?;
    ensure!(
        status.success(),
        "the transfer over the path fails: {status}"
    );
    let json = fs::read(folder.join("report.json")).context("no report of gallop-client")?;
    let report = Report::read(&json)?;
    report.check(&path.load)?;
    let spent_s = spent_s(folder, "cpu")? - spent_s(folder, "cpu.before")?;
    Ok((report.duration_s, spent_s))
}

/// The sum of the first fields of a file of `schedstat`s.
fn spent_s(folder: &Path, name: &str) -> Result<f64> {
    let text = fs::read_to_string(folder.join(name)).with_context(|| format!("no {name}"))?;
    let times = text
        .lines()
        .filter_map(|line| line.split(' ').next()?.parse::<f64>().ok());
    Ok(times.sum::<f64>() / 1e9)
}

/// A command as a line for a shell.
fn shell(command: &Command) -> Result<String> {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        if let (Some(name), Some(value)) = (name.to_str(), value.and_then(|value| value.to_str())) {
            words.push(format!("{name}={}", shlex::try_quote(value)?));
        }
    }
    if !words.is_empty() {
        words.insert(0, "env".to_owned());
    }
    for word in std::iter::once(command.get_program()).chain(command.get_args()) {
        let word = word.to_str().context("a path is not UTF-8")?;
        words.push(shlex::try_quote(word)?.into_owned());
    }
    Ok(words.join(" "))
}

pub(super) fn markdown(served: &[Served]) -> String {
    let mut text = String::new();
    for path in &PATHS {
        let _ = writeln!(
            text,
            "One file of {} over `gallop-path`, {} and an RTT of 10 ms, with a buffer of one \
             bandwidth-delay product:\n\n| server | MB/s | ratio | CPU ms per MB | ratio |\n\
             |---|---|---|---|---|",
            path.load.name, path.name
        );
        let over: Vec<_> = served.iter().filter(|one| one.path == path.name).collect();
        for one in &over {
            let (Some(rate), Some(cpu)) = (one.megabytes_per_s, one.cpu_ms_per_megabyte) else {
                let error = one.error.as_deref().unwrap_or_default();
                let _ = writeln!(text, "| {} | {error} | | | |", one.server);
                continue;
            };
            // The first one is our server with quiche's CUBIC.
            let ratio = |value: f64, of: fn(&Served) -> Option<f64>| {
                value / over.first().and_then(|cubic| of(cubic)).unwrap_or(f64::NAN)
            };
            let _ = writeln!(
                text,
                "| {} | {rate:.1} | {:.2} | {cpu:.2} | {:.2} |",
                one.server,
                ratio(rate, |cubic| cubic.megabytes_per_s),
                ratio(cpu, |cubic| cubic.cpu_ms_per_megabyte),
            );
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_becomes_a_line() {
        let mut command = Command::new("program");
        command.args(["an argument", "x"]).env("NAME", "a b");
        assert_eq!(
            shell(&command).unwrap(),
            "env NAME='a b' program 'an argument' x"
        );
    }
}
