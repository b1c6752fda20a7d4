//! Impairments as an experiment's file describes them.

use std::fmt;

use gallop_network::invalid::{Invalid, require};
use gallop_network::units::Span;
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, de};

/// Loss on a link: a probability, or a table with a `kind`.
#[derive(Clone, Debug, PartialEq)]
pub enum LossSpec {
    /// Every packet is lost with the same probability.
    Uniform(f64),
    /// Packets are lost in bursts.
    GilbertElliott(GilbertElliottSpec),
    /// Given packets are lost.
    Given(GivenSpec),
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum LossTable {
    Uniform(UniformSpec),
    GilbertElliott(GilbertElliottSpec),
    Given(GivenSpec),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UniformSpec {
    probability: f64,
}

/// Loss by a chain of two states (Gilbert 1960, Elliott 1963), which takes a step per packet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliottSpec {
    /// Probability of going from the good state to the bad.
    pub p: f64,
    /// Probability of going from the bad state to the good.
    pub r: f64,
    /// Probability of loss in the good state; default 0.
    #[serde(default)]
    pub good: f64,
    /// Probability of loss in the bad state; default 1.
    #[serde(default = "one")]
    pub bad: f64,
}

fn one() -> f64 {
    1.0
}

/// Loses given packets, each once.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenSpec {
    /// Their numbers among the packets that come to the link, from 0, rising.
    pub packets: Vec<u64>,
}

/// Holds some packets, so that others overtake them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReorderSpec {
    /// Probability of being held.
    pub probability: f64,
    /// The time for which they are held.
    pub delay: Span,
}

/// A random time that every packet takes longer: its maximum, or a table.
#[derive(Clone, Debug, PartialEq)]
pub struct JitterSpec {
    /// The times are uniform between zero and this.
    pub max: Span,
    /// Packets stay in order; default true.
    pub in_order: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct JitterTable {
    max: Span,
    #[serde(default = "yes")]
    in_order: bool,
}

fn yes() -> bool {
    true
}

/// A time in which a link is worse than otherwise.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeriodSpec {
    /// Its start.
    pub from: Span,
    /// Its end.
    pub to: Span,
}

/// Checks that `value` is a probability.
pub(super) fn probability(value: f64, place: &str) -> Result<(), Invalid> {
    require((0.0..=1.0).contains(&value), place, || {
        format!("{value} is not a probability: it must lie between 0 and 1")
    })
}

impl LossSpec {
    /// Checks the values, beyond their types.
    pub(super) fn validate(&self, place: &str) -> Result<(), Invalid> {
        match self {
            LossSpec::Uniform(value) => probability(*value, place),
            LossSpec::GilbertElliott(spec) => [
                ("p", spec.p),
                ("r", spec.r),
                ("good", spec.good),
                ("bad", spec.bad),
            ]
            .into_iter()
            .try_for_each(|(key, value)| probability(value, &format!("{place}.{key}"))),
            LossSpec::Given(spec) => require(
                spec.packets.is_sorted_by(|one, next| one < next),
                &format!("{place}.packets"),
                || "the numbers do not rise".to_owned(),
            ),
        }
    }
}

impl PeriodSpec {
    /// Checks the values, beyond their types.
    pub(super) fn validate(&self, place: &str) -> Result<(), Invalid> {
        require(self.from < self.to, &format!("{place}.to"), || {
            format!("{} is not after its start, {}", self.to, self.from)
        })
    }
}

impl<'de> Deserialize<'de> for LossSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LossSpec, D::Error> {
        deserializer.deserialize_any(LossVisitor)
    }
}

struct LossVisitor;

impl<'de> de::Visitor<'de> for LossVisitor {
    type Value = LossSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a probability of loss, or a table with the kind uniform, gilbert-elliott or given",
        )
    }

    fn visit_f64<E: de::Error>(self, probability: f64) -> Result<LossSpec, E> {
        Ok(LossSpec::Uniform(probability))
    }

    fn visit_i64<E: de::Error>(self, probability: i64) -> Result<LossSpec, E> {
        Ok(LossSpec::Uniform(probability as f64))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<LossSpec, A::Error> {
        let table = LossTable::deserialize(MapAccessDeserializer::new(map))?;
        Ok(match table {
            LossTable::Uniform(spec) => LossSpec::Uniform(spec.probability),
            LossTable::GilbertElliott(spec) => LossSpec::GilbertElliott(spec),
            LossTable::Given(spec) => LossSpec::Given(spec),
        })
    }
}

impl<'de> Deserialize<'de> for JitterSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JitterSpec, D::Error> {
        deserializer.deserialize_any(JitterVisitor)
    }
}

struct JitterVisitor;

impl<'de> de::Visitor<'de> for JitterVisitor {
    type Value = JitterSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as \"2ms\", or a table with max and in-order")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<JitterSpec, E> {
        let max = text.parse().map_err(E::custom)?;
        let in_order = true;
        Ok(JitterSpec { max, in_order })
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<JitterSpec, A::Error> {
        let table = JitterTable::deserialize(MapAccessDeserializer::new(map))?;
        Ok(JitterSpec {
            max: table.max,
            in_order: table.in_order,
        })
    }
}
