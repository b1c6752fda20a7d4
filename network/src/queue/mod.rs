//! Queues: where packets wait for a link.

mod build;
mod codel;
mod drop_tail;
mod fq_codel;
mod policer;
mod red;
mod spec;

pub use codel::{Codel, CodelParameters};
pub use drop_tail::DropTail;
pub use fq_codel::{FqCodel, FqCodelParameters};
pub use policer::Policer;
pub use red::{Red, RedError, RedParameters};
pub use spec::{CodelSpec, DropTailSpec, FqCodelSpec, PolicerSpec, QueueSpec, RedSpec};

use std::collections::VecDeque;
use std::fmt::Debug;

use crate::packet::Packet;
use crate::time::Time;
use crate::units::Buffer;

/// A queue discipline in front of a link.
///
/// The packet that the link is sending has left the queue: a queue counts only packets that wait.
pub trait Queue: Debug {
    /// Takes in `packet`, or drops it, or drops others in its stead; what is dropped goes to
    /// `dropped`. `link_idle` says that nothing is being sent, so that an admitted packet is
    /// dequeued at this same instant and never waits.
    fn enqueue(&mut self, packet: Packet, now: Time, link_idle: bool, dropped: &mut Vec<Packet>);

    /// The packet to send next. Those that the discipline drops on the way to it go to `dropped`
    /// (as CoDel does: RFC 8289 §5.5).
    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Packet>) -> Option<Packet>;

    /// Packets that wait.
    fn packets(&self) -> usize;

    /// Bytes on the wire of the packets that wait.
    fn bytes(&self) -> u64;

    /// Packets that the discipline has marked.
    fn marks(&self) -> u64 {
        0
    }
}

/// Packets in order of arrival, and their size.
#[derive(Debug, Default)]
struct Fifo {
    packets: VecDeque<Packet>,
    bytes: u64,
}

impl Fifo {
    fn push(&mut self, packet: Packet) {
        self.bytes += packet.wire_bytes();
        self.packets.push_back(packet);
    }

    fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.wire_bytes();
        Some(packet)
    }

    fn has_room_for(&self, packet: &Packet, limit: Buffer) -> bool {
        fits(limit, self.packets.len(), self.bytes, packet)
    }
}

/// True if `packet` may join this many packets and bytes under `limit`.
fn fits(limit: Buffer, packets: usize, bytes: u64, packet: &Packet) -> bool {
    match limit {
        Buffer::Packets(limit) => (packets as u64) < limit.get(),
        Buffer::Bytes(limit) => bytes + packet.wire_bytes() <= limit.get(),
    }
}
