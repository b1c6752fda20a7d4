//! Servers on the loopback interface: ours with several controllers, and other people's.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::{Outcome, Place, build, release, usage};
use crate::process;

/// The controllers of our server that are compared.
const CONTROLLERS: [&str; 4] = ["reno", "cubic", "vegas", "gallop-vegas"];

/// Other people's servers, in interop/peers, with the program that builds them.
const PEERS: [(&str, &str); 2] = [("quic-go", "go"), ("quinn", "cargo")];

/// The address at which peers listen: the runner's contract leaves no choice.
const PEER_PORT: u16 = 443;

const OUR_PORT: u16 = 4433;

/// The controllers of the server on tokio-quiche, among the examples, that is compared with ours.
const TOKIO_CONTROLLERS: [&str; 2] = ["cubic", "gallop-vegas"];

/// A load of requests.
struct Load {
    name: &'static str,
    connections: u64,
    requests: u64,
    /// Requests at once on each connection.
    parallel: u64,
    /// Bytes of each answer.
    bytes: usize,
}

const LOADS: [Load; 4] = [
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
const LIMIT_S: u64 = 120;

/// The number of runs, of which the one with the least CPU time counts.
const RUNS: usize = 2;

/// The performance of a server under a load.
#[derive(Debug, Serialize)]
struct Served {
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
    cpu_ms_per_request: f64,
    cpu_ms_per_megabyte: f64,
    /// The most memory, without that which the server had before the load, by connection.
    memory_kib_per_connection: f64,
}

/// The part of the output of `gallop-client --json` that matters here.
#[derive(Debug, Deserialize)]
struct Report {
    duration_s: f64,
    transfers: Vec<Transfer>,
}

#[derive(Debug, Deserialize)]
struct Transfer {
    received_bytes: u64,
    error: Option<String>,
}

/// Measures all servers under all loads.
///
/// # Errors
///
/// Our own programs cannot be built or fail. A peer that cannot be built is left out with a
/// message, and the table has the failure of one that fails under a load.
pub(super) fn run(place: &Place) -> Result<Outcome> {
    build(place, "gallop-interop", "gallop-server")?;
    build(place, "gallop-examples", "tokio-quiche-server")?;
    let folder = place.target.join("bench").join("server");
    prepare(place, &folder)?;
    let mut served = Vec::new();
    for controller in CONTROLLERS {
        let server = || ours(place, &folder, controller);
        let name = format!("gallop-server, {controller}");
        served.extend(measure(place, &name, OUR_PORT, &server));
    }
    for controller in TOKIO_CONTROLLERS {
        let server = || tokio(place, &folder, controller);
        let name = format!("tokio-quiche, {controller}");
        served.extend(measure(place, &name, OUR_PORT, &server));
    }
    let failed = served
        .iter()
        .find_map(|one| Some((one, one.error.as_ref()?)));
    if let Some((one, error)) = failed {
        bail!("{}: {}: {error}", one.server, one.load);
    }
    for (peer, needs) in PEERS {
        match peer_program(place, peer, needs) {
            Ok(built) => {
                let server = || theirs(place, &folder, peer, &built);
                served.extend(measure(place, peer, PEER_PORT, &server));
            }
            Err(error) => eprintln!("  {peer} is left out: {error:#}"),
        }
    }
    Ok(Outcome {
        markdown: markdown(&served),
        json: serde_json::to_value(&served)?,
    })
}

/// The folders of the QUIC interop runner, with the files to serve and a certificate.
fn prepare(place: &Place, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    for name in ["www", "downloads", "certs", "logs", "root"] {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    fs::write(folder.join("hosts"), "127.0.0.1 localhost\n")?;
    let tls = place.root.join("sim").join("tls");
    for (from, to) in [("cert.pem", "cert.pem"), ("key.pem", "priv.key")] {
        fs::copy(tls.join(from), folder.join("certs").join(to))?;
    }
    for load in &LOADS {
        fs::write(folder.join("www").join(file(load)), vec![b'g'; load.bytes])?;
    }
    Ok(())
}

fn file(load: &Load) -> String {
    format!("{}.bin", load.bytes)
}

/// A running server, which ends with this value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _has_ended = self.0.kill();
        let _status = self.0.wait();
    }
}

fn ours(place: &Place, folder: &Path, controller: &str) -> Command {
    let mut command = Command::new(release(&place.target).join("gallop-server"));
    command
        .arg("--listen")
        .arg(format!("127.0.0.1:{OUR_PORT}"))
        .arg("--root")
        .arg(folder.join("www"))
        .arg("--cert")
        .arg(folder.join("certs").join("cert.pem"))
        .arg("--key")
        .arg(folder.join("certs").join("priv.key"))
        .args(["--cc", controller]);
    command
}

/// The example on tokio-quiche.
fn tokio(place: &Place, folder: &Path, controller: &str) -> Command {
    let mut command = Command::new(release(&place.target).join("tokio-quiche-server"));
    command
        .arg("--address")
        .arg(format!("127.0.0.1:{OUR_PORT}"))
        .arg("--root")
        .arg(folder.join("www"))
        .arg("--cert")
        .arg(folder.join("certs").join("cert.pem"))
        .arg("--key")
        .arg(folder.join("certs").join("priv.key"))
        .args(["--cc", controller]);
    command
}

/// A peer sees the folders where the runner's containers have them.
fn theirs(place: &Place, folder: &Path, peer: &str, built: &Path) -> Command {
    let interop = place.root.join("interop");
    let mut command = Command::new("unshare");
    command
        .arg("--mount")
        .arg(interop.join("matrix").join("container.sh"))
        .arg(folder)
        .arg(interop.join("peers").join(peer).join("run_endpoint.sh"))
        .env("BUILT", built)
        .env("ROLE", "server")
        .env("TESTCASE", "http3");
    command
}

