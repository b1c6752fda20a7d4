//! The parts that controllers which take a loss for congestion have in common (RFC 9002 §7).

use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::catalog::Recipe;
use crate::controller::{
    Ack, CongestionMarks, Controller, Figure, Loss, PacketInfo, PathConfig, Phase, SentPacket,
};
use crate::hystart::HyStart;
use crate::options::{Chosen, OptionSpec, OptionsError};
use crate::persistent_congestion::PersistentCongestion;
use crate::recovery::Recovery;
use crate::window::bounded;

/// The growth of the window after slow start, and its reduction at a congestion event.
pub(crate) trait Avoidance: Clone + Debug + Default + Send + Sync + 'static {
    /// The name of the controller.
    const CONTROLLER: &'static str;
    /// One line about the controller.
    const SUMMARY: &'static str;
    /// The controller's options; with one called `hystart` slow start can end by delay.
    const OPTIONS: &'static [OptionSpec];
    /// The part of the window that a congestion event leaves.
    const DECREASE: f64;
    /// True if a reduction is taken back when all its losses prove spurious.
    const UNDOES: bool;

    /// The window is about to be cut.
    fn on_congestion(&mut self, window_packets: f64);

    /// The window goes back to its minimum.
    fn on_persistent_congestion(&mut self);

    /// A packet was acknowledged that was sent while the window was not full.
    fn on_app_limited(&mut self, now: Instant);

    /// The window after `acked` packets of a full window were acknowledged.
    fn on_acked(&mut self, window_packets: f64, acked: f64, now: Instant, rtt: Duration) -> f64;

    /// Reports the state that is the controller's own.
    fn figures(&self, _sink: &mut dyn FnMut(Figure)) {}
}

/// The options of a controller with this growth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<A> {
    hystart: bool,
    avoidance: A,
}

impl<A: Avoidance> Recipe for Options<A> {
    const NAME: &'static str = A::CONTROLLER;
    const SUMMARY: &'static str = A::SUMMARY;
    const OPTIONS: &'static [OptionSpec] = A::OPTIONS;

    fn new(chosen: &Chosen) -> Result<Self, OptionsError> {
        let has_hystart = A::OPTIONS.iter().any(|option| option.name == "hystart");
        Ok(Options {
            hystart: has_hystart && chosen.word("hystart") == "on",
            avoidance: A::default(),
        })
    }

    fn build(&self, path: &PathConfig) -> Box<dyn Controller> {
        Box::new(LossBased::new(self, path))
    }
}

/// A controller in slow start, recovery or congestion avoidance (RFC 9002 §7.3).
///
/// The window is a number of packets, so a path with larger datagrams has a larger window (RFC 9002
/// §7.2); what it allows is a whole number of them.
#[derive(Clone, Debug)]
pub(crate) struct LossBased<A> {
    datagram_bytes: usize,
    window_packets: f64,
    ssthresh_packets: Option<f64>,
    hystart: Option<HyStart>,
    avoidance: A,
    recovery: Recovery<Before<A>>,
    persistent_congestion: PersistentCongestion,
    /// The last packet that was sent with the window full behind it.
    filled_window: Option<u64>,
}

/// The state that a reduction changes.
#[derive(Clone, Debug)]
struct Before<A> {
    window_packets: f64,
    ssthresh_packets: Option<f64>,
    hystart: Option<HyStart>,
    avoidance: A,
}

impl<A: Avoidance> LossBased<A> {
    fn new(options: &Options<A>, path: &PathConfig) -> Self {
        LossBased {
            datagram_bytes: path.max_datagram_size_bytes.max(1),
            window_packets: bounded(path.initial_window_packets as f64),
            ssthresh_packets: None,
            hystart: options.hystart.then(HyStart::default),
            avoidance: options.avoidance.clone(),
            recovery: Recovery::default(),
            persistent_congestion: PersistentCongestion::default(),
            filled_window: None,
        }
    }

    fn to_bytes(&self, packets: f64) -> usize {
        (packets as usize).saturating_mul(self.datagram_bytes)
    }

    fn in_slow_start(&self) -> bool {
        self.ssthresh_packets
            .is_none_or(|ssthresh| self.window_packets < ssthresh)
    }

    /// RFC 9002 §7.3.2: one reduction for all losses of a round trip. It can be undone if losses
    /// alone are its reason.
    fn on_congestion(&mut self, packet_number: u64, can_be_undone: bool) {
        let before = (A::UNDOES && can_be_undone).then(|| Before {
            window_packets: self.window_packets,
            ssthresh_packets: self.ssthresh_packets,
            hystart: self.hystart.take(),
            avoidance: self.avoidance.clone(),
        });
        self.avoidance.on_congestion(self.window_packets);
        self.hystart = None;
        self.window_packets = bounded(self.window_packets * A::DECREASE);
        self.ssthresh_packets = Some(self.window_packets);
        self.recovery.begin(packet_number, before);
    }

    /// RFC 9002 §7.6.2.
    fn on_persistent_congestion(&mut self) {
        self.window_packets = bounded(0.0);
        self.avoidance.on_persistent_congestion();
        self.recovery.end();
    }

