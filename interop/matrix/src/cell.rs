//! One cell of the matrix: a server, a client, a case, over a path of their own.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::case::{Case, Check};
use crate::check;
use crate::endpoint::{Endpoint, Role};
use crate::fixture::{Fixture, names};
use crate::programs::Programs;
use crate::traffic::TcpFlow;

/// What a program says of a test case that it does not support.
const UNSUPPORTED: i32 = 127;

/// How long a server may take until it listens.
const STARTUP: Duration = Duration::from_secs(20);

/// How long a server has after SIGTERM, as in the runner.
const GRACE: Duration = Duration::from_secs(1);

/// How late a measurement's path may be in the mean: a tenth of the time that a packet takes at the
/// runner's 10 Mbit/s. More is jitter that was not asked for.
const LATE_S: f64 = 100e-6;

/// How often the end of a program is looked for.
const POLL: Duration = Duration::from_millis(10);

/// UDP port 443 in /proc/net/udp.
const LISTENING: &str = ":01BB";

/// How a cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should.
    Succeeded,
    /// Not as it should.
    Failed,
    /// One of the two does not know the case.
    Unsupported,
}

/// How a cell ended, and why.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Outcome {
    /// How.
    pub result: Verdict,
    /// Why, if it did not succeed; who does not know the case, if it is unsupported.
    #[serde(default)]
    pub reason: String,
    /// Who ended it, if one end did by crashing or by not starting: evidence of whose fault it is.
    #[serde(default)]
    pub suspect: Option<Role>,
    /// How long the client took, in seconds.
    pub seconds: f64,
    /// What was measured, in kbit/s.
    #[serde(default)]
    pub kbps: Option<f64>,
    /// What the TCP flow beside it got, in kbit/s.
    #[serde(default)]
    pub tcp_kbps: Option<f64>,
    /// How much later than due packets left the path, in the mean, in seconds.
    #[serde(default)]
    pub lateness_s: Option<f64>,
}

impl Outcome {
    /// Whether the path was too late to measure anything over it: other work had the cores.
    pub fn is_late(&self) -> bool {
        self.lateness_s.is_some_and(|late_s| late_s > LATE_S)
    }

    fn unsupported(reason: String, seconds: f64) -> Self {
        Outcome {
            result: Verdict::Unsupported,
            reason,
            suspect: None,
            seconds,
            kbps: None,
            tcp_kbps: None,
            lateness_s: None,
        }
    }

    fn failed(reason: impl Into<String>, suspect: Option<Role>, seconds: f64) -> Self {
        Outcome {
            result: Verdict::Failed,
            reason: reason.into(),
            suspect,
            seconds,
            kbps: None,
            tcp_kbps: None,
            lateness_s: None,
        }
    }
}

/// A cell of the matrix.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Answers.
    pub server: Endpoint,
    /// Asks.
    pub client: Endpoint,
    /// What.
    pub case: &'static Case,
    /// Which of its repetitions, from 0.
    pub repetition: usize,
}

impl Cell {
    /// Its folder below that of all cells.
    pub fn folder(&self) -> PathBuf {
        let mut name = self.case.name.to_owned();
        if self.case.is_measurement() {
            let _ = write!(name, "-{}", self.repetition + 1);
        }
        Path::new(&format!(
            "{}_{}",
            self.server.folder(),
            self.client.folder()
        ))
        .join(name)
    }

