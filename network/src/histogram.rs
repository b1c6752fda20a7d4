//! Times in classes that are a thousandth of a time wide, from which percentiles are read.

use std::time::Duration;

/// The number of leading bits of a time that are kept after the first.
const BITS: u32 = 10;

/// The number of low bits that a time of so many nanoseconds does not keep.
fn dropped_bits(nanoseconds: u64) -> u32 {
    nanoseconds
        .checked_ilog2()
        .map_or(0, |bits| bits.saturating_sub(BITS))
}

/// A number of nanoseconds, rounded down by less than a thousandth of itself.
#[must_use]
pub fn rounded(nanoseconds: u64) -> u64 {
    let bits = dropped_bits(nanoseconds);
    nanoseconds >> bits << bits
}

/// Counts times, each rounded down by less than a thousandth of itself. The memory grows with the
/// logarithm of the longest time: 8 KiB for every factor of two above a microsecond.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// The number of times of each class; see [`class`].
    counts: Vec<u64>,
    all: u64,
}

/// The number of the class of a time: the classes of one length follow those of the half.
fn class(nanoseconds: u64) -> usize {
    let bits = dropped_bits(nanoseconds);
    ((u64::from(bits) << BITS) + (nanoseconds >> bits)) as usize
}

/// The least time of a class, in nanoseconds.
fn least(class: usize) -> u64 {
    let class = class as u64;
    let bits = (class >> BITS).saturating_sub(1);
    (class - (bits << BITS)) << bits
}

impl Histogram {
    /// Counts a time.
    pub fn count(&mut self, time: Duration) {
        let class = class(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        if self.counts.len() <= class {
            self.counts.resize(class + 1, 0);
        }
        self.counts[class] += 1;
        self.all += 1;
    }

    /// Forgets all times.
    pub fn clear(&mut self) {
        *self = Histogram::default();
    }

    /// The least time that at least `percent` of a hundred did not exceed, by nearest rank; `None`
    /// before a time was counted.
    #[must_use]
    pub fn percentile(&self, percent: u32) -> Option<Duration> {
        let rank = (u128::from(self.all) * u128::from(percent)).div_ceil(100);
        let mut until = 0;
        let class = self.counts.iter().position(|&count| {
            until += u128::from(count);
            until >= rank.max(1)
        })?;
        Some(Duration::from_nanos(least(class)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn classes_hold_the_times_that_round_to_the_same(
            bits in 0_u32..64,
            low: u64,
        ) {
            let time = 1 << bits | low & ((1 << bits) - 1);
            prop_assert_eq!(least(class(time)), rounded(time));
            prop_assert!(time - rounded(time) <= time / 1024);
            prop_assert!(class(time - 1) <= class(time));
            prop_assert!(class(rounded(time) - 1) < class(time));
        }

        #[test]
        fn percentiles_are_those_of_a_sorted_list(
            mut times in prop::collection::vec(0_u64..5_000_000_000, 1..300),
            percent in 1_u32..=100,
        ) {
            let mut histogram = Histogram::default();
            for &time in &times {
                histogram.count(Duration::from_nanos(time));
            }
            times.sort_unstable();
            let rank = (times.len() * percent as usize).div_ceil(100);
            let expected = Duration::from_nanos(rounded(times[rank - 1]));
            prop_assert_eq!(histogram.percentile(percent), Some(expected));
            histogram.clear();
            prop_assert_eq!(histogram.percentile(percent), None);
        }
    }
}
