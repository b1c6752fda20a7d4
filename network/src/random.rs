//! Random numbers for the simulated network, apart from those of the connections: one independent
//! stream per part, so that adding a part does not change what the others draw.

use rand::Rng;
use rand_xoshiro::rand_core::SeedableRng;
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

/// A part's stream of random numbers.
pub type Random = Xoshiro256PlusPlus;

/// The first of the parts that draw how late each flow of an experiment starts.
pub const START_PARTS: u64 = 1 << 30;

/// The first of the parts that belong to the links of an experiment's network; flows come before.
pub const LINK_PARTS: u64 = 1 << 31;

/// The stream of part number `part`, below 2^32, under the simulation's `seed`.
#[must_use]
pub fn stream(seed: u64, part: u64) -> Random {
    let seed = SplitMix64::seed_from_u64(seed).next_u64();
    let part = SplitMix64::seed_from_u64(part.wrapping_add(1) << 32).next_u64();
    Random::seed_from_u64(seed ^ part)
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
}
