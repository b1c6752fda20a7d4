//! Random numbers of the distributions that traffic has.

pub(crate) use gallop_network::random::exponential;
use gallop_network::random::{Random, uniform};
use rand::Rng;
use rand_xoshiro::rand_core::SeedableRng;

/// A Pareto number of the mean `mean`, which exists if `shape` is above 1.
pub(crate) fn pareto(random: &mut Random, mean: f64, shape: f64) -> f64 {
    let least = mean * (shape - 1.0) / shape;
    least / libm::pow(uniform(random), 1.0 / shape)
}

/// A separate stream for a part that draws later or never.
pub(crate) fn fork(random: &mut Random) -> Random {
    Random::seed_from_u64(random.next_u64())
}

#[cfg(test)]
mod tests {
    use gallop_network::random;

    use super::*;

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
}
