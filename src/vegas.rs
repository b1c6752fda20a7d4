//! TCP Vegas: congestion is detected by delay, before packets are lost (000 §3).
//!
//! Of the five techniques of 000, two need no code here, since QUIC has them: every packet has its
//! own exact send time (§3.1), and RFC 9002's time and packet thresholds decide at the first ACK
//! whether an earlier packet is lost (§3.2). The other three are the single decrease per congested
//! window (§3.3), spike suppression (§3.4) and congestion detection (§3.5).

use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::base_rtt::BaseRtt;
use crate::controller::{Ack, Controller, PacketInfo, Phase, RoundState, SentPacket, State};
use crate::options::Options;
use crate::pacing::{DATAGRAMS_PER_INTERVAL, SpikeSuppression};
use crate::persistent_congestion::PersistentCongestion;
use crate::round::{CompleteRound, Round};
use crate::window::Window;

/// How the first available window is looked for.
///
/// It is asked once per round until it answers [`Decision::Leave`], and again after persistent
/// congestion, from its default state.
pub trait SlowStart: Copy + Debug + Default + Send + Sync + 'static {
    /// The phase's name while slow start lasts.
    const PHASE: Phase;
    /// The options of a controller with this slow start.
    const DEFAULT_OPTIONS: Options;

    /// A round in which the window was used has ended.
    fn on_round(&mut self, round: &RoundEnd, options: &Options) -> Decision;

    /// Whether congestion avoidance leaves the window alone at its first decision.
    fn skips_first_decision(&mut self) -> bool {
        false
    }

    /// `incr` and `status` of 003, where there are such.
    fn incr_and_status(&self) -> Option<(u64, u8)> {
        None
    }
}

/// What slow start decides upon.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundEnd {
    /// ∆, the backlog in whole datagrams.
    pub backlog_packets: f64,
    /// The window.
    pub window_packets: u64,
    /// What the window gained in this round.
    pub gained_packets: u64,
}

/// What slow start decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Grow by so many datagrams over the next round and go on.
    Grow(u64),
    /// Go over to congestion avoidance: `shrink` at once, then `grow` over the next round.
    Leave {
        /// Datagrams to take off the window.
        shrink: u64,
        /// Datagrams to add over the next round.
        grow: u64,
    },
}

/// Vegas' own slow start: doubling every other round (000 §3.5.3).
///
/// In between, the window stays as it is so that expected and actual rate can be compared; when
/// they differ by more than γ, one eighth of the window is given back (003 §II). From a window of
/// two: 2, 2, 4, 4, 8, 8 … (003 Table 2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Doubling {
    /// Whether the window was the same in this round as in the one that its RTTs were measured in.
    comparable: bool,
}

impl SlowStart for Doubling {
    const PHASE: Phase = Phase::SlowStart;
    const DEFAULT_OPTIONS: Options = Options::VEGAS;

    fn on_round(&mut self, round: &RoundEnd, options: &Options) -> Decision {
        if !self.comparable {
            self.comparable = true;
            return Decision::Grow(0);
        }
        if round.backlog_packets > options.gamma() {
            return Decision::Leave {
                shrink: round.window_packets / 8,
                grow: 0,
            };
        }
        self.comparable = false;
        Decision::Grow(round.window_packets)
    }
}

/// What a controller has to know of its path at the start.
#[derive(Clone, Copy, Debug)]
pub struct PathConfig {
    /// The path's maximum datagram size.
    pub max_datagram_size_bytes: usize,
    /// The QUIC stack's initial window, unless the options have one.
    pub initial_window_packets: u64,
    /// Whether the application waits for release times; without, spike suppression is off.
    pub pacing: bool,
}

/// The Vegas congestion controller of one path, with slow start `S`.
#[derive(Debug)]
pub struct Vegas<S> {
    options: Options,
    max_datagram_size_bytes: usize,
    window: Window,
    ssthresh_packets: Option<u64>,
    slow_start: S,
    in_slow_start: bool,
    /// Until the first round ends, the window is a number of datagrams of whatever size.
    window_is_initial: bool,
    base_rtt: BaseRtt,
    round: Round,
    last_round: Option<RoundState>,
    largest_sent: Option<u64>,
    decrease: Option<Decrease>,
    persistent_congestion: PersistentCongestion,
    pacing: bool,
    smoothed_rtt: Option<Duration>,
    spike_suppression: SpikeSuppression,
}

