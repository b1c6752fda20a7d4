//! Copa: a target rate set by the queueing delay (Arun and Balakrishnan 2018).

use std::time::{Duration, Instant};

use crate::catalog::Recipe;
use crate::controller::{
    Ack, CongestionMarks, Controller, Figure, Loss, MAXIMUM_WINDOW_PACKETS, PacketInfo, PathConfig,
    Phase, SentPacket,
};
use crate::options::{Allowed, Chosen, DefaultValue, OptionSpec, OptionsError};
use crate::pacing::{Interval, SpikeSuppression};
use crate::persistent_congestion::PersistentCongestion;
use crate::recovery::Recovery;
use crate::round::{Round, RttMeasure};
use crate::window::bounded;

/// The time over which RTTmin is the smallest RTT (§2.1).
const RTT_MIN_WINDOW: Duration = Duration::from_secs(10);

/// The velocity doubles once the window has moved one way for so many rounds (§2.1).
const ROUNDS_BEFORE_DOUBLING: u32 = 3;

/// Without a nearly empty queue for so many rounds, the others at the bottleneck fill buffers
/// (§2.2).
const ROUNDS_TO_EMPTY: u32 = 5;

/// The queue is nearly empty at this part of the largest queueing delay (§2.2).
const NEARLY_EMPTY: f64 = 0.1;

/// The rounds of which the largest queueing delay is taken (§2.2).
const ROUNDS_OF_MAXIMUM: usize = 4;

/// The tuning of a Copa controller.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// δ of the default mode.
    delta: f64,
    competes: bool,
}

impl Recipe for Options {
    const NAME: &'static str = "copa";
    const SUMMARY: &'static str =
        "Copa: a target rate set by the queueing delay (Arun and Balakrishnan 2018)";
    const OPTIONS: &'static [OptionSpec] = &[
        OptionSpec {
            name: "delta",
            meaning: "the weight of delay; 1 / delta datagrams are queued",
            unit: "",
            allowed: Allowed::Number(0.004, 1.0),
            default: DefaultValue::Number(0.5),
        },
        OptionSpec {
            name: "compete",
            meaning: "more is queued beside flows that fill buffers",
            unit: "",
            allowed: Allowed::Word(&["on", "off"]),
            // As deployed: the switch takes jitter for such flows.
            default: DefaultValue::Word("off"),
        },
    ];

    fn new(chosen: &Chosen) -> Result<Self, OptionsError> {
        Ok(Options {
            delta: chosen.number("delta"),
            competes: chosen.word("compete") == "on",
        })
    }

    fn build(&self, path: &PathConfig) -> Box<dyn Controller> {
        Box::new(Copa::new(*self, path))
    }
}

impl Options {
    /// The defaults with the options that `text` names changed, as in `delta=0.1`.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] names the option and the values that it takes.
    pub fn parse(text: &str) -> Result<Self, OptionsError> {
        Self::new(&Chosen::defaults(Self::OPTIONS).with(text)?)
    }
}

/// The Copa congestion controller of one path.
#[derive(Clone, Debug)]
pub struct Copa {
    options: Options,
    max_datagram_size_bytes: usize,
    window_packets: f64,
    ssthresh_packets: Option<f64>,
    in_slow_start: bool,
    /// 1/δ of the mode that the controller is in, in datagrams.
    inverse_delta: f64,
    rtt_min: WindowedMin,
    rtt_standing: WindowedMin,
    round: Round,
    velocity: Velocity,
    competition: Competition,
    recovery: Recovery<Before>,
    persistent_congestion: PersistentCongestion,
    /// The last packet that was sent with the window full behind it.
    filled_window: Option<u64>,
    pacing: bool,
    pacer: SpikeSuppression,
}

/// The state that a loss changes.
#[derive(Clone, Copy, Debug)]
struct Before {
    inverse_delta: f64,
    ssthresh_packets: Option<f64>,
    in_slow_start: bool,
}

impl Copa {
    /// A controller for a new path.
    pub fn new(options: Options, path: &PathConfig) -> Copa {
        let window_packets = bounded(path.initial_window_packets as f64);
        Copa {
            options,
            max_datagram_size_bytes: path.max_datagram_size_bytes.max(1),
            window_packets,
            ssthresh_packets: None,
            in_slow_start: true,
            inverse_delta: 1.0 / options.delta,
            rtt_min: WindowedMin::default(),
            rtt_standing: WindowedMin::default(),
            round: Round::default(),
            velocity: Velocity::new(window_packets),
            competition: Competition::default(),
            recovery: Recovery::default(),
            persistent_congestion: PersistentCongestion::default(),
            filled_window: None,
            pacing: path.pacing,
            pacer: SpikeSuppression::default(),
        }
    }

