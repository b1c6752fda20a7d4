//! Random early detection: S. Floyd and V. Jacobson, "Random Early Detection
//! Gateways for Congestion Avoidance", IEEE/ACM Transactions on Networking 1(4),
//! 1993.

use super::{Fifo, Queue};
use crate::clock::Time;
use crate::packet::Packet;
use crate::random::Random;
use crate::units::{Buffer, Rate};
use rand::RngExt;
use std::num::NonZeroU64;
use thiserror::Error;

/// How a [`Red`] queue decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedParameters {
    /// The most that waits.
    pub limit: Buffer,
    /// Below this average nothing is dropped. In the unit of `limit`; so is the
    /// average, and in bytes large packets are dropped more often than small
    /// ones, in proportion.
    pub min: Buffer,
    /// From this average on everything is dropped, or with `gentle` from twice
    /// as much on. In the unit of `limit`.
    pub max: Buffer,
    /// Weight of the newest length in the average (w_q), above 0, at most 1.
    pub weight: f64,
    /// Probability of dropping as the average reaches `max` (max_p), above 0, at
    /// most 1.
    pub max_probability: f64,
    /// Between `max` and twice `max` the probability rises from `max_probability`
    /// to 1 (Floyd, "Recommendation on using the gentle variant of RED", 2000).
    pub gentle: bool,
    /// Drops lie between 1/p and 2/p packets apart instead of up to 1/p: ns-2's
    /// `wait_`.
    pub wait: bool,
    /// Marks packets that allow it, where the random decision would drop them
    /// (RFC 3168 §7). Above the thresholds and when full, packets are dropped.
    pub ecn: bool,
    /// A typical packet, bytes on the wire.
    pub mean_packet_bytes: NonZeroU64,
}

/// Why there can be no such queue.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RedError {
    /// Packets here and bytes there.
    #[error("limit, min and max are not all in packets or all in bytes")]
    Units,
    /// The thresholds.
    #[error("max is not above min")]
    Thresholds,
    /// The weight or the probability.
    #[error("weight and max_probability must be above 0 and at most 1")]
    Fraction,
}

/// Drops or marks packets at random, the more the longer the queue is in the
/// mean.
#[derive(Debug)]
pub struct Red {
    parameters: RedParameters,
    min: f64,
    max: f64,
    /// How long the link takes to send a typical packet, in nanoseconds.
    mean_packet_ns: f64,
    random: Random,
    waiting: Fifo,
    average: f64,
    /// Since when there has been nothing to send.
    idle_since: Option<Time>,
    /// Packets since the last drop or mark, while the average is between the
    /// thresholds.
    count: Option<u64>,
    marks: u64,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Admit,
    /// By chance: may be a mark instead.
    DropEarly,
    Drop,
}

impl Red {
    /// An empty queue for a link of `rate`, by which the average decays over idle
    /// times.
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
            count: None,
            marks: 0,
        })
    }

    /// The average length, in the unit of the limit.
    #[must_use]
    pub fn average(&self) -> f64 {
        self.average
    }

    /// Figure 2: a packet has come, and what waits counts into the average; idle
    /// time counts as if as many typical packets had found nothing waiting as
    /// could have been sent.
    fn update_average(&mut self, now: Time) {
        let keep = 1.0 - self.parameters.weight;
        match self.idle_since {
            Some(since) => {
                let packets = (now - since).as_nanos() as f64 / self.mean_packet_ns;
                self.average *= keep.powf(packets);
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
    fn decide(&mut self, packet: &Packet) -> Verdict {
        let Some(base) = self.base_probability(packet) else {
            self.count = Some(0);
            return Verdict::Drop;
        };
        if base == 0.0 && self.average < self.min {
            self.count = None;
            return Verdict::Admit;
        }
        let count = self.count.map_or(0, |count| count + 1);
        self.count = Some(count);
        let probability = spaced(base, count, self.parameters.wait);
        if self.random.random::<f64>() < probability {
            self.count = Some(0);
            Verdict::DropEarly
        } else {
            Verdict::Admit
        }
    }

    /// The probability that depends on the average alone (p_b); none where
    /// everything is dropped.
    fn base_probability(&self, packet: &Packet) -> Option<f64> {
        let most = self.parameters.max_probability;
        let base = if self.average < self.min {
            0.0
        } else if self.average < self.max {
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

/// The probability of dropping the packet that is number `count` after the last
/// drop (p_a), so that the distance between drops is uniform: up to 1/`base`, or
/// with `wait` from one to two times that.
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
            self.count = Some(0);
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
