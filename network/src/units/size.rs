//! Sizes of buffers and transfers, in packets or bytes.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

use super::text::{Kind, Reason, UnitError};

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

/// Capacity of a queue, at least one packet or byte.
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

/// Size of a transfer or of an application's buffer, at least one packet or byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// The stream bytes that this many datagrams of full size carry.
    Packets(NonZeroU64),
    /// Stream bytes.
    Bytes(NonZeroU64),
}

impl Size {
    /// The size in bytes, if a datagram of full size carries `packet_bytes` of a stream.
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
