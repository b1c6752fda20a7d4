//! Duplication and corruption of packets.

use rand::RngExt;

use super::{Fate, Impairment, NotAProbability, probability};
use crate::packet::Packet;
use crate::random::Random;
use crate::time::Time;

/// Duplicates every packet with the same probability, independently.
#[derive(Clone, Debug)]
pub struct Duplication {
    probability: f64,
    random: Random,
}

impl Duplication {
    /// Duplicates each packet with `probability_of_two` (0 to 1).
    ///
    /// # Errors
    /// Refuses what is not a probability.
    pub fn new(probability_of_two: f64, random: Random) -> Result<Duplication, NotAProbability> {
        Ok(Duplication {
            probability: probability(probability_of_two)?,
            random,
        })
    }
}

impl Impairment for Duplication {
    fn decide(&mut self, _packet: &mut Packet, _now: Time) -> Fate {
        match self.random.random_bool(self.probability) {
            true => Fate::Duplicate,
            false => Fate::Pass,
        }
    }
}

/// Changes one bit of a packet's payload, with the same probability for every packet. QUIC's packet
/// protection finds that out and discards the packet (RFC 9001 §5.5), but it has used the links
/// until then.
#[derive(Clone, Debug)]
pub struct Corruption {
    probability: f64,
    random: Random,
}

impl Corruption {
    /// Changes each packet with `probability_of_change` (0 to 1).
    ///
    /// # Errors
    /// Refuses what is not a probability.
    pub fn new(probability_of_change: f64, random: Random) -> Result<Corruption, NotAProbability> {
        Ok(Corruption {
            probability: probability(probability_of_change)?,
            random,
        })
    }
}

impl Impairment for Corruption {
    fn decide(&mut self, packet: &mut Packet, _now: Time) -> Fate {
        if self.random.random_bool(self.probability) {
            packet.corrupt(self.random.random_range(0..1 << 32));
        }
        Fate::Pass
    }
}
