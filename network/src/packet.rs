//! Packets on links.

use crate::time::Time;
use crate::units::WIRE_OVERHEAD_BYTES;

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The side that fetches.
    Client,
    /// The side that sends what is fetched.
    Server,
}

impl Side {
    /// The other end.
    #[must_use]
    pub fn peer(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// A packet's field of explicit congestion notification (RFC 3168 §5).
///
/// NOTE: quiche 0.30 neither asks for marks nor reads them. A simulated flow may send packets that
/// allow them; the marks are counted where they are made, and no sender reacts to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// The packet does not allow marks.
    #[default]
    NotCapable,
    /// The packet allows them: ECT(0).
    Capable,
    /// The packet has met congestion: CE.
    Marked,
}

/// A UDP datagram, or a whole packet, under way. It is cheap to move.
///
/// The fields that links read are in the packet itself. Its payload is elsewhere, and among
/// thousands of packets not in the processor's cache; only the ends read it.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The payload, and room for longer ones, since packets are used again.
    buffer: Box<[u8]>,
    length: usize,
    flow: usize,
    sequence: u64,
    /// Links of its route that it has left behind.
    hop: u32,
    /// Time at which it came to the queue that it is in, or was in last.
    queued_at: Time,
    /// Number of the client's address that it comes from or goes to.
    client_address: u16,
    to: Side,
    ecn: Ecn,
    corrupted: bool,
    /// True if its headers are part of the payload.
    whole: bool,
}

impl Packet {
    /// A packet of `flow` to side `to`, number `sequence` among the datagrams of its sender, at the
    /// start of its route.
    #[must_use]
    pub fn new(flow: usize, to: Side, sequence: u64, payload: Vec<u8>) -> Packet {
        Packet {
            length: payload.len(),
            buffer: payload.into_boxed_slice(),
            flow,
            sequence,
            hop: 0,
            queued_at: Time::ZERO,
            client_address: 0,
            to,
            ecn: Ecn::NotCapable,
            corrupted: false,
            whole: false,
        }
    }

    /// Like [`new`](Packet::new), with a packet that has its headers: `wire` is all that links
    /// serialise, and counts as the payload.
    #[must_use]
    pub fn whole(flow: usize, to: Side, sequence: u64, wire: Vec<u8>) -> Packet {
        Packet {
            whole: true,
            ..Packet::new(flow, to, sequence, wire)
        }
    }

    /// Makes this packet the one that [`new`](Packet::new) would, with the payload it has.
    pub fn readdress(&mut self, flow: usize, to: Side, client_address: u16, sequence: u64) {
        self.flow = flow;
        self.to = to;
        self.hop = 0;
        self.sequence = sequence;
        self.client_address = client_address;
        self.ecn = Ecn::NotCapable;
        self.corrupted = false;
    }

    /// Its field of congestion notification.
    #[must_use]
    pub fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Lets queues mark the packet.
    pub fn allow_marks(&mut self) {
        self.ecn = Ecn::Capable;
    }

    /// Marks the packet if it allows marks; returns true if it has a mark then.
    pub fn mark(&mut self) -> bool {
        match self.ecn {
            Ecn::NotCapable => false,
            Ecn::Capable | Ecn::Marked => {
                self.ecn = Ecn::Marked;
                true
            }
        }
    }

    /// Changes bit number `bit` of the payload, counted modulo its length.
    pub fn corrupt(&mut self, bit: usize) {
        self.corrupted = true;
        let payload = self.payload_mut();
        if !payload.is_empty() {
            let bit = bit % (8 * payload.len());
            payload[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// Replaces the payload, as a broken or hostile network may.
    pub fn replace_payload(&mut self, payload: &[u8]) {
        self.room_for(payload.len()).copy_from_slice(payload);
        self.corrupted = true;
    }

    /// True if its payload has been changed.
    #[must_use]
    pub fn is_corrupted(&self) -> bool {
        self.corrupted
    }

    /// The flow it belongs to.
    #[must_use]
    pub fn flow(&self) -> usize {
        self.flow
    }

    /// The side it travels to.
    #[must_use]
    pub fn to(&self) -> Side {
        self.to
    }

    /// Its number among the datagrams that its sender has sent.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Number of the client's address that it comes from or goes to.
    #[must_use]
    pub fn client_address(&self) -> u16 {
        self.client_address
    }

    /// Notes that it comes to a queue.
    pub(crate) fn queue_at(&mut self, now: Time) {
        self.queued_at = now;
    }

    /// Time at which it came to the queue that it is in, or was in last.
    pub(crate) fn queued_at(&self) -> Time {
        self.queued_at
    }

    /// Number of links of its route that it has left behind.
    #[must_use]
    pub fn hop(&self) -> usize {
        self.hop as usize
    }

    /// Counts one more link that it has left behind.
    pub fn next_hop(&mut self) {
        self.hop += 1;
    }

    /// The UDP payload, or the packet if it is a [`whole`](Packet::whole) one.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// The UDP payload, to decrypt in place; or the packet if it is a [`whole`](Packet::whole) one.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let length = self.length;
        &mut self.buffer[..length]
    }

    /// Room for a payload of `length` bytes, of any content.
    pub fn room_for(&mut self, length: usize) -> &mut [u8] {
        if self.buffer.len() < length {
            self.buffer = vec![0; length].into_boxed_slice();
        }
        self.length = length;
        self.payload_mut()
    }

    /// Makes the payload shorter.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// The bytes a link serialises: payload, UDP and IP headers.
    #[must_use]
    pub fn wire_bytes(&self) -> u64 {
        let overhead = if self.whole { 0 } else { WIRE_OVERHEAD_BYTES };
        (self.length + overhead) as u64
    }
}
