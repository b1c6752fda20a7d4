//! What travels over the simulated links.

/// Bytes that a link serialises beside the UDP payload: 20 of the IPv4 header
/// (RFC 791 §3.1) and 8 of the UDP header (RFC 768).
pub const WIRE_OVERHEAD_BYTES: usize = 28;

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

/// A UDP datagram under way.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The flow it belongs to.
    pub flow: usize,
    /// The side it travels to.
    pub to: Side,
    /// How many links of its route it has left behind.
    pub hop: usize,
    /// Its number among the datagrams that its sender has sent.
    pub sequence: u64,
    /// The UDP payload and then room for longer ones: packets are used again.
    buffer: Vec<u8>,
    length: usize,
}

impl Packet {
    /// A packet at the start of its route.
    #[must_use]
    pub fn new(flow: usize, to: Side, sequence: u64, payload: Vec<u8>) -> Packet {
        Packet {
            flow,
            to,
            hop: 0,
            sequence,
            length: payload.len(),
            buffer: payload,
        }
    }

    /// The UDP payload.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// The UDP payload, to decrypt in place.
    pub(crate) fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.length]
    }

    /// Room for a payload of `length` bytes, of any content.
    pub(crate) fn room_for(&mut self, length: usize) -> &mut [u8] {
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        self.length = length;
        self.payload_mut()
    }

    /// Makes the payload shorter.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// The bytes a link serialises: payload, UDP and IP headers.
    #[must_use]
    pub fn wire_bytes(&self) -> u64 {
        (self.length + WIRE_OVERHEAD_BYTES) as u64
    }
}
