//! Checks: half of the window, to tell a longer path and jitter from a queue.

use std::time::{Duration, Instant};

use super::{Canter, FAR_BELOW_CAPACITY, LEAST_WINDOW_PACKETS, LOW_ROUNDS, Mode};

/// Without a sample at BaseRTT for this time, and for so many RTTs, it is checked.
const STALE: Duration = Duration::from_secs(10);
const STALE_RTTS: u32 = 100;
/// Another flow's check is joined so long after the last one.
const JOIN_AFTER: Duration = Duration::from_secs(2);
/// The same before the first check: the first window may have met its own queue, or that of others.
const FIRST_CHECK: Duration = Duration::from_secs(1);
const FIRST_CHECK_RTTS: u32 = 20;
/// Rounds above β, without an answer of the queue, before a check; with strong noise.
const HIGH_ROUNDS: u32 = 5;
const HIGH_ROUNDS_IN_NOISE: u32 = 17;
/// Rounds without growth before a check far below what trains have shown.
const STUCK_ROUNDS: u32 = 16;
const STUCK_SPREAD_PACKETS: f64 = 2.0;
/// Two checks that raise the reference are this long apart, or so many RTTs; less for a smaller
/// rise than a quarter of the reference.
const CHECKS_APART: Duration = Duration::from_millis(1500);
const CHECKS_APART_RTTS: f64 = 4.0;
const SMALL_RISE: f64 = 0.125;
/// So many checks in a row that see the same smaller rise raise the reference though rounds between
/// them differ: jitter moves their smallest RTTs, and a queue of others would not stay the same.
const SAME_CHECKS: u32 = 4;

/// Half of the window frees a queue of so much at least; if the RTT falls by less than this part, the
/// delay is not the flow's own, and a check that was only due becomes a suspicion.
const UNANSWERED: f64 = 0.25;
/// With this part of what half of the window takes at the present rate, all of it was queued.
const ANSWERED: f64 = 0.75;

/// The reason for a [`Check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// BaseRTT was not seen for long, or another flow checks it at this moment.
    Stale,
    /// The RTT stayed high though the window shrank.
    Unresponsive,
    /// The RTT rose for long though the window did not grow.
    Rising,
    /// The window neither grows nor shrinks, far below what trains have shown.
    Stuck,
}

/// Samples that tell the RTT at half of the window.
const SAMPLES: u32 = 12;

/// Rounds that are measured if the delay did not answer to the window: other flows of this kind see
/// the first of them and join in, and the last one shows the queue without theirs.
const ROUNDS_IN_SUSPICION: u32 = 3;

/// Half of the window for as long as it takes to see the path without the flow's own queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    pub(super) reason: Reason,
    /// The window to go back to.
    pub(super) restore_packets: f64,
    /// The mean RTT before it.
    rtt_before: Duration,
    rounds: u32,
    /// Samples of the present round.
    samples: u32,
    sum: Duration,
    least: Option<Duration>,
}

/// The RTT that a check saw.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// The mean RTT.
    pub(super) level: Duration,
    /// The smallest RTT.
    pub(super) least: Duration,
}

impl Check {
    pub(super) fn new(reason: Reason, restore_packets: f64, rtt_before: Duration) -> Check {
        Check {
            reason,
            restore_packets,
            rtt_before,
            rounds: 0,
            samples: 0,
            sum: Duration::ZERO,
            least: None,
        }
    }

    /// Takes an RTT in; returns what was seen once it is enough.
    pub(super) fn on_sample(&mut self, rtt: Duration) -> Option<Seen> {
        if self.rounds == 0 {
            return None;
        }
        self.samples += 1;
        self.sum += rtt;
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        let is_last = self.rounds >= self.last_round();
        (is_last && self.samples >= SAMPLES)
            .then(|| self.seen())
            .flatten()
    }

    /// A round ended. The first one drains the queue; the last one must do even with fewer samples
    /// than wanted.
    pub(super) fn on_round(&mut self) -> Option<Seen> {
        if self.rounds >= self.last_round() {
            return self.seen();
        }
        self.rounds += 1;
        self.samples = 0;
        self.sum = Duration::ZERO;
        self.least = None;
        None
    }

    fn last_round(&self) -> u32 {
        match self.reason {
            Reason::Unresponsive | Reason::Rising => ROUNDS_IN_SUSPICION,
            Reason::Stale | Reason::Stuck => 1,
        }
    }