/// The last decrease for a loss.
#[derive(Clone, Copy, Debug)]
struct Decrease {
    /// Packets up to this one were sent before the decrease.
    mark: u64,
    /// The mark of the decrease before this one.
    previous_mark: Option<u64>,
    /// Whether a packet sent after the decrease is yet to be acknowledged.
    in_recovery: bool,
    /// What to return to should every loss prove spurious, and how many losses there are.
    undo: Option<(Before, u64)>,
}

/// The state that a decrease changes.
#[derive(Clone, Copy, Debug)]
struct Before {
    window_packets: u64,
    ssthresh_packets: Option<u64>,
    in_slow_start: bool,
}

impl Decrease {
    /// Whether a loss of this packet belongs to this decrease.
    fn covers(&self, packet_number: u64) -> bool {
        packet_number <= self.mark && self.previous_mark.is_none_or(|mark| packet_number > mark)
    }
}

impl<S: SlowStart> Vegas<S> {
    /// A controller for a new path.
    ///
    /// # Panics
    ///
    /// If the maximum datagram size is zero.
    pub fn new(options: Options, path: &PathConfig) -> Self {
        assert!(
            path.max_datagram_size_bytes > 0,
            "the maximum datagram size is zero"
        );
        Vegas {
            options,
            max_datagram_size_bytes: path.max_datagram_size_bytes,
            window: Window::new(
                options
                    .initial_window_packets
                    .unwrap_or(path.initial_window_packets),
            ),
            ssthresh_packets: None,
            slow_start: S::default(),
            in_slow_start: true,
            window_is_initial: true,
            base_rtt: BaseRtt::default(),
            round: Round::default(),
            last_round: None,
            largest_sent: None,
            decrease: None,
            persistent_congestion: PersistentCongestion::default(),
            pacing: path.pacing,
            smoothed_rtt: None,
            spike_suppression: SpikeSuppression::default(),
        }
    }

    fn in_recovery(&self) -> bool {
        self.decrease.is_some_and(|decrease| decrease.in_recovery)
    }

    fn to_bytes(&self, packets: u64) -> usize {
        usize::try_from(packets)
            .unwrap_or(usize::MAX)
            .saturating_mul(self.max_datagram_size_bytes)
    }

    /// Whether a packet is as large as the path allows, but for a tenth that an ACK frame or a frame
    /// that does not fit may cost.
    fn is_full(&self, size_bytes: usize) -> bool {
        size_bytes.saturating_mul(10) >= self.max_datagram_size_bytes.saturating_mul(9)
    }

    /// The RTT that datagrams are spaced over, while spike suppression is on.
    ///
    /// It is off in slow start: doubling needs two datagrams per ACK (000 §3.4), and stable growth
    /// is smooth without it, since its increment is small beside the window (003 §III.B); spacing
    /// would hide the short queue that each increment builds, by which the available window is seen
    /// to come near.
    fn spacing_rtt(&self) -> Option<Duration> {
        self.smoothed_rtt
            .filter(|_| self.pacing && !self.in_slow_start)
    }

    /// Measures and decides, once per round (000 §3.5.2).
    fn on_round(&mut self, round: &CompleteRound) {
        let Some(rtt) = round.rtt.filter(|_| round.window_used) else {
            // Rates of a round that left the window unused say nothing about the window.
            self.window.hold();
            return;
        };
        let sent_packets = round.sent_packets;
        self.window.complete();
        let measured = self.measure(rtt);
        self.last_round = Some(measured);
        // NOTE: 000 and 003 leave open whether ∆ is a whole number. In whole packets, rounded to
        // nearest, 003's simulations come out; with fractions the same needs γ = 1.5, β = 2.5.
        let backlog_packets = measured.backlog_packets.round();

        if self.in_slow_start
            && self
                .ssthresh_packets
                .is_some_and(|limit| self.window.packets() >= limit)
        {
            self.in_slow_start = false;
        }
        if self.in_slow_start {
            let round = RoundEnd {
                backlog_packets,
                window_packets: self.window.packets(),
                gained_packets: self.window.gained(),
            };
            match self.slow_start.on_round(&round, &self.options) {
                Decision::Grow(packets) => self.window.grow(packets, sent_packets),
                Decision::Leave { shrink, grow } => {
                    self.window.shrink(shrink);
                    self.in_slow_start = false;
                    self.ssthresh_packets = Some(self.window.packets());
                    self.window.grow(grow, sent_packets);
                }
            }
        } else if self.slow_start.skips_first_decision() {
            self.window.hold();
        } else if backlog_packets < self.options.alpha {
            self.window.grow(1, sent_packets);
        } else if backlog_packets > self.options.beta {
            self.window.shrink(1);
        } else {
            self.window.hold();
        }
    }

