//! Rates and delays of links that are drawn at random: cellular links and constellations of
//! satellites.

use std::f64::consts::PI;
use std::time::Duration;

use rand::RngExt;

use crate::random::{Random, exponential_time, normal, uniform};
use crate::rate_course::RateCourse;
use crate::time::Time;
use crate::units::Rate;

/// A cellular link: its rate is a Brownian motion, and where it comes to zero there is an outage
/// (Winstein et al. 2013 §3.1).
///
/// NOTE: there the rate is that of a Poisson process of packets; here packets are sent evenly. There
/// is no outage but at zero in either, and one ends with the same probability at all times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cellular {
    /// The mean over all times, outages included.
    pub mean: Rate,
    /// The standard deviation of the rate's change in a second, over `mean`.
    pub spread: f64,
    /// The time between two changes. The rate comes to zero the more often the shorter it is.
    pub every: Duration,
    /// The mean length of an outage; zero for none.
    pub outage: Duration,
}

impl Cellular {
    /// The standard deviation of one step, over the mean.
    #[must_use]
    pub fn step(&self) -> f64 {
        self.spread * self.every.as_secs_f64().sqrt()
    }

    /// The highest rate, over the mean, at which the motion is reflected as it is at zero.
    ///
    /// All rates up to it are equally likely, so that without outages it is twice the mean. A step
    /// of standard deviation s crosses zero with the probability s / (√(2π) highest): it does so
    /// every `highest` × `per_mean`. With outages of that length the mean is half of the highest,
    /// times the share of time without them.
    #[must_use]
    pub fn highest(&self) -> f64 {
        let per_mean = (2.0 * PI).sqrt() * self.every.as_secs_f64() / self.step();
        1.0 + (1.0 + 2.0 * self.outage.as_secs_f64() / per_mean).sqrt()
    }

    /// A course for a simulation of this `duration`.
    #[must_use]
    pub fn course(&self, duration: Duration, random: &mut Random) -> RateCourse {
        let mean = self.mean.bps() as f64;
        let (highest, step) = (self.highest() * mean, self.step() * mean);
        let end = Time::from(duration);
        let every = self.every.max(Duration::from_nanos(1));
        let mut steps = Vec::new();
        let mut now = Time::ZERO;
        let mut rate = highest * uniform(random);
        while now < end {
            steps.push((now, rate as u64));
            now = now + every;
            let next = rate + step * normal(random);
            rate = reflected(next, highest);
            if next < 0.0 && !self.outage.is_zero() {
                steps.push((now, 0));
                now = now + exponential_time(random, self.outage).max(Duration::from_nanos(1));
            }
        }
        RateCourse::of_steps(steps)
    }
}

/// The value between 0 and `highest` to which reflections at both bring `value`.
fn reflected(value: f64, highest: f64) -> f64 {
    let within = value.rem_euclid(2.0 * highest);
    within.min(2.0 * highest - within)
}

/// A constellation of satellites that gives its users another satellite at fixed times, and with it
/// another rate and delay (Tanveer et al. 2023; Mohan et al. 2024).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constellation {
    /// The least rate.
    pub low: Rate,
    /// The highest rate; all between are equally likely.
    pub high: Rate,
    /// The time that a satellite serves.
    pub every: Duration,
    /// The longest additional delay, one way; all up to it are equally likely.
    pub delay_spread: Duration,
    /// The time at the start of each satellite but the first in which nothing is sent.
    pub gap: Duration,
}

