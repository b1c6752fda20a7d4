//! The rate of a link that changes over time.

use crate::clock::Time;
use crate::units::Rate;
use netem_trace::model::RepeatedBwPatternConfig;
use std::time::Duration;
use thiserror::Error;

/// A rate that is constant between given times. It may be zero for a while, and
/// may repeat itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateCourse {
    /// From when on which rate holds, in bits per second; the first is at 0.
    steps: Vec<(Time, u64)>,
    /// Starts again after so long.
    period: Option<Duration>,
}

/// Why a text is no trace.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TraceError {
    /// A line that is no time.
    #[error("line {line}: \"{text}\" is not a time in whole milliseconds, at most {MOST_MS}")]
    NotATime {
        /// Its number, from 1.
        line: usize,
        /// What is there.
        text: String,
    },
    /// Times that go back.
    #[error("line {line}: {time} ms is before {last} ms, the time before it")]
    GoesBack {
        /// The line's number, from 1.
        line: usize,
        /// Its time, in milliseconds.
        time: u64,
        /// The time before it, in milliseconds.
        last: u64,
    },
    /// No time above zero.
    #[error("it has no time above 0 ms")]
    Empty,
}

/// The latest time in a trace, in milliseconds: 11 days.
const MOST_MS: u64 = 1_000_000_000;

impl RateCourse {
    /// `rate` until the first of the changes, which are in order of time.
    #[must_use]
    pub fn changing(rate: Rate, changes: &[(Duration, Rate)]) -> RateCourse {
        let changes = changes
            .iter()
            .map(|&(at, rate)| (Time::from(at), rate.bps()));
        RateCourse {
            steps: std::iter::once((Time::ZERO, rate.bps()))
                .chain(changes)
                .collect(),
            period: None,
        }
    }

    /// The course of a packet delivery trace, as Mahimahi has it: one time per
    /// line, in milliseconds, at which 1500 bytes can be sent; starts again after
    /// the last.
    ///
    /// NOTE: bytes are sent evenly within the millisecond, not all at its start,
    /// and a packet that is not there at the start of a millisecond may use the
    /// rest of it.
    ///
    /// # Errors
    /// Names the line that is no time or goes back.
    pub fn mahimahi(text: &str) -> Result<RateCourse, TraceError> {
        let mut times = Vec::new();
        let mut last = 0;
        for (number, text) in text.lines().enumerate() {
            let line = number + 1;
            let time = text.trim().parse().ok().filter(|&time| time <= MOST_MS);
            let time = time.ok_or_else(|| TraceError::NotATime {
                line,
                text: text.to_owned(),
            })?;
            if time < last {
                return Err(TraceError::GoesBack { line, time, last });
            }
            times.push(time);
            last = time;
        }
        // The library refuses only what has been refused above, and nothing.
        let pattern = netem_trace::load_mahimahi_trace(times, None);
        let pattern = pattern.map_err(|_| TraceError::Empty)?;
        Ok(RateCourse::repeating(&pattern))
    }

    fn repeating(pattern: &RepeatedBwPatternConfig) -> RateCourse {
        let mut steps = Vec::new();
        let mut end = Time::ZERO;
        for part in &pattern.pattern {
            let mut trace = part.clone().into_model();
            while let Some((rate, duration)) = trace.next_bw() {
                let bps = u64::try_from(rate.as_bps()).unwrap_or(u64::MAX);
                steps.push((end, bps));
                end = end + duration;
            }
        }
        RateCourse {
            steps,
            period: Some(end - Time::ZERO),
        }
    }

    /// The rate at `now`, in bits per second, and until when it holds.
    fn at(&self, now: Time) -> (u64, Option<Time>) {
        let (cycle, within) = match self.period {
            Some(period) => {
                let within = now.as_nanos() % u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
                let within = Time::from_nanos(within);
                (now - within, within)
            }
            None => (Duration::ZERO, now),
        };
        let next = self.steps.partition_point(|&(from, _)| from <= within);
        let bps = self.steps[..next].last().map_or(0, |&(_, bps)| bps);
        let until = self.steps.get(next).map(|&(from, _)| from);
        let until = until.or(self.period.map(Time::from));
        (bps, until.map(|until| until + cycle))
    }

    /// When the last bit of `bytes` has been sent, if the first is at `start`.
    #[must_use]
    pub fn end_of_sending(&self, start: Time, bytes: u64) -> Time {
        let mut now = start;
        // In bits per second times nanoseconds, as all below.
        let mut left = u128::from(bytes) * 8_000_000_000;
        loop {
            let (bps, until) = self.at(now);
            let bps = u128::from(bps);
            let room = until.map_or(u128::MAX, |until| bps * (until - now).as_nanos());
            match until {
                Some(until) if left > room => {
                    left -= room;
                    now = until;
                }
                _ => {
                    let nanoseconds = (left + bps / 2) / bps.max(1);
                    let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
                    return now + Duration::from_nanos(nanoseconds);
                }
            }
        }
    }

    /// Bits that can be sent between two times.
    #[must_use]
    pub fn capacity_bits(&self, from: Time, to: Time) -> f64 {
        let mut now = from;
        let mut bits = 0.0;
        while now < to {
            let (bps, until) = self.at(now);
            let until = until.map_or(to, |until| until.min(to));
            bits += bps as f64 * (until - now).as_secs_f64();
            now = until;
        }
        bits
    }

    /// The mean rate of a period, or the rate at the start of one that does not
    /// repeat itself.
    #[must_use]
    pub fn typical_rate(&self) -> Rate {
        let bps = match self.period {
            Some(period) => self.capacity_bits(Time::ZERO, period.into()) / period.as_secs_f64(),
            None => self.at(Time::ZERO).0 as f64,
        };
        Rate::from_bps(bps.max(1.0)).unwrap_or(Rate::GIGABIT)
    }

    /// The highest rate there ever is.
    #[must_use]
    pub fn highest_rate(&self) -> Rate {
        let bps = self.steps.iter().map(|&(_, bps)| bps).max().unwrap_or(1);
        Rate::from_bps(bps.max(1) as f64).unwrap_or(Rate::GIGABIT)
    }
}