    /// Takes an RTT in.
    ///
    /// NOTE: the paper's receiver does not delay ACKs. The reported delay is taken off as RFC 9002
    /// §5.3 has it, but not from RTTmin, which a false delay must not lower (§5.2).
    fn on_sample(&mut self, measured: Duration, ack: &Ack) {
        // The clock stood still.
        if measured.is_zero() {
            return;
        }
        self.rtt_min.add(ack.now, measured, RTT_MIN_WINDOW);
        let ack_delay = ack.ack_delay.unwrap_or_default().min(ack.rtt.max_ack_delay);
        let rtt = measured
            .saturating_sub(ack_delay)
            .max(self.rtt_min.get().unwrap_or(measured));
        self.rtt_standing.add(ack.now, rtt, ack.rtt.smoothed / 2);
        self.competition.on_sample(rtt);
    }

    /// RTTmin and RTTstanding, once there was a sample.
    fn rtts(&self) -> Option<(Duration, Duration)> {
        let rtt_min = self.rtt_min.get()?;
        Some((rtt_min, self.rtt_standing.get()?.max(rtt_min)))
    }

    /// The window of the target rate 1 / (δ · dq) (§2.1 equation 1), in packets; infinite without a
    /// queue.
    fn target_packets(&self, rtt_min: Duration, rtt_standing: Duration) -> f64 {
        let queueing = rtt_standing.saturating_sub(rtt_min).as_secs_f64();
        self.inverse_delta * rtt_standing.as_secs_f64() / queueing
    }

    /// Moves the window towards its target for so many acknowledged packets (§2.1).
    fn move_window(&mut self, target_packets: f64, acked_packets: f64, window_is_used: bool) {
        let is_below = self.window_packets <= target_packets;
        // RFC 9002 §7.8. The paper's flows have endless data.
        if is_below && !window_is_used {
            return;
        }
        if self.in_slow_start {
            if is_below {
                self.window_packets = bounded(self.window_packets + acked_packets);
                return;
            }
            self.leave_slow_start();
        }
        // NOTE: the paper does not bound the velocity. More than a packet per packet acknowledged
        // would more than double the window in a round.
        let step = (self.velocity.get() * self.inverse_delta / self.window_packets).min(1.0);
        let change = if is_below { step } else { -step };
        self.window_packets = bounded(self.window_packets + change * acked_packets);
    }

    fn leave_slow_start(&mut self) {
        self.in_slow_start = false;
        self.ssthresh_packets = Some(self.window_packets);
        self.velocity = Velocity::new(self.window_packets);
    }

    /// The mode switch of §2.2, once per round.
    fn choose_mode(&mut self, rtt_min: Duration, had_loss: bool) {
        let default = 1.0 / self.options.delta;
        if !self.options.competes || !self.competition.on_round(rtt_min) {
            self.inverse_delta = default;
        } else if !had_loss {
            self.inverse_delta = (self.inverse_delta + 1.0).min(MAXIMUM_WINDOW_PACKETS as f64);
        }
    }

    /// A loss of a packet sent after the last one counted.
    fn on_congestion(&mut self, packet_number: u64, can_be_undone: bool) {
        let before = Before {
            inverse_delta: self.inverse_delta,
            ssthresh_packets: self.ssthresh_packets,
            in_slow_start: self.in_slow_start,
        };
        self.recovery
            .begin(packet_number, can_be_undone.then_some(before));
        // NOTE: the paper does not say what a loss in slow start does. QUIC leaves slow start (RFC
        // 9002 §7.3.1).
        if self.in_slow_start {
            self.leave_slow_start();
        }
        // AIMD on 1/δ while competing (§2.2); the default mode leaves the window to delay.
        self.inverse_delta = (self.inverse_delta / 2.0).max(1.0 / self.options.delta);
    }

    fn on_persistent_congestion(&mut self) {
        self.window_packets = bounded(0.0);
        self.in_slow_start = true;
        self.inverse_delta = 1.0 / self.options.delta;
        self.velocity = Velocity::new(self.window_packets);
        self.round.restart();
        self.recovery.end();
    }

    /// The time over which one window is spread twice as fast as it is acknowledged.
    fn spacing_rtt(&self) -> Option<Duration> {
        self.rtts()
            .map(|(_, standing)| standing)
            .filter(|_| self.pacing)
    }

