//! The settings of a path.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use gallop_network::queue::QueueSpec;
use gallop_network::units::{Buffer, Rate, Span};
use serde::Deserialize;
use serde::de::{self, IntoDeserializer, value::StrDeserializer};
use thiserror::Error;

/// The settings of a path in both directions.
///
/// Everything that changes with time counts from the first packet of the client.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// From the client to the server.
    pub to_server: Direction,
    /// From the server to the client.
    pub to_client: Direction,
    /// The NAT before the client, if there is one that forgets.
    pub rebinding: Option<Rebinding>,
    /// The seed of everything random.
    pub seed: u64,
    /// A pcap file for the packets as they leave the path, at both ends.
    pub capture: Option<PathBuf>,
    /// The time whose measurements the report has apart.
    pub window: Option<Window>,
}

/// A part of a path's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its start.
    pub from: Duration,
    /// Its end.
    pub until: Duration,
}

impl Settings {
    /// The same in both directions.
    #[must_use]
    pub fn symmetric(direction: Direction) -> Settings {
        Settings {
            to_server: direction.clone(),
            to_client: direction,
            ..Settings::default()
        }
    }
}

/// The settings of one direction: a queue, a link, and errors at its end.
///
/// NOTE: The simulator's experiments lose and damage packets at the entrance of a link; here they
/// are lost and damaged when they have used it, as on the paths of the QUIC interop runner.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// Bits of IP packets per second.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// The queue before the link.
    pub queue: QueueSpec,
    /// The delays that hold from given times on, in order of time.
    pub changes: Vec<(Duration, Duration)>,
    /// The random time that packets are held before the queue.
    pub jitter: Option<Jitter>,
    /// Packets that are lost at random.
    pub loss: Option<Errors>,
    /// Packets that are lost in any case, by their numbers among those that leave the link, from 1.
    pub lost: Vec<u64>,
    /// UDP datagrams that are damaged. Their checksums are right, so that they reach the endpoint.
    /// Version Negotiation packets are spared: a damaged version is answered by one that a client
    /// has to ignore (RFC 9000 §6.2).
    pub corruption: Option<Errors>,
    /// Times in which all packets are lost.
    pub blackhole: Option<Blackhole>,
}

impl Default for Direction {
    /// The path of the interop runner: 10 Mbit/s, 15 ms, 25 packets.
    fn default() -> Direction {
        let limit = NonZeroU64::MIN.saturating_add(24);
        Direction {
            rate: Rate::MEGABIT.saturating_mul(10),
            delay: Duration::from_millis(15),
            queue: QueueSpec::drop_tail(Buffer::Packets(limit)),
            changes: Vec::new(),
            jitter: None,
            loss: None,
            lost: Vec::new(),
            corruption: None,
            blackhole: None,
        }
    }
}

/// A random time, uniform between zero and `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jitter {
    /// The longest.
    pub max: Duration,
    /// True if no packet overtakes another.
    pub in_order: bool,
}

/// A text that is not the setting that it should be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("\"{text}\" is not {expected}{reason}")]
pub struct SettingError {
    text: String,
    expected: &'static str,
    reason: String,
}

impl SettingError {
    fn new(text: &str, expected: &'static str) -> SettingError {
        let (text, reason) = (text.to_owned(), String::new());
        SettingError {
            text,
            expected,
            reason,
        }
    }

    fn because(self, reason: impl ToString) -> SettingError {
        let reason = format!(": {}", reason.to_string());
        SettingError { reason, ..self }
    }
}

/// Errors that hit packets at random, each with the same probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// From 0 to 1.
    pub probability: f64,
    /// At most so many packets in a row are hit.
    pub burst: Option<u32>,
}

/// "2%", "0.02", or with a limit "30%,burst=3".
impl FromStr for Errors {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Errors, SettingError> {
        const EXPECTED: &str = "a share of packets such as 2%, 0.02 or 30%,burst=3";
        let wrong = || SettingError::new(text, EXPECTED);
        let (share, rest) = text
            .split_once(',')
            .map_or((text, None), |(a, b)| (a, Some(b)));
        let probability = match share.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
            None => share.parse(),
        };
        let probability = probability
            .ok()
            .filter(|probability| (0.0..=1.0).contains(probability))
            .ok_or_else(|| wrong().because("the share must lie between 0 and 100%"))?;
        let burst = rest.map(|rest| {
            let number = rest
                .strip_prefix("burst=")
                .and_then(|number| number.parse().ok());
            number.ok_or_else(wrong)
        });
        Ok(Errors {
            probability,
            burst: burst.transpose()?,
        })
    }
}

/// Times in which all packets are lost, in turn with times in which they are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blackhole {
    /// The time in which packets pass.
    pub on: Duration,
    /// The time in which they are lost.
    pub off: Duration,
    /// The number of black holes; after the last one packets pass.
    pub times: u32,
}

