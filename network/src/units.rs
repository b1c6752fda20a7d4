//! Rates, times and buffers, written as tc(8) writes them.
//!
//! | quantity | units |
//! |---|---|
//! | [`Rate`] | bit, kbit, mbit, gbit, tbit (bits per second, powers of 1000), kibit … (powers of 1024); bps, kbps … and kibps … (bytes per second) |
//! | [`LinkRate`] | those of a rate, or pps (full datagrams per second) |
//! | [`Span`] | ns, us, ms, s |
//! | [`Buffer`], [`Size`] | p (packets); b, k or kb, m or mb, g or gb (bytes, powers of 1024) |
//!
//! Numbers may have a fraction and an exponent ("1.5gbit") and are exact to 15
//! digits; units are not case sensitive.
//! NOTE: tc takes a number without a unit as bits per second, microseconds or
//! bytes; here a unit is required.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// Bytes that a link serialises beside the UDP payload: 20 of the IPv4 header
/// (RFC 791 §3.1) and 8 of the UDP header (RFC 768).
pub const WIRE_OVERHEAD_BYTES: usize = 28;

/// Bytes of a full datagram that are not stream data: the short header with a
/// connection ID of 16 bytes and a packet number of two (19, RFC 9000 §17.3.1),
/// the AEAD's tag (16, RFC 9001 §5.3), and the header of a STREAM frame with an
/// offset between 2^14 and 2^30 (8, RFC 9000 §19.8).
const PACKET_OVERHEAD_BYTES: u64 = 19 + 16 + 8;

/// The stream bytes that a datagram of full size carries, where that is what
/// "a packet" of an application means. The exact number depends a little on
/// packet number and offset.
#[must_use]
pub fn stream_bytes_per_packet(datagram_bytes: usize) -> u64 {
    (datagram_bytes as u64)
        .saturating_sub(PACKET_OVERHEAD_BYTES)
        .max(1)
}

/// A text that is not the quantity it should be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("\"{text}\" is not a {quantity}: {reason}")]
pub struct UnitError {
    text: String,
    quantity: &'static str,
    reason: Reason,
}

