//! Startup: trains, each of which measures the rate for the next.
//!
//! The window triples each round, up to what the rate of the last train fills. Its end needs no loss
//! and no queue, if the bottleneck stretched a train.

use std::time::{Duration, Instant};

use super::cruise::Cruise;
use super::meter::{Meter, Recent};
use super::{Canter, FAR_BELOW_CAPACITY, LEAST_WINDOW_PACKETS, Mode};

/// Growth of the window per round of startup.
pub(super) const STARTUP_GROWTH: f64 = 3.0;
/// The queue that a train of startup may build, in packets; after a loss in startup, a gentler one.
const TRAIN_QUEUE_PACKETS: f64 = 10.0;
const GENTLE_QUEUE_PACKETS: f64 = 2.0;
/// Trains are paced at most so much faster than the rate that they aim at.
const MOST_TRAIN_GAIN: f64 = 1.25;
/// Startup ends at this part of the window that it aims at.
const NEAR_TARGET: f64 = 0.9;
/// … or a round's smallest RTT rose by so many packets.
const RISE_PACKETS: f64 = 8.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Startup {
    /// The smallest RTT of the round before.
    pub(super) least: Option<Duration>,
    /// The pacing gain of the train that is being acknowledged, and of the one being sent.
    pub(super) acked_gain: f64,
    sent_gain: f64,
}

impl Startup {
    pub(super) fn new() -> Startup {
        Startup {
            least: None,
            acked_gain: MOST_TRAIN_GAIN,
            sent_gain: MOST_TRAIN_GAIN,
        }
    }
}

impl Canter {
    /// The pacing gain of a train that ends with this window.
    pub(super) fn train_gain(&self, window_packets: f64) -> f64 {
        let queue = if self.is_gentle {
            GENTLE_QUEUE_PACKETS
        } else {
            TRAIN_QUEUE_PACKETS
        };
        (1.0 + queue / window_packets.max(1.0)).min(MOST_TRAIN_GAIN)
    }

    pub(super) fn start_again(&mut self) {
        self.has_restarted = true;
        self.mode = Mode::Startup(Startup::new());
        self.capacity.doubt();
        self.cruise.begin_again();
        self.candidate = None;
        self.recent = Recent::default();
        self.grow_to(self.window_packets * STARTUP_GROWTH);
    }

    pub(super) fn leave_startup(&mut self, window_packets: f64, now: Instant, is_full: bool) {
        self.mode = Mode::Cruise;
        self.startup_mark = self.recovery.largest_sent();
        // The queue that startup made beyond this window is not the window's doing.
        self.skipped_rounds = u32::from(is_full && 2.0 * window_packets < self.window_packets);
        self.set_window(window_packets);
        self.cruise = Cruise::after_startup(self.window_packets, is_full);
        self.cruise_rounds = 0;
        let bdp = self.capacity.bdp_packets(self.reference.get());
        self.checks_early = bdp.is_none_or(|bdp| window_packets < FAR_BELOW_CAPACITY * bdp);
        let reference = &mut self.reference;
        reference.confirmed_at = reference.confirmed_at.or(Some(now));
    }

    /// Startup ended with a queue at this window: trains that showed far more were bunched.
    pub(super) fn disbelieve_trains(&mut self, window_packets: f64) {
        let is_noisy = self.noise.typical_s() * self.pps > 4.0;
        if is_noisy || self.has_restarted {
            self.capacity
                .limit(2.0 * window_packets / self.reference.seconds());
        }
    }

    /// A round of startup ended in which the window was used.
    pub(super) fn on_startup_round(
        &mut self,
        startup: Startup,
        meter: &Meter,
        least: Duration,
        now: Instant,
    ) {
        let base = self.reference.get();
        let base_s = base.as_secs_f64();
        let (alpha, _) = self.thresholds_packets();
        let low = startup.least.unwrap_or(base).min(base * 2).max(base);
        let pps = self.capacity.pps().unwrap_or(self.pps);
        let rise = pps * least.saturating_sub(low).as_secs_f64();
        if rise > RISE_PACKETS + pps * self.noise.jitter_s(self.pps) {
            let delivered = self.pps * base_s + alpha;
            let surplus = self.pps * least.saturating_sub(base).as_secs_f64();
            let window = self.window_packets.min(meter.window_packets.max(delivered)) - surplus;
            let window = window.max(delivered).min(self.window_packets);
            self.disbelieve_trains(window);
            self.leave_startup(window, now, false);
            return;
        }
        let goal = self.window_packets * STARTUP_GROWTH;
        let goal = match (self.capacity.pps(), self.capacity.exact_pps()) {
            (_, Some(pps)) => {
                let target = pps * base_s + alpha;
                if meter.window_packets >= target * NEAR_TARGET {
                    self.leave_startup(target, now, true);
                    return;
                }
                goal.min(target.max(LEAST_WINDOW_PACKETS))
            }
            (Some(pps), None) => goal.min(pps * base_s + alpha),
            (None, None) => goal,
        };
        if goal <= self.window_packets {
            self.leave_startup(goal, now, false);
            return;
        }
        self.mode = Mode::Startup(Startup {
            least: Some(least),
            acked_gain: startup.sent_gain,
            sent_gain: self.train_gain(goal),
        });
        self.grow_to(goal);
    }
}
