//! Spans of time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::text::{Kind, NumberOrText, Reason, UnitError, write_largest};

const SPAN: Kind = Kind {
    name: "time",
    example: "100ms",
    allowed: "ns, us, ms, s, min, h",
    most: "10^9 s",
};

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
            "h" => 3.6e12,
            "min" => 6e10,
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