/// What is wrong with a quantity.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
enum Reason {
    #[error("it does not start with a number; write a number and a unit, such as {example}")]
    NoNumber { example: &'static str },
    #[error("it has no unit; use {allowed}")]
    NoUnit { allowed: &'static str },
    #[error("unknown unit \"{unit}\"; use {allowed}")]
    UnknownUnit { unit: String, allowed: &'static str },
    #[error("it is negative")]
    Negative,
    #[error("it is zero, or rounds to zero; it must be at least {least}")]
    Zero { least: &'static str },
    #[error("it has a fraction; packets come whole")]
    Fraction,
    #[error("it is too large; the most is {most}")]
    TooLarge { most: &'static str },
}

/// What one kind of quantity is called and which units it has.
struct Kind {
    name: &'static str,
    example: &'static str,
    allowed: &'static str,
    most: &'static str,
}

const RATE: Kind = Kind {
    name: "rate",
    example: "50mbit",
    allowed: "bit, kbit, mbit, gbit, tbit (bits per second), bps, kbps, mbps, gbps, tbps (bytes per second), or kibit, mibit, kibps, … (powers of 1024)",
    most: "10^18 bit/s",
};

const LINK_RATE: Kind = Kind {
    name: "rate",
    example: "50mbit or 6250pps",
    allowed: "bit, kbit, mbit, gbit, tbit (bits per second), pps (full datagrams per second), bps, kbps, mbps, gbps, tbps (bytes per second), or kibit, mibit, kibps, … (powers of 1024)",
    most: RATE.most,
};

/// The most packets per second.
const MOST_PPS: f64 = 1e15;

const SPAN: Kind = Kind {
    name: "time",
    example: "100ms",
    allowed: "ns, us, ms, s",
    most: "10^9 s",
};

const BUFFER: Kind = Kind {
    name: "buffer",
    example: "100p or 64kb",
    allowed: "p (packets), or b, k or kb, m or mb, g or gb (bytes, powers of 1024)",
    most: "10^15 bytes or packets",
};

const SIZE: Kind = Kind {
    name: "size",
    example: "300p or 1mb",
    allowed: "p (packets), or b, k or kb, m or mb, g or gb (bytes, powers of 1024)",
    most: "10^15 bytes or packets",
};

impl Kind {
    fn error(&self, text: &str, reason: Reason) -> UnitError {
        UnitError {
            text: text.to_owned(),
            quantity: self.name,
            reason,
        }
    }

    /// Number and unit (in lower case) of `text`.
    fn split(&self, text: &str) -> Result<(f64, String), UnitError> {
        let trimmed = text.trim();
        let (number, unit) = longest_number(trimmed).ok_or_else(|| {
            self.error(
                text,
                Reason::NoNumber {
                    example: self.example,
                },
            )
        })?;
        let unit = unit.trim_start().to_ascii_lowercase();
        if unit.is_empty() {
            let allowed = self.allowed;
            return Err(self.error(text, Reason::NoUnit { allowed }));
        }
        if number < 0.0 {
            return Err(self.error(text, Reason::Negative));
        }
        Ok((number, unit))
    }

    fn unknown_unit(&self, text: &str, unit: String) -> UnitError {
        let allowed = self.allowed;
        self.error(text, Reason::UnknownUnit { unit, allowed })
    }

    /// The whole number nearest to `value`, at most `limit`.
    fn whole(&self, text: &str, value: f64, limit: u64) -> Result<u64, UnitError> {
        let rounded = value.round();
        if !(0.0..=limit as f64).contains(&rounded) {
            let reason = match rounded < 0.0 {
                true => Reason::Negative,
                false => Reason::TooLarge { most: self.most },
            };
            return Err(self.error(text, reason));
        }
        Ok(rounded as u64)
    }

    fn not_zero(
        &self,
        text: &str,
        value: u64,
        least: &'static str,
    ) -> Result<NonZeroU64, UnitError> {
        NonZeroU64::new(value).ok_or_else(|| self.error(text, Reason::Zero { least }))
    }
}

/// How fast a link is, where packets count rather than bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkRate {
    /// Bits per second on the wire.
    Bits(Rate),
    /// Full datagrams per second, whatever their size ("187.5pps"), above 0.
    Packets(f64),
}

impl LinkRate {
    /// The rate on the wire when a full datagram has a UDP payload of
    /// `datagram_bytes`.
    ///
    /// # Errors
    /// Refuses rates that round to no bit per second or exceed the most that a
    /// [`Rate`] can be.
    pub fn resolve(self, datagram_bytes: usize) -> Result<Rate, UnitError> {
        match self {
            LinkRate::Bits(rate) => Ok(rate),
            LinkRate::Packets(packets) => {
                Rate::from_bps(packets * 8.0 * (datagram_bytes + WIRE_OVERHEAD_BYTES) as f64)
            }
        }
    }
}

impl FromStr for LinkRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<LinkRate, UnitError> {
        let (number, unit) = LINK_RATE.split(text)?;
        if unit != "pps" {
            let bits = rate_unit(&unit).ok_or_else(|| LINK_RATE.unknown_unit(text, unit))?;
            return Rate::from_number(text, number * bits).map(LinkRate::Bits);
        }
        match number {
            0.0 => {
                let least = "more than 0pps";
                Err(LINK_RATE.error(text, Reason::Zero { least }))
            }
            _ if number > MOST_PPS => {
                let most = "10^15 pps";
                Err(LINK_RATE.error(text, Reason::TooLarge { most }))
            }
            _ => Ok(LinkRate::Packets(number)),
        }
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkRate::Bits(rate) => rate.fmt(f),
            LinkRate::Packets(packets) => write!(f, "{packets}pps"),
        }
    }
}

/// A text in tc's notation, or full datagrams per second with the unit `pps`.
impl<'de> Deserialize<'de> for LinkRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LinkRate, D::Error> {
        deserializer.deserialize_any(NumberOrText {
            expecting: "a rate such as \"50mbit\" or \"6250pps\"",
            number: |bits| Rate::from_bps(bits).map(LinkRate::Bits),
        })
    }
}

/// Splits `text` after the longest prefix that is a decimal number. Words that
/// `f64` understands, such as "nan" and "inf", are no numbers here.
fn longest_number(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c))
        .unwrap_or(text.len());
    (1..=end)
        .rev()
        .find_map(|end| Some((text[..end].parse().ok()?, &text[end..])))
}

