//! Reno (RFC 9002 §7) with HyStart++ (draft-ietf-tcpm-hystartplusplus-04), as quiche has them built
//! in, written against the plug point.

use std::time::{Duration, Instant};

use quiche::{
    AckEvent, CongestionController, CongestionControllerFactory, ControllerConfig, LossEvent,
    SentPacket, StartupExitReason,
};

/// A change of one line of this Reno. The comparison has to notice each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The window is cut to 7/10 instead of half.
    SmallerDecrease,
    /// The window has no minimum.
    NoMinimumWindow,
    /// Slow start grows by the acknowledged bytes instead of a datagram per packet.
    SlowStartByBytes,
    /// Slow start goes on in a window that equals the threshold.
    SlowStartAtThreshold,
    /// A packet sent at the very start of recovery is not part of it.
    RecoveryBoundary,
    /// Acknowledgments of packets sent before the recovery started let the window grow.
    GrowthInRecovery,
    /// Every loss is a new congestion event.
    EveryLossDecreases,
    /// Recovery is judged by the first lost packet instead of the last.
    FirstLostPacket,
    /// The window grows although the application limits the rate.
    GrowthWhenAppLimited,
    /// A congestion event forgets the bytes acknowledged in congestion avoidance.
    AckedBytesReset,
    /// Bytes acknowledged beyond a window are forgotten when the window grows.
    AckedBytesNotCarried,
    /// Congestion avoidance needs a byte more than a window.
    CongestionAvoidanceStrict,
    /// Conservative slow start grows by half a datagram instead of a quarter.
    FasterConservativeSlowStart,
    /// HyStart++ waits for 9 RTT samples instead of 8.
    MoreRttSamples,
    /// HyStart++ takes a rise by a sixth of the RTT for queueing, instead of an eighth.
    HigherRttThreshold,
    /// Conservative slow start ends after 4 rounds instead of 5.
    FewerConservativeRounds,
    /// Conservative slow start never becomes slow start again.
    NoReturnToSlowStart,
    /// A round ends only with the acknowledgment of the very packet that began it.
    RoundEndsOnEquality,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 18] = [
        Mutation::SmallerDecrease,
        Mutation::NoMinimumWindow,
        Mutation::SlowStartByBytes,
        Mutation::SlowStartAtThreshold,
        Mutation::RecoveryBoundary,
        Mutation::GrowthInRecovery,
        Mutation::EveryLossDecreases,
        Mutation::FirstLostPacket,
        Mutation::GrowthWhenAppLimited,
        Mutation::AckedBytesReset,
        Mutation::AckedBytesNotCarried,
        Mutation::CongestionAvoidanceStrict,
        Mutation::FasterConservativeSlowStart,
        Mutation::MoreRttSamples,
        Mutation::HigherRttThreshold,
        Mutation::FewerConservativeRounds,
        Mutation::NoReturnToSlowStart,
        Mutation::RoundEndsOnEquality,
    ];
}

/// Makes Reno controllers, all with the same mutation, if any.
#[derive(Clone, Copy, Debug)]
pub struct RenoFactory(pub Option<Mutation>);

impl CongestionControllerFactory for RenoFactory {
    fn build(&self, config: &ControllerConfig) -> Box<dyn CongestionController> {
        Box::new(Reno {
            mutation: self.0,
            max_datagram_size: config.max_datagram_size,
            window: config.max_datagram_size * config.initial_congestion_window_packets,
            ssthresh: usize::MAX,
            acked_bytes: 0,
            recovery_start: None,
            hystart: config.hystart.then(HyStart::default),
            exit_reason: StartupExitReason::Loss,
        })
    }
}

#[derive(Debug)]
struct Reno {
    mutation: Option<Mutation>,
    max_datagram_size: usize,
    window: usize,
    ssthresh: usize,
    /// Bytes acknowledged in congestion avoidance that have not made the window grow yet.
    acked_bytes: usize,
    recovery_start: Option<Instant>,
    hystart: Option<HyStart>,
    exit_reason: StartupExitReason,
}

impl Reno {
    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    fn in_recovery(&self, time_sent: Instant) -> bool {
        let boundary = self.is(Mutation::RecoveryBoundary);
        self.recovery_start.is_some_and(|start| match boundary {
            true => time_sent < start,
            false => time_sent <= start,
        })
    }

    fn in_slow_start(&self) -> bool {
        match self.is(Mutation::SlowStartAtThreshold) {
            true => self.window <= self.ssthresh,
            false => self.window < self.ssthresh,
        }
    }

    fn in_conservative_slow_start(&self) -> bool {
        self.hystart.as_ref().is_some_and(|h| h.conservative)
    }

    fn slow_start(&mut self, pkt_num: u64, size: usize, latest_rtt: Duration) {
        let divisor = match self.is(Mutation::FasterConservativeSlowStart) {
            true => 2,
            false => 4,
        };
        let by_bytes = self.is(Mutation::SlowStartByBytes);
        self.window += match self.in_conservative_slow_start() {
            true => self.max_datagram_size / divisor,
            false if by_bytes => size,
            false => self.max_datagram_size,
        };
        let mutation = self.mutation;
        let hystart = self.hystart.as_mut();
        if hystart.is_some_and(|h| h.on_packet_acked(pkt_num, latest_rtt, mutation)) {
            self.ssthresh = self.window;
            self.exit_reason = StartupExitReason::ConservativeSlowStartRounds;
        }
    }

