//! Canter: a short queue judged by delay, as Vegas has it, on every network.
//!
//! Vegas' backlog decides (Brakmo et al. 1994 §3.5). Around it stand answers to what Vegas cannot
//! do: the rate of the flow's own trains ends startup at the right window (`capacity`); checks at
//! half of the window tell a longer path from a queue (`reference`); jitter widens the thresholds
//! (`noise`), and where it hides the queue a larger window is tried (`probe`); losses without a queue
//! are not taken for congestion (`loss`). docs/canter.md explains the whole.

mod capacity;
mod checks;
mod compete;
mod cruise;
mod dip;
mod loss;
mod meter;
mod noise;
mod pacer;
mod probe;
mod ramp;
mod reference;
mod startup;
mod step;

use std::time::{Duration, Instant};

use crate::catalog::Recipe;
use crate::controller::{
    Ack, CongestionMarks, Controller, Figure, Loss, MINIMUM_WINDOW_PACKETS, PacketInfo, PathConfig,
    Phase, SentPacket,
};
use crate::options::{Allowed, Chosen, DefaultValue, OptionSpec, OptionsError};
use crate::pacing::MOST_BYTES_PER_CALL;
use crate::persistent_congestion::PersistentCongestion;
use crate::recovery::Recovery;
use crate::round::{Round, RttMeasure};
use crate::window::bounded;

use capacity::Capacity;
use checks::{Candidate, Check, Reason};
use compete::Competition;
use cruise::{Cruise, Decision};
use dip::DipDetector;
use loss::{Cause, Cut, LossAllowance, QueueAtLoss};
use meter::{Meter, Recent};
use noise::Noise;
use pacer::{Pace, Pacer, host_packets};
use probe::{Answer, Probe, Wait};
use ramp::Ramp;
use reference::Reference;
use startup::{STARTUP_GROWTH, Startup};
use step::StepDetector;

/// Startup ends when the last samples all show so many packets queued, …
const BRAKE_PACKETS: f64 = 20.0;

/// The initial window goes out at once, as it measures the path; a larger one is paced.
const MOST_UNPACED_PACKETS: f64 = 32.0;

/// Packets in a row at the pacer's rate are a train, whatever part of the window they are.
const TRAIN_PACKETS: u32 = 16;

/// Pacing in the steady state: as much faster than the window per RTT as it takes to fill the
/// window; more makes clumps, which look like queues.
const PACING_GAIN: f64 = 1.05;

/// The part of the jitter that α has.
const ALPHA_OF_JITTER: f64 = 0.25;

/// A round tells the spread of RTTs with so many samples, in so many rounds after startup, and if the
/// window grew by less than these packets and this part of the jitter.
const SPREAD_SAMPLES: u32 = 4;
const SETTLED_ROUNDS: u32 = 3;
const STEADY_GROWTH_PACKETS: f64 = 2.5;
const STEADY_GROWTH_OF_JITTER: f64 = 0.25;

/// α is at most this part of the window.
const MOST_ALPHA_OF_WINDOW: f64 = 0.25;

const FAR_BELOW_CAPACITY: f64 = 0.7;

/// While competing, a fall of the RTT by this part is everybody's: a good moment to look at the queue.
const COMMON_DIP: f64 = 0.125;

/// Rounds below α, and the part of the capacity's BDP, that begin startup again.
const LOW_ROUNDS: u32 = 8;
const LOW_PART: f64 = 0.5;
/// The time without a congestion event before that.
const QUIET: Duration = Duration::from_secs(2);

/// A loss leaves at least so many packets, that ACKs and with them RTTs go on.
const LEAST_WINDOW_PACKETS: f64 = 4.0;

/// The tuning of a Canter controller.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    alpha_packets: f64,
    beta_packets: f64,
    /// Beside flows that fill the buffer the window is CUBIC's.
    competes: bool,
    /// Every loss is taken for congestion.
    is_strict: bool,
    initial_window_packets: Option<u64>,
}

