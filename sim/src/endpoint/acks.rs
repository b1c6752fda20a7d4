//! The acknowledgement policy of an endpoint. quiche never delays an acknowledgement by itself: it
//! leaves with the next `send()`, so the driver decides.

use std::num::NonZeroU32;
use std::time::Duration;

use gallop_network::time::Time;

/// An acknowledgement policy (RFC 9000 §13.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckPolicy {
    /// The number of packets for one acknowledgement. RFC 9000 §13.2.2 recommends 2; the papers
    /// assume 1.
    pub every: NonZeroU32,
    /// No acknowledgement is held longer than this. It is also announced to the peer, in
    /// milliseconds rounded up (RFC 9000 §18.2).
    pub max_delay: Duration,
}

impl AckPolicy {
    /// Every packet is acknowledged at once.
    pub const EVERY_PACKET: AckPolicy = AckPolicy {
        every: NonZeroU32::MIN,
        max_delay: Duration::from_millis(25),
    };
}

/// The packets an endpoint has not acknowledged yet.
#[derive(Debug)]
pub(crate) struct PendingAcks {
    policy: AckPolicy,
    pending: u32,
    deadline: Option<Time>,
    next_sequence: u64,
}

impl PendingAcks {
    pub(crate) fn new(policy: AckPolicy) -> PendingAcks {
        PendingAcks {
            policy,
            pending: 0,
            deadline: None,
            next_sequence: 0,
        }
    }

    /// Counts a datagram that has come in, number `sequence` of those sent to this endpoint;
    /// returns true if it is to be acknowledged at once.
    ///
    /// A datagram out of sequence is acknowledged at once (RFC 9000 §13.2.1). The sequence counts
    /// datagrams, not packet numbers, because quiche leaves out packet numbers on purpose, which
    /// would look like losses.
    ///
    /// NOTE: datagrams that carry only acknowledgements are counted too, which the receiver cannot
    /// see from outside; a sender of data sends few of them.
    pub(crate) fn received(&mut self, sequence: u64, now: Time) -> bool {
        let in_sequence = sequence == self.next_sequence;
        self.next_sequence = self.next_sequence.max(sequence.saturating_add(1));
        self.pending += 1;
        self.deadline.get_or_insert(now + self.policy.max_delay);
        !in_sequence || self.pending >= self.policy.every.get()
    }

    /// Forgets the pending acknowledgements, which have left.
    pub(crate) fn sent(&mut self) {
        self.pending = 0;
        self.deadline = None;
    }

    /// Deadline of the pending acknowledgements.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acks(every: u32) -> PendingAcks {
        PendingAcks::new(AckPolicy {
            every: NonZeroU32::new(every).expect("not zero"),
            max_delay: Duration::from_millis(25),
        })
    }

    fn at(milliseconds: u64) -> Time {
        Duration::from_millis(milliseconds).into()
    }

    #[test]
    fn one_is_every_packet() {
        let mut acks = acks(1);
        for sequence in 0..10 {
            assert!(acks.received(sequence, at(sequence)));
            acks.sent();
        }
    }

    #[test]
    fn two_is_every_second_packet_or_the_delay_of_the_first() {
        let mut acks = acks(2);
        assert!(!acks.received(0, at(0)));
        assert_eq!(acks.deadline(), Some(at(25)));
        assert!(acks.received(1, at(10)));
        acks.sent();
        assert_eq!(acks.deadline(), None);
        assert!(!acks.received(2, at(30)));
        assert_eq!(acks.deadline(), Some(at(55)));
    }

    #[test]
    fn gaps_and_late_packets_are_acknowledged_at_once() {
        let mut acks = acks(10);
        assert!(!acks.received(0, at(0)));
        assert!(acks.received(2, at(1)));
        acks.sent();
        assert!(!acks.received(3, at(2)));
        assert!(acks.received(1, at(3)));
        acks.sent();
        assert!(!acks.received(4, at(4)));
    }
}
