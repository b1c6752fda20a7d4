//! The losses that are taken for congestion, and those that are not.

use std::time::Instant;

use super::{Before, Canter, LEAST_WINDOW_PACKETS, Mode};

/// The part of the window that congestion leaves (Boyden et al. 2007 §II).
const DECREASE: f64 = 0.75;
/// Below this window every loss is taken for congestion: a flow that halves at each loss keeps as
/// much under 0.6 % of them (RFC 9002 §7.3; Mathis et al. 1997), so little is won by another rule,
/// and short buffers drop without a delay to be seen.
const SMALL_WINDOW_PACKETS: f64 = 16.0;
/// The part that is left if every loss is taken for congestion (RFC 9002 §7.3.2).
const STRICT_DECREASE: f64 = 0.5;
/// The part of the window that a loss in startup leaves, and the part for gentle trains to go on with.
const STARTUP_DECREASE: f64 = 0.7;
const GENTLE_DECREASE: f64 = 0.5;

/// A queue of this part of the window is beyond what the steady state keeps.
const QUEUE: f64 = 0.125;

/// The part of the packets that may be lost without a queue and say nothing about congestion, as in
/// BBR (Cardwell et al., draft-ietf-ccwg-bbr §5.5.10.2).
const TOLERATED: f64 = 0.02;

/// Of the losses, at least this part comes with a short queue if they have other reasons than a full
/// one.
const OTHER_REASONS: f64 = 0.2;

/// The weight of a loss in that part.
const WEIGHT: f64 = 0.125;

/// A queue is long from this part of the longest of late on, and with so many of the flow's packets.
const LONG: f64 = 0.5;
const LONG_PACKETS: f64 = 1.0;

/// The part of the longest queue that an RTT sample takes away.
const FORGETTING: f64 = 1.0 / 2048.0;

/// Samples whose longest queue is that of a loss.
const SAMPLES: usize = 3;

/// The most that is tolerated once losses went on whatever the window was.
const MOST_TOLERATED: f64 = 0.1;

/// The losses that may come at once, and twice what is tolerated in a window.
const BURST_PACKETS: f64 = 8.0;
const BURST_WINDOWS: f64 = 2.0;

/// Losses that proved not to be congestion raise the tolerance to twice their part.
const RAISE: f64 = 2.0;

/// A trial lasts for a window, and until so many losses would come at the part before it.
const TRIAL_LOSSES: f64 = 8.0;

/// Losses go on if their part stays above this part of what it was before the window was cut.
const GOES_ON: f64 = 0.5;

/// A cut that leaves the rate of delivery above this part of the way from the window's part to all of
/// it only took away what was lost: the path is full.
const FULL_PATH: f64 = 0.5;

/// The time in which tolerance above the usual is forgotten.
const MEMORY_S: f64 = 30.0;

/// The queue at the times of losses.
///
/// A queue that is full drops packets when it is long. Other losses come at any time, and so also
/// when it is short. The window is cut for losses at a long queue until some have come at a short
/// one; the cut makes the queue short, so that losses of another reason soon show themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueAtLoss {
    last_s: [f64; SAMPLES],
    longest_s: f64,
    /// The part of losses that came with a short queue.
    short_part: f64,
}

impl QueueAtLoss {
    /// A packet had this delay above BaseRTT.
    pub(super) fn on_sample(&mut self, queue_s: f64) {
        self.last_s.rotate_right(1);
        self.last_s[0] = queue_s;
        self.longest_s = (self.longest_s * (1.0 - FORGETTING)).max(queue_s);
    }

    /// Losses have other reasons than a full queue.
    pub(super) fn has_other_reasons(&self) -> bool {
        self.short_part >= OTHER_REASONS
    }