impl Recipe for Options {
    const NAME: &'static str = "canter";
    const SUMMARY: &'static str = "a short queue, judged by delay, on every network";
    const OPTIONS: &'static [OptionSpec] = &[
        OptionSpec {
            name: "alpha",
            meaning: "grow below this backlog; jitter raises it",
            unit: "datagrams",
            allowed: Allowed::Number(0.5, 1000.0),
            default: DefaultValue::Number(2.0),
        },
        OptionSpec {
            name: "beta",
            meaning: "shrink above this backlog; at least alpha",
            unit: "datagrams",
            allowed: Allowed::Number(0.5, 1000.0),
            default: DefaultValue::Number(4.0),
        },
        OptionSpec {
            name: "compete",
            meaning: "as much is sent as CUBIC would, beside flows that fill the buffer",
            unit: "",
            allowed: Allowed::Word(&["on", "off"]),
            default: DefaultValue::Word("off"),
        },
        OptionSpec {
            name: "loss",
            meaning: "losses without a queue: tolerated up to 2 %, or as strict as RFC 9002 §7.3",
            unit: "",
            allowed: Allowed::Word(&["tolerate", "strict"]),
            default: DefaultValue::Word("tolerate"),
        },
        OptionSpec {
            name: "initial_window",
            meaning: "the window at the start",
            unit: "datagrams",
            allowed: Allowed::Whole(MINIMUM_WINDOW_PACKETS, 1000),
            default: DefaultValue::Elsewhere("the QUIC stack's"),
        },
    ];

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
            alpha_packets: alpha,
            beta_packets: beta,
            competes: chosen.word("compete") == "on",
            is_strict: chosen.word("loss") == "strict",
            initial_window_packets: chosen.whole("initial_window"),
        })
    }

    fn build(&self, path: &PathConfig) -> Box<dyn Controller> {
        Box::new(Canter::new(*self, path))
    }
}

impl Options {
    /// The defaults with the options that `text` names changed, as in `compete=on`.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] names the option and the values that it takes.
    pub fn parse(text: &str) -> Result<Self, OptionsError> {
        Self::new(&Chosen::defaults(Self::OPTIONS).with(text)?)
    }
}

/// The part of its work that the controller is in.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// Trains, each of which measures the rate for the next.
    Startup(Startup),
    /// Vegas.
    Cruise,
    /// Half of the window, to see the path without the flow's queue.
    Check(Check),
    /// A larger window, to see whether delay is a queue's.
    Probe(Probe),
    /// CUBIC, beside others who fill the buffer.
    Compete,
}

/// The state that a reduction changes.
#[derive(Clone, Copy, Debug)]
struct Before {
    window_packets: f64,
    mode: Mode,
}

/// The Canter congestion controller of one path.
#[derive(Clone, Debug)]
pub struct Canter {
    options: Options,
    max_datagram_size_bytes: usize,
    window_packets: f64,
    /// The window grows up to this limit, by so much for each packet acknowledged.
    limit_packets: f64,
    growth_per_packet: f64,
    mode: Mode,
    cruise: Cruise,
    cruise_rounds: u32,
    /// Rounds whose measurements a change of the window spoiled.
    skipped_rounds: u32,
    /// Startup ended far below what trains had shown.
    checks_early: bool,
    wait: Wait,
    competition: Competition,
    ramp: Ramp,
    window_was_used: bool,
    /// The last packet that was sent with the window in use.
    filled_window: Option<u64>,
    /// The mean RTT of the last round.
    rtt: Duration,
    candidate: Option<Candidate>,
    reference: Reference,
    steps: StepDetector,
    dips: DipDetector,
    capacity: Capacity,
    noise: Noise,
    /// The rate of the last round, in packets per second.
    pps: f64,
    backlog_packets: f64,
    /// A train of startup was lost: the next ones queue less.
    is_gentle: bool,
    has_restarted: bool,
    /// Packets up to this one were sent in startup, at more than its end found right.
    startup_mark: Option<u64>,
    losses: LossAllowance,
    queue_at_loss: QueueAtLoss,
    congested_at: Option<Instant>,
    /// The last cut that may prove a mistake.
    cut: Option<Cut>,
    recovery: Recovery<Before>,
    persistent_congestion: PersistentCongestion,
    round: Round,
    meter: Meter,
    recent: Recent,
    smoothed: Option<Duration>,
    acked_at: Option<Instant>,
    pacing: bool,
    /// The rate since the last event; `None` if packets are not paced.
    pace: Option<Pace>,
    pacer: Pacer,
}

