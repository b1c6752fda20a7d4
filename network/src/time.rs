//! Points in time, as links and queues count it.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time, in nanoseconds since the start of the simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The start of the simulation.
    pub const ZERO: Time = Time(0);

    /// The time `nanoseconds` after the start.
    #[must_use]
    pub const fn from_nanos(nanoseconds: u64) -> Time {
        Time(nanoseconds)
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        Duration::from(self).as_secs_f64()
    }
}

impl From<Duration> for Time {
    /// The time that long after the start, at most 584 years.
    fn from(since_start: Duration) -> Time {
        Time(u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Time> for Duration {
    fn from(time: Time) -> Duration {
        Duration::from_nanos(time.0)
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, delay: Duration) -> Time {
        Time(self.0.saturating_add(Time::from(delay).0))
    }
}

impl Sub for Time {
    type Output = Duration;

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    fn sub(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.as_secs_f64())
    }
}