    /// Packets were lost. True if a full queue is the likely reason.
    pub(super) fn on_loss(&mut self, pps: f64) -> bool {
        let queue_s = self.last_s.iter().copied().fold(0.0, f64::max);
        let is_long = queue_s >= self.longest_s * LONG && queue_s * pps >= LONG_PACKETS;
        let seen = if is_long { 0.0 } else { 1.0 };
        let is_full = is_long && !self.has_other_reasons();
        self.short_part += (seen - self.short_part) * WEIGHT;
        is_full
    }
}

/// An allowance of losses that fills with every packet acknowledged.
///
/// When it is used up the window is cut once. If as many packets are lost after that, the losses are
/// the path's and not the flow's, and more of them are tolerated; if they stop, they were
/// congestion.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossAllowance {
    tolerated: f64,
    packets: f64,
    /// The part of packets lost of late.
    ratio: f64,
    trial: Option<Trial>,
}

/// The time after a cut.
#[derive(Clone, Copy, Debug)]
struct Trial {
    ratio_before: f64,
    acked: f64,
    lost: f64,
    /// Packets of the window before the cut, whose losses say nothing.
    to_skip: f64,
    /// Packets after which the trial ends.
    length: f64,
}

impl Default for LossAllowance {
    fn default() -> Self {
        LossAllowance {
            tolerated: TOLERATED,
            packets: BURST_PACKETS,
            ratio: 0.0,
            trial: None,
        }
    }
}

impl LossAllowance {
    /// The window was cut and is to stay as it is until it is clear whether that helped.
    pub(super) fn is_on_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// So many packets of this window were acknowledged.
    pub(super) fn on_acked(&mut self, acked: f64, window_packets: f64) {
        let most = BURST_PACKETS + BURST_WINDOWS * self.tolerated * window_packets;
        self.packets = (self.packets + acked * self.tolerated).min(most);
    }

    /// A round ended with so many packets acknowledged and lost. True if losses went on after the
    /// last cut as before, though the path is not full: it was a mistake.
    pub(super) fn on_round(
        &mut self,
        acked: f64,
        lost: f64,
        passed_s: f64,
        is_path_full: bool,
    ) -> bool {
        let total = acked + lost;
        if total <= 0.0 {
            return false;
        }
        self.ratio += (lost / total - self.ratio) * (total / 256.0).min(0.25);
        let excess = self.tolerated - TOLERATED;
        self.tolerated = TOLERATED + excess * (1.0 - (passed_s / MEMORY_S).min(0.25));
        let Some(trial) = &mut self.trial else {
            return false;
        };
        if trial.to_skip > 0.0 {
            trial.to_skip -= total;
            return false;
        }
        trial.acked += acked;
        trial.lost += lost;
        let seen = trial.acked + trial.lost;
        if seen < trial.length {
            return false;
        }
        let ratio = trial.lost / seen;
        let goes_on = ratio > trial.ratio_before * GOES_ON && !is_path_full;
        if goes_on {
            let raised = RAISE * ratio.max(TOLERATED);
            self.tolerated = self.tolerated.max(raised).min(MOST_TOLERATED);
            self.packets = BURST_PACKETS;
        } else {
            self.tolerated = TOLERATED;
        }
        self.trial = None;
        goes_on
    }

    /// A packet was lost without a queue. True if the window is to be cut for it.
    pub(super) fn on_packet_lost(&mut self, window_packets: f64) -> bool {
        self.packets -= 1.0;
        if self.packets >= 0.0 {
            return false;
        }
        if let Some(trial) = &self.trial {
            let far_too_many = (trial.acked + trial.lost) * MOST_TOLERATED;
            if trial.lost < far_too_many.max(2.0 * TRIAL_LOSSES) {
                return false;
            }
        }
        self.packets = BURST_PACKETS;
        let ratio_before = self.ratio.max(TOLERATED);
        self.trial = Some(Trial {
            ratio_before,
            acked: 0.0,
            lost: 0.0,
            to_skip: window_packets,
            length: (TRIAL_LOSSES / ratio_before).max(window_packets),
        });
        true
    }
}

