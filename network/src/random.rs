//! Random numbers for the simulated network, apart from those of the connections: one independent
//! stream per part, so that adding a part does not change what the others draw.

use std::f64::consts::PI;
use std::time::Duration;

use rand::{Rng, RngExt};
use rand_xoshiro::rand_core::SeedableRng;
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

/// A part's stream of random numbers.
pub type Random = Xoshiro256PlusPlus;

/// The first of the parts that draw how late each flow of an experiment starts.
pub const START_PARTS: u64 = 1 << 30;

/// The first of the parts that belong to the links of an experiment's network; flows come before.
pub const LINK_PARTS: u64 = 1 << 31;

/// The first of the parts that draw when hosts stand still, one for each route.
pub const STALL_PARTS: u64 = 3 << 30;

/// The stream of part number `part`, below 2^32, under the simulation's `seed`.
#[must_use]
pub fn stream(seed: u64, part: u64) -> Random {
    let seed = SplitMix64::seed_from_u64(seed).next_u64();
    let part = SplitMix64::seed_from_u64(part.wrapping_add(1) << 32).next_u64();
    Random::seed_from_u64(seed ^ part)
}

/// A number in `(0, 1]`.
pub fn uniform(random: &mut Random) -> f64 {
    1.0 - random.random::<f64>()
}

/// An exponential number of the mean `mean`.
pub fn exponential(random: &mut Random, mean: f64) -> f64 {
    -mean * libm::log(uniform(random))
}

/// The longest [`exponential_time`], in means. One in 22 000 is cut to it, so that the mean is kept
/// to 0.005 %. Without a limit a single time could be as long as the rest of a simulation, and
/// nothing could be said about the worst.
pub const MOST_MEANS: u32 = 10;

/// An exponential time of the mean `mean`, at most [`MOST_MEANS`] of it, to the nanosecond.
pub fn exponential_time(random: &mut Random, mean: Duration) -> Duration {
    let most = mean.saturating_mul(MOST_MEANS);
    let nanoseconds = exponential(random, mean.as_nanos() as f64);
    Duration::from_nanos(nanoseconds as u64).min(most)
}

/// A normal number of mean 0 and standard deviation 1 (Box and Muller 1958).
pub fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * libm::log(uniform(random))).sqrt();
    radius * libm::cos(2.0 * PI * random.random::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_parts_give_streams_of_their_own() {
        let mut firsts: Vec<u64> = (0..20)
            .flat_map(|seed| (0..20).map(move |part| stream(seed, part).next_u64()))
            .collect();
        assert_eq!(stream(3, 4).next_u64(), stream(3, 4).next_u64());
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), 400);
    }

    #[test]
    fn normal_numbers_have_their_moments() {
        let mut random = stream(1, 2);
        let values: Vec<f64> = (0..200_000).map(|_| normal(&mut random)).collect();
        let moment = |power| values.iter().map(|value| value.powi(power)).sum::<f64>() / 2e5;
        assert!(moment(1).abs() < 0.01 && (moment(2) - 1.0).abs() < 0.01);
        assert!(moment(3).abs() < 0.03 && (moment(4) - 3.0).abs() < 0.1);
    }

    #[test]
    fn exponential_times_have_their_mean_and_a_limit() {
        let mean = Duration::from_millis(2);
        let mut random = stream(1, 1);
        let mut times: Vec<Duration> = (0..200_000)
            .map(|_| exponential_time(&mut random, mean))
            .collect();
        times.sort_unstable();
        let all: Duration = times.iter().sum();
        let near = |time: Duration, ms: f64| (time.as_secs_f64() * 1e3 / ms - 1.0).abs() < 0.01;
        assert!(near(all / 200_000, 2.0), "{all:?}");
        assert!(near(times[100_000], 2.0 * 2.0_f64.ln()));
        assert_eq!(times.last(), Some(&Duration::from_millis(20)));
    }
}
