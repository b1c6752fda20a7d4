//! The receiving half of an end.

use std::collections::BTreeMap;

use gallop_network::time::Time;

use super::clock::Clock;
use super::segment::MOST_RANGES;

/// Receives bytes and acknowledges all that have come without a gap.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// The next byte that is expected.
    next: u64,
    /// Ranges that have come beyond it, by first byte.
    beyond: BTreeMap<u64, u64>,
    /// The first byte of the segment that came last.
    latest: u64,
    /// The clock of delayed acknowledgements; none if nothing is delayed.
    clock: Option<Clock>,
    /// Segments that have not been acknowledged.
    pending: u32,
    deadline: Option<Time>,
}

/// The number of segments after which an acknowledgement is not delayed (RFC 1122 §4.2.3.2).
const MOST_PENDING: u32 = 2;

impl Receiver {
    pub(crate) fn new(clock: Option<Clock>) -> Receiver {
        Receiver {
            next: 0,
            beyond: BTreeMap::new(),
            latest: 0,
            clock,
            pending: 0,
            deadline: None,
        }
    }

    /// The next byte that is expected.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Takes a segment in; returns true if it is to be acknowledged at once. That is so of each one
    /// that leaves or fills a gap (RFC 2581 §4.2).
    pub(crate) fn receive(&mut self, sequence: u64, bytes: u64, now: Time) -> bool {
        let had_gap = !self.beyond.is_empty();
        let end = sequence.saturating_add(bytes);
        self.latest = sequence;
        let is_next = sequence <= self.next && end > self.next;
        if is_next {
            self.next = end;
            while let Some((&first, &beyond)) = self.beyond.first_key_value()
                && first <= self.next
            {
                self.next = self.next.max(beyond);
                self.beyond.remove(&first);
            }
        } else if sequence > self.next {
            self.insert(sequence, end);
        }
        self.pending += 1;
        let Some(clock) = self.clock else {
            return true;
        };
        self.deadline.get_or_insert_with(|| clock.after(now, 1));
        !is_next || had_gap || self.pending >= MOST_PENDING
    }

    fn insert(&mut self, mut first: u64, mut end: u64) {
        let touching = self
            .beyond
            .range(..=end)
            .filter(|&(_, &other)| other >= first);
        let touching: Vec<(u64, u64)> = touching.map(|(&first, &end)| (first, end)).collect();
        for (other, other_end) in touching {
            self.beyond.remove(&other);
            first = first.min(other);
            end = end.max(other_end);
        }
        self.beyond.insert(first, end);
    }

    /// The ranges beyond the next byte, that of the last segment first (RFC 2018 §4).
    pub(crate) fn ranges(&self) -> Vec<(u64, u64)> {
        let all = self.beyond.iter().rev().map(|(&first, &end)| (first, end));
        let is_latest = |&(first, end): &(u64, u64)| (first..end).contains(&self.latest);
        let latest = all.clone().filter(is_latest);
        let others = all.filter(|range| !is_latest(range));
        latest.chain(others).take(MOST_RANGES).collect()
    }

    /// Forgets the pending acknowledgement, which has left.
    pub(crate) fn sent(&mut self) {
        self.pending = 0;
        self.deadline = None;
    }

    /// The time at which the pending acknowledgement is to leave.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.deadline
    }
}
