//! Loss: at random, in bursts, of given packets, of large ones, and for a while.

use std::time::Duration;

use rand::RngExt;

use super::{Fate, Impairment, NotAProbability, probability};
use crate::packet::Packet;
use crate::random::Random;
use crate::time::Time;

/// Loses every packet with the same probability, independently.
#[derive(Clone, Debug)]
pub struct RandomLoss {
    probability: f64,
    random: Random,
}

impl RandomLoss {
    /// Loses each packet with `probability_of_loss` (0 to 1).
    ///
    /// # Errors
    /// Refuses what is not a probability.
    pub fn new(probability_of_loss: f64, random: Random) -> Result<RandomLoss, NotAProbability> {
        Ok(RandomLoss {
            probability: probability(probability_of_loss)?,
            random,
        })
    }
}

impl Impairment for RandomLoss {
    fn decide(&mut self, _packet: &mut Packet, _now: Time) -> Fate {
        match self.random.random_bool(self.probability) {
            true => Fate::Lose,
            false => Fate::Pass,
        }
    }
}

/// Loses packets in bursts: a chain of two states, good and bad, takes a step per packet and then
/// loses it with the probability of its state (E. N. Gilbert, "Capacity of a burst-noise channel",
/// 1960; E. O. Elliott, "Estimates of error rates for codes on burst-noise channels", 1963). It
/// begins in the good state.
///
/// With p and r the probabilities of leaving the good and the bad state, the share of packets in
/// the bad state is p / (p + r), and a stay there lasts 1 / r packets in the mean.
#[derive(Clone, Debug)]
pub struct GilbertElliott {
    to_bad: f64,
    to_good: f64,
    loss_in_good: f64,
    loss_in_bad: f64,
    bad: bool,
    random: Random,
}

impl GilbertElliott {
    /// Goes from good to bad with probability `to_bad` per packet, back with `to_good`, and loses
    /// packets with `loss_in_good` and `loss_in_bad` (all 0 to 1).
    ///
    /// # Errors
    /// Refuses what is not a probability.
    pub fn new(
        to_bad: f64,
        to_good: f64,
        loss_in_good: f64,
        loss_in_bad: f64,
        random: Random,
    ) -> Result<GilbertElliott, NotAProbability> {
        Ok(GilbertElliott {
            to_bad: probability(to_bad)?,
            to_good: probability(to_good)?,
            loss_in_good: probability(loss_in_good)?,
            loss_in_bad: probability(loss_in_bad)?,
            bad: false,
            random,
        })
    }
}

impl Impairment for GilbertElliott {
    fn decide(&mut self, _packet: &mut Packet, _now: Time) -> Fate {
        let change = match self.bad {
            false => self.to_bad,
            true => self.to_good,
        };
        self.bad ^= self.random.random_bool(change);
        let loss = match self.bad {
            false => self.loss_in_good,
            true => self.loss_in_bad,
        };
        match self.random.random_bool(loss) {
            true => Fate::Lose,
            false => Fate::Pass,
        }
    }
}

/// Loses given packets, by their numbers among those that arrive here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenLoss {
    /// In falling order: the next is the last.
    to_lose: Vec<u64>,
    arrived: u64,
}

impl GivenLoss {
    /// Loses the packets with these numbers, counted from 0, in any order.
    #[must_use]
    pub fn new(mut numbers: Vec<u64>) -> GivenLoss {
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        GivenLoss {
            to_lose: numbers,
            arrived: 0,
        }
    }
}

impl Impairment for GivenLoss {
    fn decide(&mut self, _packet: &mut Packet, _now: Time) -> Fate {
        let number = self.arrived;
        self.arrived += 1;
        let mut fate = Fate::Pass;
        while self.to_lose.pop_if(|next| *next == number).is_some() {
            fate = Fate::Lose;
        }
        fate
    }
}

/// Loses every packet between two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    from: Time,
    to: Time,
}

impl Outage {
    /// Loses packets that arrive at `from` or later and before `to`, both counted from the start of
    /// the simulation.
    #[must_use]
    pub fn new(from: Duration, to: Duration) -> Outage {
        Outage {
            from: from.into(),
            to: to.into(),
        }
    }
}

impl Impairment for Outage {
    fn decide(&mut self, _packet: &mut Packet, now: Time) -> Fate {
        match (self.from..self.to).contains(&now) {
            true => Fate::Lose,
            false => Fate::Pass,
        }
    }
}

/// Loses every packet that is too large, without a word: a path MTU black hole (RFC 8899 §1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimit {
    mtu_bytes: u64,
}

impl SizeLimit {
    /// Loses packets of more than `mtu_bytes`, IP and UDP headers included.
    #[must_use]
    pub fn new(mtu_bytes: u64) -> SizeLimit {
        SizeLimit { mtu_bytes }
    }
}

impl Impairment for SizeLimit {
    fn decide(&mut self, packet: &mut Packet, _now: Time) -> Fate {
        match packet.wire_bytes() > self.mtu_bytes {
            true => Fate::Lose,
            false => Fate::Pass,
        }
    }
}
