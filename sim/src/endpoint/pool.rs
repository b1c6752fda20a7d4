//! Packets for reuse, since a simulation moves millions.

use gallop_network::packet::{Packet, Side};

/// Packets that have reached their end, for reuse.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    packets: Vec<Packet>,
}

impl Pool {
    /// A packet of any content.
    pub(crate) fn take(&mut self) -> Packet {
        self.packets
            .pop()
            .unwrap_or_else(|| Packet::new(0, Side::Client, 0, Vec::new()))
    }

    pub(crate) fn put(&mut self, packet: Packet) {
        self.packets.push(packet);
    }
}