fn peer_program(place: &Place, peer: &str, needs: &str) -> Result<PathBuf> {
    let built = place.target.join("peers").join(peer);
    fs::create_dir_all(&built).with_context(|| built.display().to_string())?;
    process::output(Command::new(needs).arg("version"))
        .or_else(|_| process::output(Command::new(needs).arg("--version")))?;
    let setup = place
        .root
        .join("interop")
        .join("peers")
        .join(peer)
        .join("setup.sh");
    process::run(Command::new(setup).arg(&built))?;
    Ok(built)
}

/// Measures a server under all loads.
fn measure(place: &Place, name: &str, port: u16, server: &dyn Fn() -> Command) -> Vec<Served> {
    let under = |load: &Load| {
        let (figures, error) = match best(place, name, port, server, load) {
            Ok(figures) => (figures, None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        if let Some(error) = &error {
            eprintln!("  {error}");
        }
        Served {
            server: name.to_owned(),
            load: load.name,
            figures,
            error,
        }
    };
    LOADS.iter().map(under).collect()
}

/// Puts the same load on a server several times.
fn best(
    place: &Place,
    name: &str,
    port: u16,
    server: &dyn Fn() -> Command,
    load: &Load,
) -> Result<Option<Figures>> {
    let mut runs = Vec::new();
    for run in 0..RUNS {
        eprintln!("  {name}: {}, run {} of {RUNS}", load.name, run + 1);
        runs.push(serve(place, port, server(), load)?);
    }
    let cost = |figures: &Figures| figures.cpu_ms_per_request;
    Ok(runs
        .into_iter()
        .min_by(|one, other| cost(one).total_cmp(&cost(other))))
}

/// Starts a server and puts the load on it.
fn serve(place: &Place, port: u16, mut command: Command, load: &Load) -> Result<Figures> {
    command
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command.spawn().context("cannot start the server")?;
    let mut server = Server(child);
    let id = server.0.id();
    wait_until_ready(place, port, load, &mut server)?;
    let (cpu_before, memory_before) = (usage::cpu_s(id)?, usage::memory_kib(id, "VmRSS")?);
    let report = fetch(place, port, load, load.connections, load.requests)?;
    let cpu_s = usage::cpu_s(id)? - cpu_before;
    let memory_kib = usage::memory_kib(id, "VmHWM")?.saturating_sub(memory_before);
    let bytes: u64 = report.transfers.iter().map(|one| one.received_bytes).sum();
    let requests = report.transfers.len() as f64;
    let expected = load.requests * load.bytes as u64;
    ensure!(bytes == expected, "{bytes} bytes of {expected} were sent");
    let megabytes = bytes as f64 / 1e6;
    Ok(Figures {
        requests_per_s: requests / report.duration_s,
        megabytes_per_s: megabytes / report.duration_s,
        cpu_ms_per_request: cpu_s * 1e3 / requests,
        cpu_ms_per_megabyte: cpu_s * 1e3 / megabytes,
        memory_kib_per_connection: memory_kib as f64 / load.connections as f64,
    })
}

/// Waits until the server answers. With the first answer, the file has been read once.
fn wait_until_ready(place: &Place, port: u16, load: &Load, server: &mut Server) -> Result<()> {
    let begun = Instant::now();
    loop {
        if let Some(status) = server.0.try_wait()? {
            bail!("the server has ended: {status}");
        }
        match fetch(place, port, load, 1, 1) {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > Duration::from_secs(20) => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn fetch(place: &Place, port: u16, load: &Load, connections: u64, requests: u64) -> Result<Report> {
    let output = Command::new(release(&place.target).join("gallop-client"))
        .args(["--insecure", "--json", "--quiet"])
        .args(["--parallel", &load.parallel.to_string()])
        // If many begin at once, a socket's buffer has no room for all, and handshakes are
        // repeated.
        .args(["--connect-timeout", "60s", "--idle-timeout", "60s"])
        .args(["--timeout", &format!("{LIMIT_S}s")])
        .args(["--connections", &connections.to_string()])
        .args(["--repeat", &requests.to_string()])
        .arg(format!("https://127.0.0.1:{port}/{}", file(load)))
        .output()
        .context("cannot run gallop-client")?;
    // It also names its failures there.
    let report: Report = serde_json::from_slice(&output.stdout).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("gallop-client: {}: {}", output.status, said.trim())
    })?;
    let failed = report.transfers.iter().find_map(|one| one.error.as_ref());
    match failed {
        Some(error) => bail!("a transfer failed: {error}"),
        None => Ok(report),
    }
}

fn markdown(served: &[Served]) -> String {
    let mut text = String::new();
    for load in &LOADS {
        let _ = writeln!(
            text,
            "{}:\n\n| server | requests/s | MB/s | CPU ms per request | CPU ms per MB | KiB per \
             connection |\n|---|---|---|---|---|---|",
            load.name
        );
        for one in served.iter().filter(|one| one.load == load.name) {
            let figures = one.figures.as_ref().map_or_else(
                || format!("{} | | | |", one.error.as_deref().unwrap_or_default()),
                |figures| {
                    format!(
                        "{:.0} | {:.0} | {:.3} | {:.2} | {:.0}",
                        figures.requests_per_s,
                        figures.megabytes_per_s,
                        figures.cpu_ms_per_request,
                        figures.cpu_ms_per_megabyte,
                        figures.memory_kib_per_connection
                    )
                },
            );
            let _ = writeln!(text, "| {} | {figures} |", one.server);
        }
        text.push('\n');
    }
    text
}
