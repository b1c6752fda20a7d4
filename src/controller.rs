//! The events that a congestion controller is told of, and the answers that it gives.
//!
//! The events carry what RFC 9002 §7 and Appendix B need and what the QUIC stacks in Rust can tell.
//! They name no stack, read no clock and do no I/O, so that an adapter, a test or a fuzzer can drive
//! a controller alike. Times are [`Instant`]s that the caller read; sizes are bytes of UDP payload.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// The smallest congestion window, in datagrams (RFC 9002 §7.2, `kMinimumWindow`).
pub const MINIMUM_WINDOW_PACKETS: u64 = 2;

/// The largest congestion window, in datagrams: 10 Gbit/s over 1 s, with room to spare.
pub const MAXIMUM_WINDOW_PACKETS: u64 = 1 << 20;

/// The facts about a path that a controller starts with.
#[derive(Clone, Copy, Debug)]
pub struct PathConfig {
    /// The path's maximum datagram size.
    pub max_datagram_size_bytes: usize,
    /// The QUIC stack's initial window (RFC 9002 §7.2).
    pub initial_window_packets: u64,
    /// True if the sender waits for [`Controller::next_release_time`]. A controller that paces
    /// gives no release times otherwise.
    pub pacing: bool,
}

/// A congestion-controlled packet that was just sent.
#[derive(Clone, Copy, Debug)]
pub struct SentPacket {
    /// Packet number. Numbers never repeat or go back on a path; they may have gaps. The adapter of
    /// a stack that does not tell packet numbers counts packets.
    pub packet_number: u64,
    /// The time at which the packet leaves: its release time if it was held back.
    pub time_sent: Instant,
    /// Bytes that count as in flight; 0 if the packet elicits no acknowledgment.
    pub size_bytes: usize,
    /// Bytes in flight before this packet.
    pub bytes_in_flight: usize,
}

impl SentPacket {
    /// True if no further datagram fits into the window after this packet.
    #[inline]
    pub fn fills(&self, window_bytes: usize, max_datagram_size_bytes: usize) -> bool {
        let needed = self.bytes_in_flight.saturating_add(self.size_bytes);
        needed.saturating_add(max_datagram_size_bytes) > window_bytes
    }
}

/// A packet that was newly acknowledged, or declared lost.
#[derive(Clone, Copy, Debug)]
pub struct PacketInfo {
    /// Packet number.
    pub packet_number: u64,
    /// The time at which the packet left.
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
    /// The time at which the ACK was received.
    pub now: Instant,
    /// True if the largest packet that the frame acknowledges is among the newly acknowledged ones,
    /// so that its RTT can be measured (RFC 9002 §5.1).
    pub measures_rtt: bool,
    /// The acknowledgment delay that the peer reported. A stack may not tell it: a controller then
    /// counts the delay as part of the RTT.
    pub ack_delay: Option<Duration>,
    /// RTT statistics, this ACK included.
    pub rtt: RttEstimate,
    /// Bytes in flight, the acknowledged packets included. Packets that the same ACK showed to be
    /// lost are not.
    pub bytes_in_flight: usize,
}

/// The detection of a loss.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// The time at which the packets were declared lost.
    pub now: Instant,
    /// True if the stack found persistent congestion (RFC 9002 §7.6), false if it looks for it and
    /// found none. `None` if it does not look: a controller then does so by itself
    /// ([`PersistentCongestion`](crate::persistent_congestion::PersistentCongestion)).
    pub persistent_congestion: Option<bool>,
}

/// An increase of the count of packets that the network marked with Congestion Experienced (RFC
/// 9000 §13.4, RFC 9002 §7.1).
#[derive(Clone, Copy, Debug)]
pub struct CongestionMarks {
    /// The time at which the ACK with the count was received.
    pub now: Instant,
    /// Packets marked since the last report.
    pub packets: u64,
    /// The largest packet number that the ACK newly acknowledged. A report about packets sent before
    /// the last reduction of the window does not reduce it again.
    pub largest_acked: u64,
}

/// A congestion controller for one network path.
///
/// The trait is object-safe, and `Box<dyn Controller>` can be cloned if the controller can, as
/// quinn needs it. On an ACK that also reveals losses or marks the order of calls is
/// [`on_spurious_loss`](Self::on_spurious_loss), [`on_packets_lost`](Self::on_packets_lost),
/// [`on_congestion_marks`](Self::on_congestion_marks),
/// [`on_packets_acked`](Self::on_packets_acked). No call allocates memory.
///
/// NOTE: packets come as one slice per ACK frame, not one call each. A controller behind a pointer is
/// then called once per ACK, and it sees the largest packet, which alone measures an RTT, before it
/// decides. quiche and neqo have the slice at hand; the adapters of quinn and noq, which are called
/// per packet and once at the end of the frame, fill a buffer that they use again. Stacks that show
/// losses after the ACK (quinn, noq) tell them in that order.
pub trait Controller: CloneController + Debug + Send + Sync {
    /// A congestion-controlled packet was sent. Sending changes the time at which the next packet may
    /// leave, and no other answer.
    fn on_packet_sent(&mut self, packet: &SentPacket);

