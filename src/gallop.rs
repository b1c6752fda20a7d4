//! Gallop-Vegas: Vegas with stable growth as its slow start (Ho et al. 2006 §III).

use crate::options::{DefaultValue, OptionSpec};
use crate::vegas::{Decision, RoundEnd, SlowStart, Thresholds, Vegas, options};

/// Vegas that starts by stable growth.
pub type GallopVegas = Vegas<StableGrowth>;

/// The outcome of the previous round's comparison (Ho et al. 2006 Table 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Status {
    /// ∆ ≤ γ and `incr` grew, or γ < ∆ < β for an even number of rounds.
    #[default]
    Growing = 0,
    /// γ < ∆ < β for an odd number of rounds: `incr` was halved in the last one.
    Braking = 1,
    /// β ≤ ∆: the window was cut, so the first decision of congestion avoidance is left out.
    Cut = 2,
}

/// The growth rate between exponential and linear that finds the available window without bursts.
///
/// Each round adds `incr` datagrams, and `incr` itself grows by one each round: 2, 2, 3, 5, 8, 12,
/// 17 … from a window of two (Ho et al. 2006 Table 3). Between γ and β the increment is halved
/// every other round; at β the surplus is taken back and congestion avoidance begins.
///
/// NOTE: the text of §III.B and its pseudo code differ in whether ∆ = γ still grows; this is the
/// pseudo code (∆ > γ, ∆ ≥ β), which reproduces Table 3 and Figure 4.
///
/// NOTE: the paper's window begins with two datagrams. A larger one, as QUIC's of ten (RFC 9002
/// §7.2), goes on as one from two that has come to it: 10, 10, 14, 19, 25, 32 … With increments
/// from one on again it would take three rounds more.
#[derive(Clone, Copy, Debug, Default)]
pub struct StableGrowth {
    incr: u64,
    status: Status,
}

impl SlowStart for StableGrowth {
    const CONTROLLER: &'static str = "gallop-vegas";
    const SUMMARY: &'static str =
        "Vegas that finds the window of a large path sooner, without bursts (Ho et al. 2006)";
    /// Two to six datagrams queued.
    ///
    /// NOTE: Ho et al. 2006 §III.B has α = 1 and β = 3, for a receiver that acknowledges every
    /// packet. QUIC's acknowledges every second one (RFC 9000 §13.2.2), so that packets leave in
    /// pairs, and the second of each waits for the first; the same thresholds, counted in pairs,
    /// are 2 and 6. With the paper's own, slow start ends at 37 to 81 % of the available window
    /// (docs/results.md).
    const OPTIONS: &'static [OptionSpec] = &options(2.0, 6.0, DefaultValue::Elsewhere("alpha"));
    const PHASE: &'static str = "stable_growth";

    fn on_round(&mut self, round: &RoundEnd, thresholds: &Thresholds) -> Decision {
        let maxincr = round.window_packets;
        let backlog = round.backlog_packets;
        if backlog <= thresholds.gamma {
            let grow = self.incr;
            if self.incr == 0 {
                self.incr = incr_at(round.window_packets);
            } else if self.incr < maxincr {
                self.incr += 1;
            }
            self.status = Status::Growing;
            return Decision::Grow(grow);
        }
        if backlog >= thresholds.beta {
            self.status = Status::Cut;
            let surplus = (backlog - thresholds.beta).round() as u64;
            return Decision::Leave {
                shrink: round.gained_packets.saturating_add(surplus),
                grow: 0,
            };
        }
        if self.status == Status::Braking {
            self.status = Status::Growing;
            return Decision::Grow(self.incr);
        }
        self.incr /= 2;
        self.status = Status::Braking;
        if self.incr <= 1 {
            self.incr = 1;
            return Decision::Leave { shrink: 0, grow: 1 };
        }
        Decision::Grow(self.incr)
    }

    fn skips_first_decision(&mut self) -> bool {
        let skips = self.status == Status::Cut;
        if skips {
            self.status = Status::Growing;
        }
        skips
    }

    fn incr_and_status(&self) -> Option<(u64, u8)> {
        Some((self.incr, self.status as u8))
    }
}

