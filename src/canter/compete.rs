//! Beside flows that fill the buffer: CUBIC's window (RFC 9438), until the queue is seen empty.
//!
//! Delay that half of the window does not shorten, and that moves, is the queue of others who do not
//! yield to delay. Vegas would yield to them until nothing is left.

use std::time::{Duration, Instant};

use super::{Canter, LEAST_WINDOW_PACKETS, Mode};
use crate::cubic::Cubic;
use crate::loss_based::Avoidance;

/// The part of the window that a loss leaves (RFC 9438 §4.6).
pub(super) const DECREASE: f64 = Cubic::DECREASE;

/// The window is drained this often to see if the others are still there, and after this many RTTs
/// at the earliest.
const DRAIN_EVERY: Duration = Duration::from_secs(4);
const DRAIN_EVERY_RTTS: u32 = 20;

/// A drain lasts for so many rounds.
const DRAIN_ROUNDS: u32 = 4;

/// A drain leaves this part of the window that would fill the path.
const DRAIN: f64 = 0.5;

/// The queue is nearly empty with so many packets of the flow's, with this part of the longest queue,
/// or with this part of the reference RTT.
const EMPTY_PACKETS: f64 = 3.0;
const EMPTY_OF_TOP: f64 = 0.1;
const EMPTY_OF_REFERENCE: f64 = 1.0 / 32.0;

/// After an exit, this queue is enough to compete again, in rounds above β, …
const AGAIN_ROUNDS: u32 = 2;
/// … for this time.
const AGAIN: Duration = Duration::from_secs(8);

/// Until the first loss the window grows by this part of what is acknowledged: slow start, at an
/// eighth of its pace.
const START: f64 = 0.125;

/// The memory of competition with loss-based flows.
#[derive(Clone, Debug, Default)]
pub(super) struct Competition {
    curve: Cubic,
    has_lost: bool,
    drain: Option<Drain>,
    drained_at: Option<Instant>,
    /// The longest queue since the competition began.
    top_s: f64,
    /// The end of the last competition, and the rate then.
    left: Option<(Instant, f64)>,
    high_rounds: u32,
}

/// A window far below the path's, to see the queue without it.
#[derive(Clone, Copy, Debug)]
struct Drain {
    restore_packets: f64,
    pps: f64,
    rounds: u32,
}

/// The decision at the end of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Decision {
    /// Go on.
    Stay,
    /// Go on with this window.
    Window(f64),
    /// Nobody fills the queue any more: this rate was the flow's.
    Leave { pps: f64 },
}

impl Competition {
    /// Others fill the queue. `before_packets` is the window before they were yielded to.
    pub(super) fn begin(&mut self, now: Instant, before_packets: f64) {
        self.curve = Cubic::default();
        self.curve.on_congestion(before_packets);
        self.has_lost = false;
        self.drain = None;
        self.drained_at = Some(now);
        self.top_s = 0.0;
        self.high_rounds = 0;
    }

    /// True while the window is kept down to see the queue.
    pub(super) fn is_draining(&self) -> bool {
        self.drain.is_some()
    }

    /// The window after packets of a full window were acknowledged.
    pub(super) fn grow(&mut self, window: f64, acked: f64, now: Instant, rtt: Duration) -> f64 {
        let curve = self.curve.on_acked(window, acked, now, rtt);
        if self.has_lost {
            curve
        } else {
            curve.max(window + acked * START)
        }
    }

    /// Packets were lost. Returns the window to go on with.
    pub(super) fn on_congestion(&mut self, window: f64) -> f64 {
        if let Some(drain) = &mut self.drain {
            return window.min(drain.restore_packets);
        }
        self.has_lost = true;
        self.curve.on_congestion(window);
        window * DECREASE
    }

