//! What RFC 9002 §7 has in common for controllers that take a loss for congestion.

use super::hystart::HyStart;
use gallop::controller::{Ack, MAXIMUM_WINDOW_PACKETS, MINIMUM_WINDOW_PACKETS, PacketInfo};
use gallop::persistent_congestion::PersistentCongestion;
use quiche::{
    AckEvent, CongestionController, ControllerConfig, LossEvent, LostPacket, SentPacket,
    StartupExitReason,
};
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// How the window grows after slow start, and how far a congestion event cuts it.
pub(super) trait Avoidance: Clone + Debug + Default + Send + Sync + 'static {
    /// What a congestion event leaves of the window.
    const DECREASE: f64;
    /// Whether a reduction is taken back when all its losses prove spurious.
    const UNDOES: bool;

    /// The window is about to be cut.
    fn on_congestion(&mut self, window_packets: f64);

    /// The window goes back to its minimum.
    fn on_persistent_congestion(&mut self);

    /// A packet was acknowledged that was sent while the window was not full.
    fn on_app_limited(&mut self, now: Instant);

    /// The window after `acked` packets of a full window were acknowledged.
    fn on_acked(&mut self, window_packets: f64, acked: f64, now: Instant, rtt: Duration) -> f64;
}

/// A controller in slow start, recovery or congestion avoidance (RFC 9002 §7.3).
///
/// The window is a number of packets, so a path with larger datagrams has a larger window (RFC 9002
/// §7.2); what it allows is a whole number of them.
#[derive(Debug)]
pub(super) struct LossBased<A> {
    datagram_bytes: usize,
    window_packets: f64,
    ssthresh_packets: Option<f64>,
    hystart: Option<HyStart>,
    avoidance: A,
    reduction: Option<Reduction<A>>,
    persistent_congestion: PersistentCongestion,
    largest_sent: Option<u64>,
    /// The last packet that was sent with the window full behind it.
    filled_window: Option<u64>,
}

/// The last reduction for a loss.
#[derive(Debug)]
struct Reduction<A> {
    /// Packets up to this one were sent before it: their losses are part of it.
    mark: u64,
    /// The mark of the reduction before this one.
    previous_mark: Option<u64>,
    /// Whether a packet sent later is yet to be acknowledged (RFC 9002 §7.3.2).
    in_recovery: bool,
    /// Losses that have not proved spurious.
    losses: u64,
    /// What to go back to when none is left, in controllers that do.
    before: Option<Before<A>>,
}

impl<A> Reduction<A> {
    fn covers(&self, packet_number: u64) -> bool {
        packet_number <= self.mark && self.previous_mark.is_none_or(|mark| packet_number > mark)
    }
}

#[derive(Debug)]
struct Before<A> {
    window_packets: f64,
    ssthresh_packets: Option<f64>,
    hystart: Option<HyStart>,
    avoidance: A,
}

impl<A: Avoidance> LossBased<A> {
    pub(super) fn new(config: &ControllerConfig, hystart: bool) -> Self {
        Self::with_window(
            config.max_datagram_size,
            config.initial_congestion_window_packets,
            hystart,
        )
    }

    fn with_window(datagram_bytes: usize, window_packets: usize, hystart: bool) -> Self {
        LossBased {
            datagram_bytes: datagram_bytes.max(1),
            window_packets: bounded(window_packets as f64),
            ssthresh_packets: None,
            hystart: hystart.then(HyStart::default),
            avoidance: A::default(),
            reduction: None,
            persistent_congestion: PersistentCongestion::default(),
            largest_sent: None,
            filled_window: None,
        }
    }

    fn window_bytes(&self) -> usize {
        self.window_packets as usize * self.datagram_bytes
    }

    fn in_recovery(&self) -> bool {
        self.reduction
            .as_ref()
            .is_some_and(|reduction| reduction.in_recovery)
    }

    fn in_slow_start(&self) -> bool {
        self.ssthresh_packets
            .is_none_or(|ssthresh| self.window_packets < ssthresh)
    }

