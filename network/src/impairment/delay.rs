//! Delay per packet: reordering and jitter.

use std::time::Duration;

use rand::RngExt;

use super::order::Order;
use super::{Fate, Impairment, NotAProbability, probability};
use crate::packet::Packet;
use crate::random::{Random, exponential_time};
use crate::time::Time;

/// Holds every packet with the same probability for the same time, so that those sent within that
/// time overtake it.
#[derive(Clone, Debug)]
pub struct Reordering {
    probability: f64,
    delay: Duration,
    random: Random,
}

impl Reordering {
    /// Holds each packet with `probability_of_holding` (0 to 1) for `delay`.
    ///
    /// # Errors
    /// Refuses what is not a probability.
    pub fn new(
        probability_of_holding: f64,
        delay: Duration,
        random: Random,
    ) -> Result<Reordering, NotAProbability> {
        Ok(Reordering {
            probability: probability(probability_of_holding)?,
            delay,
            random,
        })
    }
}

impl Impairment for Reordering {
    fn decide(&mut self, _packet: &mut Packet, _now: Time) -> Fate {
        match self.random.random_bool(self.probability) {
            true => Fate::Hold(self.delay),
            false => Fate::Pass,
        }
    }
}

/// Holds every packet for a random time, independently of the others.
#[derive(Clone, Debug)]
pub struct Jittering {
    times: Times,
    /// Present if packets stay in order.
    order: Option<Order>,
    random: Random,
}

/// The distribution of random times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Uniform between zero and this.
    Uniform(Duration),
    /// Exponential with this mean, at most [`MOST_MEANS`](crate::random::MOST_MEANS) of it.
    Exponential(Duration),
}

impl Jittering {
    /// Holds for random `times`. With `in_order` no packet overtakes another.
    #[must_use]
    pub fn new(times: Times, in_order: bool, random: Random) -> Jittering {
        Jittering {
            times,
            order: in_order.then(Order::default),
            random,
        }
    }
}

impl Times {
    fn draw(self, random: &mut Random) -> Duration {
        match self {
            Times::Uniform(max) => {
                let max_ns = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
                Duration::from_nanos(random.random_range(0..=max_ns))
            }
            Times::Exponential(mean) => exponential_time(random, mean),
        }
    }
}

impl Impairment for Jittering {
    fn decide(&mut self, _packet: &mut Packet, now: Time) -> Fate {
        let held = self.times.draw(&mut self.random);
        match &mut self.order {
            Some(order) => order.hold(now, now + held),
            None => Fate::Hold(held),
        }
    }
}
