//! Flow queue CoDel: RFC 8290.

use std::collections::VecDeque;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use rand::Rng;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;

use super::Queue;
use super::codel::{Law, State, Timed, Toll};
use crate::packet::{Packet, Side};
use crate::time::Time;
use crate::units::Buffer;

/// Parameters of an [`FqCodel`] queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodelParameters {
    /// The limit of what waits, all flows together (RFC 8290 §5.2.3: 10240 packets).
    pub limit: Buffer,
    /// Queues that flows are hashed into (RFC 8290 §5.2.5: 1024).
    pub flows: NonZeroUsize,
    /// Bytes on the wire that a flow may send per turn (RFC 8290 §5.2.4: one MTU).
    pub quantum: NonZeroU32,
    /// The delay that is acceptable in a flow's queue (RFC 8290 §5.2.2: 5 ms).
    pub target: Duration,
    /// The time for which the delay may exceed it (RFC 8290 §5.2.1: 100 ms).
    pub interval: Duration,
    /// Marks packets that allow it instead of dropping them.
    pub ecn: bool,
}

/// At most so many packets are dropped at once when the queue is full (RFC 8290 §4.1).
const DROP_BATCH_PACKETS: usize = 64;

/// A CoDel queue per flow. Flows that have just become active go first; the others take turns.
#[derive(Debug)]
pub struct FqCodel {
    limit: Buffer,
    quantum: i64,
    hash_seed: u64,
    law: Law,
    flows: Vec<FlowQueue>,
    /// Flows that have just become active, and those that have been for a while.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    packets: usize,
    bytes: u64,
    marks: u64,
}

#[derive(Debug, Default)]
struct FlowQueue {
    waiting: Timed,
    state: State,
    /// The bytes that it may still send in this turn; may be below 0.
    credits: i64,
    /// True if it is in one of the lists.
    active: bool,
}

impl FqCodel {
    /// An empty queue. `seed` determines which flows share a queue.
    #[must_use]
    pub fn new(parameters: FqCodelParameters, seed: u64) -> FqCodel {
        let flows = parameters.flows.get();
        FqCodel {
            limit: parameters.limit,
            quantum: i64::from(parameters.quantum.get()),
            hash_seed: seed,
            law: Law {
                target: parameters.target,
                interval: parameters.interval,
                ecn: parameters.ecn,
                largest_bytes: 0,
            },
            flows: (0..flows).map(|_| FlowQueue::default()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
            marks: 0,
        }
    }

    /// The queue of a packet's flow. The two directions of a connection are two flows, as their
    /// addresses and ports are.
    fn queue_of(&self, packet: &Packet) -> usize {
        let direction = u64::from(packet.to() == Side::Server);
        let flow = 2 * packet.flow() as u64 + direction;
        let hash = SplitMix64::seed_from_u64(self.hash_seed.wrapping_add(flow)).next_u64();
        (hash % self.flows.len() as u64) as usize
    }

    fn is_over_limit(&self) -> bool {
        match self.limit {
            Buffer::Packets(limit) => self.packets as u64 > limit.get(),
            Buffer::Bytes(limit) => self.bytes > limit.get(),
        }
    }

    /// Drops half of the packets of the queue with the most bytes, from its head, at most a batch
    /// (RFC 8290 §4.1).
    fn drop_from_largest(&mut self, dropped: &mut Vec<Packet>) {
        let largest = self
            .new
            .iter()
            .chain(&self.old)
            .max_by_key(|&&number| self.flows[number].waiting.bytes);
        let Some(&number) = largest else {
            return;
        };
        let waiting = &mut self.flows[number].waiting;
        let batch = waiting.len().div_ceil(2).min(DROP_BATCH_PACKETS);
        for (_, packet) in (0..batch).map_while(|_| waiting.pop()) {
            self.packets -= 1;
            self.bytes -= packet.wire_bytes();
            dropped.push(packet);
        }
    }
}

impl Queue for FqCodel {
    fn enqueue(&mut self, packet: Packet, now: Time, link_idle: bool, dropped: &mut Vec<Packet>) {
        self.law.largest_bytes = self.law.largest_bytes.max(packet.wire_bytes());
        let number = self.queue_of(&packet);
        self.packets += 1;
        self.bytes += packet.wire_bytes();
        let flow = &mut self.flows[number];
        flow.waiting.push(packet, now);
        if !flow.active {
            flow.active = true;
            flow.credits = self.quantum;
            self.new.push_back(number);
        }
        while !link_idle && self.is_over_limit() {
            self.drop_from_largest(dropped);
        }
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Packet>) -> Option<Packet> {
        loop {
            let (number, is_new) = match (self.new.front(), self.old.front()) {
                (Some(&number), _) => (number, true),
                (None, Some(&number)) => (number, false),
                (None, None) => return None,
            };
            let list = if is_new { &mut self.new } else { &mut self.old };
            let flow = &mut self.flows[number];
            if flow.credits <= 0 {
                flow.credits += self.quantum;
                list.pop_front();
                self.old.push_back(number);
                continue;
            }
            let (packets, bytes) = (flow.waiting.len(), flow.waiting.bytes);
            let marks = &mut self.marks;
            let mut toll = Toll { dropped, marks };
            let packet = flow
                .state
                .dequeue(&self.law, &mut flow.waiting, now, &mut toll);
            self.packets -= packets - flow.waiting.len();
            self.bytes -= bytes - flow.waiting.bytes;
            if let Some(packet) = packet {
                flow.credits -= packet.wire_bytes() as i64;
                return Some(packet);
            }
            // An empty new queue passes through the old ones once, so that it cannot come back
            // ahead of them at once (RFC 8290 §4.2).
            list.pop_front();
            match is_new {
                true => self.old.push_back(number),
                false => flow.active = false,
            }
        }
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn marks(&self) -> u64 {
        self.marks
    }
}
