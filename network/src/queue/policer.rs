//! A token-bucket policer.

use super::{DropTail, Queue};
use crate::packet::Packet;
use crate::time::Time;
use crate::units::{Buffer, Rate};

/// Drops what exceeds a rate and a burst, and lets the rest into a drop-tail queue. Networks enforce
/// the rates that are paid for in this way (Flach et al. 2016).
///
/// A bucket holds tokens for `burst` bytes and is full at first. Tokens come at `rate`; a packet
/// takes as many as it has bytes on the wire, and is dropped if there are fewer, whether the link is
/// idle or not (RFC 2697 §3 with an excess burst of 0).
#[derive(Debug)]
pub struct Policer {
    rate: Rate,
    /// Tokens in bits per second times nanoseconds, which are exact.
    full: u128,
    tokens: u128,
    /// The time until which tokens have come.
    filled: Time,
    queue: DropTail,
}

/// Tokens of a byte.
const BYTE: u128 = 8 * 1_000_000_000;

impl Policer {
    /// A full bucket of `burst_bytes` for `rate`, and an empty queue for at most `limit` behind it.
    #[must_use]
    pub fn new(rate: Rate, burst_bytes: u64, limit: Buffer) -> Policer {
        let full = u128::from(burst_bytes) * BYTE;
        Policer {
            rate,
            full,
            tokens: full,
            filled: Time::ZERO,
            queue: DropTail::new(limit),
        }
    }

    /// Takes the tokens for `packet`; returns false if there are too few.
    fn admits(&mut self, packet: &Packet, now: Time) -> bool {
        let new = u128::from(self.rate.bps()) * (now - self.filled).as_nanos();
        self.tokens = (self.tokens + new).min(self.full);
        self.filled = now;
        match self
            .tokens
            .checked_sub(u128::from(packet.wire_bytes()) * BYTE)
        {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }
}

impl Queue for Policer {
    fn enqueue(&mut self, packet: Packet, now: Time, link_idle: bool, dropped: &mut Vec<Packet>) {
        match self.admits(&packet, now) {
            true => self.queue.enqueue(packet, now, link_idle, dropped),
            false => dropped.push(packet),
        }
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Packet>) -> Option<Packet> {
        self.queue.dequeue(now, dropped)
    }

    fn packets(&self) -> usize {
        self.queue.packets()
    }

    fn bytes(&self) -> u64 {
        self.queue.bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::packet::Side;

    /// Offers packets of these sizes, after these gaps in microseconds, to an idle link; returns
    /// the bytes that pass until then, after each.
    fn passed(policer: &mut Policer, packets: &[(u64, usize)]) -> Vec<u64> {
        let (mut now, mut bytes) = (Time::ZERO, 0);
        let mut pass = |&(gap_us, wire_bytes): &(u64, usize)| {
            now = now + Duration::from_micros(gap_us);
            let packet = Packet::whole(0, Side::Client, 0, vec![0; wire_bytes]);
            let mut dropped = Vec::new();
            policer.enqueue(packet, now, true, &mut dropped);
            let next = policer.dequeue(now, &mut dropped);
            assert_eq!(usize::from(next.is_some()) + dropped.len(), 1);
            bytes += next.map_or(0, |packet| packet.wire_bytes());
            bytes
        };
        packets.iter().map(&mut pass).collect()
    }

    fn policer(burst_bytes: u64) -> Policer {
        // One byte in a microsecond.
        let rate = "8mbit".parse().expect("a rate");
        Policer::new(rate, burst_bytes, "100p".parse().expect("a buffer"))
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let packets = [
            (0, 600),
            (0, 400),
            (0, 1),
            (99, 100),
            (1, 100),
            (5000, 1000),
            (999, 1000),
            (1, 1000),
        ];
        let expected = [600, 1000, 1000, 1000, 1100, 2100, 2100, 3100];
        assert_eq!(passed(&mut policer(1000), &packets), expected);
    }

    #[test]
    fn the_queue_behind_it_has_its_limit() {
        let mut policer = policer(1_000_000);
        let mut dropped = Vec::new();
        for sequence in 0..150 {
            let packet = Packet::whole(0, Side::Client, sequence, vec![0; 100]);
            policer.enqueue(packet, Time::ZERO, false, &mut dropped);
        }
        assert_eq!((policer.packets(), policer.bytes()), (100, 10_000));
        assert_eq!(dropped.len(), 50);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Between any two packets pass at most the burst and the rate; those that keep to the rate
        /// and fit into the bucket all pass.
        #[test]
        fn nothing_exceeds_the_rate_and_what_keeps_to_it_passes(
            packets in prop::collection::vec((0..3000_u64, 1..1500_usize), 1..200),
            burst_bytes in 1500..20_000_u64,
        ) {
            let all = passed(&mut policer(burst_bytes), &packets);
            for start in 0..packets.len() {
                let mut elapsed_us = 0;
                for end in start..packets.len() {
                    let gap = if end == start { 0 } else { packets[end].0 };
                    elapsed_us += gap;
                    let before = start.checked_sub(1).map_or(0, |before| all[before]);
                    prop_assert!(all[end] - before <= burst_bytes + elapsed_us);
                }
            }
            let conforming: Vec<(u64, usize)> =
                packets.iter().map(|&(gap, bytes)| (gap + bytes as u64, bytes)).collect();
            let bytes: usize = conforming.iter().map(|(_, bytes)| bytes).sum();
            let all = passed(&mut policer(burst_bytes), &conforming);
            prop_assert_eq!(all.last(), Some(&(bytes as u64)));
        }
    }
}