    fn seen(&self) -> Option<Seen> {
        let least = self.least?;
        let level = self.sum / self.samples.max(1);
        Some(Seen { level, least })
    }
}

/// A level that one check saw, to be confirmed by a second one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) level: Duration,
    /// The time from which the second check may come.
    pub(super) due: Instant,
    /// The window is left alone until then.
    pub(super) hold_until: Instant,
    /// The smallest and largest of the rounds' smallest RTTs since.
    pub(super) low: Duration,
    pub(super) high: Duration,
    /// Checks in a row that saw the level.
    pub(super) seen: u32,
    pub(super) reason: Reason,
}

impl Candidate {
    /// The distance between rounds since the first check: a queue of others moves.
    pub(super) fn moved(&self) -> Duration {
        self.high.saturating_sub(self.low)
    }
}

impl Canter {
    pub(super) fn check_if_due(&mut self, is_rising: bool, now: Instant) {
        if self.window_packets < LEAST_WINDOW_PACKETS {
            return;
        }
        let rtt = self.smoothed.unwrap_or_default();
        let (stale, stale_rtts) = match self.reference.checked_at {
            Some(_) => (STALE, STALE_RTTS),
            None => (FIRST_CHECK, FIRST_CHECK_RTTS),
        };
        let is_stale = self.reference.confirmed_at.is_some_and(|at| {
            now.saturating_duration_since(at) > stale.max(rtt.saturating_mul(stale_rtts))
        });
        let is_early = self.checks_early && self.cruise_rounds == LOW_ROUNDS;
        let most = if self.noise.is_strong(self.pps) {
            HIGH_ROUNDS_IN_NOISE
        } else {
            HIGH_ROUNDS
        };
        let is_high = self.cruise.high_rounds() >= most;
        let is_stuck = self.cruise.full_rounds() >= STUCK_ROUNDS
            && self.pps * self.noise.typical_s() > STUCK_SPREAD_PACKETS
            && self
                .capacity
                .pps()
                .is_some_and(|pps| self.pps < FAR_BELOW_CAPACITY * pps);
        let suspicion = match self.candidate {
            Some(candidate) => (now >= candidate.due).then_some(candidate.reason),
            None if is_high => Some(Reason::Unresponsive),
            None => is_stuck.then_some(Reason::Stuck),
        };
        let suspicion = suspicion.or(is_rising.then_some(Reason::Rising));
        let reason = suspicion.or((is_stale || is_early).then_some(Reason::Stale));
        if let Some(reason) = reason {
            self.begin_check(reason);
        }
    }

    pub(super) fn begin_check(&mut self, reason: Reason) {
        self.mode = Mode::Check(Check::new(reason, self.window_packets, self.rtt));
        self.set_window(self.window_packets / 2.0);
    }

    /// Another flow seems to check its BaseRTT, and this one has not done so of late.
    pub(super) fn may_join_check(&self, rtt: Duration, now: Instant) -> bool {
        let is_due = self
            .reference
            .checked_at
            .is_none_or(|at| now.saturating_duration_since(at) > JOIN_AFTER);
        is_due
            && self.skipped_rounds == 0
            && self.cruise_rounds > 3
            && self.window_packets >= LEAST_WINDOW_PACKETS
            && self.dips.is_dip(rtt, self.noise.typical_s())
    }