impl Canter {
    /// A controller for a new path.
    pub fn new(options: Options, path: &PathConfig) -> Canter {
        let initial = options.initial_window_packets;
        let window_packets = bounded(initial.unwrap_or(path.initial_window_packets) as f64);
        Canter {
            options,
            max_datagram_size_bytes: path.max_datagram_size_bytes.max(1),
            window_packets,
            limit_packets: window_packets * STARTUP_GROWTH,
            growth_per_packet: STARTUP_GROWTH - 1.0,
            mode: Mode::Startup(Startup::new()),
            cruise: Cruise::default(),
            cruise_rounds: 0,
            skipped_rounds: 0,
            checks_early: false,
            wait: Wait::default(),
            competition: Competition::default(),
            ramp: Ramp::default(),
            window_was_used: false,
            filled_window: None,
            rtt: Duration::ZERO,
            candidate: None,
            reference: Reference::default(),
            steps: StepDetector::default(),
            dips: DipDetector::default(),
            capacity: Capacity::default(),
            noise: Noise::default(),
            pps: 0.0,
            backlog_packets: 0.0,
            is_gentle: false,
            has_restarted: false,
            startup_mark: None,
            losses: LossAllowance::default(),
            queue_at_loss: QueueAtLoss::default(),
            congested_at: None,
            cut: None,
            recovery: Recovery::default(),
            persistent_congestion: PersistentCongestion::default(),
            round: Round::default(),
            meter: Meter::default(),
            recent: Recent::default(),
            smoothed: None,
            acked_at: None,
            pacing: path.pacing,
            pace: None,
            pacer: Pacer::default(),
        }
    }

    fn set_window(&mut self, packets: f64) {
        self.window_packets = bounded(packets);
        self.limit_packets = self.window_packets;
        self.growth_per_packet = 0.0;
    }

    /// Lets the window grow to `limit_packets` over the ACKs of one round.
    fn grow_to(&mut self, limit_packets: f64) {
        self.limit_packets = bounded(limit_packets);
        self.growth_per_packet = match self.mode {
            Mode::Startup(_) => STARTUP_GROWTH - 1.0,
            _ => (limit_packets - self.window_packets) / self.window_packets,
        };
    }

    /// α and β at the present rate and jitter.
    fn thresholds_packets(&self) -> (f64, f64) {
        let Options {
            alpha_packets,
            beta_packets,
            ..
        } = self.options;
        let of_jitter = self.pps * self.noise.jitter_s(self.pps) * ALPHA_OF_JITTER;
        let most = (self.window_packets * MOST_ALPHA_OF_WINDOW).max(alpha_packets);
        let of_host = host_packets(self.pps, self.window_packets);
        let alpha = of_jitter.clamp(alpha_packets, most).max(of_host);
        (alpha, alpha * beta_packets / alpha_packets)
    }

    /// The rate at which packets leave; `None` if they are not paced.
    fn pacing_pps(&self) -> Option<f64> {
        if !self.pacing {
            return None;
        }
        let base_s = self.reference.base_rtt()?.as_secs_f64().max(1e-6);
        let smoothed_s = self.smoothed?.as_secs_f64().max(1e-6);
        match (&self.mode, self.capacity.pps()) {
            (Mode::Startup(_), Some(pps)) => Some(pps * self.train_gain(self.limit_packets)),
            (Mode::Startup(_), None) => {
                let is_first = self.window_packets <= MOST_UNPACED_PACKETS && !self.is_gentle;
                let most = self.limit_packets.max(self.window_packets);
                (!is_first).then_some(2.0 * most / base_s)
            }
            // The window was restored: it must not come back at once.
            _ if self.skipped_rounds > 0 => Some(self.window_packets / base_s),
            _ => Some(PACING_GAIN * self.window_packets / smoothed_s.min(2.0 * base_s)),
        }
    }

