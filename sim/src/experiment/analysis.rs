//! The values of the papers' formulas for a path, to compare with the measurements on it.
//!
//! An experiment asks for them with `analysis = "gallop"`; its results then have the values under
//! the subject `analysis`, once per point.

use serde::{Deserialize, Serialize};

use crate::measure::Measure;

/// A paper's analysis of a single flow over an empty path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Analysis {
    /// The time that Vegas and Gallop-Vegas take to the available window (Ho et al. 2006 §IV).
    #[serde(rename = "gallop")]
    GallopVegas,
}

impl Analysis {
    /// The values for a path whose bottleneck forwards this many full datagrams per second, with
    /// this propagation delay there and back, in seconds.
    #[must_use]
    pub fn measures(self, packets_per_s: f64, base_rtt_s: f64) -> Vec<Measure> {
        match self {
            Analysis::GallopVegas => GallopVegas::new(packets_per_s, base_rtt_s).measures(),
        }
    }
}

/// γ and β of Ho et al. 2006.
const GAMMA: f64 = 1.0;
const BETA: f64 = 3.0;

/// The bound above which an unrounded ∆ counts as ∆ > γ, if ∆ is rounded to whole packets as in the
/// simulations of Ho et al. 2006.
const GAMMA_ROUNDED: f64 = GAMMA + 0.5;

/// The examples of Ho et al. 2006 §IV.C: µd, and the `k` that the paper takes.
///
/// NOTE: no equation of the paper gives these: (13) gives 15 and 10. With ∆ rounded to whole
/// packets the inequality behind it gives 17 for the first, which is also what simulation shows.
const EXAMPLES: [(f64, u32); 2] = [(625.0, 17), (156.25, 9)];

/// The path of Ho et al. 2006, Figure 2, with the paper's names for its properties.
#[derive(Clone, Copy, Debug)]
struct GallopVegas {
    /// The bottleneck's rate, in packets per second.
    mu: f64,
    /// The RTT of an empty path, in seconds.
    d: f64,
}

/// A power of two that is at least `value`, from Vegas' first window of two on, and the round that
/// begins with it (Ho et al. 2006, Table 2).
fn doubled(value: f64) -> (f64, f64) {
    let mut window = 2.0;
    let mut round = 0.0;
    while window < value {
        window *= 2.0;
        round += 2.0;
    }
    (window, round)
}

/// The window at the `k`-th round of stable growth (Ho et al. 2006, equation 7).
fn stable_growth(k: u32) -> f64 {
    let k = f64::from(k);
    (k * k - k + 4.0) / 2.0
}

impl GallopVegas {
    fn new(mu: f64, d: f64) -> Self {
        GallopVegas { mu, d }
    }

    fn bdp(&self) -> f64 {
        self.mu * self.d
    }

    /// The window at which Vegas leaves slow start, and the round (Ho et al. 2006, equation 5).
    fn vegas_exit(&self) -> (f64, f64) {
        doubled((1.0 + (1.0 + 16.0 * self.bdp()).sqrt()) / 2.0)
    }

    /// The round at which Vegas has the available window (Ho et al. 2006, equation 6).
    ///
    /// NOTE: the second example's 136 has the fraction of µd − 7W/8 cut off; the first has no
    /// fraction.
    fn vegas_available(&self) -> f64 {
        let (window, round) = self.vegas_exit();
        round + (self.bdp() - 7.0 * window / 8.0).max(0.0).floor()
    }

    /// The first round of stable growth in which ∆ > `gamma`: the inequality between (9) and (11),
    /// with the mean RTT of a round that (13) has.
    ///
    /// NOTE: (12) and (13) are its closed form without the term 8/27 beside µd under both roots,
    /// which changes no `k` here; "(d + z_k − 1)/2µ" before (13) stands for d + (z_k − 1)/2µ.
    fn gallop_brakes(&self, gamma: f64) -> u32 {
        let brakes = |k: u32| {
            let queueing = f64::from(k.saturating_sub(1)) / (2.0 * self.mu);
            stable_growth(k) * queueing / (queueing + self.d) > gamma
        };
        (1..).find(|&k| brakes(k)).unwrap_or(u32::MAX)
    }

