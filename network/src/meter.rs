//! Measurements at a link: its queue over time, drops and throughput.

use std::time::Duration;

use crate::histogram::Histogram;
use crate::time::Time;

/// The length of a queue, the packet in service included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets that wait, and the one being sent.
    pub packets: usize,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// The counters of a link.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    arrived: u64,
    drops: u64,
    impaired: u64,
    duplicated: u64,
    forwarded_packets: u64,
    forwarded_bytes: u64,
}

/// Counters of one link, and the exact mean, deviation and maximum of its queue, since measuring
/// started: at the start of the simulation, or with the last call of
/// [`Link::start_measuring`](crate::link::Link::start_measuring).
#[derive(Clone, Debug, Default)]
pub struct Meter {
    /// The time at which measuring started.
    start: Time,
    backlog: Backlog,
    since: Time,
    /// Integral of the queue's length over time, in packet nanoseconds.
    area: u128,
    /// Integral of its square, in packet² nanoseconds.
    square_area: u128,
    max_packets: usize,
    /// For every length of the queue in packets, the nanoseconds for which it had that.
    held: Vec<u64>,
    /// Times from the arrival of packets at the queue until they were sent.
    delays: Histogram,
    /// Since the start of the simulation.
    total: Counters,
    /// The value of `total` at the time at which measuring started.
    before: Counters,
}

impl Meter {
    /// Measures from `now` on.
    pub(crate) fn restart(&mut self, now: Time) {
        self.start = now;
        self.since = now;
        self.area = 0;
        self.square_area = 0;
        self.held.clear();
        self.delays.clear();
        self.max_packets = self.backlog.packets;
        self.before = self.total;
    }

    /// The queue has this length from `now` on.
    pub(crate) fn record(&mut self, backlog: Backlog, now: Time) {
        let area = self.area_since(now);
        self.area += area;
        self.square_area += area * self.backlog.packets as u128;
        let packets = self.backlog.packets;
        if self.held.len() <= packets {
            self.held.resize(packets + 1, 0);
        }
        self.held[packets] += (now - self.since).as_nanos() as u64;
        self.since = now;
        self.backlog = backlog;
        self.max_packets = self.max_packets.max(backlog.packets);
    }

    fn area_since(&self, now: Time) -> u128 {
        self.backlog.packets as u128 * (now - self.since).as_nanos()
    }

    pub(crate) fn count_arrival(&mut self) {
        self.total.arrived += 1;
    }

    pub(crate) fn count_drops(&mut self, packets: usize) {
        self.total.drops += packets as u64;
    }

    pub(crate) fn count_impaired(&mut self) {
        self.total.impaired += 1;
    }

    pub(crate) fn count_duplicated(&mut self) {
        self.total.duplicated += 1;
    }

    pub(crate) fn count_forwarded(&mut self, bytes: u64) {
        self.total.forwarded_packets += 1;
        self.total.forwarded_bytes += bytes;
    }

    /// A packet has been sent, so long after it came to the queue.
    pub(crate) fn count_delay(&mut self, delay: Duration) {
        self.delays.count(delay);
    }

    /// The time at which measuring started.
    #[must_use]
    pub fn start(&self) -> Time {
        self.start
    }

    /// The queue's length now.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Time-weighted mean of the queue's length in packets, the one in service included, until
    /// `now`; 0 if no time has passed.
    #[must_use]
    pub fn mean_packets(&self, now: Time) -> f64 {
        self.per_time(self.area + self.area_since(now), now)
    }

    /// Time-weighted standard deviation of the queue's length in packets, the one in service
    /// included, until `now`.
    #[must_use]
    pub fn deviation_packets(&self, now: Time) -> f64 {
        let square_area = self.square_area + self.area_since(now) * self.backlog.packets as u128;
        let mean = self.mean_packets(now);
        let variance = self.per_time(square_area, now) - mean * mean;
        variance.max(0.0).sqrt()
    }

    /// The least length in packets, the one in service included, that the queue did not exceed
    /// for 95 % of the time until `now`; 0 when no time has passed.
    #[must_use]
    pub fn p95_packets(&self, now: Time) -> usize {
        let elapsed = (now - self.start).as_nanos();
        let current = (self.backlog.packets, (now - self.since).as_nanos());
        let mut until = 0;
        for packets in 0..self.held.len().max(current.0 + 1) {
            until += self.held.get(packets).map_or(0, |&held| u128::from(held));
            if packets == current.0 {
                until += current.1;
            }
            if until * 100 >= elapsed * 95 {
                return packets;
            }
        }
        self.max_packets
    }

    fn per_time(&self, area: u128, now: Time) -> f64 {
        match (now - self.start).as_nanos() {
            0 => 0.0,
            elapsed => area as f64 / elapsed as f64,
        }
    }