    /// RFC 9002 §7.3.2: one reduction for all losses of a round trip.
    fn on_congestion(&mut self, lost: u64) {
        let before = A::UNDOES.then(|| Before {
            window_packets: self.window_packets,
            ssthresh_packets: self.ssthresh_packets,
            hystart: self.hystart.take(),
            avoidance: self.avoidance.clone(),
        });
        self.avoidance.on_congestion(self.window_packets);
        self.hystart = None;
        self.window_packets = bounded(self.window_packets * A::DECREASE);
        self.ssthresh_packets = Some(self.window_packets);
        self.reduction = Some(Reduction {
            mark: self.largest_sent.unwrap_or(lost),
            previous_mark: self.reduction.as_ref().map(|reduction| reduction.mark),
            in_recovery: true,
            losses: 0,
            before,
        });
    }

    /// RFC 9002 §7.6.2.
    fn on_persistent_congestion(&mut self) {
        self.window_packets = bounded(0.0);
        self.avoidance.on_persistent_congestion();
        if let Some(reduction) = &mut self.reduction {
            reduction.in_recovery = false;
            reduction.before = None;
        }
    }

    /// Grows the window for one acknowledged packet (RFC 9002 §B.5).
    fn grow(&mut self, packet_number: u64, acked: f64, now: Instant, rtt: Duration) {
        // RFC 9002 §7.8. quiche's own flag tells of the last packet sent only.
        if self.filled_window.is_none_or(|last| packet_number > last) {
            self.avoidance.on_app_limited(now);
        } else if self.in_slow_start() {
            self.window_packets = bounded(self.window_packets + acked);
        } else {
            self.window_packets =
                bounded(
                    self.avoidance
                        .on_acked(self.window_packets, acked, now, rtt),
                );
        }
    }

    fn sent(&mut self, packet_number: u64, size_bytes: usize, bytes_in_flight: usize) {
        self.largest_sent = self.largest_sent.max(Some(packet_number));
        if bytes_in_flight + size_bytes + self.datagram_bytes > self.window_bytes() {
            self.filled_window = self.filled_window.max(Some(packet_number));
        }
    }

    fn acked(&mut self, ack: &Ack, packets: impl Iterator<Item = PacketInfo> + Clone) {
        let in_packets =
            |packet: &PacketInfo| packet.size_bytes as f64 / self.datagram_bytes as f64;
        let Some(largest) = packets.clone().last() else {
            return;
        };
        let acked_packets: f64 = packets.clone().map(|packet| in_packets(&packet)).sum();
        // HyStart++ limits and slows down what an ACK adds.
        let growth = match &self.hystart {
            Some(hystart) => hystart.growth(acked_packets),
            None => acked_packets,
        };
        let sample = (ack.measures_rtt && largest.size_bytes > 0).then(|| {
            self.persistent_congestion.on_rtt_sample(ack.now);
            ack.now.saturating_duration_since(largest.time_sent)
        });
        for packet in packets.clone() {
            self.persistent_congestion.on_packet_acked(&packet);
        }
        if self.persistent_congestion.take(&ack.rtt) {
            self.on_persistent_congestion();
            return;
        }

        // RFC 9002 §7.3.2: what was sent before the reduction does not grow the window.
        let mark = self.reduction.as_ref().map(|reduction| reduction.mark);
        for packet in packets {
            if packet.size_bytes > 0 && mark.is_none_or(|mark| packet.packet_number > mark) {
                let part = packet.size_bytes as f64 / self.datagram_bytes as f64 / acked_packets;
                self.grow(
                    packet.packet_number,
                    growth * part,
                    ack.now,
                    ack.rtt.smoothed,
                );
            }
        }
        if let Some(reduction) = &mut self.reduction {
            reduction.in_recovery &= largest.packet_number <= reduction.mark;
        }
        let largest_sent = self.largest_sent.unwrap_or(largest.packet_number);
        let slow_start_is_over = self
            .hystart
            .as_mut()
            .is_some_and(|hystart| hystart.on_ack(largest.packet_number, largest_sent, sample));
        if slow_start_is_over {
            self.hystart = None;
            self.ssthresh_packets = Some(self.window_packets);
        }
    }

