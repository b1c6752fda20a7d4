//! What is measured at a link: its queue over time, drops and throughput.

use crate::clock::Time;
use std::time::Duration;

/// The length of a queue, the packet in service included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets that wait, and the one being sent.
    pub packets: usize,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// Counters of one link and the exact mean and maximum of its queue.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    backlog: Backlog,
    since: Time,
    /// Integral of the queue's length over time, in packet nanoseconds.
    area: u128,
    max_packets: usize,
    drops: u64,
    impaired: u64,
    forwarded_packets: u64,
    forwarded_bytes: u64,
}

impl Meter {
    /// The queue has this length from `now` on.
    pub(crate) fn record(&mut self, backlog: Backlog, now: Time) {
        self.area += self.area_since(now);
        self.since = now;
        self.backlog = backlog;
        self.max_packets = self.max_packets.max(backlog.packets);
    }

    fn area_since(&self, now: Time) -> u128 {
        self.backlog.packets as u128 * (now - self.since).as_nanos()
    }

    pub(crate) fn count_drops(&mut self, packets: usize) {
        self.drops += packets as u64;
    }

    pub(crate) fn count_impaired(&mut self) {
        self.impaired += 1;
    }

    pub(crate) fn count_forwarded(&mut self, bytes: u64) {
        self.forwarded_packets += 1;
        self.forwarded_bytes += bytes;
    }

    /// The queue's length now.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Time-weighted mean of the queue's length in packets, the one in service
    /// included, from the start of the simulation to `now`; 0 at the start.
    #[must_use]
    pub fn mean_packets(&self, now: Time) -> f64 {
        let elapsed = now.as_nanos();
        if elapsed == 0 {
            return 0.0;
        }
        (self.area + self.area_since(now)) as f64 / elapsed as f64
    }

    /// The longest the queue has been, in packets, the one in service included.
    #[must_use]
    pub fn max_packets(&self) -> usize {
        self.max_packets
    }

    /// Packets that the queue dropped.
    #[must_use]
    pub fn drops(&self) -> u64 {
        self.drops
    }

    /// Packets that an impairment lost at the entrance.
    #[must_use]
    pub fn impaired(&self) -> u64 {
        self.impaired
    }

    /// Packets sent to the end.
    #[must_use]
    pub fn forwarded_packets(&self) -> u64 {
        self.forwarded_packets
    }

    /// Bytes on the wire of the packets sent to the end.
    #[must_use]
    pub fn forwarded_bytes(&self) -> u64 {
        self.forwarded_bytes
    }
}

/// The queue at one time, for a table over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub time: Time,
    /// The queue's length after everything that happened until then.
    pub backlog: Backlog,
    /// Packets dropped until then.
    pub drops: u64,
}

/// Takes a [`Sample`] at regular times.
#[derive(Debug)]
pub(crate) struct Sampler {
    every: Duration,
    next: Time,
    samples: Vec<Sample>,
}

impl Sampler {
    /// Samples at the start and `every` so long after it, at most once a
    /// nanosecond.
    pub(crate) fn new(every: Duration) -> Sampler {
        Sampler {
            every: every.max(Duration::from_nanos(1)),
            next: Time::ZERO,
            samples: Vec::new(),
        }
    }

    /// Takes the samples due before `until`; the meter has not changed since the
    /// last of them.
    pub(crate) fn sample_before(&mut self, until: Time, meter: &Meter) {
        while self.next < until {
            self.samples.push(Sample {
                time: self.next,
                backlog: meter.backlog(),
                drops: meter.drops(),
            });
            self.next = self.next + self.every;
        }
    }

    pub(crate) fn samples(&self) -> &[Sample] {
        &self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Duration::from_millis(milliseconds).into()
    }

    fn backlog(packets: usize) -> Backlog {
        Backlog {
            packets,
            bytes: packets as u64 * 100,
        }
    }

    #[test]
    fn mean_is_weighted_by_time() {
        let mut meter = Meter::default();
        assert_eq!(meter.mean_packets(Time::ZERO), 0.0);
        meter.record(backlog(4), at(10));
        meter.record(backlog(1), at(20));
        // 10 ms of 0, 10 ms of 4, 20 ms of 1.
        assert_eq!(meter.mean_packets(at(40)), 1.5);
        assert_eq!(meter.max_packets(), 4);
    }

    #[test]
    fn samples_see_all_that_happened_until_then() {
        let mut meter = Meter::default();
        let mut sampler = Sampler::new(Duration::from_millis(10));
        sampler.sample_before(at(10), &meter);
        meter.record(backlog(3), at(10));
        meter.count_drops(2);
        sampler.sample_before(at(25), &meter);
        let rows: Vec<_> = sampler
            .samples()
            .iter()
            .map(|sample| (sample.time, sample.backlog.packets, sample.drops))
            .collect();
        assert_eq!(rows, [(at(0), 0, 0), (at(10), 3, 2), (at(20), 3, 2)]);
    }
}
