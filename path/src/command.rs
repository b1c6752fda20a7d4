//! The command line.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand};
use gallop_network::queue::QueueSpec;
use gallop_network::units::Rate;
use gallop_path::settings::{
    Blackhole, Direction, Errors, Jitter, Rebinding, Rebound, change, queue, span,
};
use gallop_path::{
    CLIENT_IPV4, CLIENT_IPV6, Path, PathError, Report, SERVER_IPV4, SERVER_IPV6, Settings,
};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// An emulated network path between two network namespaces
///
/// One process carries IP packets between a client's and a server's namespace, in real time, with
/// the links and queues of the simulator. The client has the addresses 10.18.0.100 and
/// fd00:cafe:cafe::100, the server 10.18.100.100 and fd00:cafe:cafe:100::100.
#[derive(Debug, Parser)]
#[command(name = "gallop-path", version, args_override_self = true)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Makes a path and runs commands at its ends
    #[command(after_long_help = RUN_EXAMPLES)]
    Run(Box<Run>),
    /// Checks a path against itself: rate, delay, buffer, losses and more are those that were asked
    /// for
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Check),
}

const CHECK_EXAMPLES: &str = "\
Example:
  gallop-path check --json > check.json

Exit code: 0 if all checks pass, 1 if not or if a path cannot be made.";

#[derive(Debug, Args)]
struct Check {
    /// Writes what was measured as JSON to standard output, and the table to standard error
    #[arg(long)]
    json: bool,
}

const RUN_EXAMPLES: &str = "\
Examples:
  gallop-path run -- ping -c 3 10.18.100.100
  gallop-path run --rate 10mbit --delay 15ms --queue 25p \\
      --server './gallop-server --listen 0.0.0.0:4433 --root .' \\
      -- ./gallop-client --insecure https://10.18.100.100:4433/file
  gallop-path run --loss 30%,burst=3 --blackhole on=5s,off=2s --seed 7
      (no command: prints where the namespaces are, for nsenter, and waits for Ctrl-C)

Without root: unshare --user --map-root-user gallop-path run …";

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    path: PathArguments,

    /// A command to run at the server's end meanwhile, with sh
    #[arg(long, value_name = "COMMAND")]
    server: Option<String>,

    /// Writes what the path has measured as JSON to a file ("-": standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// A command to run at the client's end; its exit code becomes that of this one
    #[arg(last = true, value_name = "COMMAND")]
    client: Vec<OsString>,
}

#[derive(Debug, Args)]
struct PathArguments {
    /// Rate in bits of IP packets
    #[arg(long, default_value = "10mbit")]
    rate: Rate,

    /// Propagation delay, one way
    #[arg(long, default_value = "15ms", value_parser = span)]
    delay: Duration,

    /// Queue before the link: 25p or 64kb (drop-tail), unlimited, or a table as in an experiment's
    /// file, such as '{ kind = "codel", limit = "1000p" }'
    #[arg(long, default_value = "25p", value_parser = queue)]
    queue: QueueSpec,

    /// Rate towards the server, if it differs
    #[arg(long, value_name = "RATE")]
    rate_to_server: Option<Rate>,

    /// Delay towards the server, if it differs
    #[arg(long, value_name = "DELAY", value_parser = span)]
    delay_to_server: Option<Duration>,

    /// Queue towards the server, if it differs
    #[arg(long, value_name = "QUEUE", value_parser = queue)]
    queue_to_server: Option<QueueSpec>,

    /// Random time, up to this, that each packet is held before the queue, in order, in each
    /// direction
    #[arg(long, value_name = "TIME", value_parser = span)]
    jitter: Option<Duration>,

    /// Another delay from a time after the client's first packet on, in each direction: 10s=40ms;
    /// can be given several times, in order of time
    #[arg(long, value_name = "TIME=DELAY", value_parser = change)]
    change: Vec<(Duration, Duration)>,

    /// Share of packets lost in each direction, and at most so many in a row: 2%, or 30%,burst=3
    #[arg(long, value_name = "SHARE")]
    loss: Option<Errors>,

    /// Share of UDP datagrams damaged in each direction, as with --loss
    #[arg(long, value_name = "SHARE")]
    corrupt: Option<Errors>,

    /// Loses everything for a while, after a while: on=5s,off=2s, and times=3 if it happens more
    /// than once
    #[arg(long, value_name = "TIMES")]
    blackhole: Option<Blackhole>,

    /// A NAT before the client gives it a new port, or a new address (addr)
    #[arg(long, value_name = "WHAT")]
    rebind: Option<Rebound>,

    /// Time of the first rebinding, from the client's first packet on
    #[arg(long, default_value = "1s", value_parser = span, value_name = "TIME", requires = "rebind")]
    rebind_first: Duration,

