//! Random early detection: S. Floyd and V. Jacobson, "Random Early Detection Gateways for
//! Congestion Avoidance", IEEE/ACM Transactions on Networking 1(4), 1993.

use std::num::NonZeroU64;

use rand::RngExt;
use thiserror::Error;

use super::{Fifo, Queue};
use crate::packet::Packet;
use crate::random::Random;
use crate::time::Time;
use crate::units::{Buffer, Rate};

/// Parameters of a [`Red`] queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedParameters {
    /// The limit of waiting packets or bytes.
    pub limit: Buffer,
    /// Below this average nothing is dropped. Threshold and average are in the unit of `limit`; in
    /// bytes, large packets are dropped more often than small ones, in proportion.
    pub min: Buffer,
    /// From this average on everything is dropped, or with `gentle` from twice this average on. In
    /// the unit of `limit`.
    pub max: Buffer,
    /// Weight of the newest length in the average (w_q), above 0, at most 1.
    pub weight: f64,
    /// Probability of dropping as the average reaches `max` (max_p), above 0, at most 1.
    pub max_probability: f64,
    /// Between `max` and twice `max` the probability rises from `max_probability` to 1 (Floyd,
    /// "Recommendation on using the gentle variant of RED", 2000).
    pub gentle: bool,
    /// Drops lie between 1/p and 2/p packets apart instead of up to 1/p: ns-2's `wait_`.
    pub wait: bool,
    /// Marks packets that allow it, where the random decision would drop them (RFC 3168 §7). Above
    /// the thresholds and when full, packets are dropped.
    pub ecn: bool,
    /// A typical packet, bytes on the wire.
    pub mean_packet_bytes: NonZeroU64,
}

/// A reason for which there can be no such queue.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RedError {
    /// Some are in packets and some in bytes.
    #[error("limit, min and max are not all in packets or all in bytes")]
    Units,
    /// The thresholds.
    #[error("max is not above min")]
    Thresholds,
    /// The weight or the probability.
    #[error("weight and max_probability must be above 0 and at most 1")]
    Fraction,
}

/// Drops or marks packets at random, the more the longer the queue is in the mean.
#[derive(Debug)]
pub struct Red {
    parameters: RedParameters,
    min: f64,
    max: f64,
    /// The time that the link takes to send a typical packet, in nanoseconds.
    mean_packet_ns: f64,
    random: Random,
    waiting: Fifo,
    average: f64,
    /// Start of the present idle time.
    idle_since: Option<Time>,
    /// Packets since the last drop or mark, or since the average passed `min`.
    count: u64,
    marks: u64,
}

/// The decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Admit,
    /// A drop by chance, which may be a mark instead.
    DropEarly,
    Drop,
}

impl Red {
    /// An empty queue for a link of `rate`, by which the average decays over idle times.
    ///
    /// # Errors
    /// Refuses parameters that contradict each other.
    pub fn new(parameters: RedParameters, rate: Rate, random: Random) -> Result<Red, RedError> {
        let (min, max) = match (parameters.limit, parameters.min, parameters.max) {
            (Buffer::Packets(_), Buffer::Packets(min), Buffer::Packets(max))
            | (Buffer::Bytes(_), Buffer::Bytes(min), Buffer::Bytes(max)) => (min, max),
            _ => return Err(RedError::Units),
        };
        if min >= max {
            return Err(RedError::Thresholds);
        }
        for fraction in [parameters.weight, parameters.max_probability] {
            if !(fraction > 0.0 && fraction <= 1.0) {
                return Err(RedError::Fraction);
            }
        }
        let mean_packet = rate.time_to_send(parameters.mean_packet_bytes.get());
        Ok(Red {
            parameters,
            min: min.get() as f64,
            max: max.get() as f64,
            mean_packet_ns: (mean_packet.as_nanos() as f64).max(1.0),
            random,
            waiting: Fifo::default(),
            average: 0.0,
            idle_since: Some(Time::ZERO),
            count: 0,
            marks: 0,
        })
    }

    /// The average length, in the unit of the limit.
    #[must_use]
    pub fn average(&self) -> f64 {
        self.average
    }

    /// Figure 2: a packet has come, and the length of the queue enters the average. Idle time
    /// counts as if all typical packets that could have been sent had found the queue empty.
    fn update_average(&mut self, now: Time) {
        let keep = 1.0 - self.parameters.weight;
        match self.idle_since {
            Some(since) => {
                let packets = (now - since).as_nanos() as f64 / self.mean_packet_ns;
                self.average *= libm::pow(keep, packets);
                self.idle_since = Some(now);
            }
            None => {
                let length = match self.parameters.limit {
                    Buffer::Packets(_) => self.waiting.packets.len() as f64,
                    Buffer::Bytes(_) => self.waiting.bytes as f64,
                };
                self.average = keep * self.average + self.parameters.weight * length;
            }
        }
    }

