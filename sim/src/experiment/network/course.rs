//! Courses of rates and delays as an experiment's file describes them.

use std::time::Duration;

use gallop_network::generated::{Cellular, Constellation};
use gallop_network::invalid::{Invalid, require};
use gallop_network::units::{LinkRate, Rate, Span};
use serde::Deserialize;

use super::impairment::positive;

/// A rate, and perhaps a delay, that changes at random.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CourseSpec {
    /// A cellular link, as [`Cellular`].
    Cellular(CellularSpec),
    /// A constellation of satellites, as [`Constellation`].
    Constellation(ConstellationSpec),
}

/// A Brownian motion with outages.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CellularSpec {
    /// The mean rate over all times, outages included.
    pub mean: LinkRate,
    /// The standard deviation of the rate's change in a second, over the mean; default 0.4, as 200
    /// packets per second are of 500, half of the highest rate (Winstein et al. 2013 §3.1).
    #[serde(default = "spread")]
    pub spread: f64,
    /// The time between two changes; default 20 ms (Winstein et al. 2013 §3.1).
    #[serde(default = "tick")]
    pub every: Span,
    /// The mean length of an outage, "0s" for none; default 1 s (Winstein et al. 2013 §3.1).
    #[serde(default = "outage")]
    pub outage: Span,
}

/// Satellites that serve one after another.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ConstellationSpec {
    /// The least rate.
    pub low: LinkRate,
    /// The highest rate.
    pub high: LinkRate,
    /// The time that one serves; default 15 s (Tanveer et al. 2023, Mohan et al. 2024).
    #[serde(default = "satellite")]
    pub every: Span,
    /// The longest time by which the delay of one exceeds the link's, one way; default 0.
    #[serde(default)]
    pub delay_spread: Span,
    /// The time without any between two; default 0.
    #[serde(default)]
    pub gap: Span,
}

fn spread() -> f64 {
    0.4
}

fn tick() -> Span {
    Duration::from_millis(20).try_into().unwrap_or_default()
}

fn outage() -> Span {
    Duration::from_secs(1).try_into().unwrap_or_default()
}

fn satellite() -> Span {
    Duration::from_secs(15).try_into().unwrap_or_default()
}

/// The largest standard deviation of a step, over the mean: steps do not cross a good part of all
/// rates.
const MOST_STEP: f64 = 0.5;

impl CourseSpec {
    /// Checks the values, beyond their types.
    pub(super) fn validate(&self, place: &str) -> Result<(), Invalid> {
        let at = |key: &str| format!("{place}.{key}");
        positive(self.every(), &at("every"))?;
        match self {
            CourseSpec::Cellular(spec) => {
                let step = spec.resolved(Rate::MEGABIT).step();
                require(
                    spec.spread > 0.0 && step <= MOST_STEP,
                    &at("spread"),
                    || {
                        format!(
                            "{} is not above 0, or makes steps of {step:.2} of the mean; the most is {MOST_STEP}",
                            spec.spread
                        )
                    },
                )
            }
            CourseSpec::Constellation(spec) => require(spec.gap < spec.every, &at("gap"), || {
                format!("{} is not shorter than every, {}", spec.gap, spec.every)
            }),
        }
    }

    /// The time between two changes.
    pub(super) fn every(&self) -> Span {
        match self {
            CourseSpec::Cellular(spec) => spec.every,
            CourseSpec::Constellation(spec) => spec.every,
        }
    }

    /// True if it gives delays, too.
    pub(super) fn has_delays(&self) -> bool {
        matches!(self, CourseSpec::Constellation(_))
    }

    /// A rate that is typical of it.
    pub(super) fn typical_rate(&self) -> LinkRate {
        match self {
            CourseSpec::Cellular(spec) => spec.mean,
            CourseSpec::Constellation(spec) => spec.high,
        }
    }
}

impl CellularSpec {
    /// The link of this mean rate.
    pub(super) fn resolved(&self, mean: Rate) -> Cellular {
        Cellular {
            mean,
            spread: self.spread,
            every: self.every.duration(),
            outage: self.outage.duration(),
        }
    }
}

impl ConstellationSpec {
    /// The link of these rates.
    pub(super) fn resolved(&self, low: Rate, high: Rate) -> Constellation {
        Constellation {
            low,
            high,
            every: self.every.duration(),
            delay_spread: self.delay_spread.duration(),
            gap: self.gap.duration(),
        }
    }
}
