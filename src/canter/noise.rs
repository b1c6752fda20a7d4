//! The delay that the path adds by itself: jitter, and what a probe showed to be no queue.

/// Rounds whose spreads are kept.
const ROUNDS: usize = 6;

/// The jitter is learned from the median of so many of them.
const MEDIAN_OF: usize = 5;

/// A larger spread is believed in by a quarter, a smaller one by a 64th, or by a 16th if it is a
/// tenth of what was believed.
const UP: f64 = 4.0;
const DOWN: f64 = 64.0;
const DOWN_FAST: f64 = 16.0;
const FAR_BELOW: f64 = 10.0;

/// Packets of a round's spread that are the flows' own: sizes, pairs, and Vegas' step.
const OWN_PACKETS: f64 = 2.0;

/// Spreads beyond these are queues or outages.
const MOST_S: f64 = 0.1;
const MOST_OF_SHORT_PATH_S: f64 = 0.03;

/// Noise is strong if a round's spread is at least this many packets' time in the last rounds, …
const STRONG_LEAST_PACKETS: f64 = 1.5;
/// … and this many are typical.
const STRONG_TYPICAL_PACKETS: f64 = 4.0;

/// The time in which what a probe showed and the largest spread are forgotten.
const MEMORY_S: f64 = 60.0;

/// The most that a probe may show to be no queue, in typical spreads at their largest.
const MOST_EXTRA_SPREADS: f64 = 3.0;

/// The RTT's variation that the flow's own queue does not explain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Noise {
    /// Largest less smallest RTT of each of the last rounds, the newest first.
    spreads_s: [f64; ROUNDS],
    typical_s: f64,
    /// The largest typical spread of late.
    top_s: f64,
    /// The delay that a larger window did not add to.
    extra_s: f64,
}

impl Noise {
    /// A round ended in which the window stood still.
    pub(super) fn on_steady_round(&mut self, spread_s: f64, base_rtt_s: f64) {
        self.spreads_s.rotate_right(1);
        let most_s = MOST_S.min(base_rtt_s.max(MOST_OF_SHORT_PATH_S));
        self.spreads_s[0] = spread_s.min(most_s);
        let mut last = [0.0; MEDIAN_OF];
        last.copy_from_slice(&self.spreads_s[..MEDIAN_OF]);
        last.sort_by(f64::total_cmp);
        let median_s = last[MEDIAN_OF / 2];
        self.typical_s += if median_s > self.typical_s {
            (median_s - self.typical_s) / UP
        } else if median_s < self.typical_s / FAR_BELOW {
            (median_s - self.typical_s) / DOWN_FAST
        } else {
            (median_s - self.typical_s) / DOWN
        };
        self.top_s = self.top_s.max(self.typical_s);
    }

    /// Time passes, and with it what was seen once.
    pub(super) fn fade(&mut self, passed_s: f64) {
        let kept = 1.0 - (passed_s / MEMORY_S).min(0.25);
        self.top_s = (self.top_s * kept).max(self.typical_s);
        self.extra_s *= kept;
    }

    /// The spread of a round that packets of this rate do not explain.
    pub(super) fn jitter_s(&self, pps: f64) -> f64 {
        (self.typical_s - OWN_PACKETS / pps.max(1.0)).max(0.0)
    }

    /// The delay above the reference RTT that is nobody's queue.
    pub(super) fn slack_s(&self, pps: f64) -> f64 {
        self.jitter_s(pps).max(self.extra_s)
    }

    /// The typical spread, that of the flow's own packets included.
    pub(super) fn typical_s(&self) -> f64 {
        self.typical_s
    }

    /// True if RTTs vary by far more than the flows' windows do.
    pub(super) fn is_strong(&self, pps: f64) -> bool {
        let least_s = self.spreads_s.iter().copied().fold(f64::INFINITY, f64::min);
        pps * least_s > STRONG_LEAST_PACKETS && pps * self.typical_s > STRONG_TYPICAL_PACKETS
    }

    /// The most that a probe may show to be nobody's queue.
    pub(super) fn most_extra_s(&self) -> f64 {
        self.top_s * MOST_EXTRA_SPREADS
    }

    /// A probe showed this much delay to be nobody's queue.
    pub(super) fn set_extra_s(&mut self, extra_s: f64) {
        self.extra_s = extra_s.clamp(0.0, self.most_extra_s());
    }

    /// The reference RTT was raised: part of the spread was the way there.
    pub(super) fn on_raise(&mut self) {
        self.spreads_s = [0.0; ROUNDS];
        self.typical_s /= UP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(spread_s: f64, rounds: usize) -> Noise {
        let mut noise = Noise::default();
        (0..rounds).for_each(|_| noise.on_steady_round(spread_s, 0.04));
        noise
    }

    #[test]
    fn jitter_is_the_spread_without_two_packets_of_the_flows_own() {
        let noise = after(0.010, 60);
        assert!((noise.jitter_s(1000.0) - 0.008).abs() < 1e-4);
        assert_eq!(noise.jitter_s(100.0), 0.0, "two packets take 20 ms");
        assert!(noise.is_strong(1000.0) && !noise.is_strong(100.0));
    }

    #[test]
    fn two_rounds_of_five_with_an_outlier_change_nothing() {
        let mut noise = Noise::default();
        for spread_s in [0.03, 0.0, 0.0, 0.03, 0.0, 0.0] {
            noise.on_steady_round(spread_s, 0.04);
        }
        assert_eq!(noise.typical_s(), 0.0);
    }

    #[test]
    fn spreads_beyond_the_path_are_cut_off() {
        assert!(after(10.0, 100).typical_s() <= 0.04);
        let mut long = Noise::default();
        (0..100).for_each(|_| long.on_steady_round(10.0, 3.0));
        assert!(long.typical_s() <= 0.1);
    }

    #[test]
    fn a_probe_may_explain_three_spreads_and_is_forgotten() {
        let mut noise = after(0.010, 60);
        noise.set_extra_s(1.0);
        let extra_s = noise.slack_s(1000.0);
        assert!((extra_s - 0.030).abs() < 1e-4);
        (0..600).for_each(|_| noise.fade(1.0));
        assert!(noise.slack_s(1000.0) < 0.009);
    }
}