/// The reason for which the window is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// RTTs show a queue, or the window is so small that every loss counts.
    Certain,
    /// A full queue is likely.
    FullQueue,
    /// More was lost than is tolerated without a queue.
    TooMany,
    /// The network marked a packet.
    Mark,
}

/// A cut of the window that may prove a mistake.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    cause: Cause,
    /// The window before it.
    window_packets: f64,
    /// The rate of delivery before it.
    pps: f64,
}

impl Canter {
    /// True if as much is delivered as before the last cut: a path that loses packets at random
    /// delivers less of a smaller window.
    pub(super) fn is_path_full(&self) -> bool {
        self.cut.is_some_and(|cut| {
            let part = (self.window_packets / cut.window_packets).min(1.0);
            self.pps > cut.pps * (part + (1.0 - part) * FULL_PATH)
        })
    }

    /// The reason to take a packet's loss for congestion, if there is one.
    pub(super) fn cause_of_loss(&mut self, is_queue_full: bool) -> Option<Cause> {
        let is_startup = matches!(self.mode, Mode::Startup(_));
        let is_small = self.window_packets < SMALL_WINDOW_PACKETS && !is_startup;
        if self.options.is_strict || self.pps == 0.0 || self.is_queue_seen() || is_small {
            Some(Cause::Certain)
        } else if is_queue_full {
            Some(Cause::FullQueue)
        } else {
            let is_too_many = self.losses.on_packet_lost(self.window_packets);
            is_too_many.then_some(Cause::TooMany)
        }
    }

    /// True if the last RTTs all show a queue beyond what the steady state keeps.
    fn is_queue_seen(&self) -> bool {
        let (_, beta) = self.thresholds_packets();
        let least = self.recent.least().unwrap_or_default();
        let queue_s =
            least.saturating_sub(self.reference.get()).as_secs_f64() - self.noise.slack_s(self.pps);
        self.pps * queue_s > (2.0 * beta).max(self.window_packets * QUEUE)
    }

    /// One reduction for all losses of a round trip (RFC 9002 §7.3.2).
    pub(super) fn on_congestion(&mut self, packet_number: u64, now: Instant, cause: Cause) {
        self.congested_at = Some(now);
        self.dips.begin_again();
        let window = match self.mode {
            Mode::Check(check) => check.restore_packets,
            _ => self.window_packets,
        };
        let before = (cause != Cause::Mark).then_some(Before {
            window_packets: window,
            mode: self.mode,
        });
        self.recovery.begin(packet_number, before);
        let bdp = self.capacity.bdp_packets(self.reference.get());
        let least = LEAST_WINDOW_PACKETS.min(self.window_packets);
        match self.mode {
            Mode::Startup(_) if self.is_gentle => {
                let delivered = self.pps * self.reference.seconds();
                let path = bdp.unwrap_or(delivered).max(delivered);
                let packets = (window * STARTUP_DECREASE).min(path).max(least);
                self.leave_startup(packets, now, false);
            }
            Mode::Startup(_) => {
                // A buffer shorter than the first trains: on with gentler ones.
                self.is_gentle = true;
                let path = bdp.unwrap_or_default().min(window);
                self.set_window((window * GENTLE_DECREASE).max(path).max(least));
            }
            Mode::Compete => {
                let packets = self.competition.on_congestion(window);
                self.set_window(packets.max(least));
            }
            Mode::Cruise | Mode::Check(_) | Mode::Probe(_) => {
                let may_be_mistaken = matches!(cause, Cause::FullQueue | Cause::TooMany);
                self.cut = may_be_mistaken.then_some(Cut {
                    cause,
                    window_packets: window,
                    pps: self.pps,
                });
                self.cruise
                    .set_wall((!self.is_queue_seen()).then_some(window));
                let part = if self.options.is_strict {
                    STRICT_DECREASE
                } else {
                    DECREASE
                };
                self.mode = Mode::Cruise;
                let packets = (window * part).min(self.window_packets);
                self.set_window(packets.max(least));
            }
        }
        self.cruise.begin_again();
    }