    /// Grows the window for one acknowledged packet (RFC 9002 §B.5).
    fn grow(&mut self, packet_number: u64, acked: f64, now: Instant, rtt: Duration) {
        // RFC 9002 §7.8.
        if self.filled_window.is_none_or(|last| packet_number > last) {
            self.avoidance.on_app_limited(now);
        } else if self.in_slow_start() {
            self.window_packets = bounded(self.window_packets + acked);
        } else {
            let window = self.window_packets;
            self.window_packets = bounded(self.avoidance.on_acked(window, acked, now, rtt));
        }
    }
}

impl<A: Avoidance> Controller for LossBased<A> {
    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.recovery.on_packet_sent(packet.packet_number);
        if packet.fills(self.window_bytes(), self.datagram_bytes) {
            self.filled_window = self.filled_window.max(Some(packet.packet_number));
        }
    }

    fn on_packets_acked(&mut self, ack: &Ack, packets: &[PacketInfo]) {
        let Some(largest) = packets.last() else {
            return;
        };
        let datagram_bytes = self.datagram_bytes as f64;
        let in_packets = |packet: &PacketInfo| packet.size_bytes as f64 / datagram_bytes;
        let acked_packets: f64 = packets.iter().map(in_packets).sum();
        // HyStart++ limits and slows down what an ACK adds.
        let growth = match &self.hystart {
            Some(hystart) => hystart.growth(acked_packets),
            None => acked_packets,
        };
        let sample = (ack.measures_rtt && largest.size_bytes > 0).then(|| {
            self.persistent_congestion.on_rtt_sample(ack.now);
            ack.now.saturating_duration_since(largest.time_sent)
        });
        for packet in packets {
            self.persistent_congestion.on_packet_acked(packet);
        }
        if self.persistent_congestion.take(&ack.rtt) {
            self.on_persistent_congestion();
            return;
        }

        for packet in packets {
            // RFC 9002 §7.3.2: packets sent before the reduction do not grow the window.
            if packet.size_bytes > 0 && self.recovery.is_after(packet.packet_number) {
                let part = in_packets(packet) / acked_packets;
                self.grow(
                    packet.packet_number,
                    growth * part,
                    ack.now,
                    ack.rtt.smoothed,
                );
            }
        }
        self.recovery.on_acked(largest.packet_number);
        let largest_sent = self
            .recovery
            .largest_sent()
            .unwrap_or(largest.packet_number);
        let slow_start_is_over = self
            .hystart
            .as_mut()
            .is_some_and(|hystart| hystart.on_ack(largest.packet_number, largest_sent, sample));
        if slow_start_is_over {
            self.hystart = None;
            self.ssthresh_packets = Some(self.window_packets);
        }
    }

    fn on_packets_lost(&mut self, loss: &Loss, packets: &[PacketInfo]) {
        for packet in packets {
            if self.recovery.is_after(packet.packet_number) {
                self.on_congestion(packet.packet_number, true);
            }
            self.recovery.on_packet_lost(packet.packet_number);
        }
        if self.persistent_congestion.on_packets_lost(loss, packets) {
            self.on_persistent_congestion();
        }
    }

    /// RFC 9438 §4.9.2.
    fn on_spurious_loss(&mut self, _now: Instant, packets: &[PacketInfo]) {
        let Some(before) = self.recovery.on_spurious_loss(packets) else {
            return;
        };
        if self.window_packets < before.window_packets {
            self.window_packets = before.window_packets;
            self.ssthresh_packets = before.ssthresh_packets;
            self.hystart = before.hystart;
            self.avoidance = before.avoidance;
        }
    }

    /// RFC 9002 §7.1 and §B.7: a mark is answered as a loss.
    fn on_congestion_marks(&mut self, marks: &CongestionMarks) {
        if self.recovery.is_after(marks.largest_acked) {
            self.on_congestion(marks.largest_acked, false);
        } else {
            self.recovery.make_final();
        }
    }

    fn on_cwnd_limited(&mut self, _now: Instant) {
        self.filled_window = self.filled_window.max(self.recovery.largest_sent());
    }

    fn on_mtu_update(&mut self, max_datagram_size_bytes: usize) {
        if max_datagram_size_bytes > 0 {
            self.datagram_bytes = max_datagram_size_bytes;
        }
    }

    fn window_bytes(&self) -> usize {
        self.to_bytes(self.window_packets)
    }

    fn ssthresh_bytes(&self) -> Option<usize> {
        self.ssthresh_packets.map(|packets| self.to_bytes(packets))
    }

    fn phase(&self) -> Phase {
        if self.recovery.is_under_way() {
            Phase::Recovery
        } else if self.in_slow_start() {
            Phase::SlowStart
        } else {
            Phase::CongestionAvoidance
        }
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        self.avoidance.figures(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::RttEstimate;
    use crate::cubic::Cubic;
    use crate::reno::Reno;

    const BYTES: usize = 1200;
    const RTT: Duration = Duration::from_millis(100);

    /// A controller and a sender that fills its window.
    struct Sender<A> {
        controller: LossBased<A>,
        now: Instant,
        next: u64,
    }

    impl<A: Avoidance> Sender<A> {
        fn new(window_packets: u64) -> Self {
            let options = Options {
                hystart: false,
                avoidance: A::default(),
            };
            let path = PathConfig {
                max_datagram_size_bytes: BYTES,
                initial_window_packets: window_packets,
                pacing: false,
            };
            Sender {
                controller: LossBased::new(&options, &path),
                now: Instant::now(),
                next: 0,
            }
        }

        fn window(&self) -> usize {
            self.controller.window_bytes() / BYTES
        }

        /// Sends so many packets, and is done with them one RTT later.
        fn send(&mut self, packets: usize) -> Vec<PacketInfo> {
            let sent = (0..packets)
                .map(|in_flight| {
                    let packet = PacketInfo {
                        packet_number: self.next,
                        time_sent: self.now,
                        size_bytes: BYTES,
                    };
                    self.controller.on_packet_sent(&SentPacket {
                        packet_number: packet.packet_number,
                        time_sent: packet.time_sent,
                        size_bytes: BYTES,
                        bytes_in_flight: in_flight * BYTES,
                    });
                    self.next += 1;
                    packet
                })
                .collect();
            self.now += RTT;
            sent
        }

        fn acked(&mut self, packets: &[PacketInfo]) {
            let ack = Ack {
                now: self.now,
                measures_rtt: true,
                ack_delay: None,
                rtt: RttEstimate {
                    smoothed: RTT,
                    variation: Duration::ZERO,
                    max_ack_delay: Duration::ZERO,
                },
                bytes_in_flight: 0,
            };
            for packet in packets {
                self.controller.on_packets_acked(&ack, &[*packet]);
            }
        }

        fn lost(&mut self, packets: &[PacketInfo]) {
            let loss = Loss {
                now: self.now,
                persistent_congestion: None,
            };
            self.controller.on_packets_lost(&loss, packets);
        }

        fn not_lost(&mut self, packets: &[PacketInfo]) {
            self.controller.on_spurious_loss(self.now, packets);
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
        assert_eq!(sender.controller.ssthresh_bytes(), None);
        let sent = sender.send(40);
        sender.lost(&sent[..1]);
        assert_eq!(sender.window(), 20);
        assert_eq!(sender.controller.ssthresh_bytes(), Some(20 * BYTES));
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
        sender.not_lost(&sent[..2]);
        assert_eq!(sender.window(), 70);
        sender.not_lost(&sent[2..3]);
        assert_eq!(sender.window(), 100);
        assert_eq!(
            sender.controller.ssthresh_bytes(),
            None,
            "slow start goes on"
        );
        sender.lost(&sent[3..4]);
        assert_eq!(sender.window(), 70, "a true loss counts");
    }

    #[test]
    fn reno_does_not_take_a_reduction_back() {
        let mut sender = Sender::<Reno>::new(100);
        let sent = sender.send(100);
        sender.lost(&sent[..1]);
        sender.not_lost(&sent[..1]);
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
    fn a_stack_that_looks_for_persistent_congestion_is_believed() {
        let mut sender = Sender::<Reno>::new(10);
        let sent = sender.send(10);
        for (persistent, window) in [(false, 5), (true, 2)] {
            let loss = Loss {
                now: sender.now,
                persistent_congestion: Some(persistent),
            };
            sender.controller.on_packets_lost(&loss, &sent[..1]);
            assert_eq!(sender.window(), window);
        }
    }

    #[test]
    fn a_mark_cuts_the_window_once_in_a_round_trip_and_is_not_undone() {
        let mut sender = Sender::<Cubic>::new(100);
        let sent = sender.send(100);
        let mark = |sender: &mut Sender<Cubic>, packet: &PacketInfo| {
            sender.controller.on_congestion_marks(&CongestionMarks {
                now: sender.now,
                packets: 1,
                largest_acked: packet.packet_number,
            });
            sender.window()
        };
        assert_eq!(mark(&mut sender, &sent[0]), 70);
        assert_eq!(mark(&mut sender, &sent[9]), 70);
        let later = sender.send(70);
        sender.lost(&later[..1]);
        assert_eq!(sender.window(), 49);
        assert_eq!(mark(&mut sender, &later[1]), 49);
        sender.not_lost(&later[..1]);
        assert_eq!(sender.window(), 49, "the mark was real");
    }

    #[test]
    fn a_sender_that_is_limited_by_the_window_says_so() {
        let mut sender = Sender::<Reno>::new(10);
        let sent = sender.send(9);
        sender.controller.on_cwnd_limited(sender.now);
        sender.acked(&sent);
        assert_eq!(sender.window(), 19);
    }

    #[test]
    fn the_window_counts_datagrams_of_any_size() {
        let mut sender = Sender::<Reno>::new(10);
        sender.controller.on_mtu_update(1350);
        assert_eq!(sender.controller.window_bytes(), 10 * 1350);
        sender.controller.on_mtu_update(0);
        assert_eq!(sender.controller.window_bytes(), 10 * 1350, "no size");
    }
}