    pub(super) fn finish_check(&mut self, check: Check, seen: Seen, now: Instant) {
        self.mode = Mode::Cruise;
        self.reference.confirmed_at = Some(now);
        self.reference.checked_at = Some(now);
        self.dips.begin_again();
        self.cruise_rounds = self.cruise_rounds.max(LOW_ROUNDS + 1);
        self.skipped_rounds = 2;
        self.set_window(check.restore_packets);
        let full_packets = self.cruise.full_packets();
        let before_cuts = self.cruise.before_cuts_packets();
        self.cruise.begin_again();
        let reference = self.reference.get();
        let (alpha, _) = self.thresholds_packets();
        let is_stuck = check.reason == Reason::Stuck;
        let slack_s = self.noise.slack_s(self.pps);
        let level = if is_stuck {
            let base = self.reference.base_rtt().unwrap_or(reference);
            let jitter = Duration::from_secs_f64(self.noise.jitter_s(self.pps));
            seen.level.min(base + jitter)
        } else {
            seen.level.saturating_sub(Duration::from_secs_f64(slack_s))
        };
        let rise = level.saturating_sub(reference);
        let rise_s = rise.as_secs_f64();
        let backlog = check.restore_packets / self.reference.seconds() * rise_s;
        let least_backlog = if is_stuck { 0.5 } else { alpha };
        let freed_s = |pps: f64| check.restore_packets / 2.0 / pps.max(1.0);
        let before_s = check.rtt_before.as_secs_f64();
        // Strong jitter hides the answer; probes see to that. And the flow's own bursts delay most
        // packets, but not the first of them.
        let least_rise_s = seen.least.saturating_sub(reference).as_secs_f64() - slack_s;
        let can_tell = check.reason == Reason::Stale
            && !self.noise.is_strong(self.pps)
            && check.restore_packets / self.reference.seconds() * least_rise_s > alpha;
        let is_unanswered = can_tell && {
            let rate = self.capacity.pps().unwrap_or(self.pps).max(self.pps);
            let change_s = (before_s - seen.level.as_secs_f64()).abs();
            change_s < UNANSWERED * rise_s.min(freed_s(rate))
        };
        // The RTT fell with the window: the queue is the flow's own, however much is left of it.
        let is_answered = check.reason == Reason::Unresponsive
            && before_s - seen.level.as_secs_f64() > ANSWERED * freed_s(self.pps);
        let is_suspicious = match check.reason {
            Reason::Stale => is_unanswered,
            Reason::Unresponsive => !is_answered,
            Reason::Rising | Reason::Stuck => true,
        };
        if !is_suspicious || backlog <= least_backlog {
            self.candidate = None;
            if check.reason == Reason::Rising {
                self.ramp.on_mistake(now);
            }
            return;
        }
        // Those who yield to delay have joined the check.
        let before = check.rtt_before.saturating_sub(reference);
        let others_stay = rise > before / 2 && rise_s > reference.as_secs_f64() * SMALL_RISE;
        if check.reason == Reason::Rising {
            if others_stay {
                let before = before_cuts.max(self.ramp.window_packets());
                self.ramp.on_others();
                self.begin_competition(check.restore_packets, before, now);
            } else {
                self.ramp.on_mistake(now);
            }
            return;
        }
        let is_small = rise_s < reference.as_secs_f64() * SMALL_RISE;
        let mut times_seen = 1;
        if let Some(first) = self.candidate {
            let tolerance = Duration::from_millis(4).max(reference / 16);
            let tolerance = (rise / 4).max(Duration::from_micros(500)).min(tolerance);
            let jitter = Duration::from_secs_f64(self.noise.jitter_s(self.pps));
            let was_lost = self
                .congested_at
                .is_some_and(|at| now.saturating_duration_since(at) < 2 * CHECKS_APART);
            let is_same = level.abs_diff(first.level) <= tolerance;
            if is_same {
                times_seen = first.seen.saturating_add(1);
            }
            let stood_still =
                first.moved() <= tolerance.max(jitter) || (is_small && times_seen >= SAME_CHECKS);
            if is_same && stood_still && (is_small || !was_lost) {
                let level = (level + first.level) / 2;
                if is_small {
                    self.reference.raise(level);
                } else {
                    self.reference.move_to(level, seen.least);
                }
                self.candidate = None;
                self.set_window(check.restore_packets.max(before_cuts / 2.0));
                if !is_small || check.restore_packets < FAR_BELOW_CAPACITY * full_packets {
                    self.start_again();
                }
                self.noise.on_raise();
                return;
            }
            let is_moving = first.moved() > rise / 4 || was_lost;
            if self.options.competes && is_moving && others_stay {
                self.begin_competition(check.restore_packets, before_cuts, now);
                return;
            }
        }
        let rtt = self.smoothed.unwrap_or_default();
        let part = (rise_s / (reference.as_secs_f64() / 4.0).max(1e-6)).min(1.0);
        let apart = rtt
            .mul_f64(CHECKS_APART_RTTS)
            .max(CHECKS_APART.mul_f64(part));
        self.candidate = now.checked_add(apart).map(|due| Candidate {
            level,
            due,
            hold_until: due + rtt * 4,
            low: Duration::MAX,
            high: Duration::ZERO,
            seen: times_seen,
            reason: match check.reason {
                Reason::Stale => Reason::Unresponsive,
                reason => reason,
            },
        });
    }
}
