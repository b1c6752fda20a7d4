//! TCP Vegas: congestion is detected by delay, before packets are lost (Brakmo et al. 1994 §3).
//!
//! Of the paper's five techniques, two need no code here, since QUIC has them: every packet has its
//! own exact send time (§3.1), and RFC 9002's time and packet thresholds decide at the first ACK
//! whether an earlier packet is lost (§3.2). The other three are the single decrease per congested
//! window (§3.3), spike suppression (§3.4) and congestion detection (§3.5).

use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::base_rtt::BaseRtt;
use crate::catalog::Recipe;
use crate::controller::{
    Ack, CongestionMarks, Controller, Figure, Loss, MAXIMUM_WINDOW_PACKETS, MINIMUM_WINDOW_PACKETS,
    PacketInfo, PathConfig, Phase, SentPacket,
};
use crate::options::{Allowed, Chosen, DefaultValue, OptionSpec, OptionsError};
use crate::pacing::{Interval, SpikeSuppression, host_packets};
use crate::persistent_congestion::PersistentCongestion;
use crate::recovery::Recovery;
use crate::round::{CompleteRound, Round, RttMeasure};
use crate::window::Window;

/// The search for the first available window.
///
/// It is asked once per round until it answers [`Decision::Leave`], and again after persistent
/// congestion, from its default state.
pub trait SlowStart: Copy + Debug + Default + Send + Sync + 'static {
    /// The name of a controller with this slow start.
    const CONTROLLER: &'static str;
    /// One line about that controller.
    const SUMMARY: &'static str;
    /// The options of that controller (`options` makes them).
    const OPTIONS: &'static [OptionSpec];
    /// The phase's name in traces while slow start lasts.
    const PHASE: &'static str;

    /// A round in which the window was used has ended.
    fn on_round(&mut self, round: &RoundEnd, thresholds: &Thresholds) -> Decision;

    /// True once if congestion avoidance is to leave the window alone at its first decision.
    fn skips_first_decision(&mut self) -> bool {
        false
    }

    /// `incr` and `status` of Ho et al. 2006, if the slow start has them.
    fn incr_and_status(&self) -> Option<(u64, u8)> {
        None
    }
}

/// The thresholds of the backlog, in datagrams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// α: below this backlog the window grows by one datagram a round (Brakmo et al. 1994 §3.5.2).
    pub alpha: f64,
    /// β: above this backlog the window shrinks by one datagram a round (Brakmo et al. 1994
    /// §3.5.2).
    pub beta: f64,
    /// γ: above this backlog slow start ends (Brakmo et al. 1994 §3.5.3) or brakes (Ho et al. 2006
    /// §III.B).
    pub gamma: f64,
}

impl Thresholds {
    /// The thresholds where a backlog of so many packets may be the host's.
    fn above_host(self, host_packets: f64) -> Thresholds {
        Thresholds {
            alpha: self.alpha.max(host_packets),
            beta: self.beta.max(2.0 * host_packets),
            gamma: self.gamma.max(2.0 * host_packets),
        }
    }
}

/// The tuning of a Vegas controller with slow start `S`.
#[derive(Clone, Copy, Debug)]
pub struct Options<S> {
    thresholds: Thresholds,
    /// The part of the window that a loss leaves.
    decrease: f64,
    /// The initial window; `None` takes the QUIC stack's.
    initial_window_packets: Option<u64>,
    rtt: RttMeasure,
    /// Bursts and thresholds stand above what a host can time.
    allows_for_host: bool,
    slow_start: S,
}