    /// Takes the last cut back if losses proved to have another reason: they went on as before, or came
    /// with a short queue, and the path is not full.
    pub(super) fn undo_mistaken_cut(&mut self, goes_on: bool) {
        let Some(cut) = self.cut else {
            return;
        };
        let is_mistake = match cut.cause {
            Cause::FullQueue => self.queue_at_loss.has_other_reasons() && !self.is_path_full(),
            _ => goes_on,
        };
        if !is_mistake {
            return;
        }
        self.cut = None;
        if matches!(self.mode, Mode::Cruise) && cut.window_packets > self.window_packets {
            self.set_window(cut.window_packets);
            self.skipped_rounds = 2;
            self.cruise.set_wall(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_at_the_longest_queue_are_congestion_until_some_come_with_a_short_one() {
        let mut queue = QueueAtLoss::default();
        (0..3).for_each(|_| queue.on_sample(0.020));
        assert!(queue.on_loss(1000.0));
        (0..3).for_each(|_| queue.on_sample(0.001));
        assert!(!queue.on_loss(1000.0), "short");
        assert!(!queue.on_loss(1000.0));
        assert!(queue.has_other_reasons());
        (0..3).for_each(|_| queue.on_sample(0.020));
        assert!(!queue.on_loss(1000.0), "known to have other reasons");
        while queue.has_other_reasons() {
            queue.on_loss(1000.0);
        }
        assert!(queue.on_loss(1000.0));
    }

    #[test]
    fn less_than_a_packet_is_no_long_queue() {
        let mut queue = QueueAtLoss::default();
        (0..3).for_each(|_| queue.on_sample(0.0009));
        assert!(!queue.on_loss(1000.0));
    }

    /// Packets of rounds of 100, of which `lost` of a thousand are lost; returns the cuts in 100 rounds.
    fn cuts(lost_of_thousand: u32) -> u32 {
        let mut losses = LossAllowance::default();
        let (mut cuts, mut sum) = (0, 0);
        for _ in 0..100 {
            let mut lost = 0.0;
            for _ in 0..100 {
                sum += lost_of_thousand;
                if sum >= 1000 {
                    sum -= 1000;
                    lost += 1.0;
                    cuts += u32::from(losses.on_packet_lost(100.0));
                } else {
                    losses.on_acked(1.0, 100.0);
                }
            }
            losses.on_round(100.0 - lost, lost, 0.04, false);
        }
        cuts
    }

    #[test]
    fn up_to_two_percent_are_tolerated_and_more_are_tried_once() {
        assert_eq!(cuts(19), 0);
        let tried = cuts(50);
        assert!((1..=3).contains(&tried), "{tried}");
    }

    #[test]
    fn losses_that_stop_after_a_cut_were_congestion() {
        let mut losses = LossAllowance::default();
        let cut = (0..20).any(|_| losses.on_packet_lost(100.0));
        assert!(cut && losses.is_on_trial());
        let undone = (0..20).any(|_| losses.on_round(100.0, 0.0, 0.04, false));
        assert!(!undone && !losses.is_on_trial());
        assert_eq!(losses.tolerated, TOLERATED);
    }

    #[test]
    fn losses_that_go_on_while_the_path_is_full_are_congestion() {
        let mut losses = LossAllowance::default();
        (0..20).for_each(|_| {
            losses.on_packet_lost(100.0);
        });
        let undone = (0..20).any(|_| losses.on_round(50.0, 50.0, 0.04, true));
        assert!(!undone && !losses.is_on_trial());
        assert_eq!(losses.tolerated, TOLERATED);
    }

    #[test]
    fn losses_that_go_on_after_a_cut_are_tolerated_up_to_a_tenth() {
        let mut losses = LossAllowance::default();
        (0..20).for_each(|_| {
            losses.on_packet_lost(100.0);
        });
        let undone = (0..20).any(|_| losses.on_round(50.0, 50.0, 0.04, false));
        assert!(undone);
        assert_eq!(losses.tolerated, MOST_TOLERATED);
    }
}