    fn set_pace(&mut self) {
        let pps = self.pacing_pps();
        self.pace = pps.map(|pps| Pace::new(pps, self.window_packets));
    }

    /// A round of the steady state ended in which the window was used.
    fn on_cruise_round(&mut self, round: &cruise::Round, is_rising: bool, now: Instant) {
        let holds = self.steps.is_pending()
            || self
                .candidate
                .is_some_and(|candidate| now < candidate.hold_until);
        let low_before = self.cruise.low_rounds();
        let (decision, all) = self.cruise.on_round(round, !holds);
        if let Some(pps) = all {
            self.capacity.set_exact(pps);
        }
        if self.cruise.low_rounds() > low_before {
            let is_stuck = |candidate: &Candidate| candidate.reason == Reason::Stuck;
            self.candidate = self.candidate.filter(is_stuck);
        }
        self.set_window(self.window_packets);
        match decision {
            Decision::Grow(_) if self.losses.is_on_trial() => {}
            Decision::Grow(packets) => {
                self.grow_to(self.window_packets + packets);
                if self.is_far_below_capacity(now) {
                    self.start_again();
                    return;
                }
            }
            Decision::Hold => {}
            Decision::Shrink(packets) => {
                self.set_window(packets);
                self.dips.begin_again();
            }
        }
        let is_full = self.cruise.low_rounds() == 0;
        if is_full
            && self.noise.is_strong(self.pps)
            && self.wait.is_over(self.cruise.full_rounds())
            && self.window_packets >= 2.0 * LEAST_WINDOW_PACKETS
        {
            let spread_packets = self.noise.typical_s() * self.pps;
            self.mode = Mode::Probe(Probe::new(self.window_packets, spread_packets));
            return;
        }
        self.check_if_due(is_rising, now);
    }

    /// Nobody is there, and the window is far below what trains have shown.
    fn is_far_below_capacity(&self, now: Instant) -> bool {
        let is_quiet = self
            .congested_at
            .is_none_or(|at| now.saturating_duration_since(at) > QUIET);
        let bdp = self.capacity.bdp_packets(self.reference.get());
        is_quiet
            && self.cruise.low_rounds() >= LOW_ROUNDS
            && bdp.is_some_and(|bdp| self.window_packets < LOW_PART * bdp)
    }

    /// The RTT rose from one packet to the next and stayed there: the path became longer.
    fn on_longer_path(&mut self, least: Duration) {
        self.reference.move_to(least, least);
        self.start_again();
    }

    fn on_probe_round(&mut self, mut probe: Probe, mean_s: f64, alpha: f64) {
        match probe.on_round(mean_s) {
            Answer::Window(packets) => {
                self.mode = Mode::Probe(probe);
                self.set_window(packets);
            }
            Answer::NoQueue { rtt_s } => {
                let extra_s = rtt_s - self.reference.seconds() - 0.5 * alpha / self.pps.max(1.0);
                // More than jitter explains is a queue of others, who made way for the probe.
                if extra_s >= self.noise.most_extra_s() {
                    self.end_probe(probe.window_packets());
                    return;
                }
                self.noise.set_extra_s(extra_s);
                self.wait.on_no_queue();
                let next = probe.next(self.window_packets);
                self.set_window(next.window_packets());
                self.mode = Mode::Probe(next);
            }
            Answer::Queue { window_packets } => self.end_probe(window_packets),
        }
    }

    fn end_probe(&mut self, window_packets: f64) {
        self.mode = Mode::Cruise;
        self.set_window(window_packets);
        self.wait.on_queue();
        self.cruise.begin_again();
    }

