//! Impairments: what may happen to a packet at the entrance of a link.

use crate::clock::Time;
use crate::packet::Packet;
use crate::random::Random;
use rand::RngExt;
use std::fmt::Debug;
use std::time::Duration;
use thiserror::Error;

/// What becomes of a packet at the entrance of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on.
    Pass,
    /// It is lost.
    Lose,
    /// It goes on that much later; those behind it may overtake it.
    Hold(Duration),
}

/// Something that loses or holds packets.
pub trait Impairment: Debug {
    /// Decides about `packet`, which arrives `now`.
    fn decide(&mut self, packet: &Packet, now: Time) -> Fate;
}

/// A probability outside 0 to 1.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
#[error("{0} is not a probability: it must lie between 0 and 1")]
pub struct NotAProbability(pub f64);

fn probability(value: f64) -> Result<f64, NotAProbability> {
    match (0.0..=1.0).contains(&value) {
        true => Ok(value),
        false => Err(NotAProbability(value)),
    }
}

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
    fn decide(&mut self, _packet: &Packet, _now: Time) -> Fate {
        match self.random.random_bool(self.probability) {
            true => Fate::Lose,
            false => Fate::Pass,
        }
    }
}

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
    fn decide(&mut self, _packet: &Packet, _now: Time) -> Fate {
        match self.random.random_bool(self.probability) {
            true => Fate::Hold(self.delay),
            false => Fate::Pass,
        }
    }
}

/// Loses every packet between two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    from: Time,
    to: Time,
}

impl Outage {
    /// Loses packets that arrive at `from` or later and before `to`, both
    /// counted from the start of the simulation.
    #[must_use]
    pub fn new(from: Duration, to: Duration) -> Outage {
        Outage {
            from: from.into(),
            to: to.into(),
        }
    }
}

impl Impairment for Outage {
    fn decide(&mut self, _packet: &Packet, now: Time) -> Fate {
        match (self.from..self.to).contains(&now) {
            true => Fate::Lose,
            false => Fate::Pass,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Side;
    use crate::random::stream;

    fn fates(impairment: &mut dyn Impairment, count: u64) -> Vec<Fate> {
        (0..count)
            .map(|number| {
                let packet = Packet::new(0, Side::Client, number, vec![0; 100]);
                impairment.decide(&packet, Time::from(Duration::from_millis(number)))
            })
            .collect()
    }

    fn count(fates: &[Fate], wanted: Fate) -> usize {
        fates.iter().filter(|&&fate| fate == wanted).count()
    }

    #[test]
    fn random_loss_keeps_its_rate() {
        for (probability, low, high) in [
            (0.0, 0, 0),
            (0.01, 900, 1100),
            (0.5, 49_000, 51_000),
            (1.0, 100_000, 100_000),
        ] {
            let mut loss = RandomLoss::new(probability, stream(1, 0)).expect("a probability");
            let fates = fates(&mut loss, 100_000);
            let lost = count(&fates, Fate::Lose);
            assert!((low..=high).contains(&lost), "{probability}: {lost}");
            assert_eq!(lost + count(&fates, Fate::Pass), 100_000);
        }
    }

    #[test]
    fn losses_are_independent() {
        let mut loss = RandomLoss::new(0.1, stream(2, 0)).expect("a probability");
        let fates = fates(&mut loss, 100_000);
        let twice = fates
            .windows(2)
            .filter(|pair| pair == &[Fate::Lose; 2])
            .count();
        assert!((900..=1100).contains(&twice), "{twice}");
    }

    #[test]
    fn reordering_holds_at_its_rate() {
        let delay = Duration::from_millis(5);
        let mut reordering = Reordering::new(0.02, delay, stream(3, 0)).expect("a probability");
        let held = count(&fates(&mut reordering, 100_000), Fate::Hold(delay));
        assert!((1850..=2150).contains(&held), "{held}");
    }

    #[test]
    fn an_outage_has_sharp_ends() {
        let mut outage = Outage::new(Duration::from_millis(10), Duration::from_millis(20));
        let fates = fates(&mut outage, 30);
        assert!(fates[..10].iter().all(|&fate| fate == Fate::Pass));
        assert!(fates[10..20].iter().all(|&fate| fate == Fate::Lose));
        assert!(fates[20..].iter().all(|&fate| fate == Fate::Pass));
    }

    #[test]
    fn only_probabilities_are_taken() {
        for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(RandomLoss::new(wrong, stream(1, 0)).is_err());
            let error = Reordering::new(wrong, Duration::ZERO, stream(1, 0)).unwrap_err();
            assert!(error.to_string().contains("between 0 and 1"));
        }
    }
}
