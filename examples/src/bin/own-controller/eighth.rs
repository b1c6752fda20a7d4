use std::time::Duration;

use gallop::controller::{
    Ack, CongestionMarks, Controller, Loss, PacketInfo, PathConfig, SentPacket,
};

/// Doubles the window, and later adds a datagram, while the RTT is near the smallest one seen. It
/// removes an eighth if the RTT is more than an eighth above that, and half after a loss. There is one
/// decision per round trip.
#[derive(Clone, Debug)]
pub struct Eighth {
    window_packets: u64,
    datagram_bytes: usize,
    is_searching: bool,
    smallest_rtt: Duration,
    newest_sent: u64,
    /// The round trip is over when a packet after this one is acknowledged or lost.
    round_trip: u64,
}

impl Eighth {
    pub fn new(path: &PathConfig) -> Eighth {
        Eighth {
            window_packets: path.initial_window_packets,
            datagram_bytes: path.max_datagram_size_bytes,
            is_searching: true,
            smallest_rtt: Duration::MAX,
            newest_sent: 0,
            round_trip: 0,
        }
    }

    fn decide(&mut self, newest: u64, window_packets: u64) {
        if newest > self.round_trip {
            self.round_trip = self.newest_sent;
            self.is_searching &= window_packets > self.window_packets;
            self.window_packets = window_packets.clamp(2, 1 << 20);
        }
    }
}

impl Controller for Eighth {
    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.newest_sent = packet.packet_number;
    }

    fn on_packets_acked(&mut self, ack: &Ack, packets: &[PacketInfo]) {
        let Some(newest) = packets.last().filter(|_| ack.measures_rtt) else {
            return;
        };
        let rtt = ack.now.saturating_duration_since(newest.time_sent);
        self.smallest_rtt = self.smallest_rtt.min(rtt);
        let window = self.window_packets;
        if rtt > self.smallest_rtt + self.smallest_rtt / 8 {
            self.decide(newest.packet_number, window - window / 8);
        } else if 2 * ack.bytes_in_flight > self.window_bytes() {
            // The application fills the window, so that the RTT says something about it.
            let growth = if self.is_searching { window } else { 1 };
            self.decide(newest.packet_number, window + growth);
        }
    }

    fn on_packets_lost(&mut self, _: &Loss, packets: &[PacketInfo]) {
        let newest = packets.last().map_or(0, |packet| packet.packet_number);
        self.decide(newest, self.window_packets / 2);
    }

    fn on_congestion_marks(&mut self, marks: &CongestionMarks) {
        self.decide(marks.largest_acked, self.window_packets / 2);
    }

    fn on_mtu_update(&mut self, max_datagram_size_bytes: usize) {
        self.datagram_bytes = max_datagram_size_bytes.max(1);
    }

    fn window_bytes(&self) -> usize {
        self.window_packets as usize * self.datagram_bytes
    }
}