/// The options of a controller of this family with these thresholds by default.
pub(crate) const fn options(alpha: f64, beta: f64, gamma: DefaultValue) -> [OptionSpec; 7] {
    const BACKLOG: OptionSpec = OptionSpec {
        name: "",
        meaning: "",
        unit: "datagrams",
        allowed: Allowed::Number(0.0, 1000.0),
        default: DefaultValue::Number(0.0),
    };
    [
        OptionSpec {
            name: "alpha",
            meaning: "grow below this backlog",
            default: DefaultValue::Number(alpha),
            ..BACKLOG
        },
        OptionSpec {
            name: "beta",
            meaning: "shrink above this backlog; at least alpha",
            default: DefaultValue::Number(beta),
            ..BACKLOG
        },
        OptionSpec {
            name: "gamma",
            meaning: "leave slow start, or brake in stable growth, above this backlog",
            default: gamma,
            ..BACKLOG
        },
        OptionSpec {
            name: "decrease",
            meaning: "the part of the window that a loss leaves",
            unit: "",
            allowed: Allowed::NumberBetween(0.0, 1.0),
            // Boyden et al. 2007 §II.
            default: DefaultValue::Number(0.75),
        },
        OptionSpec {
            name: "initial_window",
            meaning: "the window at the start",
            unit: "datagrams",
            allowed: Allowed::Whole(MINIMUM_WINDOW_PACKETS, MAXIMUM_WINDOW_PACKETS),
            default: DefaultValue::Elsewhere("the QUIC stack's"),
        },
        OptionSpec {
            name: "rtt",
            meaning: "the sample that a round's RTT is",
            unit: "",
            allowed: Allowed::Word(&["mean", "min", "last"]),
            default: DefaultValue::Word("mean"),
        },
        OptionSpec {
            name: "host",
            meaning: "delay of 0.1 ms: the host's, or the network's as in the papers",
            unit: "",
            allowed: Allowed::Word(&["allow", "strict"]),
            default: DefaultValue::Word("allow"),
        },
    ]
}

impl<S: SlowStart> Recipe for Options<S> {
    const NAME: &'static str = S::CONTROLLER;
    const SUMMARY: &'static str = S::SUMMARY;
    const OPTIONS: &'static [OptionSpec] = S::OPTIONS;

    fn new(chosen: &Chosen) -> Result<Self, OptionsError> {
        let [alpha, beta] = ["alpha", "beta"].map(|name| chosen.number(name));
        if alpha > beta {
            return Err(OptionsError::Above {
                name: "alpha",
                value: alpha,
                bound: "beta",
                most: beta,
            });
        }
        Ok(Options {
            thresholds: Thresholds {
                alpha,
                beta,
                // Both are 1 in Ho et al. 2006.
                gamma: chosen.number_if_any("gamma").unwrap_or(alpha),
            },
            decrease: chosen.number("decrease"),
            initial_window_packets: chosen.whole("initial_window"),
            rtt: match chosen.word("rtt") {
                "min" => RttMeasure::Min,
                "last" => RttMeasure::Last,
                _ => RttMeasure::Mean,
            },
            allows_for_host: chosen.word("host") == "allow",
            slow_start: S::default(),
        })
    }

    fn build(&self, path: &PathConfig) -> Box<dyn Controller> {
        Box::new(Vegas::new(*self, path))
    }
}

impl<S: SlowStart> Options<S> {
    /// The defaults with the options that `text` names changed, as in `alpha=1,beta=3`.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] names the option and the values that it takes.
    pub fn parse(text: &str) -> Result<Self, OptionsError> {
        Self::new(&Chosen::defaults(S::OPTIONS).with(text)?)
    }

    /// The thresholds of the backlog.
    pub fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    /// The part of the window that a loss leaves.
    pub fn decrease(&self) -> f64 {
        self.decrease
    }
}

/// The result of a round, as slow start sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundEnd {
    /// ∆, the backlog in whole datagrams.
    pub backlog_packets: f64,
    /// The window.
    pub window_packets: u64,
    /// The growth of the window in this round.
    pub gained_packets: u64,
}

/// The decision of slow start.
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

/// Vegas' own slow start: doubling every other round (Brakmo et al. 1994 §3.5.3).
///
/// In between, the window stays as it is so that expected and actual rate can be compared; when
/// they differ by more than γ, one eighth of the window is given back (Ho et al. 2006 §II). From a
/// window of two: 2, 2, 4, 4, 8, 8 … (Ho et al. 2006 Table 2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Doubling {
    /// True if the window was the same in this round as in the one that its RTTs were measured in.
    comparable: bool,
}

