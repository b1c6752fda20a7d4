//! Impairments that pass.

use std::time::Duration;

use super::{Fate, Impairment};
use crate::packet::Packet;
use crate::time::Time;

/// Another impairment, between two times only.
#[derive(Debug)]
pub struct WhileItLasts {
    from: Time,
    to: Time,
    inner: Box<dyn Impairment>,
}

impl WhileItLasts {
    /// Has `inner` decide about packets that arrive at `from` or later and before `to`, both
    /// counted from the start of the simulation. All others pass, and `inner` does not see them.
    #[must_use]
    pub fn new(from: Duration, to: Duration, inner: Box<dyn Impairment>) -> WhileItLasts {
        WhileItLasts {
            from: from.into(),
            to: to.into(),
            inner,
        }
    }
}

impl Impairment for WhileItLasts {
    fn decide(&mut self, packet: &mut Packet, now: Time) -> Fate {
        match (self.from..self.to).contains(&now) {
            true => self.inner.decide(packet, now),
            false => Fate::Pass,
        }
    }
}
