//! Flags that server and client share.

use std::io::IsTerminal;
use std::ops::RangeInclusive;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Lines to read.
    #[default]
    Text,
    /// An object per line.
    Json,
}

/// Logs, on standard error.
#[derive(Clone, Debug, clap::Args)]
pub struct Log {
    /// Form of the logs
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    pub log: Format,

    /// What is logged: error, warn, info, debug or trace, also by module
    #[arg(long, env = "RUST_LOG", value_name = "FILTER")]
    pub log_level: Option<EnvFilter>,
}

impl Log {
    /// Logs from now on; without another wish, from the level `default` on.
    pub fn start(&self, default: &str) {
        let filter = self
            .log_level
            .clone()
            .unwrap_or_else(|| EnvFilter::new(default));
        let builder = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(std::io::stderr);
        match self.log {
            Format::Text => builder.init(),
            Format::Json => builder.json().flatten_event(true).init(),
        }
    }
}

/// What is assumed of a path before it is measured.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Assumed {
    /// RTT in seconds that is assumed until one is measured, at least 0.001 and at most 10. A handshake
    /// is repeated after three times it, then twice as late each time: less is better where packets
    /// are lost, more where the RTT is longer than that
    #[arg(long, default_value = "0.333", value_parser = initial_rtt, value_name = "SECONDS")]
    pub initial_rtt: Duration,
}

/// RTTs that a connection can be taken to have before one is measured: from the granularity of
/// timers (RFC 9002 §6.1.2) to what has the first probe wait for half a minute.
const INITIAL_RTTS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);

/// An initial RTT (kInitialRtt of RFC 9002 §6.2.2) in seconds.
///
/// # Errors
///
/// Says what would be right.
fn initial_rtt(text: &str) -> Result<Duration, String> {
    seconds(text)
        .ok()
        .filter(|rtt| INITIAL_RTTS.contains(rtt))
        .ok_or_else(|| "a number of seconds from 0.001 to 10 is needed".to_owned())
}

/// A time in seconds, with decimals.
///
/// # Errors
///
/// Says what would be right.
pub fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "a number of seconds such as 10 or 0.5 is needed".to_owned())
}