/// Bits per second on the wire, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// 1 Mbit/s.
    pub const MEGABIT: Rate = Rate(NonZeroU64::new(1_000_000).expect("not zero"));

    /// 1 Gbit/s.
    pub const GIGABIT: Rate = Rate(NonZeroU64::new(1_000_000_000).expect("not zero"));

    const MOST_BPS: u64 = 1_000_000_000_000_000_000;

    /// 10^18 bit/s: an infinitely fast link, as far as packets go.
    pub const MAX: Rate = Rate(NonZeroU64::new(Rate::MOST_BPS).expect("not zero"));

    /// The rate of `bits` per second; a fraction of a bit is rounded.
    ///
    /// # Errors
    /// Refuses less than one bit per second, more than 10^18, and NaN.
    pub fn from_bps(bits: f64) -> Result<Rate, UnitError> {
        Rate::from_number(&format!("{bits} bit/s"), bits)
    }

    fn from_number(text: &str, bits: f64) -> Result<Rate, UnitError> {
        let bits = RATE.whole(text, bits, Rate::MOST_BPS)?;
        RATE.not_zero(text, bits, "1bit").map(Rate)
    }

    /// Bits per second.
    #[must_use]
    pub fn bps(self) -> u64 {
        self.0.get()
    }

    /// The rate `factor` times as high, at most what fits; never below one bit
    /// per second.
    #[must_use]
    pub fn saturating_mul(self, factor: u64) -> Rate {
        Rate(NonZeroU64::new(self.bps().saturating_mul(factor)).unwrap_or(NonZeroU64::MIN))
    }

    /// How long a link of this rate takes to send `bytes`, to the nearest
    /// nanosecond.
    #[must_use]
    pub fn time_to_send(self, bytes: u64) -> Duration {
        const BIT_NS_PER_BYTE_S: u64 = 8 * 1_000_000_000;
        let rate = self.bps();
        let nanoseconds = match bytes
            .checked_mul(BIT_NS_PER_BYTE_S)
            .and_then(|total| total.checked_add(rate / 2))
        {
            Some(total) => total / rate,
            None => {
                let total = u128::from(bytes) * u128::from(BIT_NS_PER_BYTE_S);
                let rounded = (total + u128::from(rate / 2)) / u128::from(rate);
                u64::try_from(rounded).unwrap_or(u64::MAX)
            }
        };
        Duration::from_nanos(nanoseconds)
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Rate, UnitError> {
        let (number, unit) = RATE.split(text)?;
        let bits = rate_unit(&unit).ok_or_else(|| RATE.unknown_unit(text, unit))?;
        Rate::from_number(text, number * bits)
    }
}

/// Bits per second of one `unit`.
fn rate_unit(unit: &str) -> Option<f64> {
    let (prefix, bits) = match (unit.strip_suffix("bit"), unit.strip_suffix("bps")) {
        (Some(prefix), _) => (prefix, 1.0),
        (None, Some(prefix)) => (prefix, 8.0),
        (None, None) => return None,
    };
    let (prefix, step) = match prefix.strip_suffix('i') {
        Some(binary) if !binary.is_empty() => (binary, 1024.0_f64),
        _ => (prefix, 1000.0),
    };
    let power = match prefix {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    Some(bits * step.powi(power))
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            ("tbit", 1_000_000_000_000),
            ("gbit", 1_000_000_000),
            ("mbit", 1_000_000),
            ("kbit", 1_000),
        ];
        write_largest(f, self.bps(), &units, "bit")
    }
}

/// Writes `value` in the largest of `units` that leaves at most three decimals,
/// so that it reads back as the same number; else in `smallest`.
fn write_largest(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    units: &[(&str, u64)],
    smallest: &str,
) -> fmt::Result {
    for &(unit, size) in units {
        if value >= size && value.is_multiple_of((size / 1000).max(1)) {
            let thousandths = value / (size / 1000).max(1);
            let (whole, fraction) = (thousandths / 1000, thousandths % 1000);
            let fraction = format!(".{fraction:03}");
            let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
            return write!(f, "{whole}{fraction}{unit}");
        }
    }
    write!(f, "{value}{smallest}")
}

/// A span of time, to the nanosecond. May be zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(Duration);

impl Span {
    const MOST_NS: u64 = 1_000_000_000_000_000_000;

    /// The span of `seconds`, to the nearest nanosecond.
    ///
    /// # Errors
    /// Refuses negative numbers, more than 10^9 s, and NaN.
    pub fn from_secs_f64(seconds: f64) -> Result<Span, UnitError> {
        Span::from_number(&format!("{seconds} s"), seconds * 1e9)
    }

    fn from_number(text: &str, nanoseconds: f64) -> Result<Span, UnitError> {
        let nanoseconds = SPAN.whole(text, nanoseconds, Span::MOST_NS)?;
        Ok(Span(Duration::from_nanos(nanoseconds)))
    }

    /// As a `Duration`.
    #[must_use]
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Duration {
        span.0
    }
}

impl TryFrom<Duration> for Span {
    type Error = UnitError;

