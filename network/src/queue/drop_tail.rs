//! Drop-tail.

use super::{Fifo, Queue};
use crate::packet::Packet;
use crate::time::Time;
use crate::units::Buffer;

/// First in, first out; a packet that finds the queue full is dropped.
#[derive(Debug)]
pub struct DropTail {
    limit: Buffer,
    waiting: Fifo,
}

impl DropTail {
    /// An empty queue for at most `limit` of waiting packets.
    #[must_use]
    pub fn new(limit: Buffer) -> DropTail {
        let waiting = Fifo::default();
        DropTail { limit, waiting }
    }
}

impl Queue for DropTail {
    fn enqueue(&mut self, packet: Packet, _now: Time, link_idle: bool, dropped: &mut Vec<Packet>) {
        if link_idle || self.waiting.has_room_for(&packet, self.limit) {
            self.waiting.push(packet);
        } else {
            dropped.push(packet);
        }
    }

    fn dequeue(&mut self, _now: Time, _dropped: &mut Vec<Packet>) -> Option<Packet> {
        self.waiting.pop()
    }

    fn packets(&self) -> usize {
        self.waiting.packets.len()
    }

    fn bytes(&self) -> u64 {
        self.waiting.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Side;
    use crate::units::WIRE_OVERHEAD_BYTES;

    /// Offers packets of these sizes on the wire to a busy link's queue; returns which were
    /// dropped.
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