    /// The round at which Gallop-Vegas has the available window, from the round `k` at which it
    /// brakes first (Ho et al. 2006, equation 19, with (16) to (18)).
    ///
    /// The sums over 1/2^(n−1) are taken as 2, their limit; with it and `k` = 17 the first
    /// example's 108 comes out. `stage_ratio` is what each stage adds to the window in proportion
    /// to the stage before.
    ///
    /// NOTE: (18) has a stage ratio of 1/2. A stage from k/4 to k/2 adds a quarter of what one from
    /// k/2 to k adds, so it is 1/4.
    fn gallop_available(&self, k: u32, stage_ratio: f64) -> f64 {
        let exit_window = self.bdp() + BETA;
        let k_packets = f64::from(k);
        let added = 0.75 * k_packets * k_packets / (1.0 - stage_ratio);
        let rest = (exit_window - (stable_growth(k) + added)).ceil();
        k_packets + 2.0 * k_packets + rest
    }

    /// The round in which the pseudo code of Ho et al. 2006 §III.C leaves slow start, and the
    /// window then.
    ///
    /// It is evaluated round by round with a mean RTT as (8) and (13) have it: d, the queueing
    /// delay of the window, and half of that which the round's increment `z` adds while it is being
    /// sent. (17) to (19) describe an increment that grows by one every other round; the pseudo
    /// code lets it grow every round.
    fn pseudo_code(&self) -> (f64, f64) {
        /// Far more rounds than any path needs, so that the loop ends in any case.
        const MAX_ROUNDS: u32 = 1_000_000;
        let (mut window, mut incr, mut status, mut z) = (2.0_f64, 0.0_f64, 0, 0.0_f64);
        for round in 0..MAX_ROUNDS {
            let queueing =
                (window - self.bdp()).max(0.0) / self.mu + (z - 1.0).max(0.0) / (2.0 * self.mu);
            let backlog = (window * queueing / (queueing + self.d)).round();
            if backlog >= BETA {
                return (f64::from(round), window - z - (backlog - BETA));
            }
            if backlog > GAMMA {
                if status == 0 {
                    incr = (incr / 2.0).floor();
                    if incr <= 1.0 {
                        return (f64::from(round), window + 1.0);
                    }
                    status = 1;
                } else {
                    status = 0;
                }
                window += incr;
                z = incr;
            } else {
                window += incr;
                z = incr;
                if incr < window {
                    incr += 1.0;
                }
                status = 0;
            }
        }
        (f64::from(MAX_ROUNDS), window)
    }

