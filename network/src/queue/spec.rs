//! A queue as an experiment's file describes it.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, de};

use crate::invalid::{Invalid, require};
use crate::units::{Buffer, Rate, Span};

/// A queue: `"unlimited"`, a size such as `"15p"` for a drop-tail queue, or a table with a `kind`.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueSpec {
    /// Holds whatever comes and never drops.
    Unlimited,
    /// First in, first out; a packet that finds it full is dropped.
    DropTail(DropTailSpec),
    /// Random early detection.
    Red(RedSpec),
    /// Controlled delay.
    Codel(CodelSpec),
    /// A CoDel queue per flow, served in turn.
    FqCodel(FqCodelSpec),
    /// A token bucket that drops what exceeds it, before a drop-tail queue.
    Policer(PolicerSpec),
}

/// The tables that describe a queue.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Table {
    DropTail(DropTailSpec),
    Red(RedSpec),
    Codel(CodelSpec),
    FqCodel(FqCodelSpec),
    Policer(PolicerSpec),
}

/// A drop-tail queue.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DropTailSpec {
    /// The limit of waiting packets or bytes.
    #[serde(deserialize_with = "buffer")]
    pub limit: Buffer,
}

/// Random early detection (Floyd and Jacobson, "Random Early Detection Gateways for Congestion
/// Avoidance", 1993).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RedSpec {
    /// The limit of waiting packets or bytes.
    #[serde(deserialize_with = "buffer")]
    pub limit: Buffer,
    /// Below this average nothing is dropped. In the unit of `limit`.
    #[serde(deserialize_with = "buffer")]
    pub min: Buffer,
    /// From this average on everything is dropped, unless `gentle`. In the unit of `limit`.
    #[serde(deserialize_with = "buffer")]
    pub max: Buffer,
    /// Weight of the newest length in the average; default 0.002.
    #[serde(default = "red_weight")]
    pub weight: f64,
    /// Probability of dropping as the average reaches `max`; default 0.1.
    #[serde(default = "red_max_p")]
    pub max_p: f64,
    /// Between `max` and twice `max` the probability rises from `max-p` to 1; default false.
    #[serde(default)]
    pub gentle: bool,
    /// Drops lie between one and two times 1/p packets apart, rather than up to 1/p (ns-2's
    /// `wait_`, on there by default); default false.
    #[serde(default)]
    pub wait: bool,
    /// Marks packets that allow it instead of dropping them early; default false.
    #[serde(default)]
    pub ecn: bool,
    /// A typical packet, bytes on the wire, from which the average's decay over idle times is
    /// computed; default a full datagram.
    pub mean_packet: Option<NonZeroU64>,
}

/// Reads a buffer as tc writes it.
fn buffer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Buffer, D::Error> {
    String::deserialize(deserializer)?
        .parse()
        .map_err(de::Error::custom)
}

fn red_weight() -> f64 {
    0.002
}

fn red_max_p() -> f64 {
    0.1
}

/// Controlled delay (RFC 8289).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CodelSpec {
    /// The limit of waiting packets or bytes.
    #[serde(deserialize_with = "buffer")]
    pub limit: Buffer,
    /// The delay that is acceptable; default 5 ms (RFC 8289 §4.3).
    #[serde(default = "target")]
    pub target: Span,
    /// The time for which the delay may exceed it; default 100 ms (RFC 8289 §4.3).
    #[serde(default = "interval")]
    pub interval: Span,
    /// Marks packets that allow it instead of dropping them; default false.
    #[serde(default)]
    pub ecn: bool,
}

/// A CoDel queue per flow, served in turn (RFC 8290).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FqCodelSpec {
    /// The limit of what waits, all flows together; default 10240 packets (RFC 8290 §5.2.3).
    #[serde(default = "fq_limit", deserialize_with = "buffer")]
    pub limit: Buffer,
    /// Queues that flows are hashed into; default 1024 (RFC 8290 §5.2.5).
    #[serde(default = "fq_flows")]
    pub flows: u32,
    /// Bytes on the wire that a flow may send per turn; default 1514 (RFC 8290 §5.2.4).
    #[serde(default = "fq_quantum")]
    pub quantum: u32,
    /// As CoDel's.
    #[serde(default = "target")]
    pub target: Span,
    /// As CoDel's.
    #[serde(default = "interval")]
    pub interval: Span,
    /// Marks packets that allow it instead of dropping them; default false.
    #[serde(default)]
    pub ecn: bool,
}