    /// Decides about a packet that finds this average.
    ///
    /// NOTE: Figure 2 counts a packet before it decides about it, which makes the distance between
    /// drops uniform over one packet less than §4 says; here the count is of packets admitted since
    /// the last drop, as the text has it.
    fn decide(&mut self, packet: &Packet) -> Verdict {
        if self.average < self.min {
            self.count = 0;
            return Verdict::Admit;
        }
        let verdict = match self.base_probability(packet) {
            None => Verdict::Drop,
            Some(base) => {
                let probability = spaced(base, self.count, self.parameters.wait);
                match self.random.random::<f64>() < probability {
                    true => Verdict::DropEarly,
                    false => Verdict::Admit,
                }
            }
        };
        self.count = match verdict {
            Verdict::Admit => self.count + 1,
            Verdict::DropEarly | Verdict::Drop => 0,
        };
        verdict
    }

    /// The probability that depends on the average alone (p_b), which is at least `min`; none where
    /// everything is dropped.
    fn base_probability(&self, packet: &Packet) -> Option<f64> {
        let most = self.parameters.max_probability;
        let base = if self.average < self.max {
            most * (self.average - self.min) / (self.max - self.min)
        } else if self.parameters.gentle && self.average < 2.0 * self.max {
            most + (1.0 - most) * (self.average - self.max) / self.max
        } else {
            return None;
        };
        Some(match self.parameters.limit {
            Buffer::Packets(_) => base,
            Buffer::Bytes(_) => {
                base * packet.wire_bytes() as f64 / self.parameters.mean_packet_bytes.get() as f64
            }
        })
    }
}

/// The probability of dropping the packet that comes when `count` have been admitted since the last
/// drop (p_a), so that the distance between drops is uniform: up to 1/`base`, or with `wait` from
/// one to two times that.
fn spaced(base: f64, count: u64, wait: bool) -> f64 {
    let share = count as f64 * base;
    let left = match wait {
        false => 1.0 - share,
        true if share < 1.0 => return 0.0,
        true => 2.0 - share,
    };
    match left > base {
        true => base / left,
        false => 1.0,
    }
}

impl Queue for Red {
    fn enqueue(
        &mut self,
        mut packet: Packet,
        now: Time,
        link_idle: bool,
        dropped: &mut Vec<Packet>,
    ) {
        self.update_average(now);
        let mut verdict = self.decide(&packet);
        if verdict == Verdict::DropEarly && self.parameters.ecn && packet.mark() {
            self.marks += 1;
            verdict = Verdict::Admit;
        }
        let room = link_idle || self.waiting.has_room_for(&packet, self.parameters.limit);
        if verdict == Verdict::Admit && room {
            self.idle_since = None;
            self.waiting.push(packet);
        } else {
            self.count = 0;
            dropped.push(packet);
        }
    }

    fn dequeue(&mut self, now: Time, _dropped: &mut Vec<Packet>) -> Option<Packet> {
        let packet = self.waiting.pop();
        if packet.is_none() {
            self.idle_since = Some(now);
        }
        packet
    }

    fn packets(&self) -> usize {
        self.waiting.packets.len()
    }

    fn bytes(&self) -> u64 {
        self.waiting.bytes
    }

