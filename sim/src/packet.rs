//! What travels over the simulated links.

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

/// What a packet's header says about explicit congestion notification
/// (RFC 3168 §5).
///
/// NOTE: quiche 0.30 neither asks for marks nor reads them. A flow may send
/// packets that allow them ([`Flow::ecn`](crate::Flow::ecn)); the marks are
/// counted where they are made, and no sender reacts to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// The packet does not allow marks.
    #[default]
    NotCapable,
    /// It allows them: ECT(0).
    Capable,
    /// It has met congestion: CE.
    Marked,
}

/// A UDP datagram, or a whole packet, under way. It is cheap to move.
#[derive(Clone, Debug)]
pub struct Packet(Box<Datagram>);

#[derive(Clone, Debug)]
struct Datagram {
    flow: usize,
    to: Side,
    /// Links of its route that it has left behind.
    hop: usize,
    sequence: u64,
    /// Which of the client's addresses it comes from or goes to.
    client_address: u16,
    ecn: Ecn,
    corrupted: bool,
    /// Bytes on the wire beside the payload.
    overhead: usize,
    /// The UDP payload and then room for longer ones: packets are used again.
    buffer: Vec<u8>,
    length: usize,
}

impl Packet {
    /// A packet of `flow` to side `to`, number `sequence` among the datagrams of
    /// its sender, at the start of its route.
    #[must_use]
    pub fn new(flow: usize, to: Side, sequence: u64, payload: Vec<u8>) -> Packet {
        Packet(Box::new(Datagram {
            flow,
            to,
            hop: 0,
            sequence,
            client_address: 0,
            ecn: Ecn::NotCapable,
            corrupted: false,
            overhead: WIRE_OVERHEAD_BYTES,
            length: payload.len(),
            buffer: payload,
        }))
    }

    /// As [`new`](Packet::new), of a packet with its headers: `wire` is all that
    /// links serialise, and counts as the payload.
    #[must_use]
    pub fn whole(flow: usize, to: Side, sequence: u64, wire: Vec<u8>) -> Packet {
        let mut packet = Packet::new(flow, to, sequence, wire);
        packet.0.overhead = 0;
        packet
    }

    /// Makes this packet the one that [`new`](Packet::new) would, with the
    /// payload it has.
    pub(crate) fn readdress(&mut self, flow: usize, to: Side, client_address: u16, sequence: u64) {
        self.0.flow = flow;
        self.0.to = to;
        self.0.hop = 0;
        self.0.sequence = sequence;
        self.0.client_address = client_address;
        self.0.ecn = Ecn::NotCapable;
        self.0.corrupted = false;
    }

    /// What its header says about congestion notification.
    #[must_use]
    pub fn ecn(&self) -> Ecn {
        self.0.ecn
    }

    /// The packet allows marks.
    pub fn allow_marks(&mut self) {
        self.0.ecn = Ecn::Capable;
    }

    /// Marks the packet if it allows marks; says whether it is marked now.
    pub fn mark(&mut self) -> bool {
        match self.0.ecn {
            Ecn::NotCapable => false,
            Ecn::Capable | Ecn::Marked => {
                self.0.ecn = Ecn::Marked;
                true
            }
        }
    }

    /// Changes bit number `bit` of the payload, counted modulo its length.
    pub(crate) fn corrupt(&mut self, bit: usize) {
        self.0.corrupted = true;
        let payload = self.payload_mut();
        if !payload.is_empty() {
            let bit = bit % (8 * payload.len());
            payload[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// Puts another payload in place of what was sent, as a broken or hostile
    /// network may.
    pub fn replace_payload(&mut self, payload: &[u8]) {
        self.room_for(payload.len()).copy_from_slice(payload);
        self.0.corrupted = true;
    }

    /// Whether its payload has been changed.
    pub(crate) fn is_corrupted(&self) -> bool {
        self.0.corrupted
    }

    /// The flow it belongs to.
    #[must_use]
    pub fn flow(&self) -> usize {
        self.0.flow
    }

    /// The side it travels to.
    #[must_use]
    pub fn to(&self) -> Side {
        self.0.to
    }

    /// Its number among the datagrams that its sender has sent.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.0.sequence
    }

    /// Which of the client's addresses it comes from or goes to, by its number.
    pub(crate) fn client_address(&self) -> u16 {
        self.0.client_address
    }

    /// How many links of its route it has left behind.
    pub(crate) fn hop(&self) -> usize {
        self.0.hop
    }

    /// It has left a link behind.
    pub(crate) fn next_hop(&mut self) {
        self.0.hop += 1;
    }

    /// The UDP payload, or the packet if it is a [`whole`](Packet::whole) one.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.0.buffer[..self.0.length]
    }

    /// The UDP payload, to decrypt in place; or the packet if it is a
    /// [`whole`](Packet::whole) one.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let length = self.0.length;
        &mut self.0.buffer[..length]
    }

    /// Room for a payload of `length` bytes, of any content.
    pub(crate) fn room_for(&mut self, length: usize) -> &mut [u8] {
        if self.0.buffer.len() < length {
            self.0.buffer.resize(length, 0);
        }
        self.0.length = length;
        self.payload_mut()
    }

    /// Makes the payload shorter.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.0.length = self.0.length.min(length);
    }

    /// The bytes a link serialises: payload, UDP and IP headers.
    #[must_use]
    pub fn wire_bytes(&self) -> u64 {
        (self.0.length + self.0.overhead) as u64
    }
}
