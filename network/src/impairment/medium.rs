//! Media that a host may use only at times.

use std::time::Duration;

use rand::RngExt;

use super::order::Order;
use super::{Fate, Impairment, NotAProbability, probability};
use crate::packet::Packet;
use crate::random::Random;
use crate::stalls::Stalls;
use crate::time::Time;

/// Holds everything while the medium is taken by others, as on Wi-Fi, and then lets all that waits
/// go on at once, in order.
#[derive(Clone, Debug)]
pub struct Bursts {
    stalls: Stalls,
    order: Order,
}

impl Bursts {
    /// Holds packets in `stalls`.
    #[must_use]
    pub fn new(stalls: Stalls) -> Bursts {
        let order = Order::default();
        Bursts { stalls, order }
    }
}

impl Impairment for Bursts {
    fn decide(&mut self, _packet: &mut Packet, now: Time) -> Fate {
        let release = self.stalls.end(now).unwrap_or(now);
        self.order.hold(now, release)
    }
}

/// Holds packets until the next of evenly spaced times, at which all that wait go on together, as
/// where a cable or mobile network grants a host its turns. Acknowledgements are compressed by it.
#[derive(Clone, Debug)]
pub struct Slots {
    slot_ns: u64,
    retransmission: Option<Retransmission>,
}

/// The repetition of transmissions that failed.
#[derive(Clone, Debug)]
struct Retransmission {
    probability: f64,
    again: Duration,
    random: Random,
    /// The last slot that had packets, and true if its transmission failed.
    last: Option<(Time, bool)>,
    order: Order,
}

impl Slots {
    /// Lets packets go on at multiples of `slot`, at least a nanosecond, counted from the start of
    /// the simulation.
    #[must_use]
    pub fn new(slot: Duration) -> Slots {
        Slots {
            slot_ns: u64::try_from(slot.as_nanos()).unwrap_or(u64::MAX).max(1),
            retransmission: None,
        }
    }

    /// With `probability_of_failure` (0 to 1) the transmission of a slot fails, and its packets go
    /// on `again` later (hybrid ARQ, 3GPP TS 36.321 §5.4.2). What comes behind them waits for them.
    ///
    /// NOTE: a second transmission always succeeds.
    ///
    /// # Errors
    /// Refuses what is not a probability.
    pub fn with_retransmission(
        self,
        probability_of_failure: f64,
        again: Duration,
        random: Random,
    ) -> Result<Slots, NotAProbability> {
        let retransmission = Retransmission {
            probability: probability(probability_of_failure)?,
            again,
            random,
            last: None,
            order: Order::default(),
        };
        Ok(Slots {
            retransmission: Some(retransmission),
            ..self
        })
    }

    /// The next slot's time, or `now` if that is one.
    fn next(&self, now: Time) -> Time {
        match now.as_nanos() % self.slot_ns {
            0 => now,
            since => now + Duration::from_nanos(self.slot_ns - since),
        }
    }
}

impl Retransmission {
    /// True if the transmission at `slot` fails.
    fn fails(&mut self, slot: Time) -> bool {
        match self.last {
            Some((last, fails)) if last == slot => fails,
            _ => {
                let fails = self.random.random_bool(self.probability);
                self.last = Some((slot, fails));
                fails
            }
        }
    }
}

impl Impairment for Slots {
    fn decide(&mut self, _packet: &mut Packet, now: Time) -> Fate {
        let slot = self.next(now);
        match &mut self.retransmission {
            None => Fate::Hold(slot - now),
            Some(retransmission) => {
                let release = match retransmission.fails(slot) {
                    true => slot + retransmission.again,
                    false => slot,
                };
                retransmission.order.hold(now, release)
            }
        }
    }
}
