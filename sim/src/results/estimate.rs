//! A metric under several seeds.

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use super::interval::mean;

/// A metric of one controller under several seeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The unit of the values.
    pub unit: &'static str,
    /// The value under each seed, as the mean over the members of a flow; `None` if there was none.
    pub values: Vec<Option<f64>>,
}

impl Estimate {
    /// The mean and half the width of its 95 % interval, if there was a value under every seed.
    #[must_use]
    pub fn mean(&self) -> Option<(f64, Option<f64>)> {
        let values: Option<Vec<f64>> = self.values.iter().copied().collect();
        values
            .filter(|values| !values.is_empty())
            .map(|values| mean(&values))
    }
}

impl Serialize for Estimate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mean = self.mean();
        let bound = |sign: f64| mean.and_then(|(mean, half)| half.map(|half| mean + sign * half));
        let mut estimate = serializer.serialize_struct("Estimate", 5)?;
        estimate.serialize_field("unit", self.unit)?;
        estimate.serialize_field("mean", &mean.map(|(mean, _)| mean))?;
        estimate.serialize_field("low", &bound(-1.0))?;
        estimate.serialize_field("high", &bound(1.0))?;
        estimate.serialize_field("values", &self.values)?;
        estimate.end()
    }
}
