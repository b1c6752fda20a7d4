//! The order of packets that are held.

use std::time::Duration;

use super::Fate;
use crate::time::Time;

/// Lets no packet go on before one that came before it, however long each would be held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    /// The latest time at which a packet that was held goes on.
    last: Time,
}

impl Order {
    /// Holds a packet that came `now` until `release`, or as long as the one before it.
    pub(super) fn hold(&mut self, now: Time, release: Time) -> Fate {
        let mut release = release.max(self.last);
        if release == now && self.last == now {
            // The one before it goes on at this instant, and may do so after this decision.
            release = now + Duration::from_nanos(1);
        }
        if release > now {
            self.last = release;
        }
        Fate::Hold(release - now)
    }
}