    /// Expected and actual rate and the backlog `W · (D − d) / D` (003 equation 1).
    fn measure(&self, rtt: Duration) -> RoundState {
        let base_rtt = self.base_rtt.get().unwrap_or(rtt);
        let window_packets = self.window.packets() as f64;
        let window_bits = self.window_bytes() as f64 * 8.0;
        let rate = |rtt: Duration| {
            if rtt.is_zero() {
                0.0
            } else {
                window_bits / rtt.as_secs_f64()
            }
        };
        let queueing = rtt.saturating_sub(base_rtt).as_secs_f64();
        RoundState {
            rtt,
            expected_bps: rate(base_rtt),
            actual_bps: rate(rtt),
            backlog_packets: if rtt.is_zero() {
                0.0
            } else {
                window_packets * queueing / rtt.as_secs_f64()
            },
        }
    }

    /// One decrease for all losses of a window (000 §3.3).
    fn on_congestion(&mut self, largest_lost: u64) {
        let previous_mark = self.decrease.map(|decrease| decrease.mark);
        let before = Before {
            window_packets: self.window.packets(),
            ssthresh_packets: self.ssthresh_packets,
            in_slow_start: self.in_slow_start,
        };
        self.decrease = Some(Decrease {
            mark: self.largest_sent.unwrap_or(largest_lost),
            previous_mark,
            in_recovery: true,
            undo: Some((before, 0)),
        });
        // NOTE: ns-2's Vegas, which 003 used, goes on doubling after a loss in slow start; 003
        // §V.B shows the second burst of losses that this brings. QUIC leaves slow start (RFC 9002
        // §7.3.1).
        self.in_slow_start = false;
        self.window = Window::new((before.window_packets as f64 * self.options.decrease) as u64);
        self.ssthresh_packets = Some(self.window.packets());
        self.round.restart();
    }

    /// As after TCP's retransmission timeout (003 §III.C; RFC 9002 §7.6.2).
    fn on_persistent_congestion(&mut self) {
        self.window = Window::new(0);
        self.slow_start = S::default();
        self.in_slow_start = true;
        self.round.restart();
        if let Some(decrease) = &mut self.decrease {
            decrease.in_recovery = false;
            decrease.undo = None;
        }
    }
}

impl<S: SlowStart> Controller for Vegas<S> {
    fn on_packet_sent(&mut self, packet: &SentPacket) {
        if packet.bytes_in_flight == 0 {
            // After an idle period the round in progress is stale.
            self.round.restart();
            self.window.hold();
        }
        self.largest_sent = self.largest_sent.max(Some(packet.packet_number));
        let room_needed = packet
            .bytes_in_flight
            .saturating_add(packet.size_bytes)
            .saturating_add(self.max_datagram_size_bytes);
        self.round
            .on_packet_sent(packet.packet_number, room_needed > self.window_bytes());
        if let Some(rtt) = self.spacing_rtt() {
            let spacing = || SpikeSuppression::spacing(rtt, self.window.packets());
            self.spike_suppression
                .on_packet_sent(packet.time_sent, packet.size_bytes, spacing);
        }
    }

    fn on_packets_acked(&mut self, ack: &Ack, packets: impl Iterator<Item = PacketInfo>) {
        let mut largest = None;
        let (mut acked, mut acked_of_next_round) = (0, 0);
        for packet in packets {
            self.persistent_congestion.on_packet_acked(&packet);
            if packet.size_bytes > 0 {
                if self.round.ends_at(packet.packet_number) {
                    acked_of_next_round += 1;
                } else {
                    acked += 1;
                }
            }
            largest = Some(packet);
        }
        let Some(largest) = largest else { return };
        self.smoothed_rtt = Some(ack.rtt.smoothed);
        // Packets that elicit no acknowledgment wait for the next one that does: no RTT.
        let sample = (ack.measures_rtt && largest.size_bytes > 0).then(|| {
            self.persistent_congestion.on_rtt_sample(ack.now);
            let measured = ack.now.saturating_duration_since(largest.time_sent);
            let ack_delay = ack.ack_delay.min(ack.rtt.max_ack_delay);
            self.base_rtt
                .on_sample(measured, ack_delay, self.is_full(largest.size_bytes))
        });
        if self.persistent_congestion.take(&ack.rtt) {
            self.on_persistent_congestion();
            return;
        }

        let in_recovery = self.in_recovery();
        if let Some(decrease) = &mut self.decrease {
            decrease.in_recovery &= largest.packet_number <= decrease.mark;
        }
        self.window.on_acked(acked);
        if let Some(round) = self
            .round
            .on_acked(largest.packet_number, sample, self.options.rtt)
        {
            self.window_is_initial = false;
            // The round of a recovery saw the queue that the loss came from.
            if !in_recovery {
                self.on_round(&round);
            }
        }
        self.window.on_acked(acked_of_next_round);
    }

