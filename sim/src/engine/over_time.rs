//! Values over time: their mean, their spread, and the time in a state.

use std::collections::BTreeMap;
use std::time::Duration;

use gallop_network::histogram;

use crate::time::Time;

/// A mean over time of a value that stays until it changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    current: Option<(Time, f64)>,
    area: f64,
    duration: f64,
}

impl Mean {
    pub(super) fn record(&mut self, now: Time, value: f64) {
        self.advance(now);
        self.current = Some((now, value));
    }

    pub(super) fn advance(&mut self, now: Time) {
        if let Some((since, value)) = self.current {
            let duration = (now - since).as_secs_f64();
            self.area += value * duration;
            self.duration += duration;
            self.current = Some((now, value));
        }
    }

    /// Forgets the past.
    pub(super) fn restart(&mut self, now: Time) {
        self.current = self.current.map(|(_, value)| (now, value));
        (self.area, self.duration) = (0.0, 0.0);
    }

    pub(super) fn value(&self) -> Option<f64> {
        self.current.map(|(_, value)| value)
    }

    pub(super) fn mean(mut self, now: Time) -> Option<f64> {
        self.advance(now);
        (self.duration > 0.0).then(|| self.area / self.duration)
    }
}

/// The times for which a value that stays until it changes had each of its values, to a thousandth
/// of the value.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    current: Option<(Time, u64)>,
    held: BTreeMap<u64, Duration>,
}

impl Spread {
    pub(super) fn record(&mut self, now: Time, value: Duration) {
        self.advance(now);
        let nanoseconds = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        self.current = Some((now, histogram::rounded(nanoseconds)));
    }

    pub(super) fn advance(&mut self, now: Time) {
        if let Some((since, value)) = self.current {
            *self.held.entry(value).or_default() += now - since;
            self.current = Some((now, value));
        }
    }

    /// Forgets the past.
    pub(super) fn restart(&mut self, now: Time) {
        self.current = self.current.map(|(_, value)| (now, value));
        self.held.clear();
    }

    /// The least value that was not exceeded for 95 % of the time, in seconds.
    pub(super) fn p95_s(mut self, now: Time) -> Option<f64> {
        self.advance(now);
        let all: Duration = self.held.values().sum();
        let mut left = all.mul_f64(0.95);
        let mut last = None;
        for (&value, &held) in &self.held {
            last = Some(Duration::from_nanos(value).as_secs_f64());
            if held >= left {
                break;
            }
            left -= held;
        }
        last.filter(|_| !all.is_zero())
    }
}

/// The total time in slow start, of a controller that tells its state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlowStart {
    current: Option<(Time, bool)>,
    total: Duration,
}

impl SlowStart {
    pub(super) fn record(&mut self, now: Time, slow: bool) {
        if let Some((since, true)) = self.current {
            self.total += now - since;
        }
        self.current = Some((now, slow));
    }

    pub(super) fn total(mut self, until: Time) -> Option<Duration> {
        let (since, slow) = self.current?;
        self.record(until.max(since), slow);
        Some(self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Duration::from_millis(milliseconds).into()
    }

    #[test]
    fn means_are_weighted_by_time_and_begin_anew() {
        let mut mean = Mean::default();
        assert_eq!(mean.mean(at(10)), None);
        mean.record(at(10), 4.0);
        mean.record(at(20), 1.0);
        let close =
            |mean: Mean, value: f64| (mean.mean(at(50)).expect("a mean") - value).abs() < 1e-9;
        assert!(close(mean, 1.75));
        mean.restart(at(30));
        mean.record(at(40), 3.0);
        assert!(close(mean, 2.0));
    }

    #[test]
    fn the_95th_percentile_over_time_is_weighted_by_time() {
        let mut spread = Spread::default();
        assert_eq!(spread.clone().p95_s(at(10)), None);
        let milliseconds = |value: u64| Duration::from_millis(value);
        // The values are 40 ms for 940 ms, 80 ms for 20 ms and 120 ms for 40 ms.
        for (time, rtt) in [(0, 40), (500, 120), (540, 40), (980, 80)] {
            spread.record(at(time), milliseconds(rtt));
        }
        let close = |spread: &Spread, expected: f64| {
            let found = spread.clone().p95_s(at(1000)).expect("a percentile");
            assert!((found / expected - 1.0).abs() < 1e-3, "{found}");
        };
        close(&spread, 0.080);
        spread.restart(at(990));
        close(&spread, 0.080);
        spread.record(at(990), milliseconds(40));
        close(&spread, 0.040);
    }

    #[test]
    fn time_in_slow_start_counts_every_stay() {
        let mut slow_start = SlowStart::default();
        assert_eq!(slow_start.total(at(10)), None);
        for (time, slow) in [(0, true), (100, false), (300, true), (350, false)] {
            slow_start.record(at(time), slow);
        }
        assert_eq!(slow_start.total(at(1000)), Some(Duration::from_millis(150)));
        slow_start.record(at(1000), true);
        assert_eq!(slow_start.total(at(1020)), Some(Duration::from_millis(170)));
    }
}
