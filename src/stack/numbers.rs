//! Packet numbers in place of those that a stack does not tell.

use std::time::Instant;

/// Numbers packets by their time of sending, in nanoseconds since the controller was made: an
/// acknowledged packet's number is found again without a list of all that were sent. Packets that
/// leave in one nanosecond are told apart by adding one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    started: Instant,
    last: Option<u64>,
}

impl Numbers {
    pub(super) fn since(started: Instant) -> Numbers {
        Numbers {
            started,
            last: None,
        }
    }

    /// True if the packet was sent before the controller was made: on another path.
    #[cfg(any(feature = "noq", feature = "quinn"))]
    pub(super) fn is_earlier(&self, time_sent: Instant) -> bool {
        time_sent < self.started
    }

    /// The first number of the packets that were sent at that time.
    pub(super) fn of(&self, time_sent: Instant) -> u64 {
        let since = time_sent.saturating_duration_since(self.started);
        since.as_nanos().try_into().unwrap_or(u64::MAX)
    }

    /// The number of a packet that is sent now.
    pub(super) fn next(&mut self, now: Instant) -> u64 {
        let next = self.last.map_or(0, |last| last.saturating_add(1));
        let number = self.of(now).max(next);
        self.last = Some(number);
        number
    }
}