    /// Interval of further rebindings
    #[arg(long, value_parser = span, value_name = "TIME", requires = "rebind")]
    rebind_every: Option<Duration>,

    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Writes the packets that leave the path to a pcap file
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

impl PathArguments {
    fn settings(self) -> Settings {
        let to_client = Direction {
            rate: self.rate,
            delay: self.delay,
            queue: self.queue,
            changes: self.change,
            jitter: self.jitter.map(|max| Jitter {
                max,
                in_order: true,
            }),
            loss: self.loss,
            lost: Vec::new(),
            corruption: self.corrupt,
            blackhole: self.blackhole,
        };
        let to_server = Direction {
            rate: self.rate_to_server.unwrap_or(to_client.rate),
            delay: self.delay_to_server.unwrap_or(to_client.delay),
            queue: self.queue_to_server.unwrap_or(to_client.queue.clone()),
            ..to_client.clone()
        };
        let (first, every) = (self.rebind_first, self.rebind_every);
        Settings {
            to_server,
            to_client,
            rebinding: self.rebind.map(|what| Rebinding { what, first, every }),
            seed: self.seed,
            capture: self.pcap,
            window: None,
        }
    }
}

/// Runs the command; returns the exit code of the program.
pub(crate) fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Task::Run(task) => run(*task),
        Task::Check(task) => check(&task),
    };
    result.unwrap_or_else(|error| {
        eprintln!("gallop-path: {error}");
        ExitCode::FAILURE
    })
}

type AnyError = Box<dyn std::error::Error>;

fn run(task: Run) -> Result<ExitCode, AnyError> {
    let signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let path = Path::start(&task.path.settings())?;
    let server = task.server.as_deref();
    let server = server.map(|line| Server::start(&path, line)).transpose()?;
    let code = match task.client.split_first() {
        Some((program, arguments)) => {
            let client = path.client().spawn(Command::new(program).args(arguments))?;
            wait_for(client, signals)?
        }
        None => {
            wait_at(&path, signals);
            ExitCode::SUCCESS
        }
    };
    drop(server);
    write_report(&path.stop()?, task.json.as_deref())?;
    Ok(code)
}

fn check(task: &Check) -> Result<ExitCode, AnyError> {
    let measurements = gallop_path::check::run(|measurement| match task.json {
        true => eprintln!("{measurement}"),
        false => println!("{measurement}"),
    })?;
    if task.json {
        println!("{}", serde_json::to_string_pretty(&measurements)?);
    }
    Ok(
        match measurements.iter().all(|measurement| measurement.good) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        },
    )
}

/// The time that the server may take to end when it is asked to.
const SERVER_PATIENCE: Duration = Duration::from_secs(5);

/// A command and what it starts, which end with this value.
struct Server(Child);

impl Server {
    fn start(path: &Path, line: &str) -> Result<Server, PathError> {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).process_group(0);
        path.server().spawn(&mut shell).map(Server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which is as good.
        let group = process(&self.0);
        let _ = killpg(group, Signal::SIGTERM);
        let asked = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) {
            if asked.elapsed() > SERVER_PATIENCE {
                let _ = killpg(group, Signal::SIGKILL);
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn process(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// Waits until `client` ends; returns its exit code. A terminal sends SIGINT and SIGHUP to it as
/// well, so only SIGTERM is passed on.
fn wait_for(mut client: Child, mut signals: Signals) -> std::io::Result<ExitCode> {
    let process = process(&client);
    let handle = signals.handle();
    let status = thread::scope(|scope| {
        scope.spawn(move || {
            for signal in &mut signals {
                if signal == SIGTERM {
                    // It may have ended by itself.
                    let _ = kill(process, Signal::SIGTERM);
                }
            }
        });
        let status = client.wait();
        handle.close();
        status
    })?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Prints where the ends of the path are and waits for a signal.
fn wait_at(path: &Path, mut signals: Signals) {
    for (side, namespace, ipv4, ipv6) in [
        ("client", path.client(), CLIENT_IPV4, CLIENT_IPV6),
        ("server", path.server(), SERVER_IPV4, SERVER_IPV6),
    ] {
        let place = namespace.path();
        println!(
            "{side} ({ipv4}, {ipv6}): nsenter --net={} COMMAND",
            place.display()
        );
    }
    signals.forever().next();
}

/// Writes the report for people, and as JSON if there is a file for it.
fn write_report(report: &Report, json: Option<&std::path::Path>) -> Result<(), AnyError> {
    eprintln!("{report}");
    let Some(file) = json else {
        return Ok(());
    };
    let text = serde_json::to_string_pretty(report)? + "\n";
    if file.as_os_str() == "-" {
        print!("{text}");
        return Ok(());
    }
    let failed = |error| format!("cannot write {}: {error}", file.display());
    gallop_files::write(file, text.as_bytes()).map_err(failed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_repeated_flag_holds() {
        let line = "gallop-path run --rate 10mbit --delay 1ms --rate 50mbit --delay 2s";
        match Arguments::try_parse_from(line.split(' ')).unwrap().command {
            Task::Run(task) => {
                assert_eq!(task.path.rate, "50mbit".parse().unwrap());
                assert_eq!(task.path.delay, Duration::from_secs(2));
            }
            Task::Check(task) => panic!("{task:?}"),
        }
    }

    #[test]
    fn times_and_rates_have_a_unit() {
        for (flag, value) in [("--delay", "15"), ("--rate", "10000000"), ("--queue", "25")] {
            let error = Arguments::try_parse_from(["gallop-path", "run", flag, value]).unwrap_err();
            assert!(error.to_string().contains("it has no unit; use"), "{error}");
        }
    }
}