    /// Runs it, unless all `is_over` first; what the programs logged and traced stays in `folder`.
    ///
    /// # Errors
    ///
    /// The cell cannot be run at all: the path or a file cannot be made, a program not be started.
    /// Or it was interrupted; its programs have ended then.
    pub fn run(
        &self,
        folder: &Path,
        fixture: &Fixture,
        programs: &Programs,
        is_over: &AtomicBool,
    ) -> Result<Outcome> {
        if let Some(reason) = self.unsupported(programs) {
            return Ok(Outcome::unsupported(reason, 0.0));
        }
        let capture = folder.join("path.pcap");
        let server_folder = self.prepare(folder, Role::Server, fixture)?;
        let client_folder = self.prepare(folder, Role::Client, fixture)?;
        let mut settings = self.case.path(self.repetition as u64 + 1);
        settings.capture = Some(capture.clone());
        let path = gallop_path::Path::start(&settings)?;

        let mut server = Program::start(
            programs.command(&self.server, Role::Server, self.case, &server_folder, ""),
            &server_folder,
            path.server(),
            is_over,
        )?;
        match server.wait_until_listening(STARTUP)? {
            Started::Listening => {}
            Started::Ended(status) if status.code() == Some(UNSUPPORTED) => {
                return Ok(Outcome::unsupported(self.unknown(Role::Server), 0.0));
            }
            Started::Ended(status) => {
                let reason = format!("the server ended at once, {status}: {}", server.said());
                return Ok(Outcome::failed(reason, Some(Role::Server), 0.0));
            }
            Started::Silent => {
                let reason = format!("the server does not listen after {} s", STARTUP.as_secs());
                return Ok(Outcome::failed(reason, Some(Role::Server), 0.0));
            }
        }
        let flow = match self.case.has_cross_traffic {
            true => Some(TcpFlow::start(&path)?),
            false => None,
        };
        let requests: Vec<String> = names(self.case)
            .into_iter()
            .map(|(name, _)| format!("https://{}:443/{name}", self.case.host()))
            .collect();
        let start = Instant::now();
        let mut client = Program::start(
            programs.command(
                &self.client,
                Role::Client,
                self.case,
                &client_folder,
                &requests.join(" "),
            ),
            &client_folder,
            path.client(),
            is_over,
        )?;
        let ended = client.wait(self.case.timeout())?;
        let seconds = start.elapsed().as_secs_f64();
        let tcp_kbps = flow.map(|flow| flow.stop() / 1e3);
        client.stop()?;
        let server_ended = server.try_wait()?;
        server.stop()?;
        let report = path.stop()?;
        let json = serde_json::to_vec_pretty(&report)?;
        fs::write(folder.join("path.json"), json)?;

        let mut outcome = match (ended, server_ended) {
            (Some(status), _) if status.code() == Some(UNSUPPORTED) => {
                return Ok(Outcome::unsupported(self.unknown(Role::Client), 0.0));
            }
            (_, Some(status)) => {
                let reason = format!("the server ended early, {status}: {}", server.said());
                Outcome::failed(reason, Some(Role::Server), seconds)
            }
            (None, None) => {
                let reason = format!("not done after {} s", self.case.timeout_s);
                Outcome::failed(reason, None, seconds)
            }
            (Some(status), None) if !status.success() => {
                let reason = format!("the client failed, {status}: {}", client.said());
                let suspect = status.signal().map(|_| Role::Client);
                Outcome::failed(reason, suspect, seconds)
            }
            (Some(_), None) => self.judge(folder, fixture, seconds)?,
        };
        outcome.tcp_kbps = tcp_kbps;
        outcome.lateness_s = Some(report.lateness.mean_s);
        if outcome.result == Verdict::Succeeded {
            // Large, and of no more use.
            fs::remove_file(&capture)?;
        }
        fs::remove_dir_all(client_folder.join("downloads"))?;
        Ok(outcome)
    }

    /// Holds what arrived against what should have.
    fn judge(&self, folder: &Path, fixture: &Fixture, seconds: f64) -> Result<Outcome> {
        let served = fixture.files(self.case);
        let received = folder.join("client").join("downloads");
        let mut problem = match self.case.check {
            Check::Upload => differs(
                &served.join(&names(self.case)[0].0),
                &folder.join("server").join("logs").join("upload"),
            ),
            _ => names(self.case)
                .iter()
                .find_map(|(name, _)| differs(&served.join(name), &received.join(name))),
        };
        let keys = folder.join("keys.log");
        fs::write(&keys, keys_of(folder))?;
        let checked = check::check(self.case, &folder.join("path.pcap"), &keys)?;
        if let (None, Some(reason)) = (&problem, checked.unsupported) {
            return Ok(Outcome::unsupported(reason, seconds));
        }
        problem = problem.or(checked.problem);
        Ok(match problem {
            Some(reason) => Outcome::failed(reason, None, seconds),
            None => Outcome {
                result: Verdict::Succeeded,
                reason: String::new(),
                suspect: None,
                seconds,
                kbps: checked.kbps,
                tcp_kbps: None,
                lateness_s: None,
            },
        })
    }