    fn lost(&mut self, packets: impl Iterator<Item = PacketInfo>) {
        for packet in packets {
            self.persistent_congestion.on_packet_lost(&packet);
            let is_new = self
                .reduction
                .as_ref()
                .is_none_or(|reduction| packet.packet_number > reduction.mark);
            if is_new {
                self.on_congestion(packet.packet_number);
            }
            if let Some(reduction) = &mut self.reduction
                && reduction.covers(packet.packet_number)
            {
                reduction.losses += 1;
            }
        }
    }

    /// RFC 9438 §4.9.2.
    fn not_lost(&mut self, packets: impl Iterator<Item = PacketInfo>) {
        let Some(reduction) = &mut self.reduction else {
            return;
        };
        let spurious = packets
            .filter(|packet| reduction.covers(packet.packet_number))
            .count();
        reduction.losses = reduction.losses.saturating_sub(spurious as u64);
        if reduction.losses > 0 {
            return;
        }
        let Some(before) = reduction.before.take() else {
            return;
        };
        // Should a packet sent before the reduction be lost after all, it counts again.
        self.reduction = reduction.previous_mark.map(|mark| Reduction {
            mark,
            previous_mark: None,
            in_recovery: false,
            losses: 0,
            before: None,
        });
        if self.window_packets < before.window_packets {
            self.window_packets = before.window_packets;
            self.ssthresh_packets = before.ssthresh_packets;
            self.hystart = before.hystart;
            self.avoidance = before.avoidance;
        }
    }
}

/// A window within the limits, in packets.
fn bounded(packets: f64) -> f64 {
    packets.clamp(MINIMUM_WINDOW_PACKETS as f64, MAXIMUM_WINDOW_PACKETS as f64)
}

impl<A: Avoidance> CongestionController for LossBased<A> {
    fn congestion_window(&self) -> usize {
        self.window_bytes()
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.sent(packet.pkt_num, packet.size, packet.bytes_in_flight);
    }

    fn on_packets_acked(&mut self, event: &AckEvent<'_>) {
        self.acked(&event.into(), event.packets.iter().map(PacketInfo::from));
    }

    fn on_packets_lost(&mut self, event: &LossEvent<'_>) {
        self.lost(event.packets.iter().map(PacketInfo::from));
    }

    fn on_spurious_loss(&mut self, _now: Instant, packets: &[LostPacket]) {
        self.not_lost(packets.iter().map(PacketInfo::from));
    }

    fn on_mtu_update(&mut self, max_datagram_size: usize) {
        self.datagram_bytes = max_datagram_size.max(1);
    }

    fn ssthresh(&self) -> Option<usize> {
        self.ssthresh_packets
            .map(|packets| packets as usize * self.datagram_bytes)
    }

    fn startup_exit_reason(&self) -> StartupExitReason {
        if self.reduction.is_some() {
            StartupExitReason::Loss
        } else {
            StartupExitReason::PersistentQueue
        }
    }

    fn whole_datagrams(&self) -> bool {
        true
    }

