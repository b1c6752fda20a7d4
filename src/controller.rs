//! What a congestion controller is told and what it answers.
//!
//! The events carry what RFC 9002 §7 and Appendix B need and no more: they name no QUIC stack, read
//! no clock and do no I/O, so that a controller can be driven by an adapter, a test or a fuzzer
//! alike. Times are [`Instant`]s that the caller read; sizes are bytes of UDP payload.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// The smallest congestion window, in datagrams (RFC 9002 §7.2, `kMinimumWindow`).
pub const MINIMUM_WINDOW_PACKETS: u64 = 2;

/// The largest congestion window, in datagrams: 10 Gbit/s over 1 s, with room to spare.
pub const MAXIMUM_WINDOW_PACKETS: u64 = 1 << 20;

/// A congestion-controlled packet that was just sent.
#[derive(Clone, Copy, Debug)]
pub struct SentPacket {
    /// Packet number. Numbers never repeat or go back on a path; they may have gaps.
    pub packet_number: u64,
    /// When the packet leaves: the time it was sent, or its release time if it was held back.
    pub time_sent: Instant,
    /// Bytes that count as in flight; 0 if the packet elicits no acknowledgment.
    pub size_bytes: usize,
    /// Bytes in flight before this packet.
    pub bytes_in_flight: usize,
}

/// A packet that was newly acknowledged, or declared lost.
#[derive(Clone, Copy, Debug)]
pub struct PacketInfo {
    /// Packet number.
    pub packet_number: u64,
    /// When the packet left.
    pub time_sent: Instant,
    /// Bytes that counted as in flight; 0 if the packet elicited no acknowledgment.
    pub size_bytes: usize,
}

/// The path's smoothed RTT statistics (RFC 9002 §5.3).
#[derive(Clone, Copy, Debug)]
pub struct RttEstimate {
    /// `smoothed_rtt`.
    pub smoothed: Duration,
    /// `rttvar`.
    pub variation: Duration,
    /// The peer's `max_ack_delay` transport parameter.
    pub max_ack_delay: Duration,
}

/// One received ACK frame that newly acknowledged at least one packet.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When the ACK was received.
    pub now: Instant,
    /// Whether the largest packet that the frame acknowledges is among the newly acknowledged ones,
    /// so that its RTT can be measured (RFC 9002 §5.1).
    pub measures_rtt: bool,
    /// The acknowledgment delay that the peer reported.
    pub ack_delay: Duration,
    /// RTT statistics, this ACK included.
    pub rtt: RttEstimate,
}

/// A congestion controller for one network path.
///
/// On an ACK that also reveals losses the order of calls is
/// [`on_spurious_loss`](Self::on_spurious_loss), [`on_packets_lost`](Self::on_packets_lost),
/// [`on_packets_acked`](Self::on_packets_acked).
pub trait Controller: Debug + Send + Sync {
    /// A congestion-controlled packet was sent.
    fn on_packet_sent(&mut self, packet: &SentPacket);

    /// Packets were acknowledged, by increasing packet number.
    fn on_packets_acked(&mut self, ack: &Ack, packets: impl Iterator<Item = PacketInfo>);

    /// Packets were declared lost, by increasing packet number.
    fn on_packets_lost(&mut self, packets: impl Iterator<Item = PacketInfo>);

    /// Packets that had been declared lost were acknowledged after all.
    fn on_spurious_loss(&mut self, packets: impl Iterator<Item = PacketInfo>);

    /// The path's maximum datagram size changed.
    fn on_mtu_update(&mut self, max_datagram_size_bytes: usize);

    /// The congestion window, in bytes: a whole number of datagrams.
    fn window_bytes(&self) -> usize;

    /// When the next packet may leave, if it is held back.
    fn next_release_time(&self) -> Option<Instant>;

    /// What the controller is doing: asked for after every packet while a trace is written.
    fn phase(&self) -> Phase;

    /// The slow start threshold, in bytes, once slow start was left.
    fn ssthresh_bytes(&self) -> Option<usize>;

    /// What may leave at one time, in bytes, while packets are spaced.
    fn burst_bytes(&self) -> Option<usize>;

    /// What the controller knows, for traces and operators.
    fn state(&self) -> State;
}

/// What a controller is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Doubling every other round (000 §3.5.3).
    SlowStart,
    /// Stable growth, the slow start of Gallop-Vegas (003 §III).
    StableGrowth,
    /// Linear increase and decrease (000 §3.5.2).
    CongestionAvoidance,
    /// Within the round that follows a loss (RFC 9002 §7.3.2).
    Recovery,
}

impl Phase {
    /// The phase's name in traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::SlowStart => "slow_start",
            Phase::StableGrowth => "stable_growth",
            Phase::CongestionAvoidance => "congestion_avoidance",
            Phase::Recovery => "recovery",
        }
    }
}

/// A controller's state at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// What the controller is doing.
    pub phase: Phase,
    /// The congestion window, in datagrams.
    pub window_packets: u64,
    /// The slow start threshold, in bytes, once slow start was left.
    pub ssthresh_bytes: Option<usize>,
    /// The thresholds α and β of the backlog, in datagrams (000 §3.5.2).
    pub thresholds_packets: (f64, f64),
    /// BaseRTT, the smallest RTT seen on the path.
    pub base_rtt: Option<Duration>,
    /// What the last complete round measured.
    pub last_round: Option<RoundState>,
    /// `incr`, the increment of stable growth, in datagrams (003 §III.B).
    pub incr_packets: Option<u64>,
    /// `status`, what the previous round compared (003 Table 1).
    pub status: Option<u8>,
    /// The rate that spike suppression allows at most, in bits per second, while it is on.
    pub pacing_rate_bps: Option<f64>,
}

/// What a round measured (000 §3.5.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundState {
    /// The round's RTT.
    pub rtt: Duration,
    /// Expected rate, window / BaseRTT, in bits per second.
    pub expected_bps: f64,
    /// Actual rate, window / RTT, in bits per second.
    pub actual_bps: f64,
    /// Datagrams that the window keeps queued in the network, before rounding.
    pub backlog_packets: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_have_their_names_in_traces() {
        for (phase, name) in [
            (Phase::SlowStart, "slow_start"),
            (Phase::StableGrowth, "stable_growth"),
            (Phase::CongestionAvoidance, "congestion_avoidance"),
            (Phase::Recovery, "recovery"),
        ] {
            assert_eq!(phase.as_str(), name);
        }
    }
}