    /// Why one end does not support the case, if its `peer.toml` says so.
    fn unsupported(&self, programs: &Programs) -> Option<String> {
        let ends = [(Role::Server, &self.server), (Role::Client, &self.client)].into_iter();
        ends.filter_map(|(role, end)| match end {
            Endpoint::Gallop(_) => None,
            Endpoint::Peer(name) => {
                let why = programs
                    .peers
                    .get(name)?
                    .unsupported(role, self.case.name)?;
                Some(format!("{}: {why}", self.unknown(role)))
            }
        })
        .next()
    }

    /// That one end does not know the case.
    fn unknown(&self, role: Role) -> String {
        let end = match role {
            Role::Server => &self.server,
            Role::Client => &self.client,
        };
        format!("{end} does not support it as {}", role.name())
    }

    /// Makes the folders of one end, as the runner's containers have them.
    fn prepare(&self, folder: &Path, role: Role, fixture: &Fixture) -> Result<PathBuf> {
        let folder = folder.join(role.name());
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        let make = || -> std::io::Result<()> {
            for name in ["root", "downloads", "logs/qlog"] {
                fs::create_dir_all(folder.join(name))?;
            }
            // The server of an upload takes it; the client has it.
            let is_empty = role == Role::Client && self.case.check != Check::Upload;
            let files = match is_empty {
                true => folder.join("empty"),
                false => fixture.files(self.case),
            };
            if is_empty {
                fs::create_dir(&files)?;
            }
            std::os::unix::fs::symlink(files, folder.join("www"))?;
            std::os::unix::fs::symlink(fixture.certificates(self.case), folder.join("certs"))?;
            fs::write(folder.join("hosts"), hosts())
        };
        make().with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }
}

/// /etc/hosts, with the runner's names.
fn hosts() -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost\n");
    let names: [(&dyn std::fmt::Display, &str); 4] = [
        (&gallop_path::SERVER_IPV4, "server4 server46"),
        (&gallop_path::SERVER_IPV6, "server6 server46"),
        (&gallop_path::CLIENT_IPV4, "client4"),
        (&gallop_path::CLIENT_IPV6, "client6"),
    ];
    for (address, names) in names {
        let _ = writeln!(text, "{address} {names}");
    }
    text
}

/// The TLS secrets of both ends.
fn keys_of(folder: &Path) -> String {
    [Role::Server, Role::Client]
        .into_iter()
        .filter_map(|role| {
            fs::read_to_string(folder.join(role.name()).join("logs").join("keys.log")).ok()
        })
        .collect()
}

/// How a file differs from what it should be, if it does.
fn differs(expected: &Path, received: &Path) -> Option<String> {
    let name = received.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().take(20).collect();
    let Ok(expected) = fs::read(expected) else {
        return Some(format!("{name}: the file that was served cannot be read"));
    };
    match fs::read(received) {
        Err(_) => Some(format!("{name} did not arrive")),
        Ok(received) if received.len() != expected.len() => Some(format!(
            "{name}: {} bytes arrived of {}",
            received.len(),
            expected.len()
        )),
        Ok(received) if received != expected => Some(format!("{name}: other bytes arrived")),
        Ok(_) => None,
    }
}

/// How a server started.
enum Started {
    Listening,
    Ended(ExitStatus),
    Silent,
}

/// One end, running; it ends with this value, and so does what it started.
struct Program<'a> {
    child: Child,
    log: PathBuf,
    /// Whether nobody waits for it any more.
    is_over: &'a AtomicBool,
}

