//! Flags that server and client share.

use std::fmt;
use std::io::IsTerminal;
use std::ops::RangeInclusive;
use std::time::Duration;

use gallop::stack::quiche::Selection;
use gallop_network::units::{Size, Span, UnitError};
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{self, Writer};

/// The end of a program's long help: examples, and every controller with its options.
pub fn with_controllers(examples: &str) -> String {
    format!("{examples}\n\n{}", Selection::help())
}

/// The form of logs.
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

    /// Level of logs: error, warn, info, debug or trace, also by module
    #[arg(long, env = "RUST_LOG", value_name = "FILTER")]
    pub log_level: Option<EnvFilter>,
}

impl Log {
    /// Starts logging, from the level `default` on unless a flag says otherwise.
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
            Format::Text => builder.fmt_fields(text_fields()).init(),
            // JSON has escapes of its own.
            Format::Json => builder.json().flatten_event(true).init(),
        }
    }
}

/// The fields of a line of the log. Here is the one place where texts of peers are made harmless: no
/// character of theirs begins a line or controls a terminal.
fn text_fields() -> impl for<'writer> FormatFields<'writer> {
    let field = |writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug| {
        if field.name() != "message" {
            write!(writer, "{}=", field.name())?;
        }
        for character in format!("{value:?}").chars() {
            match character.is_control() {
                true => write!(writer, "{}", character.escape_default())?,
                false => writer.write_char(character)?,
            }
        }
        Ok(())
    };
    format::debug_fn(field).delimited(" ")
}

/// Assumptions about a path before it is measured.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Assumed {
    /// RTT that is assumed until one is measured, from 1ms to 10s. A handshake is repeated after
    /// three times this, then after twice as long each time: less is better if packets are lost,
    /// more if the RTT is longer
    #[arg(long, default_value = "333ms", value_parser = initial_rtt, value_name = "TIME")]
    pub initial_rtt: Span,
}

/// RTTs that can be assumed for a connection before one is measured: from the granularity of
/// timers (RFC 9002 §6.1.2) to one that lets the first probe wait for half a minute.
const INITIAL_RTTS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);

/// An initial RTT (kInitialRtt of RFC 9002 §6.2.2).
///
/// # Errors
///
/// The text is not a time, or the time is not in [`INITIAL_RTTS`].
fn initial_rtt(text: &str) -> Result<Span, String> {
    let rtt: Span = text.parse().map_err(|error: UnitError| error.to_string())?;
    match INITIAL_RTTS.contains(&rtt.duration()) {
        true => Ok(rtt),
        false => Err("expected a time from 1ms to 10s".to_owned()),
    }
}

/// A number of bytes with its unit.
///
/// # Errors
///
/// The text is not a size, or is one in packets.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(Size::Bytes(bytes)) => Ok(bytes.get()),
        _ => Err("expected a size with a unit of bytes, such as 1000b, 64kb or 1gb".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A place for lines of a log.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_else_writes_lines_into_the_log() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(text_fields())
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let path = "/\n2026 INFO forged\r\u{1b}[2J\u{9b}";
            tracing::info!(path, shown = %path, "message with {path}");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert!(text.ends_with('\n'));
        let line = text.trim_end_matches('\n');
        assert!(!line.chars().any(char::is_control), "{line:?}");
        assert_eq!(line.matches("forged").count(), 3, "{line}");
    }

    #[test]
    fn sizes_are_in_bytes() {
        assert_eq!(bytes("1kb"), Ok(1024));
        assert_eq!(bytes("1000b"), Ok(1000));
        for wrong in ["1000", "3p", "1mbit", "0b", ""] {
            assert!(bytes(wrong).unwrap_err().contains("64kb"), "{wrong}");
        }
    }

    #[test]
    fn initial_rtts_have_a_range() {
        let rtt = |text| initial_rtt(text).map(Span::duration);
        assert_eq!(rtt("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(rtt("10s"), Ok(Duration::from_secs(10)));
        for (text, expected) in [
            ("999us", "1ms to 10s"),
            ("11s", "1ms to 10s"),
            ("1", "no unit"),
        ] {
            let error = rtt(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
