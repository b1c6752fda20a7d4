//! The program of one end, while it runs.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The time that a server has after SIGTERM, as by the runner's `docker compose up --timeout 1`.
const GRACE: Duration = Duration::from_secs(1);

/// The interval at which a program is polled for its end.
const POLL: Duration = Duration::from_millis(10);

/// UDP port 443 in /proc/net/udp.
const LISTENING: &str = ":01BB";

/// The result of a server's start.
pub(crate) enum Started {
    Listening,
    Ended(ExitStatus),
    Silent,
}

/// The running program of one end. When this value is dropped, the program and its children end.
pub(crate) struct Process<'a> {
    child: Child,
    log: PathBuf,
    /// True if the whole run is interrupted.
    is_over: &'a AtomicBool,
}

impl<'a> Process<'a> {
    pub(crate) fn start(
        mut command: Command,
        folder: &Path,
        namespace: &gallop_path::Namespace,
        is_over: &'a AtomicBool,
    ) -> Result<Self> {
        let (log, output) = log(folder)?;
        command.stdout(output.try_clone()?).stderr(output);
        Process::spawn(command, log, namespace, is_over)
    }

    /// Starts it with its standard output for us.
    pub(crate) fn piped(
        mut command: Command,
        folder: &Path,
        namespace: &gallop_path::Namespace,
        is_over: &'a AtomicBool,
    ) -> Result<(Self, ChildStdout)> {
        let (log, output) = log(folder)?;
        command.stdout(Stdio::piped()).stderr(output);
        let mut process = Process::spawn(command, log, namespace, is_over)?;
        let output = process.child.stdout.take();
        Ok((process, output.context("a program without output")?))
    }

    fn spawn(
        mut command: Command,
        log: PathBuf,
        namespace: &gallop_path::Namespace,
        is_over: &'a AtomicBool,
    ) -> Result<Self> {
        command.process_group(0).stdin(Stdio::null());
        Ok(Process {
            child: namespace.spawn(&mut command)?,
            log,
            is_over,
        })
    }

    pub(crate) fn wait_until_listening(&mut self, timeout: Duration) -> Result<Started> {
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

    pub(crate) fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        ensure!(!self.is_over.load(Ordering::Relaxed), "interrupted");
        Ok(self.child.try_wait()?)
    }

    pub(crate) fn wait(&mut self, timeout: Duration) -> Result<Option<ExitStatus>> {
        let start = Instant::now();
        loop {
            match self.try_wait()? {
                Some(status) => return Ok(Some(status)),
                None if start.elapsed() >= timeout => return Ok(None),
                None => thread::sleep(POLL),
            }
        }
    }

    /// Asks it to end, and then kills it.
    pub(crate) fn stop(&mut self) -> Result<()> {
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

    /// The last line of its output.
    pub(crate) fn said(&self) -> String {
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

/// The file of a program's output, in its folder of logs.
fn log(folder: &Path) -> Result<(PathBuf, File)> {
    let log = folder.join("logs").join("output.txt");
    let output = File::create(&log).with_context(|| log.display().to_string())?;
    Ok((log, output))
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        // It is gone, or was never there.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_ends_what_runs() {
        let child = Command::new("sleep")
            .arg("1000")
            .process_group(0)
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        let is_over = AtomicBool::new(false);
        let mut process = Process {
            child,
            log: PathBuf::new(),
            is_over: &is_over,
        };
        assert_eq!(process.wait(Duration::ZERO).unwrap(), None);
        is_over.store(true, Ordering::Relaxed);
        let error = process.wait(Duration::MAX).unwrap_err();
        assert_eq!(error.to_string(), "interrupted");
        drop(process);
        assert_eq!(
            nix::sys::signal::kill(pid, None),
            Err(nix::errno::Errno::ESRCH)
        );
    }
}