impl SlowStart for Doubling {
    const CONTROLLER: &'static str = "vegas";
    const SUMMARY: &'static str =
        "TCP Vegas: a few datagrams queued, judged by delay (Brakmo et al. 1994)";
    /// Two to four datagrams queued (Brakmo et al. 1994 §3.5.2).
    ///
    /// NOTE: Ho et al. 2006 §V has γ = 1 and, to compare, γ = 3. A window that doubles over one
    /// round trip queues a part of itself at the bottleneck, however much room the path has: QUIC's
    /// ten datagrams (RFC 9002 §7.2), doubled, show a backlog of 3 on a path that holds 28. γ = 2
    /// would end slow start there, at 18 (docs/algorithms.md).
    const OPTIONS: &'static [OptionSpec] = &options(2.0, 4.0, DefaultValue::Number(3.0));
    const PHASE: &'static str = Phase::SlowStart.as_str();

    fn on_round(&mut self, round: &RoundEnd, thresholds: &Thresholds) -> Decision {
        if !self.comparable {
            self.comparable = true;
            return Decision::Grow(0);
        }
        if round.backlog_packets > thresholds.gamma {
            return Decision::Leave {
                shrink: round.window_packets / 8,
                grow: 0,
            };
        }
        self.comparable = false;
        Decision::Grow(round.window_packets)
    }
}

/// The Vegas congestion controller of one path, with slow start `S`.
#[derive(Clone, Debug)]
pub struct Vegas<S> {
    options: Options<S>,
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
    recovery: Recovery<Before>,
    persistent_congestion: PersistentCongestion,
    pacing: bool,
    smoothed_rtt: Option<Duration>,
    spike_suppression: SpikeSuppression,
}

/// The state that a decrease for a loss changes.
#[derive(Clone, Copy, Debug)]
struct Before {
    window_packets: u64,
    ssthresh_packets: Option<u64>,
    in_slow_start: bool,
}

/// The state of a Vegas controller at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// The part of its work that the controller is in.
    pub phase: Phase,
    /// The congestion window, in datagrams.
    pub window_packets: u64,
    /// The slow start threshold, in bytes, once slow start was left.
    pub ssthresh_bytes: Option<usize>,
    /// BaseRTT, the smallest RTT seen on the path.
    pub base_rtt: Option<Duration>,
    /// The measurements of the last complete round.
    pub last_round: Option<RoundState>,
    /// `incr`, the increment of stable growth, in datagrams (Ho et al. 2006 §III.B).
    pub incr_packets: Option<u64>,
    /// `status`, the outcome of the previous round's comparison (Ho et al. 2006 Table 1).
    pub status: Option<u8>,
}

/// The measurements of a round (Brakmo et al. 1994 §3.5.2).
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