    fn to_bytes(&self, packets: f64) -> usize {
        (packets as usize).saturating_mul(self.max_datagram_size_bytes)
    }
}

impl Controller for Copa {
    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.recovery.on_packet_sent(packet.packet_number);
        let fills_window = packet.fills(self.window_bytes(), self.max_datagram_size_bytes);
        if fills_window {
            self.filled_window = self.filled_window.max(Some(packet.packet_number));
        }
        self.round
            .on_packet_sent(packet.packet_number, fills_window);
        if let Some(rtt) = self.spacing_rtt() {
            let window_packets = self.window_packets as u64;
            self.pacer.on_packet_sent(
                packet.time_sent,
                packet.size_bytes,
                self.max_datagram_size_bytes,
                || Interval::of_paper(rtt, window_packets),
            );
        }
    }

    fn on_packets_acked(&mut self, ack: &Ack, packets: &[PacketInfo]) {
        let Some(largest) = packets.last() else {
            return;
        };
        let mut acked_bytes = 0;
        for packet in packets {
            self.persistent_congestion.on_packet_acked(packet);
            acked_bytes += packet.size_bytes;
        }
        if ack.measures_rtt && largest.size_bytes > 0 {
            self.persistent_congestion.on_rtt_sample(ack.now);
            let measured = ack.now.saturating_duration_since(largest.time_sent);
            self.on_sample(measured, ack);
        }
        if self.persistent_congestion.take(&ack.rtt) {
            self.on_persistent_congestion();
            return;
        }
        let had_loss = self.recovery.is_under_way();
        self.recovery.on_acked(largest.packet_number);
        let Some((rtt_min, rtt_standing)) = self.rtts() else {
            return;
        };
        let target_packets = self.target_packets(rtt_min, rtt_standing);
        let window_is_used = self.filled_window >= Some(largest.packet_number);
        let acked_packets = acked_bytes as f64 / self.max_datagram_size_bytes as f64;
        self.move_window(target_packets, acked_packets, window_is_used);
        let round = self
            .round
            .on_acked(largest.packet_number, None, RttMeasure::Min);
        if round.is_some() {
            self.velocity.on_round(self.window_packets);
            self.choose_mode(rtt_min, had_loss);
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

    fn on_spurious_loss(&mut self, _now: Instant, packets: &[PacketInfo]) {
        if let Some(before) = self.recovery.on_spurious_loss(packets) {
            self.inverse_delta = before.inverse_delta.max(self.inverse_delta);
            self.ssthresh_packets = before.ssthresh_packets;
            self.in_slow_start = before.in_slow_start;
        }
    }

    /// NOTE: the paper knows no ECN. A mark halves the window, as RFC 9002 §7.1 and §B.7 have it.
    fn on_congestion_marks(&mut self, marks: &CongestionMarks) {
        if self.recovery.is_after(marks.largest_acked) {
            self.on_congestion(marks.largest_acked, false);
            self.window_packets = bounded(self.window_packets / 2.0);
            self.velocity = Velocity::new(self.window_packets);
        } else {
            self.recovery.make_final();
        }
    }

    fn on_cwnd_limited(&mut self, _now: Instant) {
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
        self.ssthresh_packets.map(|packets| self.to_bytes(packets))
    }

    fn next_release_time(&self) -> Option<Instant> {
        self.spacing_rtt()?;
        self.pacer.next_release_time(self.max_datagram_size_bytes)
    }

    /// 2 · cwnd / RTTstanding (§2.1).
    fn pacing_rate_bps(&self) -> Option<f64> {
        self.spacing_rtt()
            .and_then(|rtt| SpikeSuppression::max_rate_bps(rtt, self.window_bytes()))
    }

    fn burst_bytes(&self) -> Option<usize> {
        let rtt = self.spacing_rtt()?;
        let interval = Interval::of_paper(rtt, self.window_packets as u64);
        Some(interval.burst_bytes(self.max_datagram_size_bytes))
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

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        sink(Figure::packets(
            "copa_inverse_delta_packets",
            self.inverse_delta,
        ));
        sink(Figure::one("copa_velocity", self.velocity.get()));
        if let Some((rtt_min, rtt_standing)) = self.rtts() {
            sink(Figure::ms("copa_rtt_min_ms", rtt_min));
            sink(Figure::ms("copa_rtt_standing_ms", rtt_standing));
        }
    }
}

/// The velocity v: it doubles while the window keeps moving one way (§2.1).
#[derive(Clone, Copy, Debug)]
struct Velocity {
    value: f64,
    /// The window when the round began.
    window_packets: f64,
    goes_up: bool,
    /// Rounds in a row with this direction.
    rounds: u32,
}

impl Velocity {
    fn new(window_packets: f64) -> Velocity {
        Velocity {
            value: 1.0,
            window_packets,
            goes_up: true,
            rounds: 0,
        }
    }

    fn get(&self) -> f64 {
        self.value
    }

    fn on_round(&mut self, window_packets: f64) {
        let goes_up = window_packets > self.window_packets;
        if goes_up == self.goes_up && window_packets != self.window_packets {
            self.rounds += 1;
            if self.rounds > ROUNDS_BEFORE_DOUBLING {
                self.value = (self.value * 2.0).min(MAXIMUM_WINDOW_PACKETS as f64);
            }
        } else {
            self.value = 1.0;
            self.rounds = 1;
        }
        self.goes_up = goes_up;
        self.window_packets = window_packets;
    }
}

/// The search for flows that keep the queue full (§2.2).
#[derive(Clone, Copy, Debug, Default)]
struct Competition {
    /// The smallest and largest RTT of the round in progress.
    round: Option<(Duration, Duration)>,
    /// The largest RTT of each of the last rounds.
    largest: [Duration; ROUNDS_OF_MAXIMUM],
    rounds: usize,
    rounds_since_nearly_empty: u32,
}

impl Competition {
    fn on_sample(&mut self, rtt: Duration) {
        self.round = Some(match self.round {
            Some((least, most)) => (least.min(rtt), most.max(rtt)),
            None => (rtt, rtt),
        });
    }

    /// Returns true if the queue was not nearly empty for five rounds.
    fn on_round(&mut self, rtt_min: Duration) -> bool {
        if let Some((least, most)) = self.round.take() {
            self.largest[self.rounds % ROUNDS_OF_MAXIMUM] = most;
            self.rounds = self.rounds.wrapping_add(1);
            let largest = self.largest.iter().max().copied().unwrap_or_default();
            let nearly_empty = largest.saturating_sub(rtt_min).mul_f64(NEARLY_EMPTY);
            if least.saturating_sub(rtt_min) <= nearly_empty {
                self.rounds_since_nearly_empty = 0;
            } else {
                self.rounds_since_nearly_empty = self.rounds_since_nearly_empty.saturating_add(1);
            }
        }
        self.rounds_since_nearly_empty >= ROUNDS_TO_EMPTY
    }
}

/// The smallest RTT over a time that slides.
///
/// Samples above the latest one that is kept, and less than an eighth of the time after it, are not
/// kept, so that a few places are enough.
#[derive(Clone, Copy, Debug, Default)]
struct WindowedMin {
    /// Kept samples, each later and larger than the one before.
    samples: [Option<(Instant, Duration)>; 9],
}

impl WindowedMin {
    fn get(&self) -> Option<Duration> {
        self.samples[0].map(|(_, rtt)| rtt)
    }

    fn add(&mut self, now: Instant, rtt: Duration, window: Duration) {
        let mut kept = 0;
        for place in 0..self.samples.len() {
            let Some(sample) = self.samples[place].take() else {
                break;
            };
            let (at, earlier) = sample;
            if earlier < rtt && now.saturating_duration_since(at) <= window {
                self.samples[kept] = Some(sample);
                kept += 1;
            }
        }
        let is_apart = kept == 0
            || self.samples[kept - 1]
                .is_some_and(|(at, _)| now.saturating_duration_since(at) >= window / 8);
        if is_apart && kept < self.samples.len() {
            self.samples[kept] = Some((now, rtt));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::RttEstimate;

    const MDS: usize = 1200;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A controller with a full window, whose RTTs the test chooses.
    struct Sender {
        copa: Copa,
        now: Instant,
        next: u64,
    }

    impl Sender {
        fn new(options: &str, initial_window_packets: u64) -> Sender {
            let path = PathConfig {
                max_datagram_size_bytes: MDS,
                initial_window_packets,
                pacing: true,
            };
            Sender {
                copa: Copa::new(Options::parse(options).unwrap(), &path),
                now: Instant::now(),
                next: 0,
            }
        }

        /// A controller in congestion avoidance, with this window and these RTTs.
        fn avoiding(options: &str, window: f64, rtt_min: Duration, rtt: Duration) -> Sender {
            let mut sender = Sender::new(options, 10);
            sender.round(rtt_min);
            sender.copa.leave_slow_start();
            sender.now += ms(1000);
            sender.round(rtt);
            sender.copa.window_packets = window;
            sender.copa.velocity = Velocity::new(window);
            sender
        }

        /// Sends a window and acknowledges it, packet by packet, after `rtt`.
        fn round(&mut self, rtt: Duration) {
            for packet in self.send(self.copa.window_bytes() / MDS, rtt) {
                self.ack(packet, rtt);
            }
        }

        fn send(&mut self, packets: usize, rtt: Duration) -> Vec<PacketInfo> {
            let sent = (0..packets)
                .map(|in_flight| {
                    let packet = PacketInfo {
                        packet_number: self.next,
                        time_sent: self.now,
                        size_bytes: MDS,
                    };
                    self.copa.on_packet_sent(&SentPacket {
                        packet_number: self.next,
                        time_sent: self.now,
                        size_bytes: MDS,
                        // The window is full behind every packet.
                        bytes_in_flight: self.copa.window_bytes().max(in_flight * MDS),
                    });
                    self.next += 1;
                    packet
                })
                .collect();
            self.now += rtt;
            sent
        }

        fn ack(&mut self, packet: PacketInfo, smoothed: Duration) {
            let ack = Ack {
                now: self.now,
                measures_rtt: true,
                ack_delay: None,
                rtt: RttEstimate {
                    smoothed,
                    variation: Duration::ZERO,
                    max_ack_delay: Duration::ZERO,
                },
                bytes_in_flight: MDS,
            };
            self.copa.on_packets_acked(&ack, &[packet]);
        }

        fn lose(&mut self, packets: &[PacketInfo]) {
            let loss = Loss {
                now: self.now,
                persistent_congestion: None,
            };
            self.copa.on_packets_lost(&loss, packets);
        }
    }

    #[test]
    fn an_ack_moves_the_window_by_v_over_delta_cwnd_towards_the_target() {
        // dq = 20 ms: the target is 120 ms / (0.5 · 20 ms) = 12 packets.
        for (delta, window, change) in [
            ("", 11.0, 1.0 / (0.5 * 11.0)),
            ("", 12.0, 1.0 / (0.5 * 12.0)),
            ("", 13.0, -1.0 / (0.5 * 13.0)),
            // 120 ms / (0.1 · 20 ms) = 60.
            ("delta=0.1", 59.0, 1.0 / (0.1 * 59.0)),
            ("delta=0.1", 61.0, -1.0 / (0.1 * 61.0)),
        ] {
            let mut sender = Sender::avoiding(delta, window, ms(100), ms(120));
            let [packet] = sender.send(1, ms(120))[..].try_into().unwrap();
            sender.ack(packet, ms(120));
            let moved = sender.copa.window_packets - window;
            assert!((moved - change).abs() < 1e-9, "{delta} {window}: {moved}");
        }
    }

    #[test]
    fn slow_start_doubles_until_the_rate_is_above_its_target() {
        let mut sender = Sender::new("", 10);
        for window in [20, 40, 80] {
            sender.round(ms(100));
            assert_eq!(sender.copa.window_bytes(), window * MDS);
            assert_eq!(sender.copa.phase(), Phase::SlowStart);
        }
        // 80 packets are above 105 / (0.5 · 5) = 42.
        sender.round(ms(105));
        assert_eq!(sender.copa.phase(), Phase::CongestionAvoidance);
        assert_eq!(sender.copa.ssthresh_bytes(), Some(80 * MDS));
    }

    #[test]
    fn the_velocity_doubles_from_the_fourth_round_in_one_direction_on() {
        let mut velocity = Velocity::new(10.0);
        let mut after = |window| {
            velocity.on_round(window);
            velocity.get()
        };
        let up: Vec<f64> = (11..17).map(|window| after(f64::from(window))).collect();
        assert_eq!(up, [1.0, 1.0, 1.0, 2.0, 4.0, 8.0]);
        assert_eq!(after(15.0), 1.0, "the direction changed");
        let down: Vec<f64> = [14.0, 13.0, 12.0].map(&mut after).to_vec();
        assert_eq!(down, [1.0, 1.0, 2.0]);
        assert_eq!(after(12.0), 1.0, "the window stands still");
    }

    #[test]
    fn packets_leave_at_twice_the_window_per_standing_rtt() {
        let sender = Sender::avoiding("", 10.0, ms(100), ms(120));
        let rate = sender.copa.pacing_rate_bps().unwrap();
        assert!((rate - 2.0 * 10.0 * MDS as f64 * 8.0 / 0.12).abs() < 1.0);
    }

    #[test]
    fn the_default_mode_leaves_losses_to_delay() {
        let mut sender = Sender::avoiding("", 40.0, ms(100), ms(100));
        let sent = sender.send(40, ms(100));
        sender.lose(&sent[..5]);
        assert_eq!(sender.copa.window_bytes(), 40 * MDS);
        assert_eq!(sender.copa.inverse_delta, 2.0);
    }

    #[test]
    fn slow_start_ends_at_a_loss_unless_it_was_spurious() {
        let mut sender = Sender::new("", 10);
        let sent = sender.send(10, ms(100));
        sender.lose(&sent[..1]);
        assert!(!sender.copa.in_slow_start);
        sender.copa.on_spurious_loss(sender.now, &sent[..1]);
        assert!(sender.copa.in_slow_start);
        assert_eq!(sender.copa.ssthresh_bytes(), None);
    }

    #[test]
    fn beside_a_full_queue_one_over_delta_grows_and_a_loss_halves_it() {
        let mut sender = Sender::avoiding("compete=on", 20.0, ms(100), ms(100));
        // The queue stays between 60 and 80 ms: it is never nearly empty.
        for round in 0..20 {
            sender.round(ms(160 + 20 * (round % 2)));
        }
        let grown = sender.copa.inverse_delta;
        assert!(grown > 10.0, "{grown}");
        let sent = sender.send(1, ms(160));
        sender.lose(&sent);
        assert_eq!(sender.copa.inverse_delta, grown / 2.0);
        sender.copa.on_spurious_loss(sender.now, &sent);
        assert_eq!(sender.copa.inverse_delta, grown);
        // One round with an empty queue is enough to go back.
        sender.round(ms(100));
        sender.round(ms(100));
        assert_eq!(sender.copa.inverse_delta, 2.0);
    }

    #[test]
    fn without_the_option_it_does_not_compete() {
        let mut sender = Sender::avoiding("", 20.0, ms(100), ms(100));
        (0..20).for_each(|_| sender.round(ms(160)));
        assert_eq!(sender.copa.inverse_delta, 2.0);
    }

    #[test]
    fn a_mark_halves_the_window_once_in_a_round_trip() {
        let mut sender = Sender::avoiding("", 40.0, ms(100), ms(100));
        let sent = sender.send(2, ms(100));
        for packet in sent {
            sender.copa.on_congestion_marks(&CongestionMarks {
                now: sender.now,
                packets: 1,
                largest_acked: packet.packet_number,
            });
        }
        assert_eq!(sender.copa.window_bytes(), 20 * MDS);
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let mut sender = Sender::new("", 10);
        sender.copa.on_packet_sent(&SentPacket {
            packet_number: 0,
            time_sent: sender.now,
            size_bytes: MDS,
            bytes_in_flight: 0,
        });
        let packet = PacketInfo {
            packet_number: 0,
            time_sent: sender.now,
            size_bytes: MDS,
        };
        sender.now += ms(100);
        sender.ack(packet, ms(100));
        assert_eq!(sender.copa.window_bytes(), 10 * MDS);
    }

    #[test]
    fn the_smallest_rtt_of_a_time_that_slides() {
        let start = Instant::now();
        let mut min = WindowedMin::default();
        let mut after = |at_ms, rtt_ms| {
            min.add(start + ms(at_ms), ms(rtt_ms), ms(80));
            min.get().map(|rtt| rtt.as_millis())
        };
        assert_eq!(after(0, 50), Some(50));
        assert_eq!(after(10, 60), Some(50));
        assert_eq!(after(15, 55), Some(50));
        assert_eq!(after(80, 70), Some(50));
        assert_eq!(after(81, 70), Some(55), "the first has become too old");
        assert_eq!(after(96, 90), Some(70));
        assert_eq!(after(97, 40), Some(40));
    }

    #[test]
    fn many_rising_rtts_find_room() {
        let start = Instant::now();
        let mut min = WindowedMin::default();
        for count in 0..10_000 {
            min.add(
                start + Duration::from_micros(count * 100),
                ms(1 + count),
                ms(10),
            );
            let oldest = count.saturating_sub(100);
            let least = min.get().unwrap();
            assert!(
                least >= ms(1 + oldest) && least <= ms(1 + oldest + 13),
                "{count}"
            );
        }
    }
}
