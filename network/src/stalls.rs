//! Times in which something stands still, at random.

use std::time::Duration;

use crate::random::{Random, exponential_time};
use crate::time::Time;

/// Stalls of random lengths at random times, one after another. Both are exponential, at most
/// [`MOST_MEANS`](crate::random::MOST_MEANS) long: the times from the end of one to the start of the
/// next, and the lengths.
#[derive(Clone, Debug)]
pub struct Stalls {
    every: Duration,
    length: Duration,
    /// Start and end of the stall that holds, or of the next.
    from: Time,
    to: Time,
    random: Random,
}

impl Stalls {
    /// Stalls with `every` between them in the mean, at least a nanosecond, that last `length` in
    /// the mean. None holds at the start of the simulation.
    #[must_use]
    pub fn new(every: Duration, length: Duration, random: Random) -> Stalls {
        let mut stalls = Stalls {
            every,
            length,
            from: Time::ZERO,
            to: Time::ZERO,
            random,
        };
        stalls.draw();
        stalls
    }

    /// The end of the stall that holds at `now`, if one does; a stall no longer holds at its end.
    /// `now` must not be before that of an earlier call.
    pub fn end(&mut self, now: Time) -> Option<Time> {
        while self.to <= now {
            self.draw();
        }
        (self.from <= now).then_some(self.to)
    }

    /// Draws the next stall.
    fn draw(&mut self) {
        let between = exponential_time(&mut self.random, self.every);
        self.from = self.to + between.max(Duration::from_nanos(1));
        self.to = self.from + exponential_time(&mut self.random, self.length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    #[test]
    fn stalls_come_and_last_as_often_and_long_as_asked() {
        let ms = Duration::from_millis;
        let mut stalls = Stalls::new(ms(90), ms(10), stream(1, 1));
        let (mut stalled, mut ends) = (0, Vec::new());
        // 1000 s in steps of 0.1 ms.
        for step in 0..10_000_000 {
            let now = Time::from(Duration::from_micros(100 * step));
            if let Some(end) = stalls.end(now) {
                assert!(now < end && end - now <= ms(100));
                stalled += 1;
                if ends.last() != Some(&end) {
                    ends.push(end);
                }
            }
        }
        assert!(ends.is_sorted());
        let share = f64::from(stalled) / 1e7;
        assert!((share - 0.1).abs() < 0.005, "{share}");
        // Those shorter than a step may be missed.
        assert!((9_600..10_300).contains(&ends.len()), "{}", ends.len());
    }
}