    /// True if it is time to look at the queue.
    pub(super) fn drain_is_due(&self, now: Instant, rtt: Duration) -> bool {
        let every = DRAIN_EVERY.max(rtt.saturating_mul(DRAIN_EVERY_RTTS));
        self.drain.is_none()
            && self
                .drained_at
                .is_none_or(|at| now.saturating_duration_since(at) >= every)
    }

    /// Begins to look at the queue; returns the window for it.
    pub(super) fn begin_drain(&mut self, now: Instant, window: f64, pps: f64, bdp: f64) -> f64 {
        self.drain = Some(Drain {
            restore_packets: window,
            pps,
            rounds: 0,
        });
        self.drained_at = Some(now);
        bdp.min(window) * DRAIN
    }

    /// A round of the competition ended, with this queue at least.
    pub(super) fn on_round(
        &mut self,
        now: Instant,
        least_queue_s: f64,
        reference_s: f64,
        slack_s: f64,
    ) -> Decision {
        self.top_s = self.top_s.max(least_queue_s);
        let Some(drain) = &mut self.drain else {
            return Decision::Stay;
        };
        drain.rounds += 1;
        let nearly_empty_s = (EMPTY_PACKETS / drain.pps.max(1.0))
            .max(self.top_s * EMPTY_OF_TOP)
            .max(reference_s * EMPTY_OF_REFERENCE)
            .max(slack_s);
        if least_queue_s < nearly_empty_s {
            let pps = drain.pps;
            self.drain = None;
            self.left = Some((now, pps));
            self.high_rounds = 0;
            return Decision::Leave { pps };
        }
        if drain.rounds < DRAIN_ROUNDS {
            return Decision::Stay;
        }
        let restore = drain.restore_packets;
        self.drain = None;
        self.drained_at = Some(now);
        Decision::Window(restore)
    }

    /// A round of the steady state ended. Returns the rate of the last competition if its others are
    /// there again.
    pub(super) fn is_back(&mut self, now: Instant, queue_s: f64, beta: f64) -> Option<f64> {
        let (at, pps) = self.left?;
        if now.saturating_duration_since(at) > AGAIN {
            self.left = None;
            return None;
        }
        if pps * queue_s > 2.0 * beta {
            self.high_rounds += 1;
        } else {
            self.high_rounds = 0;
        }
        (self.high_rounds >= AGAIN_ROUNDS).then_some(pps)
    }
}

impl Canter {
    /// Others fill the queue and do not yield.
    pub(super) fn begin_competition(
        &mut self,
        window_packets: f64,
        before_packets: f64,
        now: Instant,
    ) {
        self.candidate = None;
        self.mode = Mode::Compete;
        self.competition
            .begin(now, before_packets.max(window_packets));
        self.set_window(window_packets);
    }

    /// A round of the competition ended.
    pub(super) fn on_compete_round(&mut self, least: Duration, now: Instant) {
        let queue_s = least.saturating_sub(self.reference.get()).as_secs_f64();
        let reference_s = self.reference.seconds();
        let slack_s = self.noise.slack_s(self.pps);
        match self
            .competition
            .on_round(now, queue_s, reference_s, slack_s)
        {
            Decision::Stay => {
                let rtt = self.smoothed.unwrap_or_default();
                if self.competition.drain_is_due(now, rtt) {
                    self.begin_drain(now);
                }
            }
            Decision::Window(packets) => self.set_window(packets),
            Decision::Leave { pps } => {
                self.mode = Mode::Cruise;
                self.reference.checked_at = Some(now);
                self.reference.confirmed_at = Some(now);
                let (alpha, _) = self.thresholds_packets();
                self.set_window(pps * reference_s + alpha);
                self.cruise.begin_again();
                self.skipped_rounds = 2;
                self.dips.begin_again();
            }
        }
    }

    pub(super) fn begin_drain(&mut self, now: Instant) {
        let bdp = self.pps * self.reference.seconds();
        let window = self
            .competition
            .begin_drain(now, self.window_packets, self.pps, bdp);
        self.set_window(window.max(LEAST_WINDOW_PACKETS));
    }
}
