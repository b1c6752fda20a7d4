//! Persistent congestion, QUIC's counterpart of TCP's retransmission timeout (RFC 9002 §7.6).

use std::time::{Duration, Instant};

use crate::controller::{Loss, PacketInfo, RttEstimate};

/// `kPersistentCongestionThreshold` (RFC 9002 §7.6.1).
const THRESHOLD: u32 = 3;

/// `kGranularity` (RFC 9002 §6.1.2).
const GRANULARITY: Duration = Duration::from_millis(1);

/// Finds persistent congestion: the loss of every packet over a long enough time.
#[derive(Clone, Copy, Debug, Default)]
pub struct PersistentCongestion {
    /// The time of the first RTT sample; only packets sent later count (RFC 9002 §7.6.2).
    first_rtt_sample: Option<Instant>,
    /// A run of lost packets without an acknowledged packet between.
    lost: Option<Run>,
    /// The earliest send time of an acknowledged packet after the run: a later loss is a new run.
    acked_after: Option<Instant>,
}

/// Send times of the first and last packet of a run, and the time between, which is asked at every
/// ACK.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Instant,
    last: Instant,
    span: Duration,
}

impl PersistentCongestion {
    /// An RTT sample was taken.
    #[inline]
    pub fn on_rtt_sample(&mut self, now: Instant) {
        self.first_rtt_sample.get_or_insert(now);
    }

    /// Packets were declared lost. Returns true if the stack says that congestion is persistent; if
    /// the stack does not look for it, [`take`](Self::take) tells.
    pub fn on_packets_lost(&mut self, loss: &Loss, packets: &[PacketInfo]) -> bool {
        if let Some(persistent) = loss.persistent_congestion {
            return persistent;
        }
        for packet in packets {
            self.on_packet_lost(packet);
        }
        false
    }

    fn on_packet_lost(&mut self, packet: &PacketInfo) {
        let sent = packet.time_sent;
        let eligible =
            packet.size_bytes > 0 && self.first_rtt_sample.is_some_and(|first| sent > first);
        if !eligible {
            return;
        }
        match &mut self.lost {
            Some(run) if self.acked_after.is_none_or(|acked| sent < acked) => {
                run.first = sent.min(run.first);
                run.last = sent.max(run.last);
                run.span = run.last.saturating_duration_since(run.first);
            }
            _ => {
                self.lost = Some(Run {
                    first: sent,
                    last: sent,
                    span: Duration::ZERO,
                });
                self.acked_after = None;
            }
        }
    }

    /// A packet was acknowledged.
    #[inline]
    pub fn on_packet_acked(&mut self, packet: &PacketInfo) {
        let Some(run) = self.lost else {
            return;
        };
        if packet.time_sent > run.last {
            let earliest = self
                .acked_after
                .map_or(packet.time_sent, |acked| acked.min(packet.time_sent));
            self.acked_after = Some(earliest);
        } else if packet.time_sent >= run.first {
            self.lost = None;
            self.acked_after = None;
        }
    }

    /// Returns true if congestion is persistent, and then begins anew. To be asked once all packets
    /// of an ACK were told.
    #[inline]
    pub fn take(&mut self, rtt: &RttEstimate) -> bool {
        let Some(run) = self.lost else {
            return false;
        };
        // Most losses need no more arithmetic than this.
        if run.span < rtt.smoothed {
            return false;
        }
        let duration = rtt
            .smoothed
            .saturating_add(rtt.variation.saturating_mul(4).max(GRANULARITY))
            .saturating_add(rtt.max_ack_delay)
            .saturating_mul(THRESHOLD);
        let persistent = run.span >= duration;
        if persistent {
            self.lost = None;
            self.acked_after = None;
        }
        persistent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// smoothed_rtt + 4·rttvar + max_ack_delay is 100 + 4·5 + 25 ms, so the duration is 435 ms.
    const RTT: RttEstimate = RttEstimate {
        smoothed: Duration::from_millis(100),
        variation: Duration::from_millis(5),
        max_ack_delay: Duration::from_millis(25),
    };

    struct Script {
        start: Instant,
        congestion: PersistentCongestion,
    }

    impl Script {
        fn new() -> Self {
            let start = Instant::now();
            let mut congestion = PersistentCongestion::default();
            congestion.on_rtt_sample(start);
            Script { start, congestion }
        }

        fn packet(&self, ms: u64, size_bytes: usize) -> PacketInfo {
            PacketInfo {
                packet_number: ms,
                time_sent: self.start + Duration::from_millis(ms),
                size_bytes,
            }
        }

        fn lost(&mut self, times_ms: &[u64]) -> &mut Self {
            for &ms in times_ms {
                let packet = self.packet(ms, 1200);
                self.congestion.on_packet_lost(&packet);
            }
            self
        }

        fn acked(&mut self, ms: u64) -> bool {
            let packet = self.packet(ms, 1200);
            self.congestion.on_packet_acked(&packet);
            self.congestion.take(&RTT)
        }
    }

    #[test]
    fn the_duration_is_met_or_missed() {
        assert!(Script::new().lost(&[10, 445]).acked(500));
        assert!(!Script::new().lost(&[10, 444]).acked(500));
    }

    #[test]
    fn an_acknowledged_packet_between_two_losses_ends_the_run() {
        let mut script = Script::new();
        script.lost(&[10, 445]);
        assert!(!script.acked(200));
        let mut script = Script::new();
        assert!(!script.lost(&[10]).acked(300));
        assert!(
            !script.lost(&[600]).acked(700),
            "300 was acknowledged between 10 and 600"
        );
    }

    #[test]
    fn of_packets_sent_at_one_moment_the_acknowledged_one_counts() {
        assert!(!Script::new().lost(&[10, 445]).acked(445));
        assert!(!Script::new().lost(&[10, 445]).acked(10));
        let mut script = Script::new();
        assert!(!script.lost(&[10]).acked(445));
        assert!(!script.lost(&[445]).acked(500));
    }

    #[test]
    fn a_run_can_be_declared_lost_in_parts() {
        let mut script = Script::new();
        assert!(!script.lost(&[10, 20, 30]).acked(500));
        assert!(script.lost(&[460]).acked(501));
        assert!(!script.acked(502), "counted once");
    }

    #[test]
    fn packets_before_the_first_sample_or_without_data_do_not_count() {
        let mut script = Script::new();
        script.congestion = PersistentCongestion::default();
        assert!(!script.lost(&[10, 600]).acked(700), "no RTT sample yet");

        let mut script = Script::new();
        script.congestion.first_rtt_sample = Some(script.start + Duration::from_millis(100));
        assert!(
            !script.lost(&[10, 500]).acked(700),
            "sent before the first sample"
        );

        let mut script = Script::new();
        assert!(
            !script.lost(&[0, 500]).acked(700),
            "sent when the first sample was taken (RFC 9002 §B.8)"
        );

        let mut script = Script::new();
        let ack_only = script.packet(10, 0);
        script.congestion.on_packet_lost(&ack_only);
        assert!(!script.lost(&[500]).acked(700));
    }
}