    fn on_packets_lost(&mut self, packets: impl Iterator<Item = PacketInfo>) {
        for packet in packets {
            self.persistent_congestion.on_packet_lost(&packet);
            if self
                .decrease
                .is_none_or(|decrease| packet.packet_number > decrease.mark)
            {
                self.on_congestion(packet.packet_number);
            }
            if let Some(decrease) = &mut self.decrease
                && decrease.covers(packet.packet_number)
                && let Some((_, losses)) = &mut decrease.undo
            {
                *losses += 1;
            }
        }
    }

    fn on_spurious_loss(&mut self, packets: impl Iterator<Item = PacketInfo>) {
        let Some(mut decrease) = self.decrease else {
            return;
        };
        let Some((before, mut losses)) = decrease.undo else {
            return;
        };
        for packet in packets {
            if decrease.covers(packet.packet_number) {
                losses = losses.saturating_sub(1);
            }
        }
        decrease.undo = Some((before, losses));
        self.decrease = Some(decrease);
        if losses == 0 {
            self.window = Window::new(before.window_packets.max(self.window.packets()));
            self.ssthresh_packets = before.ssthresh_packets;
            self.in_slow_start = before.in_slow_start;
            self.round.restart();
            // Should a packet sent before the decrease be lost after all, it counts again.
            self.decrease = decrease.previous_mark.map(|mark| Decrease {
                mark,
                previous_mark: None,
                in_recovery: false,
                undo: None,
            });
        }
    }

    fn on_mtu_update(&mut self, max_datagram_size_bytes: usize) {
        if max_datagram_size_bytes == 0 || max_datagram_size_bytes == self.max_datagram_size_bytes {
            return;
        }
        // RFC 9002 §7.2: the initial window follows the datagram size; later the bytes stay.
        if !self.window_is_initial {
            let old_size_bytes = self.max_datagram_size_bytes as u64;
            let convert = |packets: u64| {
                Window::new(packets.saturating_mul(old_size_bytes) / max_datagram_size_bytes as u64)
                    .packets()
            };
            self.window = Window::new(convert(self.window.packets()));
            self.ssthresh_packets = self.ssthresh_packets.map(convert);
            if let Some(Decrease {
                undo: Some((before, _)),
                ..
            }) = &mut self.decrease
            {
                before.window_packets = convert(before.window_packets);
                before.ssthresh_packets = before.ssthresh_packets.map(convert);
            }
        }
        self.max_datagram_size_bytes = max_datagram_size_bytes;
    }

    fn window_bytes(&self) -> usize {
        self.to_bytes(self.window.packets())
    }

    fn next_release_time(&self) -> Option<Instant> {
        self.spacing_rtt()?;
        self.spike_suppression
            .next_release_time(self.max_datagram_size_bytes)
    }

    fn phase(&self) -> Phase {
        if self.in_recovery() {
            Phase::Recovery
        } else if self.in_slow_start {
            S::PHASE
        } else {
            Phase::CongestionAvoidance
        }
    }

    fn ssthresh_bytes(&self) -> Option<usize> {
        self.ssthresh_packets.map(|packets| self.to_bytes(packets))
    }

    fn burst_bytes(&self) -> Option<usize> {
        let rtt = self.spacing_rtt()?;
        (!rtt.is_zero()).then_some(DATAGRAMS_PER_INTERVAL * self.max_datagram_size_bytes)
    }

    fn state(&self) -> State {
        let incr_and_status = self.slow_start.incr_and_status();
        State {
            phase: self.phase(),
            window_packets: self.window.packets(),
            ssthresh_bytes: self.ssthresh_bytes(),
            thresholds_packets: (self.options.alpha, self.options.beta),
            base_rtt: self.base_rtt.get(),
            last_round: self.last_round,
            incr_packets: incr_and_status.map(|(incr, _)| incr),
            status: incr_and_status.map(|(_, status)| status),
            pacing_rate_bps: self
                .spacing_rtt()
                .and_then(|rtt| SpikeSuppression::max_rate_bps(rtt, self.window_bytes())),
        }
    }
}