    /// Mean time from a packet's arrival at the queue until it has been sent, until `now`, by
    /// Little's law: the mean length of the queue over the rate at which packets leave it. `None`
    /// before a packet has been sent.
    #[must_use]
    pub fn mean_delay(&self, now: Time) -> Option<Duration> {
        let area = self.area + self.area_since(now);
        let nanoseconds = area.checked_div(u128::from(self.forwarded_packets()))?;
        Some(Duration::from_nanos(
            u64::try_from(nanoseconds).unwrap_or(u64::MAX),
        ))
    }

    /// The time that `percent` of a hundred packets did not exceed from their arrival at the queue
    /// until they had been sent, rounded down by less than a thousandth; `None` before one was sent.
    /// Packets count when they have been sent.
    #[must_use]
    pub fn delay_percentile(&self, percent: u32) -> Option<Duration> {
        self.delays.percentile(percent)
    }

    /// The longest the queue has been, in packets, the one in service included.
    #[must_use]
    pub fn max_packets(&self) -> usize {
        self.max_packets
    }

    /// Packets that came to the queue, those that it dropped included.
    #[must_use]
    pub fn arrived(&self) -> u64 {
        self.total.arrived - self.before.arrived
    }

    /// Packets that the queue dropped.
    #[must_use]
    pub fn drops(&self) -> u64 {
        self.total.drops - self.before.drops
    }

    /// Packets that an impairment lost at the entrance.
    #[must_use]
    pub fn impaired(&self) -> u64 {
        self.total.impaired - self.before.impaired
    }

    /// Packets that an impairment duplicated at the entrance.
    #[must_use]
    pub fn duplicated(&self) -> u64 {
        self.total.duplicated - self.before.duplicated
    }

    /// Packets sent to the end.
    #[must_use]
    pub fn forwarded_packets(&self) -> u64 {
        self.total.forwarded_packets - self.before.forwarded_packets
    }

    /// Bytes on the wire of the packets sent to the end.
    #[must_use]
    pub fn forwarded_bytes(&self) -> u64 {
        self.total.forwarded_bytes - self.before.forwarded_bytes
    }
}

/// The queue at one time, for a table over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The time.
    pub time: Time,
    /// The queue's length at this time, after all events of this time.
    pub backlog: Backlog,
    /// Packets dropped from the start of the simulation until this time.
    pub drops: u64,
}

/// Takes a [`Sample`] at regular times.
#[derive(Debug)]
pub struct Sampler {
    every: Duration,
    next: Time,
    samples: Vec<Sample>,
}

impl Sampler {
    /// Samples at the start and `every` so long after it, at most once a nanosecond.
    #[must_use]
    pub fn new(every: Duration) -> Sampler {
        Sampler {
            every: every.max(Duration::from_nanos(1)),
            next: Time::ZERO,
            samples: Vec::new(),
        }
    }

    /// Takes the samples due before `until`; the meter has not changed since the last of them.
    pub fn sample_before(&mut self, until: Time, meter: &Meter) {
        while self.next < until {
            self.samples.push(Sample {
                time: self.next,
                backlog: meter.backlog(),
                drops: meter.total.drops,
            });
            self.next = self.next + self.every;
        }
    }

    /// The time of the next sample.
    #[must_use]
    pub fn next(&self) -> Time {
        self.next
    }

    /// The samples so far.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
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
    fn the_95th_percentile_is_the_length_that_is_seldom_exceeded() {
        let mut meter = Meter::default();
        assert_eq!(meter.p95_packets(Time::ZERO), 0);
        // 900 ms of 2, 50 ms of 9, no time of 30, 50 ms of 7.
        for (time, packets) in [(0, 2), (400, 9), (450, 2), (950, 30), (950, 7)] {
            meter.record(backlog(packets), at(time));
        }
        assert_eq!(meter.p95_packets(at(1000)), 7);
        meter.record(backlog(9), at(1000));
        assert_eq!(meter.p95_packets(at(1100)), 9);
        meter.restart(at(1100));
        assert_eq!(meter.p95_packets(at(1200)), 9);
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_time_measured() {
        // From 10 ms: 10 ms of 4, 20 ms of 1, 10 ms of 7.
        let lengths = [(5, 9), (10, 4), (20, 1), (40, 7)];
        let mut meter = Meter::default();
        for (number, (time, packets)) in lengths.into_iter().enumerate() {
            if number == 1 {
                meter.count_drops(3);
                meter.count_forwarded(1000);
                meter.restart(at(10));
            }
            meter.record(backlog(packets), at(time));
        }
        let now = at(50);
        let values = [4.0_f64, 1.0, 1.0, 7.0];
        let mean = values.iter().sum::<f64>() / 4.0;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 4.0;
        assert_eq!(meter.mean_packets(now), mean);
        assert!((meter.deviation_packets(now) - variance.sqrt()).abs() < 1e-9);
        assert_eq!((meter.max_packets(), meter.drops()), (9, 0));
        assert_eq!(meter.mean_delay(now), None);
        for _ in 0..13 {
            meter.count_forwarded(100);
        }
        // 130 packet milliseconds.
        assert_eq!(meter.mean_delay(now), Some(Duration::from_millis(10)));
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