    fn state_str(&self, _now: Instant) -> &'static str {
        if self.in_recovery() {
            "recovery"
        } else if self.in_slow_start() {
            "slow_start"
        } else {
            "congestion_avoidance"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cubic::Cubic;
    use super::super::reno::Reno;
    use super::*;
    use gallop::controller::RttEstimate;

    const BYTES: usize = 1200;
    const RTT: Duration = Duration::from_millis(100);

    /// A controller and a sender that fills its window.
    struct Sender<A> {
        controller: LossBased<A>,
        now: Instant,
        next: u64,
    }

    impl<A: Avoidance> Sender<A> {
        fn new(window_packets: usize) -> Self {
            Sender {
                controller: LossBased::with_window(BYTES, window_packets, false),
                now: Instant::now(),
                next: 0,
            }
        }

        fn window(&self) -> usize {
            self.controller.congestion_window() / BYTES
        }

        /// Sends so many packets, and is done with them one RTT later.
        fn send(&mut self, packets: usize) -> Vec<PacketInfo> {
            let sent = (0..packets)
                .map(|in_flight| {
                    self.controller.sent(self.next, BYTES, in_flight * BYTES);
                    self.next += 1;
                    PacketInfo {
                        packet_number: self.next - 1,
                        time_sent: self.now,
                        size_bytes: BYTES,
                    }
                })
                .collect();
            self.now += RTT;
            sent
        }

        fn acked(&mut self, packets: &[PacketInfo]) {
            let ack = Ack {
                now: self.now,
                measures_rtt: true,
                ack_delay: Duration::ZERO,
                rtt: RttEstimate {
                    smoothed: RTT,
                    variation: Duration::ZERO,
                    max_ack_delay: Duration::ZERO,
                },
            };
            for packet in packets {
                self.controller.acked(&ack, std::iter::once(*packet));
            }
        }

        fn lost(&mut self, packets: &[PacketInfo]) {
            self.controller.lost(packets.iter().copied());
        }

        fn round(&mut self) {
            let sent = self.send(self.window());
            self.acked(&sent);
        }
    }

    #[test]
    fn slow_start_doubles_and_a_loss_ends_it() {
        let mut sender = Sender::<Reno>::new(10);
        sender.round();
        assert_eq!(sender.window(), 20);
        sender.round();
        assert_eq!(sender.window(), 40);
        assert_eq!(sender.controller.ssthresh(), None);
        let sent = sender.send(40);
        sender.lost(&sent[..1]);
        assert_eq!(sender.window(), 20);
        assert_eq!(sender.controller.ssthresh(), Some(20 * BYTES));
        sender.acked(&sent[1..]);
        assert_eq!(sender.window(), 20, "recovery");
        sender.round();
        sender.round();
        assert!((21..=22).contains(&sender.window()), "{}", sender.window());
    }

    #[test]
    fn one_reduction_for_the_losses_of_a_round_trip() {
        let mut sender = Sender::<Cubic>::new(100);
        let sent = sender.send(100);
        sender.lost(&sent[..1]);
        assert_eq!(sender.window(), 70);
        sender.lost(&sent[1..50]);
        assert_eq!(sender.window(), 70);
        let later = sender.send(70);
        sender.lost(&sent[50..]);
        assert_eq!(sender.window(), 70);
        sender.lost(&later[..1]);
        assert_eq!(sender.window(), 49);
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let mut sender = Sender::<Reno>::new(10);
        let sent = sender.send(9);
        sender.acked(&sent);
        assert_eq!(sender.window(), 10);
        let sent = sender.send(10);
        sender.acked(&sent);
        assert_eq!(sender.window(), 20);
    }

    #[test]
    fn cubic_takes_a_reduction_back_when_every_loss_was_spurious() {
        let mut sender = Sender::<Cubic>::new(100);
        let sent = sender.send(100);
        sender.lost(&sent[..3]);
        sender.controller.not_lost(sent[..2].iter().copied());
        assert_eq!(sender.window(), 70);
        sender.controller.not_lost(sent[2..3].iter().copied());
        assert_eq!(sender.window(), 100);
        assert_eq!(sender.controller.ssthresh(), None, "slow start goes on");
        sender.lost(&sent[3..4]);
        assert_eq!(sender.window(), 70, "a true loss counts");
    }

    #[test]
    fn reno_does_not_take_a_reduction_back() {
        let mut sender = Sender::<Reno>::new(100);
        let sent = sender.send(100);
        sender.lost(&sent[..1]);
        sender.controller.not_lost(sent[..1].iter().copied());
        assert_eq!(sender.window(), 50);
    }

    #[test]
    fn persistent_congestion_leaves_two_packets() {
        let mut sender = Sender::<Reno>::new(10);
        sender.round();
        // Only packets sent after the first RTT sample count.
        sender.now += Duration::from_millis(1);
        let first = sender.send(1);
        // Longer than three times the RTT.
        sender.now += 4 * RTT;
        let last = sender.send(1);
        let after = sender.send(1);
        sender.lost(&first);
        sender.lost(&last);
        sender.acked(&after);
        assert_eq!(sender.window(), 2);
        assert!(sender.controller.in_slow_start());
    }

    #[test]
    fn the_window_counts_datagrams_of_any_size() {
        let mut sender = Sender::<Reno>::new(10);
        sender.controller.on_mtu_update(1350);
        assert_eq!(sender.controller.congestion_window(), 10 * 1350);
        sender.controller.on_mtu_update(0);
        assert_eq!(sender.controller.congestion_window(), 10);
    }
}