    /// A round trip ended without a recent reduction.
    fn on_round(&mut self, meter: &Meter, window_used: bool, now: Instant) {
        let began = meter.began.unwrap_or(now);
        let passed_s = now.saturating_duration_since(began).as_secs_f64();
        if passed_s > 0.0 {
            self.pps = meter.acked / passed_s;
        }
        let is_path_full = self.is_path_full();
        let goes_on = self
            .losses
            .on_round(meter.acked, meter.lost, passed_s, is_path_full);
        self.undo_mistaken_cut(goes_on);
        let Some(least) = meter.least else { return };
        let mean = meter.sum / meter.samples;
        self.dips.on_round(least);
        self.rtt = mean;
        if meter.samples >= 2 {
            self.reference.on_round(mean);
        }
        let base_s = self.reference.seconds();
        if let Some(candidate) = &mut self.candidate {
            candidate.low = candidate.low.min(least);
            candidate.high = candidate.high.max(least);
        }
        let jitter_packets = self.pps * self.noise.jitter_s(self.pps);
        let most_growth = STEADY_GROWTH_PACKETS + jitter_packets * STEADY_GROWTH_OF_JITTER;
        let stood_still = self.window_packets - meter.window_packets < most_growth;
        let is_steady = matches!(self.mode, Mode::Cruise | Mode::Probe(_));
        if is_steady && self.cruise_rounds >= SETTLED_ROUNDS && self.skipped_rounds == 0 {
            if meter.samples >= SPREAD_SAMPLES && stood_still {
                let spread_s = meter.most.saturating_sub(least).as_secs_f64();
                self.noise.on_steady_round(spread_s, base_s);
            }
            self.noise.fade(passed_s);
        }
        let slack_s = self.noise.slack_s(self.pps);
        let queue_s = mean.saturating_sub(self.reference.get()).as_secs_f64() - slack_s;
        let queue_s = queue_s.max(0.0);
        self.backlog_packets = (self.pps * queue_s).min(self.window_packets);
        let (alpha, beta) = self.thresholds_packets();
        match self.mode {
            Mode::Startup(startup) => {
                if let Some(train) = meter.train.dispersion() {
                    let is_known = self.capacity.pps().is_some();
                    let in_doubt = !is_known || !(self.is_gentle || self.has_restarted);
                    self.capacity
                        .on_round(&train, startup.acked_gain, self.pps, in_doubt);
                }
                if window_used {
                    self.on_startup_round(startup, meter, least, now);
                }
            }
            Mode::Check(mut check) => {
                let seen = check.on_round();
                self.mode = Mode::Check(check);
                if let Some(seen) = seen {
                    self.finish_check(check, seen, now);
                }
            }
            Mode::Compete => self.on_compete_round(least, now),
            Mode::Cruise | Mode::Probe(_) => {
                self.cruise_rounds = self.cruise_rounds.saturating_add(1);
                let rate = self.capacity.pps().unwrap_or(self.pps).max(self.pps);
                let is_rising = self.options.competes
                    && !self.steps.is_pending()
                    && self
                        .ramp
                        .on_round(now, least, self.window_packets, rate, base_s);
                if self.skipped_rounds > 0 {
                    self.skipped_rounds -= 1;
                } else if !window_used {
                    self.set_window(self.window_packets);
                } else if let Some(pps) = self.competition.is_back(now, queue_s, beta) {
                    let before = pps * mean.as_secs_f64();
                    self.begin_competition(self.window_packets, before, now);
                } else if let Mode::Probe(probe) = self.mode {
                    self.on_probe_round(probe, mean.as_secs_f64(), alpha);
                } else {
                    let round = cruise::Round {
                        began_packets: meter.window_packets,
                        window_packets: self.window_packets,
                        rtt_s: mean.as_secs_f64(),
                        queue_s,
                        backlog_packets: self.backlog_packets,
                        alpha_packets: alpha,
                        beta_packets: beta,
                        pps: self.pps,
                        jitter_packets,
                    };
                    self.on_cruise_round(&round, is_rising, now);
                }
            }
        }
    }