    fn congestion_avoidance(&mut self, size: usize) {
        self.acked_bytes += size;
        let needed = match self.is(Mutation::CongestionAvoidanceStrict) {
            true => self.window + 1,
            false => self.window,
        };
        if self.acked_bytes >= needed {
            self.acked_bytes -= match self.is(Mutation::AckedBytesNotCarried) {
                true => self.acked_bytes,
                false => self.window,
            };
            self.window += self.max_datagram_size;
        }
    }
}

impl CongestionController for Reno {
    fn congestion_window(&self) -> usize {
        self.window
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        if self.in_slow_start() {
            if let Some(hystart) = &mut self.hystart {
                hystart.on_packet_sent(packet.pkt_num);
            }
        }
    }

    fn on_packets_acked(&mut self, event: &AckEvent<'_>) {
        for packet in event.packets {
            if self.in_recovery(packet.time_sent) && !self.is(Mutation::GrowthInRecovery) {
                continue;
            }
            if event.app_limited && !self.is(Mutation::GrowthWhenAppLimited) {
                continue;
            }
            if self.in_slow_start() {
                self.slow_start(packet.pkt_num, packet.size, event.rtt.latest_rtt());
            } else {
                self.congestion_avoidance(packet.size);
            }
        }
    }

    fn on_packets_lost(&mut self, event: &LossEvent<'_>) {
        let judged = match self.is(Mutation::FirstLostPacket) {
            true => event.packets.first(),
            false => event.packets.last(),
        };
        let part_of_the_last = judged.is_some_and(|packet| self.in_recovery(packet.time_sent));
        if part_of_the_last && !self.is(Mutation::EveryLossDecreases) {
            return;
        }
        self.recovery_start = Some(event.now);
        self.window = match self.is(Mutation::SmallerDecrease) {
            true => self.window * 7 / 10,
            false => self.window / 2,
        };
        if !self.is(Mutation::NoMinimumWindow) {
            self.window = self.window.max(2 * self.max_datagram_size);
        }
        self.acked_bytes = match self.is(Mutation::AckedBytesReset) {
            true => 0,
            false => self.window / 2,
        };
        self.exit_reason = match self.in_conservative_slow_start() {
            true => StartupExitReason::ConservativeSlowStartRounds,
            false => StartupExitReason::Loss,
        };
        self.ssthresh = self.window;
        if let Some(hystart) = &mut self.hystart {
            hystart.on_congestion();
        }
    }

    fn ssthresh(&self) -> Option<usize> {
        (self.ssthresh != usize::MAX).then_some(self.ssthresh)
    }

    fn startup_exit_reason(&self) -> StartupExitReason {
        self.exit_reason
    }
}

/// HyStart++: leaves slow start by way of a conservative one when the RTT rises.
#[derive(Debug)]
struct HyStart {
    /// The packet whose acknowledgment ends the round.
    round_end: Option<u64>,
    last_round_min_rtt: Duration,
    current_round_min_rtt: Duration,
    rtt_samples: usize,
    conservative: bool,
    /// The minimum RTT with which conservative slow start began.
    baseline_min_rtt: Duration,
    conservative_rounds: usize,
}

impl Default for HyStart {
    fn default() -> Self {
        HyStart {
            round_end: None,
            last_round_min_rtt: Duration::MAX,
            current_round_min_rtt: Duration::MAX,
            rtt_samples: 0,
            conservative: false,
            baseline_min_rtt: Duration::MAX,
            conservative_rounds: 0,
        }
    }
}

impl HyStart {
    fn on_packet_sent(&mut self, pkt_num: u64) {
        if self.round_end.is_none() {
            self.round_end = Some(pkt_num);
            self.last_round_min_rtt = self.current_round_min_rtt;
            self.current_round_min_rtt = Duration::MAX;
            self.rtt_samples = 0;
        }
    }

    /// Returns true if slow start is over.
    fn on_packet_acked(&mut self, pkt_num: u64, rtt: Duration, mutation: Option<Mutation>) -> bool {
        let is = |this| mutation == Some(this);
        self.current_round_min_rtt = self.current_round_min_rtt.min(rtt);
        self.rtt_samples += 1;
        let wanted = if is(Mutation::MoreRttSamples) { 9 } else { 8 };
        if self.rtt_samples >= wanted {
            if self.conservative {
                self.rtt_samples = 0;
                if self.current_round_min_rtt < self.baseline_min_rtt
                    && !is(Mutation::NoReturnToSlowStart)
                {
                    self.baseline_min_rtt = Duration::MAX;
                    self.conservative = false;
                    self.conservative_rounds = 0;
                }
            } else if self.last_round_min_rtt != Duration::MAX {
                let part = if is(Mutation::HigherRttThreshold) {
                    6
                } else {
                    8
                };
                let (least, most) = (Duration::from_millis(4), Duration::from_millis(16));
                let threshold = (self.last_round_min_rtt / part).clamp(least, most);
                if self.current_round_min_rtt >= self.last_round_min_rtt + threshold {
                    self.baseline_min_rtt = self.current_round_min_rtt;
                    self.conservative = true;
                }
            }
        }

        let ended = self
            .round_end
            .is_some_and(|end| match is(Mutation::RoundEndsOnEquality) {
                true => pkt_num == end,
                false => pkt_num >= end,
            });
        if !ended {
            return false;
        }
        self.round_end = None;
        if self.conservative {
            self.conservative_rounds += 1;
            let rounds = if is(Mutation::FewerConservativeRounds) {
                4
            } else {
                5
            };
            if self.conservative_rounds >= rounds {
                self.conservative_rounds = 0;
                return true;
            }
        }
        false
    }

    fn on_congestion(&mut self) {
        if self.conservative {
            self.round_end = None;
            self.conservative = false;
        }
    }
}