impl<S: SlowStart> Vegas<S> {
    /// A controller for a new path.
    ///
    /// # Panics
    ///
    /// If the maximum datagram size is zero.
    pub fn new(options: Options<S>, path: &PathConfig) -> Self {
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
            slow_start: options.slow_start,
            in_slow_start: true,
            window_is_initial: true,
            base_rtt: BaseRtt::default(),
            round: Round::default(),
            last_round: None,
            recovery: Recovery::default(),
            persistent_congestion: PersistentCongestion::default(),
            pacing: path.pacing,
            smoothed_rtt: None,
            spike_suppression: SpikeSuppression::default(),
        }
    }

    /// The state for a test or an operator to look at.
    pub fn state(&self) -> State {
        let incr_and_status = self.slow_start.incr_and_status();
        State {
            phase: self.phase(),
            window_packets: self.window.packets(),
            ssthresh_bytes: self.ssthresh_bytes(),
            base_rtt: self.base_rtt.get(),
            last_round: self.last_round,
            incr_packets: incr_and_status.map(|(incr, _)| incr),
            status: incr_and_status.map(|(_, status)| status),
        }
    }

    fn to_bytes(&self, packets: u64) -> usize {
        usize::try_from(packets)
            .unwrap_or(usize::MAX)
            .saturating_mul(self.max_datagram_size_bytes)
    }

    /// True if a packet is as large as the path allows, but for a tenth that an ACK frame or a
    /// frame that does not fit may cost.
    fn is_full(&self, size_bytes: usize) -> bool {
        size_bytes.saturating_mul(10) >= self.max_datagram_size_bytes.saturating_mul(9)
    }

    /// The thresholds at this RTT.
    ///
    /// NOTE: in Brakmo et al. 1994 §3.5.2 they are numbers of packets at any rate. From 0.24 Gbit/s on
    /// that is less time than packets wait in the host, which says nothing about the network.
    fn thresholds(&self, rtt: Duration) -> Thresholds {
        let thresholds = self.options.thresholds;
        if self.options.allows_for_host && !rtt.is_zero() {
            thresholds.above_host(host_packets(rtt, self.window.packets()))
        } else {
            thresholds
        }
    }

    /// The RTT that datagrams are spaced over, while spike suppression is on.
    ///
    /// It is off in slow start: doubling needs two datagrams per ACK (Brakmo et al. 1994 §3.4), and
    /// stable growth is smooth without it, since its increment is small beside the window (Ho et
    /// al. 2006 §III.B); spacing would hide the short queue that each increment builds, by which
    /// the available window is seen to come near.
    fn spacing_rtt(&self) -> Option<Duration> {
        self.smoothed_rtt
            .filter(|_| self.pacing && !self.in_slow_start)
    }

    /// Measures and decides, once per round (Brakmo et al. 1994 §3.5.2).
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
        // NOTE: Brakmo et al. 1994 and Ho et al. 2006 leave open whether ∆ is a whole number. In
        // whole packets, rounded to nearest, the simulations of Ho et al. come out; with fractions
        // the same needs γ = 1.5, β = 2.5.
        let backlog_packets = measured.backlog_packets.round();
        let thresholds = self.thresholds(rtt);

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
            match self.slow_start.on_round(&round, &thresholds) {
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
        } else if backlog_packets < thresholds.alpha {
            self.window.grow(1, sent_packets);
        } else if backlog_packets > thresholds.beta {
            self.window.shrink(1);
        } else {
            self.window.hold();
        }
    }

    /// Expected and actual rate and the backlog `W · (D − d) / D` (Ho et al. 2006 equation 1).
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

    /// One decrease for all losses of a window (Brakmo et al. 1994 §3.3). It can be undone if
    /// losses alone are its reason.
    fn on_congestion(&mut self, packet_number: u64, can_be_undone: bool) {
        let before = Before {
            window_packets: self.window.packets(),
            ssthresh_packets: self.ssthresh_packets,
            in_slow_start: self.in_slow_start,
        };
        self.recovery
            .begin(packet_number, can_be_undone.then_some(before));
        // NOTE: ns-2's Vegas, which Ho et al. 2006 used, goes on doubling after a loss in slow
        // start; their §V.B shows the second burst of losses that this brings. QUIC leaves slow
        // start (RFC 9002 §7.3.1).
        self.in_slow_start = false;
        self.window = Window::new((before.window_packets as f64 * self.options.decrease) as u64);
        self.ssthresh_packets = Some(self.window.packets());
        self.round.restart();
    }

    /// As after TCP's retransmission timeout (Ho et al. 2006 §III.C; RFC 9002 §7.6.2).
    fn on_persistent_congestion(&mut self) {
        self.window = Window::new(0);
        self.slow_start = self.options.slow_start;
        self.in_slow_start = true;
        self.round.restart();
        self.recovery.end();
    }
}

/// The time over which datagrams leave together.
fn interval(rtt: Duration, window_packets: u64, allows_for_host: bool) -> Interval {
    if allows_for_host {
        Interval::of_host(rtt, window_packets)
    } else {
        Interval::of_paper(rtt, window_packets)
    }
}

impl<S: SlowStart> Controller for Vegas<S> {
    fn on_packet_sent(&mut self, packet: &SentPacket) {
        if packet.bytes_in_flight == 0 {
            // After an idle period the round in progress is stale.
            self.round.restart();
            self.window.hold();
        }
        self.recovery.on_packet_sent(packet.packet_number);
        let fills_window = packet.fills(self.window_bytes(), self.max_datagram_size_bytes);
        self.round
            .on_packet_sent(packet.packet_number, fills_window);
        if let Some(rtt) = self.spacing_rtt() {
            let (window, allows_for_host) = (&self.window, self.options.allows_for_host);
            self.spike_suppression.on_packet_sent(
                packet.time_sent,
                packet.size_bytes,
                self.max_datagram_size_bytes,
                || interval(rtt, window.packets(), allows_for_host),
            );
        }
    }