    /// Lets the window grow by what was acknowledged, unless the last RTTs say otherwise.
    fn grow(&mut self, acked: f64, now: Instant) {
        if matches!(self.mode, Mode::Compete) {
            if self.window_was_used && !self.competition.is_draining() {
                let rtt = self.smoothed.unwrap_or_default();
                let window = self.competition.grow(self.window_packets, acked, now, rtt);
                self.set_window(window);
            }
            return;
        }
        if self.growth_per_packet <= 0.0 || self.window_packets >= self.limit_packets {
            return;
        }
        let reference = self.reference.get();
        let (alpha, beta) = self.thresholds_packets();
        let queued = |pps: f64, base: Duration| {
            let least = self.recent.least().unwrap_or_default();
            pps * least.saturating_sub(base).as_secs_f64()
        };
        match self.mode {
            Mode::Startup(startup) => {
                let pps = self.capacity.pps().unwrap_or(self.pps);
                let brake = BRAKE_PACKETS + pps * self.noise.jitter_s(self.pps);
                if queued(pps, reference.max(startup.least.unwrap_or_default())) > brake {
                    let rtt_s = self.smoothed.unwrap_or_default().as_secs_f64().max(1e-6);
                    let window = self.window_packets * reference.as_secs_f64() / rtt_s + alpha;
                    let window = window.max(LEAST_WINDOW_PACKETS).min(self.window_packets);
                    self.disbelieve_trains(window);
                    self.leave_startup(window, now, false);
                    return;
                }
            }
            _ => {
                let brake = beta + self.pps * self.noise.slack_s(self.pps);
                if self.cruise.is_fast() && queued(self.pps, reference) > brake {
                    self.set_window(self.window_packets);
                    return;
                }
            }
        }
        let grown = self.window_packets + acked * self.growth_per_packet;
        self.window_packets = bounded(grown.min(self.limit_packets));
    }

    /// The path may be another one: BaseRTT begins anew (RFC 9002 §5.2), and so does startup.
    fn on_persistent_congestion(&mut self) {
        self.reference = Reference::default();
        self.set_window(0.0);
        self.start_again();
        self.round.restart();
        self.meter = Meter::default();
        self.recovery.end();
    }

    fn to_bytes(&self, packets: f64) -> usize {
        // A window that grew by parts of a packet is whole again within rounding.
        ((packets + 1e-6) as usize).saturating_mul(self.max_datagram_size_bytes)
    }
}

impl Controller for Canter {
    fn on_packet_sent(&mut self, packet: &SentPacket) {
        let is_idle = packet.bytes_in_flight == 0
            && self.acked_at.is_none_or(|at| {
                let idle = packet.time_sent.saturating_duration_since(at);
                idle > self.smoothed.unwrap_or_default()
            });
        if is_idle {
            self.round.restart();
            self.meter = Meter {
                window_packets: self.meter.window_packets,
                ..Meter::default()
            };
        }
        self.recovery.on_packet_sent(packet.packet_number);
        let mut used = packet.fills(self.window_bytes() / 2, self.max_datagram_size_bytes);
        if let Some(pace) = &self.pace {
            let kept_pace = self.pacer.on_packet_sent(packet.time_sent, pace);
            self.meter.paced = self.meter.paced.saturating_add(u32::from(kept_pace));
            // A train that the pacer spread over the round is one that used the window.
            let is_startup = matches!(self.mode, Mode::Startup(_));
            used |= is_startup && self.meter.paced >= TRAIN_PACKETS;
        }
        if used {
            self.filled_window = self.filled_window.max(Some(packet.packet_number));
        }
        self.round.on_packet_sent(packet.packet_number, used);
    }

    fn on_packets_acked(&mut self, ack: &Ack, packets: &[PacketInfo]) {
        self.on_ack(ack, packets);
        self.set_pace();
    }