    fn marks(&self) -> u64 {
        self.marks
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::packet::{Ecn, Side};
    use crate::random;
    use crate::units::WIRE_OVERHEAD_BYTES;

    /// Packets of 1000 bytes take one millisecond.
    const RATE: &str = "8mbit";

    fn parameters(min: &str, max: &str) -> RedParameters {
        let buffer = |text: &str| text.parse().expect("a buffer");
        RedParameters {
            limit: buffer(if min.ends_with('p') { "100p" } else { "100kb" }),
            min: buffer(min),
            max: buffer(max),
            weight: 0.002,
            max_probability: 0.1,
            gentle: false,
            wait: false,
            ecn: false,
            mean_packet_bytes: NonZeroU64::new(1000).expect("not zero"),
        }
    }

    fn red(parameters: RedParameters) -> Red {
        let rate = RATE.parse().expect("a rate");
        Red::new(parameters, rate, random::stream(1, 0)).expect("good parameters")
    }

    fn packet(sequence: u64, wire_bytes: usize) -> Packet {
        let payload = vec![0; wire_bytes - WIRE_OVERHEAD_BYTES];
        Packet::new(0, Side::Client, sequence, payload)
    }

    fn at(milliseconds: u64) -> Time {
        Duration::from_millis(milliseconds).into()
    }

    #[test]
    fn the_average_follows_the_length_by_its_weight() {
        let mut queue = red(RedParameters {
            weight: 0.25,
            ..parameters("50p", "60p")
        });
        let mut dropped = Vec::new();
        // The first finds an idle link, the others what waits: 1, 2, 3 packets.
        for (sequence, average) in [(0, 0.0), (1, 0.25), (2, 0.6875), (3, 1.265_625)] {
            queue.enqueue(packet(sequence, 1000), at(0), sequence == 0, &mut dropped);
            assert_eq!(queue.average(), average);
        }
        // All leave; idle from 10 ms on, for three typical packets.
        for _ in 0..4 {
            assert!(queue.dequeue(at(6), &mut dropped).is_some());
        }
        assert!(queue.dequeue(at(10), &mut dropped).is_none());
        queue.enqueue(packet(4, 1000), at(13), true, &mut dropped);
        let decayed = 1.265_625 * 0.75_f64.powi(3);
        assert!((queue.average() - decayed).abs() < 1e-12);
        // It left at once. While it is being sent, the queue is empty but not idle.
        assert!(queue.dequeue(at(13), &mut dropped).is_some());
        queue.enqueue(packet(5, 1000), at(14), false, &mut dropped);
        assert!((queue.average() - decayed * 0.75).abs() < 1e-12);
        assert!(dropped.is_empty());
    }

    #[test]
    fn the_probability_rises_between_the_thresholds() {
        for (gentle, average, probability) in [
            (false, 5.0, Some(0.0)),
            (false, 10.0, Some(0.05)),
            (false, 14.9, Some(0.099)),
            (false, 15.0, None),
            (true, 15.0, Some(0.1)),
            (true, 22.5, Some(0.55)),
            (true, 30.0, None),
        ] {
            let mut queue = red(RedParameters {
                gentle,
                ..parameters("5p", "15p")
            });
            queue.average = average;
            match (queue.base_probability(&packet(0, 500)), probability) {
                (Some(is), Some(should)) => assert!((is - should).abs() < 1e-12, "{average}: {is}"),
                (is, should) => assert_eq!(is, should, "{average}"),
            }
        }
        let mut queue = red(parameters("5000b", "15000b"));
        queue.average = 10_000.0;
        assert_eq!(queue.base_probability(&packet(0, 500)), Some(0.025));
    }

    #[test]
    fn the_probability_grows_with_the_distance_from_the_last_drop() {
        let table = |wait| {
            (0..8)
                .map(|count| spaced(0.25, count, wait))
                .collect::<Vec<_>>()
        };
        let third = 0.25 / 0.75;
        assert_eq!(table(false), [0.25, third, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0]);
        assert_eq!(table(true), [0.0, 0.0, 0.0, 0.0, 0.25, third, 0.5, 1.0]);
        assert_eq!(spaced(0.0, 1000, false), 0.0);
    }

    #[test]
    fn distances_between_drops_are_uniform() {
        // Half way between the thresholds p is 0.05: one to 20 packets apart, or 21 to 40.
        for (wait, least) in [(false, 1), (true, 21)] {
            let mut queue = red(RedParameters {
                wait,
                ..parameters("5p", "15p")
            });
            queue.average = 10.0;
            let mut counts = [0; 20];
            let mut distance = 0_usize;
            while counts.iter().sum::<usize>() < 20_000 {
                distance += 1;
                if queue.decide(&packet(0, 500)) == Verdict::DropEarly {
                    counts[distance - least] += 1;
                    distance = 0;
                }
            }
            assert!(
                counts.iter().all(|count| (850..=1150).contains(count)),
                "{counts:?}"
            );
        }
    }

    #[test]
    fn packets_that_allow_it_are_marked_early_and_dropped_late() {
        for (average, ecn, marks, drops) in [
            (14.9, true, 1, 0),
            (14.9, false, 0, 1),
            (16.0, true, 0, 1),
            (4.9, true, 0, 0),
        ] {
            let mut queue = red(RedParameters {
                ecn,
                weight: 1e-9,
                max_probability: 1.0,
                ..parameters("5p", "15p")
            });
            queue.average = average;
            queue.idle_since = None;
            queue.count = 1;
            let mut dropped = Vec::new();
            let mut packet = packet(0, 500);
            packet.allow_marks();
            queue.enqueue(packet, at(0), false, &mut dropped);
            assert_eq!(
                (queue.marks(), dropped.len()),
                (marks, drops),
                "{average} {ecn}"
            );
            let marked = queue
                .dequeue(at(0), &mut dropped)
                .map(|packet| packet.ecn());
            let expected = match (marks, drops) {
                (1, _) => Some(Ecn::Marked),
                (_, 1) => None,
                _ => Some(Ecn::Capable),
            };
            assert_eq!(marked, expected);
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let rate = RATE.parse().expect("a rate");
        let good = parameters("5p", "15p");
        for (parameters, error) in [
            (parameters("15p", "15p"), RedError::Thresholds),
            (
                RedParameters {
                    min: "100b".parse().expect("a buffer"),
                    ..good
                },
                RedError::Units,
            ),
            (
                RedParameters {
                    weight: 0.0,
                    ..good
                },
                RedError::Fraction,
            ),
            (
                RedParameters {
                    max_probability: f64::NAN,
                    ..good
                },
                RedError::Fraction,
            ),
        ] {
            let refused = Red::new(parameters, rate, random::stream(1, 0));
            assert_eq!(refused.expect_err("refused"), error);
        }
    }
}
