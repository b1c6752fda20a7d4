//! Delay per packet: reordering and jitter.

use super::{Fate, Impairment, NotAProbability, probability};
use crate::packet::Packet;
use crate::random::Random;
use crate::time::Time;
use rand::RngExt;
use std::time::Duration;

/// Holds every packet with the same probability for the same time, so that
/// those sent within that time overtake it.
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

/// Holds every packet for a random time, uniform between zero and a maximum.
#[derive(Clone, Debug)]
pub struct Jittering {
    max_ns: u64,
    in_order: bool,
    /// When the last packet goes on.
    last: Time,
    random: Random,
}

impl Jittering {
    /// Holds for at most `max`. With `in_order` no packet overtakes another: it
    /// is held at least until a nanosecond after the one before it.
    #[must_use]
    pub fn new(max: Duration, in_order: bool, random: Random) -> Jittering {
        Jittering {
            max_ns: u64::try_from(max.as_nanos()).unwrap_or(u64::MAX),
            in_order,
            last: Time::ZERO,
            random,
        }
    }
}

impl Impairment for Jittering {
    fn decide(&mut self, _packet: &mut Packet, now: Time) -> Fate {
        let mut release = now + Duration::from_nanos(self.random.random_range(0..=self.max_ns));
        if self.in_order {
            release = release.max(self.last + Duration::from_nanos(1));
            self.last = release;
        }
        Fate::Hold(release - now)
    }
}