    fn on_packets_lost(&mut self, loss: &Loss, packets: &[PacketInfo]) {
        let is_queue_full = self.queue_at_loss.on_loss(self.pps);
        for packet in packets {
            if packet.size_bytes > 0 {
                self.meter.lost += 1.0;
            }
            let is_new = self.recovery.is_after(packet.packet_number)
                && (self.options.is_strict || self.startup_mark < Some(packet.packet_number));
            if is_new && let Some(cause) = self.cause_of_loss(is_queue_full) {
                self.on_congestion(packet.packet_number, loss.now, cause);
            }
            self.recovery.on_packet_lost(packet.packet_number);
        }
        if self.persistent_congestion.on_packets_lost(loss, packets) {
            self.on_persistent_congestion();
        }
        self.set_pace();
    }

    fn on_spurious_loss(&mut self, _now: Instant, packets: &[PacketInfo]) {
        if let Some(before) = self.recovery.on_spurious_loss(packets) {
            self.set_window(before.window_packets.max(self.window_packets));
            self.mode = match before.mode {
                Mode::Startup(_) | Mode::Compete => before.mode,
                _ => Mode::Cruise,
            };
            self.set_pace();
        }
    }

    fn on_congestion_marks(&mut self, marks: &CongestionMarks) {
        if self.recovery.is_after(marks.largest_acked) {
            self.on_congestion(marks.largest_acked, marks.now, Cause::Mark);
            self.set_pace();
        } else {
            self.recovery.make_final();
        }
    }

    fn on_cwnd_limited(&mut self, _now: Instant) {
        self.round.on_window_used();
        self.filled_window = self.filled_window.max(self.recovery.largest_sent());
    }

    fn on_mtu_update(&mut self, max_datagram_size_bytes: usize) {
        if max_datagram_size_bytes > 0 {
            self.max_datagram_size_bytes = max_datagram_size_bytes;
        }
    }

    fn window_bytes(&self) -> usize {
        self.to_bytes(self.window_packets)
    }

    fn ssthresh_bytes(&self) -> Option<usize> {
        match self.mode {
            Mode::Startup(_) => None,
            _ => Some(self.window_bytes()),
        }
    }

    fn next_release_time(&self) -> Option<Instant> {
        self.pacer.next_release_time()
    }

    fn pacing_rate_bps(&self) -> Option<f64> {
        let bits = self.max_datagram_size_bytes as f64 * 8.0;
        self.pace.map(|pace| pace.pps * bits)
    }

    fn burst_bytes(&self) -> Option<usize> {
        let packets = self.pace?.burst_packets as usize;
        let in_one_call = MOST_BYTES_PER_CALL / self.max_datagram_size_bytes;
        Some(packets.min(in_one_call.max(1)) * self.max_datagram_size_bytes)
    }

    fn phase(&self) -> Phase {
        if self.recovery.is_under_way() {
            Phase::Recovery
        } else if matches!(self.mode, Mode::Startup(_)) {
            Phase::SlowStart
        } else {
            Phase::CongestionAvoidance
        }
    }

    fn phase_name(&self) -> &'static str {
        match self.mode {
            _ if self.recovery.is_under_way() => Phase::Recovery.as_str(),
            Mode::Startup(_) => "startup",
            Mode::Cruise => "cruise",
            Mode::Check(_) => "check",
            Mode::Probe(_) => "probe",
            Mode::Compete => "compete",
        }
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        let (alpha, beta) = self.thresholds_packets();
        sink(Figure::packets("canter_alpha_packets", alpha));
        sink(Figure::packets("canter_beta_packets", beta));
        sink(Figure::packets(
            "canter_backlog_packets",
            self.backlog_packets,
        ));
        let slack = Duration::from_secs_f64(self.noise.slack_s(self.pps));
        sink(Figure::ms("canter_slack_ms", slack));
        if let Some(base_rtt) = self.reference.base_rtt() {
            sink(Figure::ms("canter_base_rtt_ms", base_rtt));
            sink(Figure::ms("canter_reference_rtt_ms", self.reference.get()));
        }
        if let Some(pps) = self.capacity.pps() {
            let bits = self.max_datagram_size_bytes as f64 * 8.0;
            sink(Figure::bps("canter_capacity_bps", pps * bits));
        }
    }
}

