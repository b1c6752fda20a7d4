//! Delay per packet: reordering, jitter and bundling.

use std::time::Duration;

use rand::RngExt;

use super::{Fate, Impairment, NotAProbability, probability};
use crate::packet::Packet;
use crate::random::Random;
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

/// Holds every packet for a random time, uniform between zero and a maximum.
#[derive(Clone, Debug)]
pub struct Jittering {
    max_ns: u64,
    in_order: bool,
    /// The time at which the last packet goes on.
    last: Time,
    random: Random,
}

impl Jittering {
    /// Holds for at most `max`. With `in_order` no packet overtakes another: it is held at least
    /// until a nanosecond after the one before it.
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

/// Holds packets until the next of evenly spaced times, at which all that wait go on together.
/// Acknowledgements are compressed like this by a medium that a host may use only at times, such as
/// Wi-Fi, cable and mobile networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundling {
    every_ns: u64,
}

impl Bundling {
    /// Lets packets go on at multiples of `every`, at least a nanosecond, counted from the start of
    /// the simulation.
    #[must_use]
    pub fn new(every: Duration) -> Bundling {
        Bundling {
            every_ns: u64::try_from(every.as_nanos()).unwrap_or(u64::MAX).max(1),
        }
    }
}

impl Impairment for Bundling {
    fn decide(&mut self, _packet: &mut Packet, now: Time) -> Fate {
        let since_last_ns = now.as_nanos() % self.every_ns;
        match since_last_ns {
            0 => Fate::Pass,
            since => Fate::Hold(Duration::from_nanos(self.every_ns - since)),
        }
    }
}