impl<'a> Program<'a> {
    fn start(
        mut command: Command,
        folder: &Path,
        namespace: &gallop_path::Namespace,
        is_over: &'a AtomicBool,
    ) -> Result<Self> {
        let log = folder.join("logs").join("output.txt");
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        Ok(Program {
            child: namespace.spawn(&mut command)?,
            log,
            is_over,
        })
    }

    fn wait_until_listening(&mut self, timeout: Duration) -> Result<Started> {
        let start = Instant::now();
        while start.elapsed() < timeout {
            if let Some(status) = self.try_wait()? {
                return Ok(Started::Ended(status));
            }
            let is_listening = ["udp", "udp6"].iter().any(|table| {
                fs::read_to_string(format!("/proc/{}/net/{table}", self.child.id())).is_ok_and(
                    |text| {
                        text.lines().any(|line| {
                            line.split_whitespace()
                                .nth(1)
                                .is_some_and(|address| address.ends_with(LISTENING))
                        })
                    },
                )
            });
            if is_listening {
                return Ok(Started::Listening);
            }
            thread::sleep(POLL);
        }
        Ok(Started::Silent)
    }

    fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        ensure!(
            !self.is_over.load(Ordering::Relaxed),
            "interrupted; --resume goes on"
        );
        Ok(self.child.try_wait()?)
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<ExitStatus>> {
        let start = Instant::now();
        loop {
            match self.try_wait()? {
                Some(status) => return Ok(Some(status)),
                None if start.elapsed() >= timeout => return Ok(None),
                None => thread::sleep(POLL),
            }
        }
    }

    /// Asks it to end, and then makes it.
    fn stop(&mut self) -> Result<()> {
        self.signal(Signal::SIGTERM);
        self.wait(GRACE)?;
        self.signal(Signal::SIGKILL);
        self.child.wait()?;
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        // No such group: it has ended.
        let _ = killpg(Pid::from_raw(self.child.id().cast_signed()), signal);
    }

    /// The last that it said.
    fn said(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let last = text
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("it said nothing");
        last.chars().take(300).collect()
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        // It is gone, or was never there.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Peer;

    #[test]
    fn an_interruption_ends_what_runs() {
        let child = Command::new("sleep")
            .arg("1000")
            .process_group(0)
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        let is_over = AtomicBool::new(false);
        let mut program = Program {
            child,
            log: PathBuf::new(),
            is_over: &is_over,
        };
        assert_eq!(program.wait(Duration::ZERO).unwrap(), None);
        is_over.store(true, Ordering::Relaxed);
        let error = program.wait(Duration::MAX).unwrap_err();
        assert_eq!(error.to_string(), "interrupted; --resume goes on");
        drop(program);
        assert_eq!(
            nix::sys::signal::kill(pid, None),
            Err(nix::errno::Errno::ESRCH)
        );
    }

    #[test]
    fn a_peer_says_what_the_contract_gives_no_way_to_say() {
        let peer: Peer = toml::from_str(
            "url = ''\nversion = ''\nroles = ['server']\n\
             [[unsupported]]\nrole = 'server'\ncases = ['rebind-port']\nwhy = 'it moves nowhere'",
        )
        .unwrap();
        let programs = Programs {
            interop: Default::default(),
            ours: Default::default(),
            built: Default::default(),
            peers: [("a".to_owned(), peer)].into(),
        };
        let ours = || Endpoint::Gallop("vegas".to_owned());
        let theirs = || Endpoint::Peer("a".to_owned());
        let reason = |server: Endpoint, client: Endpoint, case: &str| {
            let case = Case::named(case).unwrap();
            let cell = Cell {
                server,
                client,
                case,
                repetition: 0,
            };
            cell.unsupported(&programs)
        };
        assert_eq!(
            reason(theirs(), ours(), "rebind-port").unwrap(),
            "a does not support it as server: it moves nowhere"
        );
        assert_eq!(reason(ours(), theirs(), "rebind-port"), None);
        assert_eq!(reason(theirs(), ours(), "transfer"), None);
    }
}
