//! A controller with a window that never changes, which writes down what it is told.

use std::cell::RefCell;
use std::time::Instant;

use gallop::controller::{
    Ack, CongestionMarks, Controller, Loss, PacketInfo, PathConfig, SentPacket,
};

/// The recorder's window.
pub const WINDOW_PACKETS: usize = 20;

/// The events that a controller was told of.
#[derive(Clone, Debug)]
pub enum Told {
    Sent(SentPacket),
    Acked(Ack, Vec<PacketInfo>),
    Lost(Loss, Vec<PacketInfo>),
    Spurious,
    Marked(CongestionMarks),
    CwndLimited,
}

thread_local! {
    static TOLD: RefCell<Vec<Told>> = const { RefCell::new(Vec::new()) };
}

/// Everything since the last call.
pub fn told() -> Vec<Told> {
    TOLD.take()
}

fn tell(told: Told) {
    TOLD.with_borrow_mut(|all| all.push(told));
}

#[derive(Clone, Debug)]
struct Recorder {
    datagram_bytes: usize,
}

/// Builds a recorder.
pub fn build(path: &PathConfig) -> Box<dyn Controller> {
    Box::new(Recorder {
        datagram_bytes: path.max_datagram_size_bytes,
    })
}

impl Controller for Recorder {
    fn on_packet_sent(&mut self, packet: &SentPacket) {
        tell(Told::Sent(*packet));
    }

    fn on_packets_acked(&mut self, ack: &Ack, packets: &[PacketInfo]) {
        tell(Told::Acked(*ack, packets.to_vec()));
    }

    fn on_packets_lost(&mut self, loss: &Loss, packets: &[PacketInfo]) {
        tell(Told::Lost(*loss, packets.to_vec()));
    }

    fn on_spurious_loss(&mut self, _now: Instant, _packets: &[PacketInfo]) {
        tell(Told::Spurious);
    }

    fn on_congestion_marks(&mut self, marks: &CongestionMarks) {
        tell(Told::Marked(*marks));
    }

    fn on_cwnd_limited(&mut self, _now: Instant) {
        tell(Told::CwndLimited);
    }

    fn on_mtu_update(&mut self, max_datagram_size_bytes: usize) {
        self.datagram_bytes = max_datagram_size_bytes;
    }

    fn window_bytes(&self) -> usize {
        WINDOW_PACKETS * self.datagram_bytes
    }
}
