//! Traffic: the data that applications have to send, and its times.

pub mod conversation;
pub(crate) mod draw;
pub(crate) mod live;
pub(crate) mod load;
pub(crate) mod player;

pub use conversation::Conversation;
pub use live::{Live, Media};
pub use load::Load;
pub use player::Player;

use std::fmt::Debug;
use std::time::Duration;

/// The data that a source has to send at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Bytes ready now and not yet written.
    pub bytes: u64,
    /// True if these bytes are the last.
    pub last: bool,
    /// The time at which there will be more, counted from the request, if that is later.
    pub more_at: Option<Duration>,
}

/// A server's application that answers one request.
pub trait Source: Debug {
    /// The data to send `since_request` after the request, given that `written` bytes have been
    /// handed to the transport.
    fn offer(&mut self, since_request: Duration, written: u64) -> Offer;

    /// Length of the whole answer, if it ends.
    fn length(&self) -> Option<u64>;
}

/// Data that is all ready at once, as much as the network takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bulk {
    /// Without end.
    Endless,
    /// That many bytes.
    Bytes(u64),
}

impl Source for Bulk {
    fn offer(&mut self, _since_request: Duration, written: u64) -> Offer {
        Offer {
            bytes: match self {
                Bulk::Endless => u64::MAX,
                Bulk::Bytes(length) => length.saturating_sub(written),
            },
            last: self.length().is_some(),
            more_at: None,
        }
    }

    fn length(&self) -> Option<u64> {
        match self {
            Bulk::Endless => None,
            Bulk::Bytes(length) => Some(*length),
        }
    }
}

/// A number of bytes at regular intervals, the first at once: limited by the application whenever
/// the network is faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnOff {
    /// Bytes per interval.
    pub bytes: u64,
    /// The interval, at least one nanosecond.
    pub interval: Duration,
    /// The bytes of the whole answer, if it ends.
    pub total: Option<u64>,
}

impl OnOff {
    fn interval_ns(&self) -> u128 {
        self.interval.as_nanos().max(1)
    }
}

impl Source for OnOff {
    fn offer(&mut self, since_request: Duration, written: u64) -> Offer {
        let intervals = u64::try_from(since_request.as_nanos() / self.interval_ns())
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        let total = self.total.unwrap_or(u64::MAX);
        let produced = self.bytes.saturating_mul(intervals).min(total);
        let last = self.total.is_some_and(|total| produced == total);
        let next = u64::try_from(self.interval_ns() * u128::from(intervals)).ok();
        Offer {
            bytes: produced.saturating_sub(written),
            last,
            more_at: next.filter(|_| !last).map(Duration::from_nanos),
        }
    }

    fn length(&self) -> Option<u64> {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_offers_all_at_once() {
        let offer = Bulk::Bytes(1000).offer(Duration::ZERO, 400);
        assert_eq!((offer.bytes, offer.last, offer.more_at), (600, true, None));
        let offer = Bulk::Endless.offer(Duration::from_secs(9), 1 << 40);
        assert_eq!((offer.bytes, offer.last), (u64::MAX, false));
    }

    #[test]
    fn on_off_offers_by_the_interval() {
        let mut source = OnOff {
            bytes: 1000,
            interval: Duration::from_millis(20),
            total: Some(2500),
        };
        let ms = Duration::from_millis;
        let offer = |bytes, last, more_at| Offer {
            bytes,
            last,
            more_at,
        };
        assert_eq!(source.offer(ms(0), 0), offer(1000, false, Some(ms(20))));
        assert_eq!(source.offer(ms(19), 1000), offer(0, false, Some(ms(20))));
        assert_eq!(source.offer(ms(20), 1000), offer(1000, false, Some(ms(40))));
        assert_eq!(source.offer(ms(90), 1000), offer(1500, true, None));
        assert_eq!(source.offer(ms(90), 2500), offer(0, true, None));
    }
}