impl Constellation {
    /// A course for a simulation of this `duration`, and the additional delays with their times.
    #[must_use]
    pub fn course(
        &self,
        duration: Duration,
        random: &mut Random,
    ) -> (RateCourse, Vec<(Duration, Duration)>) {
        let every = self.every.max(Duration::from_nanos(1));
        let spread_ns = u64::try_from(self.delay_spread.as_nanos()).unwrap_or(u64::MAX);
        let (low, high) = (self.low.bps(), self.high.bps().max(self.low.bps()));
        let (mut steps, mut delays) = (Vec::new(), Vec::new());
        let mut start = Duration::ZERO;
        while start < duration {
            let gap = match start.is_zero() {
                true => Duration::ZERO,
                false => self.gap.min(every),
            };
            if !gap.is_zero() {
                steps.push((start.into(), 0));
            }
            steps.push(((start + gap).into(), random.random_range(low..=high)));
            let delay = Duration::from_nanos(random.random_range(0..=spread_ns));
            delays.push((start, delay));
            start += every;
        }
        (RateCourse::of_steps(steps), delays)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::random::stream;

    const MEAN: Rate = Rate::MEGABIT;

    fn cellular(spread: f64, every_ms: u64, outage_ms: u64) -> Cellular {
        Cellular {
            mean: MEAN,
            spread,
            every: Duration::from_millis(every_ms),
            outage: Duration::from_millis(outage_ms),
        }
    }

    #[test]
    fn cellular_links_have_their_mean() {
        let long = Duration::from_secs(100_000);
        for (seed, link) in [
            (1, cellular(0.4, 20, 1000)),
            (2, cellular(0.4, 20, 0)),
            (3, cellular(1.0, 20, 200)),
            (4, cellular(0.4, 100, 1000)),
        ] {
            let course = link.course(long, &mut stream(seed, 0));
            let mean = course.mean_rate(long).bps() as f64 / 1e6;
            assert!((mean - 1.0).abs() < 0.03, "{link:?}: {mean}");
            let highest = course.highest_rate().bps() as f64 / 1e6;
            assert!(
                (0.99..=1.0).contains(&(highest / link.highest())),
                "{highest}"
            );
        }
    }

    #[test]
    fn cellular_rates_move_by_their_spread_and_stop_for_outages() {
        let link = cellular(0.4, 20, 1000);
        let long = Duration::from_secs(20_000);
        let course = link.course(long, &mut stream(5, 0));
        let at = |ms| course.rate_at(Time::from(Duration::from_millis(ms)));
        // Away from the ends, the change over a second has its standard deviation.
        let (mut squares, mut count) = (0.0, 0.0);
        for second in 0..19_999 {
            let (now, later) = (
                at(1000 * second) as f64 / 1e6,
                at(1000 * second + 1000) as f64 / 1e6,
            );
            if (1.2..1.6).contains(&now) {
                squares += (later - now) * (later - now);
                count += 1.0;
            }
        }
        let spread = f64::sqrt(squares / count);
        assert!((spread - 0.4).abs() < 0.04, "{spread}");
        // An outage lasts a second in the mean, at any time that it has lasted already.
        let still: Vec<bool> = (0..2_000_000).map(|step| at(10 * step) == 0).collect();
        let outages = still.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let share = still.iter().filter(|still| **still).count() as f64;
        let length = share / 100.0 / outages as f64;
        assert!((0.95..1.15).contains(&length), "{length}");
        let expected = 1.0 - 2.0 / link.highest();
        assert!((share / 2e6 - expected).abs() < 0.02, "{share}");
    }

    #[test]
    fn satellites_have_rates_and_delays_of_their_own_and_a_gap_between_them() {
        let ms = Duration::from_millis;
        let link = Constellation {
            low: MEAN,
            high: MEAN.saturating_mul(3),
            every: Duration::from_secs(15),
            delay_spread: ms(20),
            gap: ms(100),
        };
        let satellites = 10_000;
        let long = link.every * satellites;
        let (course, delays) = link.course(long, &mut stream(6, 0));
        assert_eq!(delays.len(), satellites as usize);
        let (mut rates, mut extra) = (0.0, Duration::ZERO);
        for (number, &(at, delay)) in (0..).zip(&delays) {
            assert_eq!(at, link.every * number);
            assert!(delay <= ms(20));
            extra += delay;
            let rate = |after| course.rate_at(Time::from(at + after));
            let gap = if number == 0 { rate(ms(0)) } else { 0 };
            assert_eq!([rate(ms(0)), rate(ms(99))], [gap; 2]);
            assert!((1_000_000..=3_000_000).contains(&rate(ms(100))));
            assert_eq!(rate(ms(100)), rate(ms(14_999)));
            rates += rate(ms(100)) as f64;
        }
        assert!((rates / 1e10 - 2.0).abs() < 0.02);
        assert!((extra.as_secs_f64() - 100.0).abs() < 1.5, "{extra:?}");
        let mean = course.mean_rate(long).bps() as f64;
        assert!((mean / rates * 1e4 - 14.9 / 15.0).abs() < 1e-4, "{mean}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// A course begins at once, its rates are in bounds, the same seed gives the same, and a
        /// longer simulation has the same beginning.
        #[test]
        fn courses_are_in_bounds_and_reproducible(
            spread in 0.01..2.0,
            every_ms in 1..200_u64,
            outage_ms in 0..3000_u64,
            seed: u64,
        ) {
            let link = cellular(spread, every_ms, outage_ms);
            let course = |seconds| link.course(Duration::from_secs(seconds), &mut stream(seed, 0));
            let (short, long) = (course(10), course(20));
            prop_assert_eq!(&short, &course(10));
            let most = link.highest() * 1e6;
            for ms in 0..10_000 {
                let at = Time::from(Duration::from_millis(ms));
                prop_assert_eq!(short.rate_at(at), long.rate_at(at));
                prop_assert!(short.rate_at(at) as f64 <= most);
            }
        }
    }
}
