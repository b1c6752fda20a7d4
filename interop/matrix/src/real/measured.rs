//! A real run: the programs at the ends of a path, and the kernel's TCP beside them.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use gallop_network::units::WIRE_OVERHEAD_BYTES;
use gallop_path::{SERVER_IPV4, Settings};
use serde::Serialize;

use super::figures::Figures;
use super::plan::Plan;
use super::qlog;
use crate::process::{Process, Started};
use crate::traffic::TcpFlow;

/// The server's port.
const PORT: u16 = 443;

/// The time that a server may take until it listens.
const STARTUP: Duration = Duration::from_secs(20);

/// The time for which everything goes on after the measured time: the path's clock begins later
/// than ours, with the client's first packet.
const REST: Duration = Duration::from_millis(300);

/// The interval at which a run looks whether it is interrupted.
const POLL: Duration = Duration::from_millis(10);

/// The command that gives programs the least real-time priority, below the path's: a program that waits for a core
/// is late like a path.
const PUNCTUAL: [&str; 3] = ["chrt", "--rr", "1"];

/// The command that gives them priority where that is not permitted.
const PREFERRED: [&str; 3] = ["nice", "-n", "-15"];

/// Bytes of a read.
const BLOCK_BYTES: usize = 256 << 10;

/// The file that is downloaded; no run comes to its end.
const FILE: &str = "endless";
const FILE_BYTES: u64 = 1 << 36;

/// TCP segments whose packets are as long as QUIC's: headers of 20 bytes each (RFC 9293 §3.7.1).
const SEGMENT_BYTES: u32 = (1350 + WIRE_OVERHEAD_BYTES - 40) as u32;

/// The parts that all runs share.
#[derive(Clone, Debug)]
pub struct Place {
    /// The folder of gallop-server and gallop-client.
    programs: PathBuf,
    /// The command that gives programs priority.
    priority: [&'static str; 3],
    /// The folder that is served.
    served: PathBuf,
    /// The server's certificate and key.
    certificate: [PathBuf; 2],
}

/// The figures of a real run, and how late its path was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The figures.
    pub figures: Figures,
    /// The mean lateness of packets that left the path.
    pub lateness_s: f64,
}

impl Place {
    /// Makes the file to serve and a certificate in `folder`.
    ///
    /// # Errors
    ///
    /// A file cannot be written.
    pub fn prepare(programs: PathBuf, folder: &Path) -> Result<Place> {
        let served = folder.join("www");
        fs::create_dir_all(&served).with_context(|| served.display().to_string())?;
        let file = served.join(FILE);
        // A hole takes no room on the disk.
        fs::File::create(&file)
            .and_then(|made| made.set_len(FILE_BYTES))
            .with_context(|| file.display().to_string())?;
        let certificate =
            gallop_interop::server::certificate::Certificate::self_signed(&folder.join("certs"))?;
        let [program, arguments @ ..] = PUNCTUAL;
        let is_permitted = Command::new(program)
            .args(arguments)
            .arg("true")
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        Ok(Place {
            programs,
            priority: if is_permitted { PUNCTUAL } else { PREFERRED },
            served,
            certificate: [certificate.chain, certificate.key],
        })
    }

    fn program(&self, name: &str) -> Command {
        let [program, arguments @ ..] = self.priority;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .arg(self.programs.join(name))
            .env_remove("RUST_LOG");
        command
    }

    fn server(&self, plan: &Plan, traces: &Path) -> Command {
        let [chain, key] = &self.certificate;
        let mut command = self.program("gallop-server");
        command
            .arg("--listen")
            .arg(format!("{SERVER_IPV4}:{PORT}"))
            .arg("--root")
            .arg(&self.served)
            .args(["--cc", &plan.cc])
            .arg("--cert")
            .arg(chain)
            .arg("--key")
            .arg(key)
            .arg("--qlog-dir")
            .arg(traces)
            .args(["--shutdown-timeout", "200ms"]);
        command
    }

    fn client(&self) -> Command {
        let mut command = self.program("gallop-client");
        command
            .args(["--insecure", "--quiet", "--output", "-"])
            .arg(format!("https://{SERVER_IPV4}:{PORT}/{FILE}"));
        command
    }
}