impl Canter {
    /// Takes an ACK frame in.
    fn on_ack(&mut self, ack: &Ack, packets: &[PacketInfo]) {
        let Some(largest) = packets.last() else {
            return;
        };
        let mut acked = 0.0;
        for packet in packets {
            self.persistent_congestion.on_packet_acked(packet);
            if packet.size_bytes > 0 {
                acked += 1.0;
            }
        }
        self.smoothed = Some(ack.rtt.smoothed);
        self.acked_at = Some(ack.now);
        let ack_delay = ack.ack_delay.unwrap_or_default().min(ack.rtt.max_ack_delay);
        let sample = (ack.measures_rtt && largest.size_bytes > 0).then(|| {
            self.persistent_congestion.on_rtt_sample(ack.now);
            let measured = ack.now.saturating_duration_since(largest.time_sent);
            let is_full = largest.size_bytes * 10 >= self.max_datagram_size_bytes * 9;
            let rtt = self
                .reference
                .on_sample(ack.now, measured, ack_delay, is_full, self.pps);
            // A false delay must not hide the queue that drops packets.
            let base_rtt = self.reference.base_rtt().unwrap_or(measured);
            self.queue_at_loss
                .on_sample(measured.saturating_sub(base_rtt).as_secs_f64());
            rtt
        });
        if self.persistent_congestion.take(&ack.rtt) {
            self.on_persistent_congestion();
            return;
        }
        let was_recovering = self.recovery.is_under_way();
        self.recovery.on_acked(largest.packet_number);
        if let Some(rtt) = sample {
            self.on_sample(rtt, largest.packet_number, ack.now);
        }
        let window_used = self
            .round
            .on_acked(largest.packet_number, None, RttMeasure::Mean)
            .map(|round| round.window_used);
        if let Some(window_used) = window_used {
            let meter = self.meter;
            self.window_was_used = window_used;
            if !was_recovering && meter.began.is_some() {
                self.on_round(&meter, window_used, ack.now);
            }
            self.meter = Meter {
                began: Some(ack.now),
                window_packets: self.window_packets,
                ..Meter::default()
            };
        }
        self.meter.acked += acked;
        self.losses.on_acked(acked, self.window_packets);
        if let Some(rtt) = sample {
            self.meter.on_sample(rtt);
        }
        if let Mode::Startup(startup) = &self.mode {
            let delivered = ack.now.checked_sub(ack_delay).unwrap_or(ack.now);
            let train = &mut self.meter.train;
            train.on_acked(largest.time_sent, delivered, acked);
            if let Some(train) = train.dispersion() {
                self.capacity.on_train(&train, startup.acked_gain, self.pps);
            }
        }
        // RFC 9002 §7.8.
        if !was_recovering && self.filled_window >= Some(largest.packet_number) {
            self.grow(acked, ack.now);
        }
    }

    /// Takes an RTT in, without the peer's delay.
    fn on_sample(&mut self, rtt: Duration, packet_number: u64, now: Instant) {
        self.recent.add(rtt);
        match &mut self.mode {
            Mode::Check(check) => {
                if let Some(seen) = check.on_sample(rtt) {
                    let check = *check;
                    self.finish_check(check, seen, now);
                }
            }
            Mode::Startup(_) => {}
            Mode::Compete => {
                if !self.competition.is_draining()
                    && self.dips.is_dip(rtt, rtt.as_secs_f64() * COMMON_DIP)
                {
                    self.begin_drain(now);
                }
            }
            Mode::Cruise | Mode::Probe(_) => {
                let step = self.steps.on_sample(
                    rtt,
                    packet_number,
                    self.recovery.largest_sent().unwrap_or_default(),
                    self.pps,
                    self.reference.seconds(),
                    self.noise.typical_s(),
                );
                if let Some(least) = step {
                    self.on_longer_path(least);
                } else if matches!(self.mode, Mode::Cruise) && self.may_join_check(rtt, now) {
                    self.begin_check(Reason::Stale);
                }
            }
        }
    }
}
