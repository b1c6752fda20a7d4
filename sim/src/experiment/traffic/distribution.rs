//! Random times and sizes as an experiment's file describes them.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use gallop_network::invalid::{Invalid, require};
use gallop_network::random::Random;
use gallop_network::units::{Size, Span};
use serde::{Deserialize, Deserializer};

use super::text_or_table::TextOrTable;
use crate::traffic::draw::{exponential, pareto};

/// A random time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Times {
    /// Exponential.
    Exponential {
        /// Its mean.
        mean: Span,
    },
    /// Always the same.
    Constant(Span),
}

/// A random size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sizes {
    /// Exponential.
    Exponential {
        /// Its mean.
        mean: Size,
    },
    /// Pareto.
    Pareto {
        /// Its mean.
        mean: Size,
        /// Its shape: the smaller, the heavier the tail; above 1, so that there is a mean.
        shape: f64,
    },
    /// Always the same.
    Constant(Size),
}

impl Default for Times {
    /// No time.
    fn default() -> Times {
        Times::Constant(Span::default())
    }
}

impl Times {
    /// The mean.
    #[must_use]
    pub fn mean(&self) -> Duration {
        match self {
            Times::Constant(time) | Times::Exponential { mean: time } => time.duration(),
        }
    }

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

    pub(super) fn validate_positive(&self, place: &str) -> Result<(), Invalid> {
        require(!self.mean().is_zero(), place, || {
            "it is zero; it must take some time".to_owned()
        })
    }
}

impl Sizes {
    /// A number of stream bytes, at least one, where a datagram of full size carries
    /// `packet_bytes`.
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

    pub(super) fn validate(&self, place: &str) -> Result<(), Invalid> {
        let Sizes::Pareto { shape, .. } = self else {
            return Ok(());
        };
        require(*shape > 1.0 && shape.is_finite(), place, || {
            format!("its shape is {shape}; it must be above 1, so that there is a mean")
        })
    }
}

/// Distributions of times, as tables.
#[derive(Deserialize)]
#[serde(tag = "distribution", rename_all = "kebab-case", deny_unknown_fields)]
enum TimesTable {
    Exponential { mean: Span },
}

/// Distributions of sizes, as tables.
#[derive(Deserialize)]
#[serde(tag = "distribution", rename_all = "kebab-case", deny_unknown_fields)]
enum SizesTable {
    Exponential { mean: Size },
    Pareto { mean: Size, shape: f64 },
}

/// A constant, or a table.
impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Times, D::Error> {
        deserializer.deserialize_any(TextOrTable::<_, TimesTable> {
            expecting: "a time such as \"100ms\", or a table with a distribution",
            text: |text| constant(text).map(Times::Constant),
            table: |TimesTable::Exponential { mean }| Times::Exponential { mean },
            marker: PhantomData,
        })
    }
}

/// A constant, or a table.
impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sizes, D::Error> {
        deserializer.deserialize_any(TextOrTable::<_, SizesTable> {
            expecting: "a size such as \"300p\", or a table with a distribution",
            text: |text| constant(text).map(Sizes::Constant),
            table: |table| match table {
                SizesTable::Exponential { mean } => Sizes::Exponential { mean },
                SizesTable::Pareto { mean, shape } => Sizes::Pareto { mean, shape },
            },
            marker: PhantomData,
        })
    }
}

fn constant<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

#[cfg(test)]
mod tests {
    use gallop_network::random;

    use super::super::kinds::ShortFlowsSpec;
    use super::*;

    #[test]
    fn sizes_count_packets_by_what_they_carry() {
        let mut random = random::stream(1, 1);
        let size = "3p".parse().expect("a size");
        assert_eq!(Sizes::Constant(size).draw(&mut random, 1000), 3000);
        // The "median of 50 kB" in Boyden et al. 2007 §4.3 contradicts the mean of 50 kB.
        let mut sizes: Vec<u64> = (0..200_000)
            .map(|_| ShortFlowsSpec::default().size.draw(&mut random, 1000))
            .collect();
        sizes.sort_unstable();
        let median = sizes[sizes.len() / 2] as f64;
        assert!((median / 14_850.0 - 1.0).abs() < 0.02, "{median}");
    }
}
