//! Random sizes and times.

use crate::experiment::traffic::{Sizes, Times};
use crate::random::Random;
use rand::{Rng, RngExt};
use rand_xoshiro::rand_core::SeedableRng;
use std::time::Duration;

/// A number in `(0, 1]`.
fn uniform(random: &mut Random) -> f64 {
    1.0 - random.random::<f64>()
}

/// Of the mean `mean`.
pub(crate) fn exponential(random: &mut Random, mean: f64) -> f64 {
    -mean * uniform(random).ln()
}

/// Of the mean `mean`, which exists if `shape` is above 1.
pub(crate) fn pareto(random: &mut Random, mean: f64, shape: f64) -> f64 {
    let least = mean * (shape - 1.0) / shape;
    least / uniform(random).powf(1.0 / shape)
}

/// A stream of its own for something that draws later, or never.
pub(super) fn fork(random: &mut Random) -> Random {
    Random::seed_from_u64(random.next_u64())
}

impl Times {
    /// A time.
    pub(crate) fn draw(&self, random: &mut Random) -> Duration {
        match self {
            Times::Constant(time) => time.duration(),
            Times::Exponential { mean } => {
                let seconds = exponential(random, mean.duration().as_secs_f64());
                Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
            }
        }
    }
}

impl Sizes {
    /// A number of stream bytes, at least one, where a datagram of full size
    /// carries `packet_bytes`.
    pub(crate) fn draw(&self, random: &mut Random, packet_bytes: u64) -> u64 {
        let bytes = match self {
            Sizes::Constant(size) => return size.bytes(packet_bytes),
            Sizes::Exponential { mean } => exponential(random, mean.bytes(packet_bytes) as f64),
            Sizes::Pareto { mean, shape } => {
                pareto(random, mean.bytes(packet_bytes) as f64, *shape)
            }
        };
        (bytes.round() as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    /// Mean and median of many.
    fn summary(mut draw: impl FnMut(&mut Random) -> f64) -> (f64, f64) {
        let mut random = random::stream(1, 1);
        let mut values: Vec<f64> = (0..200_000).map(|_| draw(&mut random)).collect();
        values.sort_by(f64::total_cmp);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (mean, values[values.len() / 2])
    }

    fn near(value: f64, expected: f64) -> bool {
        (value / expected - 1.0).abs() < 0.02
    }

    #[test]
    fn distributions_have_their_means_and_medians() {
        let (mean, median) = summary(|random| exponential(random, 3.0));
        assert!(near(mean, 3.0) && near(median, 3.0 * 2.0_f64.ln()));
        let (mean, median) = summary(|random| pareto(random, 50.0, 3.0));
        let least = 50.0 * 2.0 / 3.0;
        assert!(near(mean, 50.0) && near(median, least * 2.0_f64.powf(1.0 / 3.0)));
    }

    #[test]
    fn sizes_count_packets_by_what_they_carry() {
        let mut random = random::stream(1, 1);
        let size = "3p".parse().expect("a size");
        assert_eq!(Sizes::Constant(size).draw(&mut random, 1000), 3000);
        // 004 §4.3's "median of 50 kB" cannot be, with a mean of 50 kB.
        let (_, median) = summary(|random| Sizes::default().draw(random, 1000) as f64);
        assert!(near(median, 14_850.0), "{median}");
    }
}