/// The next increment of stable growth from two datagrams when its window has come to this one.
///
/// The window is then 2 + incr · (incr − 1) / 2 (Ho et al. 2006 Table 3): the largest `incr` for
/// which that is no more.
fn incr_at(window_packets: u64) -> u64 {
    let gained = window_packets.saturating_sub(2);
    gained
        .saturating_mul(8)
        .saturating_add(1)
        .isqrt()
        .div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One round with window 100, of which the round itself added 7.
    fn round(backlog_packets: f64) -> RoundEnd {
        RoundEnd {
            backlog_packets,
            window_packets: 100,
            gained_packets: 7,
        }
    }

    /// As in Ho et al. 2006.
    const PAPER: Thresholds = Thresholds {
        alpha: 1.0,
        beta: 3.0,
        gamma: 1.0,
    };

    fn decide(incr: u64, status: Status, backlog: f64) -> (Decision, u64, Status) {
        let mut growth = StableGrowth { incr, status };
        let decision = growth.on_round(&round(backlog), &PAPER);
        (decision, growth.incr, growth.status)
    }

    #[test]
    fn each_branch_of_the_pseudo_code_at_its_boundaries() {
        use Decision::{Grow, Leave};
        use Status::{Braking, Cut, Growing};
        // Columns: incr, status, ∆ before; decision, incr, status after.
        for (incr, status, backlog, expected) in [
            // ∆ ≤ γ: add incr, then incr + 1, whatever the status was.
            (0, Growing, 0.0, (Grow(0), 14, Growing)),
            (12, Growing, 0.0, (Grow(12), 13, Growing)),
            (12, Growing, 1.0, (Grow(12), 13, Growing)),
            (12, Braking, 1.0, (Grow(12), 13, Growing)),
            // incr stops at maxincr, the window.
            (99, Growing, 0.0, (Grow(99), 100, Growing)),
            (100, Growing, 0.0, (Grow(100), 100, Growing)),
            (150, Growing, 0.0, (Grow(150), 150, Growing)),
            // γ < ∆ < β for the first time: halve, then add.
            (12, Growing, 2.0, (Grow(6), 6, Braking)),
            (13, Growing, 2.0, (Grow(6), 6, Braking)),
            (13, Growing, 1.0 + f64::EPSILON, (Grow(6), 6, Braking)),
            // … the second time: add again, halve at the third.
            (6, Braking, 2.0, (Grow(6), 6, Growing)),
            (6, Braking, 3.0 - 2.0 * f64::EPSILON, (Grow(6), 6, Growing)),
            // The increment that was halved to one leaves slow start.
            (4, Growing, 2.0, (Grow(2), 2, Braking)),
            (3, Growing, 2.0, (Leave { shrink: 0, grow: 1 }, 1, Braking)),
            (2, Growing, 2.0, (Leave { shrink: 0, grow: 1 }, 1, Braking)),
            (1, Growing, 2.0, (Leave { shrink: 0, grow: 1 }, 1, Braking)),
            (0, Growing, 2.0, (Leave { shrink: 0, grow: 1 }, 1, Braking)),
            // … but not at the even number of times.
            (1, Braking, 2.0, (Grow(1), 1, Growing)),
            // ∆ ≥ β: take the last increment and the surplus back.
            (12, Growing, 3.0, (Leave { shrink: 7, grow: 0 }, 12, Cut)),
            (12, Braking, 3.0, (Leave { shrink: 7, grow: 0 }, 12, Cut)),
            (
                12,
                Growing,
                8.0,
                (
                    Leave {
                        shrink: 12,
                        grow: 0,
                    },
                    12,
                    Cut,
                ),
            ),
        ] {
            assert_eq!(
                decide(incr, status, backlog),
                expected,
                "incr {incr}, {status:?}, ∆ {backlog}"
            );
        }
    }

    #[test]
    fn a_larger_window_goes_on_where_growth_from_two_would_be() {
        let mut window = 2;
        for incr in 1..1000 {
            // Table 3: this window is the first with this increment.
            assert_eq!(incr_at(window), incr);
            assert_eq!(incr_at(window + incr - 1), incr);
            window += incr;
        }
        assert_eq!(incr_at(10), 4);
    }

    #[test]
    fn only_a_cut_skips_the_first_decision_and_only_once() {
        for (status, skips) in [
            (Status::Growing, false),
            (Status::Braking, false),
            (Status::Cut, true),
        ] {
            let mut growth = StableGrowth { incr: 1, status };
            assert_eq!(growth.skips_first_decision(), skips, "{status:?}");
            assert!(!growth.skips_first_decision());
        }
    }

    #[test]
    fn a_gamma_above_beta_cuts_without_braking() {
        let thresholds = Thresholds {
            gamma: 5.0,
            ..PAPER
        };
        let mut growth = StableGrowth {
            incr: 4,
            status: Status::Growing,
        };
        assert_eq!(growth.on_round(&round(5.0), &thresholds), Decision::Grow(4));
        assert_eq!(
            growth.on_round(&round(6.0), &thresholds),
            Decision::Leave {
                shrink: 10,
                grow: 0
            }
        );
    }
}