    fn on_packets_acked(&mut self, ack: &Ack, packets: &[PacketInfo]) {
        let Some(largest) = packets.last() else {
            return;
        };
        let (mut acked, mut acked_of_next_round) = (0, 0);
        for packet in packets {
            self.persistent_congestion.on_packet_acked(packet);
            if packet.size_bytes > 0 {
                if self.round.ends_at(packet.packet_number) {
                    acked_of_next_round += 1;
                } else {
                    acked += 1;
                }
            }
        }
        self.smoothed_rtt = Some(ack.rtt.smoothed);
        // Packets that elicit no acknowledgment wait for the next one that does: no RTT.
        let sample = (ack.measures_rtt && largest.size_bytes > 0).then(|| {
            self.persistent_congestion.on_rtt_sample(ack.now);
            let measured = ack.now.saturating_duration_since(largest.time_sent);
            let ack_delay = ack.ack_delay.unwrap_or_default().min(ack.rtt.max_ack_delay);
            self.base_rtt
                .on_sample(measured, ack_delay, self.is_full(largest.size_bytes))
        });
        if self.persistent_congestion.take(&ack.rtt) {
            self.on_persistent_congestion();
            return;
        }

        let in_recovery = self.recovery.is_under_way();
        self.recovery.on_acked(largest.packet_number);
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

    fn on_spurious_loss(&mut self, _now: Instant, packets: &[PacketInfo]) {
        let Some(before) = self.recovery.on_spurious_loss(packets) else {
            return;
        };
        self.window = Window::new(before.window_packets.max(self.window.packets()));
        self.ssthresh_packets = before.ssthresh_packets;
        self.in_slow_start = before.in_slow_start;
        self.round.restart();
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
        self.round.on_window_used();
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
            if let Some(before) = self.recovery.saved_mut() {
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
        if self.recovery.is_under_way() {
            Phase::Recovery
        } else if self.in_slow_start {
            Phase::SlowStart
        } else {
            Phase::CongestionAvoidance
        }
    }

    fn phase_name(&self) -> &'static str {
        match self.phase() {
            Phase::SlowStart => S::PHASE,
            phase => phase.as_str(),
        }
    }

    fn ssthresh_bytes(&self) -> Option<usize> {
        self.ssthresh_packets.map(|packets| self.to_bytes(packets))
    }

    fn pacing_rate_bps(&self) -> Option<f64> {
        self.spacing_rtt()
            .and_then(|rtt| SpikeSuppression::max_rate_bps(rtt, self.window_bytes()))
    }

    fn burst_bytes(&self) -> Option<usize> {
        let rtt = self.spacing_rtt()?;
        (!rtt.is_zero()).then(|| {
            interval(rtt, self.window.packets(), self.options.allows_for_host)
                .burst_bytes(self.max_datagram_size_bytes)
        })
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        let rtt = self.last_round.map_or(Duration::ZERO, |round| round.rtt);
        let Thresholds { alpha, beta, .. } = self.thresholds(rtt);
        sink(Figure::packets("vegas_alpha_packets", alpha));
        sink(Figure::packets("vegas_beta_packets", beta));
        if let Some(base_rtt) = self.base_rtt.get() {
            sink(Figure::ms("vegas_base_rtt_ms", base_rtt));
        }
        if let Some(round) = self.last_round {
            sink(Figure::ms("vegas_round_rtt_ms", round.rtt));
            sink(Figure::bps("vegas_expected_bps", round.expected_bps));
            sink(Figure::bps("vegas_actual_bps", round.actual_bps));
            sink(Figure::packets(
                "vegas_backlog_packets",
                round.backlog_packets,
            ));
        }
        if let Some((incr, status)) = self.slow_start.incr_and_status() {
            sink(Figure::packets("vegas_incr_packets", incr as f64));
            sink(Figure::one("vegas_status", f64::from(status)));
        }
    }
}
