//! One cell of the matrix: a server, a client, a case, over a path of their own.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::case::{Case, Check};
use crate::check;
use crate::container;
use crate::endpoint::{Endpoint, Role};
use crate::fixture::{Fixture, names};
use crate::outcome::{Outcome, Verdict};
use crate::process::{Process, Started};
use crate::programs::Programs;
use crate::traffic::{CUBIC, TcpFlow};

/// The exit status of a program for a test case that it does not support.
const UNSUPPORTED: i32 = 127;

/// The time that a server may take until it listens.
const STARTUP: Duration = Duration::from_secs(20);

/// A cell of the matrix.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The server.
    pub server: Endpoint,
    /// The client.
    pub client: Endpoint,
    /// The case.
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

    /// Runs it, unless `is_over` becomes true first; logs and traces of the programs stay in
    /// `folder`.
    ///
    /// # Errors
    ///
    /// The cell cannot be run: the path or a file cannot be made, or a program cannot be started.
    /// Or the run was interrupted; then its programs have ended.
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
        let server_folder = container::prepare(self.case, folder, Role::Server, fixture)?;
        let client_folder = container::prepare(self.case, folder, Role::Client, fixture)?;
        let mut settings = self.case.path(self.repetition as u64 + 1);
        settings.capture = Some(capture.clone());
        let path = gallop_path::Path::start(&settings)?;

        let mut server = Process::start(
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
        let requests: Vec<String> = names(self.case)
            .into_iter()
            .map(|(name, _)| format!("https://{}:443/{name}", self.case.host()))
            .collect();
        let start = Instant::now();
        let mut client = Process::start(
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
        // Together with the client, as in the interop runner: a queue that stands before the client comes
        // would be part of its BaseRTT.
        let flow = match self.case.has_cross_traffic {
            true => Some(TcpFlow::start(&path, CUBIC, None)?),
            false => None,
        };
        let ended = client.wait(self.case.timeout())?;
        let seconds = start.elapsed().as_secs_f64();
        let tcp_kbps = flow.map(|flow| flow.stop() / 1e3);
        client.stop()?;
        let server_ended = server.try_wait()?;
        server.stop()?;
        let report = path.stop()?;
        let json = serde_json::to_vec_pretty(&report)?;
        gallop_files::write(&folder.join("path.json"), &json)?;

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

    /// Compares what arrived with what should have arrived.
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

    /// The reason why one end does not support the case, if its `peer.toml` gives one.
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

    /// A text that says that one end does not know the case.
    fn unknown(&self, role: Role) -> String {
        let end = match role {
            Role::Server => &self.server,
            Role::Client => &self.client,
        };
        format!("{end} does not support it as {}", role.name())
    }
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

/// The difference of a file from the expected one, if there is one.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Peer;

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
            peers_controller: None,
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
