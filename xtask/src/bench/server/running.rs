//! A server that runs on a core of its own, and what it takes.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::bench::usage;

/// The cores of the server and of the client, as taskset(1) names them.
pub(super) const SERVER_CORE: &str = "0";
pub(super) const CLIENT_CORE: &str = "1";
pub(super) const ALL_CORES: &str = "0-1";

/// The same command on some cores only.
pub(super) fn pinned(cores: &str, command: &Command) -> Command {
    let mut pinned = Command::new("taskset");
    pinned
        .args(["--cpu-list", cores])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => pinned.env(name, value),
            None => pinned.env_remove(name),
        };
    }
    pinned
}

/// A server, which ends with this value, and all processes that it has started.
pub(super) struct Running(Child);

impl Running {
    pub(super) fn start(mut command: Command) -> Result<Self> {
        command
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        Ok(Running(command.spawn().context("cannot start the server")?))
    }

    /// Fails if it has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        match self.0.try_wait()? {
            Some(status) => bail!("the server has ended: {status}"),
            None => Ok(()),
        }
    }

    /// Its processes.
    pub(super) fn processes(&self) -> Result<Vec<u32>> {
        usage::family(self.0.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _status = self.0.wait();
    }
}

/// Calls that send datagrams.
const SEND_CALLS: [&str; 3] = ["sendmsg", "sendmmsg", "sendto"];

/// perf(1) at the processes of a server, until it is told to stop.
pub(super) struct Perf(Child);

impl Perf {
    /// Counts the system calls that send datagrams.
    pub(super) fn count(processes: &[u32], file: &Path) -> Result<Self> {
        let events = SEND_CALLS.map(|call| format!("syscalls:sys_enter_{call}"));
        let mut perf = Command::new("perf");
        perf.args(["stat", "-x,", "-e", &events.join(",")]);
        Perf::start(perf, processes, file)
    }

    /// Notes the function that runs, a thousand times per second of CPU time.
    pub(super) fn record(processes: &[u32], file: &Path) -> Result<Self> {
        let mut perf = Command::new("perf");
        perf.args(["record", "-e", "cpu-clock", "-F", "999"]);
        Perf::start(perf, processes, file)
    }

    fn start(mut perf: Command, processes: &[u32], file: &Path) -> Result<Self> {
        let processes: Vec<_> = processes.iter().map(u32::to_string).collect();
        let child = perf
            .args(["-p", &processes.join(",")])
            .arg("-o")
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run perf: is it installed?")?;
        // It says nothing when it has attached itself.
        thread::sleep(Duration::from_millis(300));
        Ok(Perf(child))
    }

    /// Waits until what it has seen is written.
    pub(super) fn stop(mut self) -> Result<()> {
        let id = self.0.id().to_string();
        Command::new("kill").args(["-INT", &id]).status()?;
        self.0.wait()?;
        Ok(())
    }
}

/// The sum of the counts in the output of `perf stat -x,`.
pub(super) fn counted(text: &str) -> Option<u64> {
    let counts = text
        .lines()
        .filter(|line| line.contains("sys_enter_"))
        .map(|line| line.split(',').next()?.parse::<u64>().ok());
    counts.sum::<Option<u64>>().filter(|count| *count > 0)
}

/// Two processes that would use all cores.
pub(super) struct Burners(Vec<Child>);

impl Burners {
    pub(super) fn start() -> Result<Self> {
        let burn = |core| {
            let mut burner = Command::new("sh");
            burner.args(["-c", "while :; do :; done"]);
            pinned(core, &burner).spawn()
        };
        let burners = [SERVER_CORE, CLIENT_CORE].map(burn);
        let burners = burners.into_iter().collect::<Result<_, _>>();
        Ok(Burners(burners.context("cannot run sh")?))
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        for burner in &mut self.0 {
            let _ = burner.kill();
            let _ = burner.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_and_may_be_missing() {
        let text = "# started on\n\n90,,syscalls:sys_enter_sendmsg,1,100.00,,\n\
                    10,,syscalls:sys_enter_sendmmsg,1,100.00,,\n";
        assert_eq!(counted(text), Some(100));
        assert_eq!(counted(&text.replace("90", "<not supported>")), None);
        assert_eq!(counted(""), None);
    }

    #[test]
    fn a_pinned_command_is_the_same() {
        let mut command = Command::new("program");
        command.arg("argument").env("NAME", "value");
        let pinned = pinned("0", &command);
        let words: Vec<_> = pinned.get_args().collect();
        assert_eq!(words, ["--cpu-list", "0", "program", "argument"]);
        assert_eq!(pinned.get_envs().count(), 1);
    }
}
