//! The congestion window, in whole datagrams.

use crate::controller::{MAXIMUM_WINDOW_PACKETS, MINIMUM_WINDOW_PACKETS};

/// A window in packets, kept within the limits.
pub(crate) fn bounded(packets: f64) -> f64 {
    packets.clamp(MINIMUM_WINDOW_PACKETS as f64, MAXIMUM_WINDOW_PACKETS as f64)
}

/// A window that grows by a decided amount while a round's worth of ACKs comes in.
///
/// Vegas decides once per round; the increase is then spread over the ACKs of the next round
/// (`incr / cwnd` per ACK, Ho et al. 2006 §IV.B) so that no burst leaves at once. With `base`
/// datagrams at the decision and an increase of `by` over `over` ACKs, the window after `acked` of
/// them is `base + by · min(acked, over) / over`: exact, and never more than was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    base: u64,
    by: u64,
    over: u64,
    acked: u64,
    /// The gain that follows from `by`, `over` and `acked`: asked for far more often than changed.
    gained: u64,
}

impl Window {
    /// A window of `packets` datagrams, kept within the limits.
    pub(crate) fn new(packets: u64) -> Self {
        Window {
            base: packets.clamp(MINIMUM_WINDOW_PACKETS, MAXIMUM_WINDOW_PACKETS),
            by: 0,
            over: 1,
            acked: 0,
            gained: 0,
        }
    }

    /// The current size, in datagrams.
    #[inline]
    pub(crate) fn packets(&self) -> u64 {
        self.base + self.gained
    }

    /// The datagrams that the current increase has added so far.
    #[inline]
    pub(crate) fn gained(&self) -> u64 {
        self.gained
    }

    /// Starts to grow by `by` datagrams, at most doubling, over the next `over` datagrams that are
    /// acknowledged.
    ///
    /// NOTE: Ho et al. 2006 divides by `cwnd`. As many datagrams are acknowledged in a round as
    /// were sent in the one before, which spacing can make one less than `cwnd`: then the last
    /// datagram of the increase would wait for the next round, go ahead of its whole train and
    /// delay all of it.
    pub(crate) fn grow(&mut self, by: u64, over: u64) {
        let base = self.packets();
        *self = Window {
            by: by.min(base).min(MAXIMUM_WINDOW_PACKETS - base),
            over: over.max(1),
            ..Window::new(base)
        };
    }

    /// `packets` datagrams of the current round were acknowledged.
    #[inline]
    pub(crate) fn on_acked(&mut self, packets: u64) {
        self.acked = self.acked.saturating_add(packets);
        if self.by > 0 {
            self.gained = self.by * self.acked.min(self.over) / self.over;
        }
    }

    /// The round is over: grants the rest of its increase.
    ///
    /// A round can have fewer ACKs than were expected; the decision must not be lost to that.
    pub(crate) fn complete(&mut self) {
        self.acked = self.over;
        self.gained = self.by;
    }

    /// Shrinks by `packets` datagrams, ending any growth.
    pub(crate) fn shrink(&mut self, packets: u64) {
        *self = Window::new(self.packets().saturating_sub(packets));
    }

    /// Ends any growth at the current size.
    pub(crate) fn hold(&mut self) {
        *self = Window::new(self.packets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_fifth_round_of_table_3_gains_at_the_third_and_fifth_ack() {
        // Ho et al. 2006 §IV.B: 5/12 of a datagram per ACK, an extra one at the third ACK and at
        // the fifth.
        let mut window = Window::new(12);
        window.grow(5, 12);
        let sizes: Vec<u64> = (0..13)
            .map(|_| {
                let size = window.packets();
                window.on_acked(1);
                size
            })
            .collect();
        assert_eq!(sizes, [12, 12, 12, 13, 13, 14, 14, 14, 15, 15, 16, 16, 17]);
    }

    #[test]
    fn growth_ends_with_what_was_decided() {
        let mut window = Window::new(10);
        window.grow(1, 10);
        window.on_acked(1000);
        assert_eq!(window.packets(), 11);
        window.hold();
        window.on_acked(1000);
        assert_eq!(window.packets(), 11);
    }

    #[test]
    fn growth_that_is_held_stays_where_it_was() {
        let mut window = Window::new(10);
        window.grow(10, 10);
        window.on_acked(4);
        window.hold();
        window.on_acked(6);
        window.complete();
        assert_eq!((window.packets(), window.gained()), (14, 0));
    }

    #[test]
    fn an_increase_is_not_lost_to_a_missing_ack() {
        let mut window = Window::new(10);
        window.grow(1, 10);
        window.on_acked(9);
        assert_eq!(window.packets(), 10);
        window.complete();
        assert_eq!((window.packets(), window.gained()), (11, 1));
    }

    #[test]
    fn limits_hold() {
        let mut window = Window::new(0);
        assert_eq!(window.packets(), MINIMUM_WINDOW_PACKETS);
        window.shrink(5);
        assert_eq!(window.packets(), MINIMUM_WINDOW_PACKETS);
        let mut window = Window::new(u64::MAX);
        assert_eq!(window.packets(), MAXIMUM_WINDOW_PACKETS);
        window.grow(u64::MAX, 0);
        window.on_acked(u64::MAX);
        assert_eq!(window.packets(), MAXIMUM_WINDOW_PACKETS);
    }

    proptest! {
        #[test]
        fn a_round_never_more_than_doubles(base in 0u64..2_000_000, by: u64, over: u64, acks in proptest::collection::vec(0u64..5000, 0..50)) {
            let mut window = Window::new(base);
            let before = window.packets();
            window.grow(by, over);
            let mut last = before;
            for acked in acks {
                window.on_acked(acked);
                prop_assert!(window.packets() >= last);
                last = window.packets();
            }
            prop_assert!(last <= 2 * before && last - before <= by && last <= MAXIMUM_WINDOW_PACKETS);
        }
    }
}
