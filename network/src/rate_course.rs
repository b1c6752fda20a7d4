//! The rate of a link that changes over time.

use std::time::Duration;

use netem_trace::model::RepeatedBwPatternConfig;
use thiserror::Error;

use crate::time::Time;
use crate::units::Rate;

/// A rate that is constant between given times. It may be zero for a while, and may repeat itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateCourse {
    /// Times from which a rate holds, and that rate in bits per second; the first is at 0.
    steps: Vec<(Time, u64)>,
    /// The time after which it starts again.
    period: Option<Duration>,
}

/// The reason for which a text is not a trace.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TraceError {
    /// A line is not a time.
    #[error("line {line}: \"{text}\" is not a time in whole milliseconds, at most {MOST_MS}")]
    NotATime {
        /// Its number, from 1.
        line: usize,
        /// Its text.
        text: String,
    },
    /// The times go back.
    #[error("line {line}: {time} ms is before {last} ms, the time before it")]
    GoesBack {
        /// The line's number, from 1.
        line: usize,
        /// Its time, in milliseconds.
        time: u64,
        /// The time before it, in milliseconds.
        last: u64,
    },
    /// There is no time above zero.
    #[error("it has no time above 0 ms: expected one time per line, in milliseconds")]
    Empty,
}

/// The latest time in a trace, in milliseconds: 11 days.
const MOST_MS: u64 = 1_000_000_000;

impl RateCourse {
    /// The course that has `rate` until the first of the changes, which are in order of time.
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

    /// The course of a packet delivery trace, as Mahimahi has it: one time per line, in
    /// milliseconds, at which 1500 bytes can be sent; starts again after the last.
    ///
    /// NOTE: bytes are sent evenly within the millisecond, not all at its start, and a packet that
    /// is not there at the start of a millisecond may use the rest of it.
    ///
    /// # Errors
    /// Names the line that is not a time or goes back.
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
        // The library refuses only what has been refused above, and an empty trace.
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

    /// The course of rates in bits per second from given times on, in order of time; the first is
    /// at 0.
    pub(crate) fn of_steps(steps: Vec<(Time, u64)>) -> RateCourse {
        let period = None;
        RateCourse { steps, period }
    }

    /// The rate at `now`, in bits per second.
    #[must_use]
    pub fn rate_at(&self, now: Time) -> u64 {
        self.at(now).0
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

    /// The time at which the last bit of `bytes` has been sent, if the first is sent at `start`.
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

    /// The mean rate from the start to `end`, at least one bit per second.
    #[must_use]
    pub fn mean_rate(&self, end: Duration) -> Rate {
        let bps = self.capacity_bits(Time::ZERO, end.into()) / end.as_secs_f64();
        Rate::from_bps(bps.max(1.0)).unwrap_or(Rate::GIGABIT)
    }

    /// The mean rate of a period, or the rate at the start of one that does not repeat itself.
    #[must_use]
    pub fn typical_rate(&self) -> Rate {
        match self.period {
            Some(period) => self.mean_rate(period),
            None => {
                Rate::from_bps((self.at(Time::ZERO).0 as f64).max(1.0)).unwrap_or(Rate::GIGABIT)
            }
        }
    }

    /// The highest rate of all times.
    #[must_use]
    pub fn highest_rate(&self) -> Rate {
        let bps = self.steps.iter().map(|&(_, bps)| bps).max().unwrap_or(1);
        Rate::from_bps(bps.max(1) as f64).unwrap_or(Rate::GIGABIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(microseconds: u64) -> Time {
        Duration::from_micros(microseconds).into()
    }

    fn mbit(mbit: f64) -> Rate {
        Rate::from_bps(mbit * 1e6).expect("a rate")
    }

    #[test]
    fn what_is_being_sent_goes_on_at_the_new_rate() {
        // One byte takes 1 µs, from 1 ms on 2 µs, from 2 ms on 0.5 µs.
        let changes = [
            (Duration::from_millis(1), mbit(4.0)),
            (Duration::from_millis(2), mbit(16.0)),
        ];
        let course = RateCourse::changing(mbit(8.0), &changes);
        for (start, bytes, end) in [
            (0, 1000, 1000),
            (500, 500, 1000),
            (500, 600, 1200),
            (1000, 500, 2000),
            (0, 1000 + 500 + 100, 2050),
            (999, 1 + 500 + 2, 2001),
            (5000, 1000, 5500),
        ] {
            assert_eq!(
                course.end_of_sending(at(start), bytes),
                at(end),
                "{start} {bytes}"
            );
        }
        let bits = course.capacity_bits(at(500), at(2500));
        assert_eq!(bits.round(), 8.0 * (500.0 + 500.0 + 1000.0));
        assert_eq!(course.typical_rate(), mbit(8.0));
        assert_eq!(course.highest_rate(), mbit(16.0));
    }

    #[test]
    fn a_constant_rate_is_what_it_is_without_a_course() {
        for bps in [1.0, 7.0, 1.5e6, 9.999_999e9] {
            let rate = Rate::from_bps(bps).expect("a rate");
            let course = RateCourse::changing(rate, &[]);
            for bytes in [1, 1378, 65_535] {
                assert_eq!(
                    course.end_of_sending(at(17), bytes),
                    at(17) + rate.time_to_send(bytes)
                );
            }
        }
    }

    #[test]
    fn a_trace_gives_1500_bytes_per_line_and_starts_again() {
        // 2 packets within 1 ms, nothing for 3, one each in the fifth and sixth.
        let course = RateCourse::mahimahi("1\n1\n5\n6\n").expect("a trace");
        for (start, bytes, end) in [
            (0, 1500, 500),
            (0, 3000, 1000),
            (0, 3750, 4500),
            (0, 6000, 6000),
            (0, 7500, 6500),
            (2000, 750, 4500),
            (12_000, 3000, 13_000),
        ] {
            assert_eq!(
                course.end_of_sending(at(start), bytes),
                at(end),
                "{start} {bytes}"
            );
        }
        assert_eq!(course.typical_rate(), mbit(8.0));
        assert_eq!(course.highest_rate(), mbit(24.0));
        assert_eq!(course.capacity_bits(at(0), at(60_000)).round(), 480_000.0);
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        for (text, message) in [
            (
                "",
                "it has no time above 0 ms: expected one time per line, in milliseconds",
            ),
            (
                "0\n0\n",
                "it has no time above 0 ms: expected one time per line, in milliseconds",
            ),
            (
                "1\n2.5\n",
                "line 2: \"2.5\" is not a time in whole milliseconds, at most 1000000000",
            ),
            (
                "9999999999",
                "line 1: \"9999999999\" is not a time in whole milliseconds, at most 1000000000",
            ),
            (
                "3\n7\n5\n",
                "line 3: 5 ms is before 7 ms, the time before it",
            ),
        ] {
            let error = RateCourse::mahimahi(text).expect_err(text);
            assert_eq!(error.to_string(), message);
        }
    }
}
