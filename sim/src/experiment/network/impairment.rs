//! Impairments as an experiment's file describes them.

use std::fmt;
use std::time::Duration;

use gallop_network::invalid::{Invalid, require};
use gallop_network::random::Random;
use gallop_network::stalls::Stalls;
use gallop_network::units::Span;
use serde::de::Error as _;
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

/// Random time that packets take longer: the maximum of a uniform one, or a table with a `kind`,
/// uniform by default.
#[derive(Clone, Debug, PartialEq)]
pub enum JitterSpec {
    /// Every packet takes a time between zero and a maximum.
    Uniform(UniformJitterSpec),
    /// Every packet takes an exponential time.
    Exponential(ExponentialJitterSpec),
    /// Everything waits while others use the medium.
    Bursts(StallsSpec),
    /// Packets go on in slots, some of which must be repeated.
    Slots(SlotsSpec),
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum JitterTable {
    Uniform(UniformJitterSpec),
    Exponential(ExponentialJitterSpec),
    Bursts(StallsSpec),
    Slots(SlotsSpec),
}

/// Times that are uniform between zero and a maximum, independent for every packet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UniformJitterSpec {
    /// The maximum.
    pub max: Span,
    /// Packets stay in order; default true.
    #[serde(default = "yes")]
    pub in_order: bool,
}

/// Exponential times, independent for every packet, at most
/// [`MOST_MEANS`](gallop_network::random::MOST_MEANS) of the mean.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExponentialJitterSpec {
    /// The mean.
    pub mean: Span,
    /// Packets stay in order; default true.
    #[serde(default = "yes")]
    pub in_order: bool,
}

/// Times in which something stands still, as [`Stalls`] are.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StallsSpec {
    /// The mean time from the end of one to the start of the next.
    pub every: Span,
    /// The mean length.
    pub length: Span,
}

/// Slots of a cable or mobile network.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SlotsSpec {
    /// Packets go on at multiples of this.
    pub slot: Span,
    /// Probability with which a slot's transmission fails; default 0.
    #[serde(default)]
    pub retransmission: f64,
    /// The time after which it is repeated; default 8 ms, as in LTE with frequency division (3GPP
    /// TS 36.321 §7.7).
    #[serde(default = "harq_round_trip")]
    pub again: Span,
}

fn harq_round_trip() -> Span {
    Duration::from_millis(8).try_into().unwrap_or_default()
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

impl JitterSpec {
    /// Checks the values, beyond their types.
    pub(super) fn validate(&self, place: &str) -> Result<(), Invalid> {
        match self {
            JitterSpec::Uniform(_) | JitterSpec::Exponential(_) => Ok(()),
            JitterSpec::Bursts(stalls) => stalls.validate(place),
            JitterSpec::Slots(spec) => {
                positive(spec.slot, &format!("{place}.slot"))?;
                probability(spec.retransmission, &format!("{place}.retransmission"))
            }
        }
    }
}

/// The shortest mean time between stalls. Every one of them costs time to simulate.
const LEAST_EVERY: Duration = Duration::from_micros(100);

impl StallsSpec {
    /// Checks the values, beyond their types.
    pub(in super::super) fn validate(&self, place: &str) -> Result<(), Invalid> {
        let every = self.every;
        require(
            every.duration() >= LEAST_EVERY,
            &format!("{place}.every"),
            || format!("{every} is too short; the least is {LEAST_EVERY:?}"),
        )
    }

    /// The stalls that it describes.
    pub(super) fn stalls(&self, random: Random) -> Stalls {
        Stalls::new(self.every.duration(), self.length.duration(), random)
    }
}

/// Checks that a time is positive.
pub(super) fn positive(span: Span, place: &str) -> Result<(), Invalid> {
    require(!span.duration().is_zero(), place, || {
        "it is 0; it must be positive".to_owned()
    })
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
        f.write_str(
            "a time such as \"2ms\", or a table with the kind uniform, exponential, bursts or slots",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<JitterSpec, E> {
        let max = text.parse().map_err(E::custom)?;
        let in_order = true;
        Ok(JitterSpec::Uniform(UniformJitterSpec { max, in_order }))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<JitterSpec, A::Error> {
        let mut table = toml::Table::deserialize(MapAccessDeserializer::new(map))?;
        let kind = table.entry("kind");
        kind.or_insert_with(|| toml::Value::String("uniform".to_owned()));
        let table: JitterTable = table
            .try_into()
            .map_err(|error: toml::de::Error| A::Error::custom(error.message()))?;
        Ok(match table {
            JitterTable::Uniform(spec) => JitterSpec::Uniform(spec),
            JitterTable::Exponential(spec) => JitterSpec::Exponential(spec),
            JitterTable::Bursts(spec) => JitterSpec::Bursts(spec),
            JitterTable::Slots(spec) => JitterSpec::Slots(spec),
        })
    }
}