    /// The packets of one ACK frame were acknowledged. They are at least one, by increasing packet
    /// number.
    fn on_packets_acked(&mut self, ack: &Ack, packets: &[PacketInfo]);

    /// Packets were declared lost. They are at least one, by increasing packet number.
    fn on_packets_lost(&mut self, loss: &Loss, packets: &[PacketInfo]);

    /// Packets that had been declared lost were acknowledged after all. A stack that cannot tell
    /// never calls this: no reduction is undone then.
    fn on_spurious_loss(&mut self, _now: Instant, _packets: &[PacketInfo]) {}

    /// The network marked packets instead of dropping them. Never called without ECN.
    fn on_congestion_marks(&mut self, marks: &CongestionMarks);

    /// The application had more to send than the window had room for. Controllers infer as much
    /// from [`SentPacket::bytes_in_flight`]; a stack that knows it better calls this besides.
    fn on_cwnd_limited(&mut self, _now: Instant) {}

    /// Packets left the bytes in flight without being acknowledged or lost: their keys were
    /// discarded, or the connection moved to another path. Stacks do not time this.
    fn on_packets_discarded(&mut self, _bytes: usize) {}

    /// The path's maximum datagram size changed; 0 is no size and changes nothing. Stacks do not time
    /// this.
    fn on_mtu_update(&mut self, max_datagram_size_bytes: usize);

    /// The congestion window, in bytes: a whole number of datagrams.
    fn window_bytes(&self) -> usize;

    /// The slow start threshold, in bytes, once slow start was left.
    fn ssthresh_bytes(&self) -> Option<usize> {
        None
    }

    /// The time at which the next packet may leave, if it is held back.
    fn next_release_time(&self) -> Option<Instant> {
        None
    }

    /// The rate at which packets should leave, in bits per second, while the controller paces; for
    /// a stack with a pacer of its own, and for traces.
    fn pacing_rate_bps(&self) -> Option<f64> {
        None
    }

    /// The bytes that may leave at one time while the controller paces.
    fn burst_bytes(&self) -> Option<usize> {
        None
    }

    /// The part of its work that the controller is in.
    fn phase(&self) -> Phase {
        Phase::CongestionAvoidance
    }

    /// The phase's name in traces, asked for after every packet while one is written. A controller
    /// with phases of its own names them here.
    fn phase_name(&self) -> &'static str {
        self.phase().as_str()
    }

    /// Reports everything else that the controller knows, for traces and operators.
    fn figures(&self, _sink: &mut dyn FnMut(Figure)) {}
}

/// Makes `Box<dyn Controller>` cloneable; every controller that is [`Clone`] has it.
pub trait CloneController {
    /// A copy of the controller with its state.
    fn clone_box(&self) -> Box<dyn Controller>;
}

impl<C: Controller + Clone + 'static> CloneController for C {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Controller> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}

/// The part of its work that a controller is in (RFC 9002 §7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The first search for the available window.
    SlowStart,
    /// The round that follows a loss.
    Recovery,
    /// Everything else.
    CongestionAvoidance,
}

impl Phase {
    /// The phase's name in traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::SlowStart => "slow_start",
            Phase::Recovery => "recovery",
            Phase::CongestionAvoidance => "congestion_avoidance",
        }
    }
}

/// A named value of a controller's state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The controller's family, the quantity, and the unit's [suffix](Unit::suffix), as in
    /// `vegas_base_rtt_ms`.
    pub name: &'static str,
    /// The value.
    pub value: f64,
    /// The value's unit.
    pub unit: Unit,
}

/// The unit of a [`Figure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Milliseconds,
    /// Bits per second.
    BitsPerSecond,
    /// Datagrams of the path's maximum size.
    Packets,
    /// A number without a unit.
    One,
}

impl Unit {
    /// The end of the name of a figure in this unit.
    pub const fn suffix(self) -> &'static str {
        match self {
            Unit::Milliseconds => "_ms",
            Unit::BitsPerSecond => "_bps",
            Unit::Packets => "_packets",
            Unit::One => "",
        }
    }
}

impl Figure {
    /// A figure in milliseconds.
    pub fn ms(name: &'static str, value: Duration) -> Figure {
        Figure {
            name,
            value: value.as_secs_f64() * 1e3,
            unit: Unit::Milliseconds,
        }
    }

    /// A figure in bits per second.
    pub fn bps(name: &'static str, value: f64) -> Figure {
        let unit = Unit::BitsPerSecond;
        Figure { name, value, unit }
    }

    /// A figure in datagrams.
    pub fn packets(name: &'static str, value: f64) -> Figure {
        let unit = Unit::Packets;
        Figure { name, value, unit }
    }

    /// A figure without a unit.
    pub fn one(name: &'static str, value: f64) -> Figure {
        let unit = Unit::One;
        Figure { name, value, unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_have_their_names_in_traces() {
        for (phase, name) in [
            (Phase::SlowStart, "slow_start"),
            (Phase::CongestionAvoidance, "congestion_avoidance"),
            (Phase::Recovery, "recovery"),
        ] {
            assert_eq!(phase.as_str(), name);
        }
    }
}