    fn try_from(duration: Duration) -> Result<Span, UnitError> {
        match duration.as_nanos() <= u128::from(Span::MOST_NS) {
            true => Ok(Span(duration)),
            false => {
                let reason = Reason::TooLarge { most: SPAN.most };
                Err(SPAN.error(&format!("{duration:?}"), reason))
            }
        }
    }
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Span, UnitError> {
        let (number, unit) = SPAN.split(text)?;
        let nanoseconds = match unit.as_str() {
            "s" | "sec" | "secs" => 1e9,
            "ms" | "msec" | "msecs" => 1e6,
            "us" | "usec" | "usecs" => 1e3,
            "ns" | "nsec" | "nsecs" => 1.0,
            _ => return Err(SPAN.unknown_unit(text, unit)),
        };
        Span::from_number(text, number * nanoseconds)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
        write_largest(f, nanoseconds, &units, "ns")
    }
}

/// How much may wait in a queue, at least one packet or byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Buffer {
    /// Packets of any size.
    Packets(NonZeroU64),
    /// Bytes on the wire.
    Bytes(NonZeroU64),
}

impl FromStr for Buffer {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Buffer, UnitError> {
        Ok(match BUFFER.amount(text)? {
            Amount::Packets(packets) => Buffer::Packets(packets),
            Amount::Bytes(bytes) => Buffer::Bytes(bytes),
        })
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Buffer::Packets(packets) => Amount::Packets(packets).fmt(f),
            Buffer::Bytes(bytes) => Amount::Bytes(bytes).fmt(f),
        }
    }
}

/// How much an application sends or holds, at least one packet or byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// As many stream bytes as that many datagrams of full size carry.
    Packets(NonZeroU64),
    /// Stream bytes.
    Bytes(NonZeroU64),
}

impl Size {
    /// In bytes, where a datagram of full size carries `packet_bytes` of a
    /// stream.
    #[must_use]
    pub fn bytes(self, packet_bytes: u64) -> u64 {
        match self {
            Size::Packets(packets) => packets.get().saturating_mul(packet_bytes),
            Size::Bytes(bytes) => bytes.get(),
        }
    }
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Size, UnitError> {
        Ok(match SIZE.amount(text)? {
            Amount::Packets(packets) => Size::Packets(packets),
            Amount::Bytes(bytes) => Size::Bytes(bytes),
        })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Size::Packets(packets) => Amount::Packets(packets).fmt(f),
            Size::Bytes(bytes) => Amount::Bytes(bytes).fmt(f),
        }
    }
}

/// A number of packets or bytes, at least one.
#[derive(Clone, Copy, Debug)]
enum Amount {
    Packets(NonZeroU64),
    Bytes(NonZeroU64),
}

impl Amount {
    const MOST: u64 = 1_000_000_000_000_000;
}

impl Kind {
    fn amount(&self, text: &str) -> Result<Amount, UnitError> {
        let (number, unit) = self.split(text)?;
        let size = match unit.as_str() {
            "p" => {
                if number.fract() != 0.0 {
                    return Err(self.error(text, Reason::Fraction));
                }
                let packets = self.whole(text, number, Amount::MOST)?;
                return self.not_zero(text, packets, "1p").map(Amount::Packets);
            }
            "b" => 1.0,
            "k" | "kb" => 1024.0,
            "m" | "mb" => 1024.0 * 1024.0,
            "g" | "gb" => 1024.0 * 1024.0 * 1024.0,
            _ => return Err(self.unknown_unit(text, unit)),
        };
        let bytes = self.whole(text, number * size, Amount::MOST)?;
        self.not_zero(text, bytes, "1b").map(Amount::Bytes)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Packets(packets) => write!(f, "{packets}p"),
            Amount::Bytes(bytes) => {
                let bytes = bytes.get();
                let units = [("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10)];
                match units.iter().find(|(_, size)| bytes.is_multiple_of(*size)) {
                    Some((unit, size)) => write!(f, "{}{unit}", bytes / size),
                    None => write!(f, "{bytes}b"),
                }
            }
        }
    }
}

/// A text in tc's notation.
impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Bits per second as a number.
impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.bps())
    }
}

/// Bits per second as a number, or a text in tc's notation.
impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
        deserializer.deserialize_any(NumberOrText {
            expecting: "bits per second, or a text such as \"50mbit\"",
            number: Rate::from_bps,
        })
    }
}

/// Seconds as a number.
impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.as_secs_f64())
    }
}

/// Seconds as a number, or a text in tc's notation.
impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        deserializer.deserialize_any(NumberOrText {
            expecting: "seconds, or a text such as \"100ms\"",
            number: Span::from_secs_f64,
        })
    }
}

struct NumberOrText<T> {
    expecting: &'static str,
    number: fn(f64) -> Result<T, UnitError>,
}

impl<T: FromStr<Err = UnitError>> de::Visitor<'_> for NumberOrText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        (self.number)(number).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_f64(number as f64)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_f64(number as f64)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}