/// "on=5s,off=2s", and "times=3" if it happens more than once.
impl FromStr for Blackhole {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Blackhole, SettingError> {
        const EXPECTED: &str = "a black hole such as on=5s,off=2s or on=5s,off=2s,times=3";
        let wrong = || SettingError::new(text, EXPECTED);
        let (mut on, mut off, mut times) = (None, None, 1);
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            match key {
                "on" => on = Some(span(value).map_err(|error| wrong().because(error))?),
                "off" => off = Some(span(value).map_err(|error| wrong().because(error))?),
                "times" => times = value.parse().map_err(|error| wrong().because(error))?,
                _ => return Err(wrong()),
            }
        }
        Ok(Blackhole {
            on: on.ok_or_else(wrong)?,
            off: off.ok_or_else(wrong)?,
            times,
        })
    }
}

/// A NAT before the client that forgets its bindings of UDP ports. Packets that the server sends to
/// a forgotten binding are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebinding {
    /// The part of the client's address that changes.
    pub what: Rebound,
    /// The time of the first rebinding.
    pub first: Duration,
    /// The interval of further rebindings.
    pub every: Option<Duration>,
}

/// The part of an address that a rebinding changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebound {
    /// The client's port.
    Port,
    /// The client's address and port.
    Address,
}

/// "port" or "addr".
impl FromStr for Rebound {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Rebound, SettingError> {
        match text {
            "port" => Ok(Rebound::Port),
            "addr" => Ok(Rebound::Address),
            _ => Err(SettingError::new(text, "port or addr")),
        }
    }
}

/// A time such as "15ms".
///
/// # Errors
/// The text is not of this form; the error says what would be right.
pub fn span(text: &str) -> Result<Duration, gallop_network::units::UnitError> {
    text.parse().map(Span::duration)
}

/// A delay from a time on: "10s=40ms".
///
/// # Errors
/// The text is not of this form; the error says what would be right.
pub fn change(text: &str) -> Result<(Duration, Duration), SettingError> {
    let wrong = || SettingError::new(text, "a time and a delay such as 10s=40ms");
    let (at, delay) = text.split_once('=').ok_or_else(wrong)?;
    let part = |text| span(text).map_err(|error| wrong().because(error));
    Ok((part(at)?, part(delay)?))
}

/// A queue: "25p" or "64kb" for drop-tail, "unlimited", or a table such as
/// `{ kind = "codel", limit = "1000p" }`, as in an experiment's file.
///
/// # Errors
/// The text is not of this form; the error says what would be right.
pub fn queue(text: &str) -> Result<QueueSpec, SettingError> {
    #[derive(Deserialize)]
    struct Line {
        queue: QueueSpec,
    }
    let wrong = |reason: &str| SettingError::new(text, "a queue").because(reason);
    if !text.trim_start().starts_with('{') {
        let plain: StrDeserializer<'_, de::value::Error> = text.into_deserializer();
        return QueueSpec::deserialize(plain).map_err(|error| wrong(&error.to_string()));
    }
    let line: Line =
        toml::from_str(&format!("queue = {text}")).map_err(|error| wrong(error.message()))?;
    Ok(line.queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_share_and_maybe_a_limit() {
        let errors = |probability, burst| Ok(Errors { probability, burst });
        assert_eq!("2%".parse(), errors(0.02, None));
        assert_eq!("0.3,burst=3".parse(), errors(0.3, Some(3)));
        for wrong in [
            "",
            "2",
            "101%",
            "-1%",
            "nan",
            "2%,burst",
            "2%,burst=x",
            "2%,3",
        ] {
            let error = wrong.parse::<Errors>().unwrap_err().to_string();
            assert!(error.contains("30%,burst=3"), "{error}");
        }
    }

    #[test]
    fn a_black_hole_has_two_times() {
        let expected = Blackhole {
            on: Duration::from_secs(5),
            off: Duration::from_millis(2500),
            times: 1,
        };
        assert_eq!("on=5s,off=2.5s".parse(), Ok(expected));
        let times = 4;
        let expected = Blackhole { times, ..expected };
        assert_eq!("times=4,off=2500ms,on=5s".parse(), Ok(expected));
        for wrong in ["", "on=5s", "on=5,off=2s", "on=5s,off=2s,x=1", "5s"] {
            assert!(wrong.parse::<Blackhole>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_change_of_delay_has_a_time() {
        let expected = (Duration::from_secs(10), Duration::from_millis(40));
        assert_eq!(change("10s=40ms"), Ok(expected));
        for wrong in ["", "10s", "10s=", "10=40ms", "10s=40"] {
            let error = change(wrong).unwrap_err().to_string();
            assert!(error.contains("10s=40ms"), "{error}");
        }
    }

    #[test]
    fn queues_are_written_as_in_experiments() {
        assert_eq!(queue("25p"), Ok(Direction::default().queue));
        assert_eq!(queue("unlimited"), Ok(QueueSpec::Unlimited));
        let codel = queue("{ kind = \"codel\", limit = \"100p\" }");
        assert!(matches!(codel, Ok(QueueSpec::Codel(_))));
        for wrong in ["25", "{ kind = \"x\" }", "\"", "{"] {
            let error = queue(wrong).unwrap_err().to_string();
            assert!(error.contains("is not a queue: "), "{error}");
        }
    }
}
