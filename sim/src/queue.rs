//! Queues: where packets wait for a link.

use crate::clock::Time;
use crate::packet::Packet;
use crate::units::Buffer;
use std::collections::VecDeque;
use std::fmt::Debug;

/// A queue discipline in front of a link.
///
/// The packet that the link is sending has left the queue: a queue counts only
/// packets that wait.
pub trait Queue: Debug {
    /// Takes in `packet`, or drops it, or drops others in its stead; what is
    /// dropped goes to `dropped`. `link_idle` says that nothing is being sent,
    /// so that an admitted packet is dequeued at this same instant and never
    /// waits.
    fn enqueue(
        &mut self,
        packet: Box<Packet>,
        now: Time,
        link_idle: bool,
        dropped: &mut Vec<Box<Packet>>,
    );

    /// The packet to send next. Those that the discipline drops on the way to it
    /// go to `dropped` (as CoDel does: RFC 8289 §5.5).
    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Box<Packet>>) -> Option<Box<Packet>>;

    /// Packets that wait.
    fn packets(&self) -> usize;

    /// Bytes on the wire of the packets that wait.
    fn bytes(&self) -> u64;
}

/// First in, first out; what finds the queue full is dropped.
#[derive(Debug)]
pub struct DropTail {
    limit: Buffer,
    waiting: VecDeque<Box<Packet>>,
    bytes: u64,
}

impl DropTail {
    /// An empty queue for at most `limit` of waiting packets.
    #[must_use]
    pub fn new(limit: Buffer) -> DropTail {
        DropTail {
            limit,
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    fn has_room_for(&self, packet: &Packet) -> bool {
        match self.limit {
            Buffer::Packets(limit) => (self.waiting.len() as u64) < limit.get(),
            Buffer::Bytes(limit) => self.bytes + packet.wire_bytes() <= limit.get(),
        }
    }
}

impl Queue for DropTail {
    fn enqueue(
        &mut self,
        packet: Box<Packet>,
        _now: Time,
        link_idle: bool,
        dropped: &mut Vec<Box<Packet>>,
    ) {
        if link_idle || self.has_room_for(&packet) {
            self.bytes += packet.wire_bytes();
            self.waiting.push_back(packet);
        } else {
            dropped.push(packet);
        }
    }

    fn dequeue(&mut self, _now: Time, _dropped: &mut Vec<Box<Packet>>) -> Option<Box<Packet>> {
        let packet = self.waiting.pop_front()?;
        self.bytes -= packet.wire_bytes();
        Some(packet)
    }

    fn packets(&self) -> usize {
        self.waiting.len()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