/// Runs `plan` with the seed of the path, unless `is_over` becomes true first. Logs, the server's
/// trace and the path's report stay in `folder`.
///
/// # Errors
///
/// The path cannot be made, a program cannot be started or ends early, the kernel does not have the
/// neighbour's controller, or the run was interrupted.
pub fn run(
    plan: &Plan,
    seed: u64,
    folder: &Path,
    place: &Place,
    is_over: &AtomicBool,
) -> Result<Measured> {
    let traces = folder.join("qlog");
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let [server_folder, client_folder] = ["server", "client"].map(|end| folder.join(end));
    for folder in [
        traces.clone(),
        server_folder.join("logs"),
        client_folder.join("logs"),
    ] {
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    let settings = Settings {
        seed,
        ..plan.path.clone()
    };
    let path = gallop_path::Path::start(&settings)?;
    let mut server = Process::start(
        place.server(plan, &traces),
        &server_folder,
        path.server(),
        is_over,
    )?;
    match server.wait_until_listening(STARTUP)? {
        Started::Listening => {}
        Started::Ended(status) => bail!("the server ended at once, {status}: {}", server.said()),
        Started::Silent => bail!("the server does not listen after {} s", STARTUP.as_secs()),
    }

    let zero = Instant::now();
    let mut flows = Flows {
        download: None,
        neighbour: None,
    };
    let mut starts = vec![(plan.start, true)];
    starts.extend(plan.neighbour.as_ref().map(|flow| (flow.start, false)));
    // Of two at the same time the program is the first, since it takes longer to start.
    starts.sort_by_key(|&(start, is_tested)| (start, !is_tested));
    for (start, is_tested) in starts {
        wait_until(zero + start, is_over)?;
        match &plan.neighbour {
            Some(neighbour) if !is_tested => {
                let flow = TcpFlow::start(&path, neighbour.controller, Some(SEGMENT_BYTES))?;
                flows.neighbour = Some(flow);
            }
            _ => {
                let (client, output) =
                    Process::piped(place.client(), &client_folder, path.client(), is_over)?;
                flows.download = Some((client, Download::start(output)));
            }
        }
    }
    let from = plan.window.from.max(plan.start);
    wait_until(zero + from, is_over)?;
    let before = flows.received();
    wait_until(zero + plan.window.until, is_over)?;
    let after = flows.received();
    thread::sleep(REST);

    let Some((mut client, download)) = flows.download.take() else {
        bail!("there is no download");
    };
    if let Some(status) = client.try_wait()? {
        bail!("the client ended early, {status}: {}", client.said());
    }
    client.stop()?;
    download.end();
    if let Some(neighbour) = flows.neighbour.take() {
        neighbour.stop();
    }
    server.stop()?;
    let report = path.stop()?;
    let json = serde_json::to_vec_pretty(&report)?;
    gallop_files::write(&folder.join("path.json"), &json)?;

    let window = report.window.context("the path ended before its window")?;
    let told = qlog::read(
        &trace(&traces)?,
        from - plan.start,
        plan.window.until - plan.start,
    )
    .context("the server's trace has no RTT of the measured time")?;
    let elapsed = (after.at - before.at).as_secs_f64();
    let rate = |before: u64, after: u64| (after - before) as f64 * 8.0 / elapsed;
    Ok(Measured {
        figures: Figures {
            throughput_bps: rate(before.tested, after.tested),
            neighbour_bps: before
                .neighbour
                .zip(after.neighbour)
                .map(|(before, after)| rate(before, after)),
            queue_mean_packets: window.to_client.queue_mean_packets,
            queue_p95_packets: window.to_client.queue_p95_packets as f64,
            queue_mean_delay_s: window.to_client.queue_mean_delay_s.unwrap_or_default(),
            drops: window.to_client.dropped_packets as f64,
            rtt_mean_s: told.rtt_mean_s,
            rtt_p95_s: told.rtt_p95_s,
            lost_packets: told.lost_packets as f64,
        },
        lateness_s: window.lateness.mean_s,
    })
}

/// The flows of a run.
struct Flows<'a> {
    download: Option<(Process<'a>, Download)>,
    neighbour: Option<TcpFlow>,
}

/// Bytes that have been received so far.
struct Received {
    at: Instant,
    tested: u64,
    neighbour: Option<u64>,
}

impl Flows<'_> {
    fn received(&self) -> Received {
        let download = self.download.as_ref();
        Received {
            at: Instant::now(),
            tested: download.map_or(0, |(_, download)| download.received_bytes()),
            neighbour: self.neighbour.as_ref().map(TcpFlow::received_bytes),
        }
    }
}

/// Counts what the client writes.
struct Download {
    received_bytes: Arc<AtomicU64>,
    reader: thread::JoinHandle<()>,
}

impl Download {
    fn start(mut output: ChildStdout) -> Download {
        let received_bytes = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&received_bytes);
        let reader = thread::spawn(move || {
            let mut block = vec![0; BLOCK_BYTES];
            while let Ok(count @ 1..) = output.read(&mut block) {
                counter.fetch_add(count as u64, Ordering::Relaxed);
            }
        });
        Download {
            received_bytes,
            reader,
        }
    }

    fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }

    /// Waits for the end of the output, which comes with that of the client.
    fn end(self) {
        // A thread that panicked has said so.
        let _ = self.reader.join();
    }
}

fn wait_until(time: Instant, is_over: &AtomicBool) -> Result<()> {
    loop {
        ensure!(!is_over.load(Ordering::Relaxed), "interrupted");
        match time.saturating_duration_since(Instant::now()) {
            Duration::ZERO => return Ok(()),
            rest => thread::sleep(rest.min(POLL)),
        }
    }
}

/// The one trace in the folder.
fn trace(folder: &Path) -> Result<String> {
    let place = || folder.display().to_string();
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(place)? {
        files.push(entry?.path());
    }
    let [file] = &files[..] else {
        bail!("{} traces in {}, not one", files.len(), folder.display());
    };
    fs::read_to_string(file).with_context(|| file.display().to_string())
}
