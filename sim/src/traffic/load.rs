//! Load that answers to no congestion: datagrams at equal distances.

use std::time::Duration;

use crate::time::Time;

/// Datagrams at equal distances, whatever becomes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The time from one datagram to the next.
    pub interval: Duration,
    /// The time for which there are datagrams and the time after it without; always if there is
    /// none.
    pub pattern: Option<(Duration, Duration)>,
}

impl Load {
    /// The time of the datagram after that of `now`, if the load began at `start`. A part of the
    /// pattern begins with a datagram.
    pub(crate) fn next(&self, start: Time, now: Time) -> Time {
        let interval = self.interval.max(Duration::from_nanos(1));
        let next = now + interval;
        let Some((on, off)) = self.pattern else {
            return next;
        };
        let cycle_ns = (on + off).as_nanos().max(1);
        let cycle = (now - start).as_nanos() / cycle_ns;
        let begin = |cycle: u128| {
            let nanoseconds = u64::try_from(cycle * cycle_ns).unwrap_or(u64::MAX);
            start + Duration::from_nanos(nanoseconds)
        };
        match next < begin(cycle) + on {
            true => next,
            false => begin(cycle + 1),
        }
    }
}

/// The fate of a load's datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Datagrams until the latest of those that came, whether they came or not.
    expected: u64,
}

impl Counted {
    /// Counts a datagram that came, the one of this number.
    pub(crate) fn receive(&mut self, number: u64) {
        self.received += 1;
        self.expected = self.expected.max(number + 1);
    }

    /// Datagrams before the latest one that have not come (RFC 3550 §6.4.1: cumulative number of
    /// packets lost).
    pub(crate) fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(milliseconds: u64) -> Time {
        Duration::from_millis(milliseconds).into()
    }

    /// The times in milliseconds of the datagrams until a second after the start.
    fn times(load: Load) -> Vec<u64> {
        let start = at(50);
        let mut now = start;
        let mut times = Vec::new();
        while now < at(1050) {
            times.push((now - start).as_millis() as u64);
            now = load.next(start, now);
        }
        times
    }

    #[test]
    fn datagrams_are_at_equal_distances_while_the_load_is_on() {
        let ms = Duration::from_millis;
        let load = |pattern| Load {
            interval: ms(100),
            pattern,
        };
        assert_eq!(
            times(load(None)),
            [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]
        );
        let pattern = Some((ms(250), ms(200)));
        assert_eq!(times(load(pattern)), [0, 100, 200, 450, 550, 650, 900]);
        let short = Some((ms(50), ms(250)));
        assert_eq!(times(load(short)), [0, 300, 600, 900]);
    }

    proptest! {
        #[test]
        fn every_datagram_comes_or_is_lost(lost in prop::collection::vec(any::<bool>(), 1..200)) {
            let mut counted = Counted::default();
            for (number, &lost) in lost.iter().enumerate() {
                counted.sent += 1;
                if !lost {
                    counted.receive(number as u64);
                }
            }
            let under_way = lost.iter().rev().take_while(|&&lost| lost).count() as u64;
            prop_assert_eq!(counted.received + counted.lost() + under_way, counted.sent);
        }
    }
}
