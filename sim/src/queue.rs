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
    fn enqueue(&mut self, packet: Packet, now: Time, link_idle: bool, dropped: &mut Vec<Packet>);

    /// The packet to send next. Those that the discipline drops on the way to it
    /// go to `dropped` (as CoDel does: RFC 8289 §5.5).
    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Packet>) -> Option<Packet>;

    /// Packets that wait.
    fn packets(&self) -> usize;

    /// Bytes on the wire of the packets that wait.
    fn bytes(&self) -> u64;
}

/// First in, first out; what finds the queue full is dropped.
#[derive(Debug)]
pub struct DropTail {
    limit: Buffer,
    waiting: VecDeque<Packet>,
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
    fn enqueue(&mut self, packet: Packet, _now: Time, link_idle: bool, dropped: &mut Vec<Packet>) {
        if link_idle || self.has_room_for(&packet) {
            self.bytes += packet.wire_bytes();
            self.waiting.push_back(packet);
        } else {
            dropped.push(packet);
        }
    }

    fn dequeue(&mut self, _now: Time, _dropped: &mut Vec<Packet>) -> Option<Packet> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Side;
    use crate::units::WIRE_OVERHEAD_BYTES;

    /// Offers packets of these sizes on the wire to a busy link's queue; returns
    /// which were dropped.
    fn dropped(queue: &mut DropTail, wire_bytes: &[usize]) -> Vec<u64> {
        let mut dropped = Vec::new();
        for (number, bytes) in wire_bytes.iter().enumerate() {
            let payload = vec![0; bytes - WIRE_OVERHEAD_BYTES];
            let packet = Packet::new(0, Side::Client, number as u64, payload);
            queue.enqueue(packet, Time::ZERO, false, &mut dropped);
        }
        dropped.iter().map(|packet| packet.sequence()).collect()
    }

    fn drop_tail(limit: &str) -> DropTail {
        DropTail::new(limit.parse().expect("a buffer"))
    }

    #[test]
    fn limit_in_packets_counts_packets_of_any_size() {
        let mut queue = drop_tail("3p");
        assert_eq!(dropped(&mut queue, &[1500, 50, 1500, 50, 50]), [3, 4]);
        assert_eq!((queue.packets(), queue.bytes()), (3, 3050));
    }

    #[test]
    fn limit_in_bytes_is_filled_to_the_last_byte() {
        let mut queue = drop_tail("1000b");
        assert_eq!(dropped(&mut queue, &[400, 400, 201, 200, 50]), [2, 4]);
        assert_eq!((queue.packets(), queue.bytes()), (3, 1000));
    }

    #[test]
    fn first_in_first_out_and_room_again() {
        let mut queue = drop_tail("2p");
        assert_eq!(dropped(&mut queue, &[100, 200, 300]), [2]);
        let mut none = Vec::new();
        let first = queue.dequeue(Time::ZERO, &mut none).expect("one waits");
        assert_eq!((first.sequence(), queue.bytes()), (0, 200));
        assert_eq!(dropped(&mut queue, &[400]), [0; 0]);
        assert_eq!((queue.packets(), queue.bytes()), (2, 600));
    }

    #[test]
    fn an_idle_link_takes_a_packet_that_could_not_wait() {
        let mut queue = drop_tail("100b");
        let mut dropped = Vec::new();
        for link_idle in [true, false] {
            let packet = Packet::new(0, Side::Client, 0, vec![0; 1200]);
            queue.enqueue(packet, Time::ZERO, link_idle, &mut dropped);
            let _ = queue.dequeue(Time::ZERO, &mut Vec::new());
        }
        assert_eq!(dropped.len(), 1);
    }
}
