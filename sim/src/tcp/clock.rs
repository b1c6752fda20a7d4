//! The coarse clock of BSD's TCP, and the retransmission timeout that is counted in its ticks.

use std::time::Duration;

use gallop_network::time::Time;

/// A clock that wakes up at fixed times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    tick: Duration,
    /// The time of its first tick.
    phase: Duration,
}

impl Clock {
    /// A clock whose first tick is at the part `phase`, from 0 to 1, of a tick.
    pub(crate) fn new(tick: Duration, phase: f64) -> Clock {
        Clock {
            tick,
            phase: tick.mul_f64(phase.clamp(0.0, 1.0)),
        }
    }

    /// The ticks until `now`.
    pub(crate) fn ticks(self, now: Time) -> u64 {
        let since = Duration::from(now) + self.tick - self.phase;
        (since.as_nanos() / self.tick.as_nanos()) as u64
    }

    /// The time of the `count`-th tick after `now`.
    pub(crate) fn after(self, now: Time, count: u64) -> Time {
        let ticks = self.ticks(now) + count.max(1) - 1;
        let nanoseconds = self.phase.as_nanos() + u128::from(ticks) * self.tick.as_nanos();
        Time::from_nanos(nanoseconds as u64)
    }
}

/// The shortest timeout, in ticks: the next tick may come at once.
const LEAST_TICKS: f64 = 2.0;

/// The longest timeout (RFC 1122 §4.2.3.1 has 60 s and more), in ticks of 500 ms.
const MOST_TICKS: u64 = 128;

/// The initial timeout (RFC 1122 §4.2.3.1).
pub(crate) const INITIAL_TIMEOUT: Duration = Duration::from_secs(3);

/// The timeouts after which backing off ends, as a power of two.
const MOST_BACKOFF: u32 = 6;

/// The retransmission timeout of Jacobson 1988 (RFC 6298 §2), in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeout {
    /// The smoothed RTT and its mean deviation, in ticks.
    estimate: Option<(f64, f64)>,
    initial_ticks: u64,
    backoff: u32,
}

impl Timeout {
    pub(crate) fn new(clock: Clock) -> Timeout {
        Timeout {
            estimate: None,
            initial_ticks: INITIAL_TIMEOUT.as_nanos().div_ceil(clock.tick.as_nanos()) as u64,
            backoff: 0,
        }
    }

    /// Takes an RTT of a segment that was sent once (Karn's algorithm), and ends backing off.
    pub(crate) fn sample(&mut self, ticks: u64) {
        let rtt = ticks as f64;
        let (smoothed, deviation) = match self.estimate {
            None => (rtt, rtt / 2.0),
            Some((smoothed, deviation)) => {
                let error = rtt - smoothed;
                (
                    smoothed + error / 8.0,
                    deviation + (error.abs() - deviation) / 4.0,
                )
            }
        };
        self.estimate = Some((smoothed, deviation));
        self.backoff = 0;
    }

    /// Doubles the timeout (RFC 6298 §5.5).
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(MOST_BACKOFF);
    }

    /// The timeout, in ticks.
    pub(crate) fn ticks(&self) -> u64 {
        let ticks = match self.estimate {
            None => self.initial_ticks,
            Some((smoothed, deviation)) => (smoothed + (4.0 * deviation).max(1.0))
                .max(LEAST_TICKS)
                .ceil() as u64,
        };
        (ticks << self.backoff).min(MOST_TICKS)
    }

    /// The doublings of the timeout, as a power of two.
    #[cfg(test)]
    pub(crate) fn backoff(&self) -> u32 {
        self.backoff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Duration::from_millis(milliseconds).into()
    }

    #[test]
    fn timers_expire_at_ticks() {
        let clock = Clock::new(Duration::from_millis(500), 0.2);
        assert_eq!(clock.after(at(0), 1), at(100));
        assert_eq!(clock.after(at(99), 2), at(600));
        assert_eq!(clock.after(at(100), 1), at(600));
        assert_eq!(clock.ticks(at(650)) - clock.ticks(at(50)), 2);
    }

    #[test]
    fn two_ticks_are_the_least_and_a_sample_ends_backing_off() {
        let mut timeout = Timeout::new(Clock::new(Duration::from_millis(500), 0.0));
        assert_eq!(timeout.ticks(), 6);
        timeout.sample(0);
        assert_eq!(timeout.ticks(), 2);
        timeout.back_off();
        timeout.back_off();
        assert_eq!(timeout.ticks(), 8);
        (0..20).for_each(|_| timeout.back_off());
        assert_eq!(timeout.ticks(), 128);
        timeout.sample(1);
        assert_eq!(timeout.ticks(), 2);
        timeout.sample(4);
        assert!(timeout.ticks() > 3);
    }
}
