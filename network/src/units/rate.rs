//! Rates in bits per second, and rates of links that may count packets.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::WIRE_OVERHEAD_BYTES;
use super::text::{Kind, NumberOrText, Reason, UnitError, write_largest};

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

    /// The rate `factor` times as high, at most what fits; never below one bit per second.
    #[must_use]
    pub fn saturating_mul(self, factor: u64) -> Rate {
        Rate(NonZeroU64::new(self.bps().saturating_mul(factor)).unwrap_or(NonZeroU64::MIN))
    }

    /// The time that a link of this rate takes to send `bytes`, to the nearest nanosecond.
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

/// The rate of a link, in bits or in packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkRate {
    /// Bits per second on the wire.
    Bits(Rate),
    /// Full datagrams per second, whatever their size ("187.5pps"), above 0.
    Packets(f64),
}

impl LinkRate {
    /// The rate on the wire when a full datagram has a UDP payload of `datagram_bytes`.
    ///
    /// # Errors
    /// Refuses rates that round to no bit per second or exceed the most that a [`Rate`] can be.
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