/// A token bucket, and a drop-tail queue behind it (RFC 2697 §3, without an excess burst).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PolicerSpec {
    /// The rate at which tokens come, in bits on the wire.
    pub rate: Rate,
    /// The size of the bucket. A packet is a full datagram.
    #[serde(deserialize_with = "buffer")]
    pub burst: Buffer,
    /// The limit of packets or bytes that wait for the link.
    #[serde(deserialize_with = "buffer")]
    pub limit: Buffer,
}

fn target() -> Span {
    Duration::from_millis(5).try_into().unwrap_or_default()
}

fn interval() -> Span {
    Duration::from_millis(100).try_into().unwrap_or_default()
}

fn fq_limit() -> Buffer {
    Buffer::Packets(NonZeroU64::MIN.saturating_add(10_239))
}

fn fq_flows() -> u32 {
    1024
}

fn fq_quantum() -> u32 {
    1514
}

/// The most queues of FQ-CoDel, as in Linux.
const MOST_FQ_FLOWS: u32 = 65_536;

impl QueueSpec {
    /// First in, first out, with room for `limit`.
    #[must_use]
    pub fn drop_tail(limit: Buffer) -> QueueSpec {
        QueueSpec::DropTail(DropTailSpec { limit })
    }

    /// Checks what the types cannot. `place` is where the description stands.
    ///
    /// # Errors
    /// Names the value that makes no sense by its place.
    pub fn validate(&self, place: &str) -> Result<(), Invalid> {
        match self {
            QueueSpec::Unlimited | QueueSpec::DropTail(_) | QueueSpec::Policer(_) => Ok(()),
            QueueSpec::Red(red) => red.validate(place),
            QueueSpec::Codel(codel) => validate_codel(place, codel.target, codel.interval),
            QueueSpec::FqCodel(fq) => {
                require(
                    (1..=MOST_FQ_FLOWS).contains(&fq.flows),
                    &format!("{place}.flows"),
                    || format!("{} is not from 1 to {MOST_FQ_FLOWS}", fq.flows),
                )?;
                require(fq.quantum >= 1, &format!("{place}.quantum"), || {
                    "it is 0; it must be at least 1 byte".to_owned()
                })?;
                validate_codel(place, fq.target, fq.interval)
            }
        }
    }
}

fn validate_codel(place: &str, target: Span, interval: Span) -> Result<(), Invalid> {
    require(
        target.duration() < interval.duration(),
        &format!("{place}.interval"),
        || format!("{interval} is not above the target, {target}"),
    )
}

impl RedSpec {
    fn validate(&self, place: &str) -> Result<(), Invalid> {
        let at = |key: &str| format!("{place}.{key}");
        for (key, other) in [("min", self.min), ("max", self.max)] {
            require(same_unit(self.limit, other), &at(key), || {
                format!(
                    "{other} is in another unit than the limit, {}; use packets or bytes for both",
                    self.limit
                )
            })?;
        }
        require(size(self.min) < size(self.max), &at("max"), || {
            format!("{} is not above min, {}", self.max, self.min)
        })?;
        require(
            self.weight > 0.0 && self.weight <= 1.0,
            &at("weight"),
            || format!("{} is not above 0 and at most 1", self.weight),
        )?;
        require(self.max_p > 0.0 && self.max_p <= 1.0, &at("max-p"), || {
            format!("{} is not above 0 and at most 1", self.max_p)
        })
    }
}

fn same_unit(one: Buffer, other: Buffer) -> bool {
    matches!(
        (one, other),
        (Buffer::Packets(_), Buffer::Packets(_)) | (Buffer::Bytes(_), Buffer::Bytes(_))
    )
}

fn size(buffer: Buffer) -> u64 {
    match buffer {
        Buffer::Packets(size) | Buffer::Bytes(size) => size.get(),
    }
}

impl<'de> Deserialize<'de> for QueueSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<QueueSpec, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

struct Visitor;

impl<'de> de::Visitor<'de> for Visitor {
    type Value = QueueSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a queue: a size such as \"15p\", \"unlimited\", or a table with the kind drop-tail, red, codel, fq-codel or policer",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<QueueSpec, E> {
        match text {
            "unlimited" => Ok(QueueSpec::Unlimited),
            _ => {
                let limit = text.parse().map_err(E::custom)?;
                Ok(QueueSpec::DropTail(DropTailSpec { limit }))
            }
        }
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<QueueSpec, A::Error> {
        let table = Table::deserialize(MapAccessDeserializer::new(map))?;
        Ok(match table {
            Table::DropTail(spec) => QueueSpec::DropTail(spec),
            Table::Red(spec) => QueueSpec::Red(spec),
            Table::Codel(spec) => QueueSpec::Codel(spec),
            Table::FqCodel(spec) => QueueSpec::FqCodel(spec),
            Table::Policer(spec) => QueueSpec::Policer(spec),
        })
    }
}