    fn measures(&self) -> Vec<Measure> {
        let (vegas_window, vegas_round) = self.vegas_exit();
        let brakes = self.gallop_brakes(GAMMA);
        let brakes_rounded = self.gallop_brakes(GAMMA_ROUNDED);
        let (exit_round, exit_window) = self.pseudo_code();
        let packets = |metric, value| Measure::new(metric, "packets", value);
        let rounds = |metric, value| Measure::new(metric, "RTTs", value);
        let mut measures = vec![
            packets("vegas_exit_window_packets", vegas_window),
            rounds("vegas_exit_rtts", vegas_round),
            rounds("vegas_available_window_rtts", self.vegas_available()),
            Measure::new(
                "vegas_available_window_s",
                "s",
                self.vegas_available() * self.d,
            ),
            rounds("gallop_brakes_rtts", f64::from(brakes)),
            packets("gallop_brakes_window_packets", stable_growth(brakes)),
            rounds("gallop_brakes_rounded_rtts", f64::from(brakes_rounded)),
            packets(
                "gallop_brakes_rounded_window_packets",
                stable_growth(brakes_rounded),
            ),
            rounds("gallop_exit_rtts", exit_round),
            Measure::new("gallop_exit_s", "s", exit_round * self.d),
            packets("gallop_exit_window_packets", exit_window),
        ];
        let example = EXAMPLES
            .iter()
            .find(|(bdp, _)| (self.bdp() / bdp - 1.0).abs() < 1e-3);
        if let Some(&(_, k)) = example {
            measures.extend([
                rounds(
                    "gallop_available_window_rtts",
                    self.gallop_available(k, 1.0 / 2.0),
                ),
                rounds(
                    "gallop_available_window_corrected_rtts",
                    self.gallop_available(k, 1.0 / 4.0),
                ),
            ]);
        }
        measures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(measures: &[Measure], metric: &str) -> Option<f64> {
        measures
            .iter()
            .find(|measure| measure.metric == metric)
            .map(|measure| measure.value)
    }

    #[test]
    fn example_1_of_section_iv_c() {
        let measures = Analysis::GallopVegas.measures(6250.0, 0.1);
        for (metric, expected) in [
            ("vegas_exit_window_packets", 64.0),
            ("vegas_exit_rtts", 10.0),
            ("vegas_available_window_rtts", 579.0),
            ("vegas_available_window_s", 57.9),
            ("gallop_brakes_rtts", 15.0),
            ("gallop_brakes_window_packets", 107.0),
            ("gallop_brakes_rounded_rtts", 17.0),
            ("gallop_brakes_rounded_window_packets", 138.0),
            ("gallop_available_window_rtts", 108.0),
            ("gallop_available_window_corrected_rtts", 252.0),
            ("gallop_exit_rtts", 118.0),
        ] {
            let found = value(&measures, metric).expect(metric);
            assert!((found - expected).abs() < 1e-9, "{metric}: {found}");
        }
    }

    #[test]
    fn example_2_of_section_iv_c() {
        let measures = Analysis::GallopVegas.measures(3125.0, 0.05);
        for (metric, expected) in [
            ("vegas_exit_window_packets", 32.0),
            ("vegas_exit_rtts", 8.0),
            ("vegas_available_window_rtts", 136.0),
            // The paper has 26, since it rounds −0.25 down.
            ("gallop_available_window_rtts", 27.0),
            ("gallop_exit_rtts", 35.0),
        ] {
            let found = value(&measures, metric).expect(metric);
            assert!((found - expected).abs() < 1e-9, "{metric}: {found}");
        }
        assert_eq!(stable_growth(9), 38.0);
    }

    #[test]
    fn the_windows_of_tables_2_and_3() {
        assert_eq!(
            [2.0, 3.0, 17.0, 64.0].map(doubled),
            [(2.0, 0.0), (4.0, 2.0), (32.0, 8.0), (64.0, 10.0)]
        );
        let windows: Vec<f64> = (1..=10).map(stable_growth).collect();
        assert_eq!(
            windows,
            [2.0, 3.0, 5.0, 8.0, 12.0, 17.0, 23.0, 30.0, 38.0, 47.0]
        );
    }

    #[test]
    fn the_closed_form_13_agrees_with_its_inequality() {
        for bdp in [15.625, 156.25, 187.5, 625.0, 1e4] {
            let root = (125.0_f64 / 729.0 + 4.0 * bdp * bdp).sqrt();
            let k = ((2.0 * bdp + root).cbrt() + (2.0 * bdp - root).cbrt() + 2.0 / 3.0).ceil();
            let path = GallopVegas::new(bdp / 0.1, 0.1);
            assert_eq!(f64::from(path.gallop_brakes(GAMMA)), k, "µd = {bdp}");
        }
    }

    #[test]
    fn every_path_has_an_end() {
        for (mu, d) in [(0.1, 0.001), (1.0, 1.0), (1e6, 10.0)] {
            let measures = Analysis::GallopVegas.measures(mu, d);
            assert!(measures.iter().all(|measure| measure.value.is_finite()));
        }
    }
}
