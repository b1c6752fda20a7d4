//! The moment at which another flow checks its BaseRTT.

use std::time::Duration;

/// The RTT falls by this part of it, and by a typical spread, when another flow checks its BaseRTT.
const DIP: f64 = 1.0 / 128.0;

/// Rounds whose smallest RTT a dip is below.
const DIP_ROUNDS: usize = 3;

/// A fall of the RTT that is not the flow's own doing: another flow checks its BaseRTT.
///
/// The queue of many flows is empty only when all of them yield at once. So whoever sees another
/// one check joins in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DipDetector {
    least: [Duration; DIP_ROUNDS],
}

impl DipDetector {
    /// A round had this smallest RTT.
    pub(super) fn on_round(&mut self, least: Duration) {
        self.least.rotate_right(1);
        self.least[0] = least;
    }

    /// The flow changed its own window.
    pub(super) fn begin_again(&mut self) {
        self.least = Default::default();
    }

    /// True if this RTT is a dip.
    pub(super) fn is_dip(&self, rtt: Duration, spread_s: f64) -> bool {
        let least = self.least.iter().min().copied().unwrap_or_default();
        let depth = least.saturating_sub(rtt).as_secs_f64();
        depth > (rtt.as_secs_f64() * DIP).max(spread_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_fall_below_three_rounds_by_more_than_the_spread_is_a_dip() {
        let mut dips = DipDetector::default();
        dips.on_round(ms(100));
        dips.on_round(ms(101));
        assert!(!dips.is_dip(ms(90), 0.0), "two rounds");
        dips.on_round(ms(102));
        assert!(dips.is_dip(ms(99), 0.0));
        assert!(!dips.is_dip(ms(99), 0.001));
        assert!(
            !dips.is_dip(Duration::from_micros(99_500), 0.0),
            "less than a 128th"
        );
        dips.begin_again();
        assert!(!dips.is_dip(ms(50), 0.0));
    }
}
