//! What a flow of an experiment carries: the key `traffic`.
//!
//! A text names a kind with its defaults (`"bulk"`), a table gives the rest:
//!
//! ```toml
//! traffic = { kind = "bulk", size = "300p" }
//! ```
//!
//! | kind | what flows | keys (default) |
//! |---|---|---|
//! | `bulk` | one transfer | `size` (endless) |
//! | `on-off` | a burst at regular intervals | `burst`, `every`, `total` (endless) |
//! | `media` | a stream that is played (004 §4.2) | `rate`, `xfactor` (1), `heartbeat` (`"100ms"`), `buffer` (`"5s"` of playing), `length` (endless) |
//! | `short-flows`, also `http` | transfers, each over a connection of its own | `interarrival` (exponential, `"500ms"`), `size` (Pareto, `"50p"`, shape 1.2): 004 §4.3 |
//! | `tcplib` | conversations of TELNET, FTP, NNTP and SMTP (000 §2.1) | `interarrival` (`"1s"`, the mean), `only` (all four), `packet` (sizes as they are) |
//! | `requests` | requests over one connection | `protocol` (`"http3"`), `size` (`"10p"`), `think` (`"0s"`) and `at-once` (1), or `interarrival`; `count` (endless) |
//!
//! Sizes are [`Size`]s, times [`Span`]s, rates [`LinkRate`]s. `interarrival` (but
//! that of `tcplib`), `size` (but that of `bulk`) and `think` are random: a
//! constant, or a table such as `{ distribution = "exponential", mean = "1s" }`
//! or `{ distribution = "pareto", mean = "50p", shape = 1.2 }`.

use crate::invalid::{Invalid, require};
use crate::units::{LinkRate, Size, Span};
use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{self, DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

/// What a flow carries.
#[derive(Clone, Debug, PartialEq)]
pub enum TrafficSpec {
    /// One transfer, as fast as the network takes it.
    Bulk(BulkSpec),
    /// A burst at regular intervals.
    OnOff(OnOffSpec),
    /// A stream that is played while it arrives.
    Media(MediaSpec),
    /// Transfers that start at random times, each over its own connection.
    ShortFlows(ShortFlowsSpec),
    /// The conversations of tcplib.
    Tcplib(TcplibSpec),
    /// Requests and answers over one connection.
    Requests(RequestsSpec),
}

/// See [`TrafficSpec::Bulk`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BulkSpec {
    /// How much; endless without.
    #[serde(default)]
    pub size: Option<Size>,
}

/// See [`TrafficSpec::OnOff`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OnOffSpec {
    /// What becomes ready at once.
    pub burst: Size,
    /// From one burst to the next.
    pub every: Span,
    /// How much altogether; endless without.
    #[serde(default)]
    pub total: Option<Size>,
}

/// See [`TrafficSpec::Media`]. The sender hands over chunks of `xfactor` ·
/// `rate` · `heartbeat`, one per heartbeat; the receiver waits until it has
/// `buffer` and then plays at `rate` (004 §4.2).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MediaSpec {
    /// The rate at which the media is encoded and played (004: mediarate), in
    /// bits of stream data or in what so many datagrams of full size carry.
    pub rate: LinkRate,
    /// How much faster than it is played the media is handed over: 1 makes a
    /// constrained stream, a factor beyond the network's rate an unconstrained
    /// one.
    #[serde(default = "MediaSpec::default_xfactor")]
    pub xfactor: f64,
    /// From one chunk to the next.
    #[serde(default = "MediaSpec::default_heartbeat")]
    pub heartbeat: Span,
    /// How much is buffered before playing starts, in playing time.
    #[serde(default = "MediaSpec::default_buffer")]
    pub buffer: Span,
    /// How long the media plays; endless without.
    #[serde(default)]
    pub length: Option<Span>,
}

impl MediaSpec {
    fn default_xfactor() -> f64 {
        1.0
    }

    fn default_heartbeat() -> Span {
        span(Duration::from_millis(100))
    }

    fn default_buffer() -> Span {
        span(Duration::from_secs(5))
    }

    /// Stream bytes that become ready with every heartbeat, where a datagram of
    /// full size carries `packet_bytes` of a stream.
    #[must_use]
    pub fn chunk_bytes(&self, packet_bytes: u64) -> u64 {
        let seconds = self.heartbeat.duration().as_secs_f64();
        (self.xfactor * self.bytes_per_s(packet_bytes) * seconds).round() as u64
    }

    /// Stream bytes that play in one second.
    #[must_use]
    pub fn bytes_per_s(&self, packet_bytes: u64) -> f64 {
        match self.rate {
            LinkRate::Bits(rate) => rate.bps() as f64 / 8.0,
            LinkRate::Packets(packets) => packets * packet_bytes as f64,
        }
    }
}

/// See [`TrafficSpec::ShortFlows`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ShortFlowsSpec {
    /// From the start of one transfer to that of the next.
    #[serde(default = "ShortFlowsSpec::default_interarrival")]
    pub interarrival: Times,
    /// How much each transfers.
    #[serde(default = "ShortFlowsSpec::default_size")]
    pub size: Sizes,
}

impl ShortFlowsSpec {
    /// 004 §4.3.
    fn default_interarrival() -> Times {
        Times::Exponential {
            mean: span(Duration::from_millis(500)),
        }
    }

    /// 004 §4.3: 50 kB in packets of 1 kB. NOTE: the paper's "median of 50 kB"
    /// does not go with its mean; the mean is what is kept.
    fn default_size() -> Sizes {
        Sizes::Pareto {
            mean: Size::Packets(const { NonZeroU64::new(50).expect("not zero") }),
            shape: 1.2,
        }
    }
}

/// See [`TrafficSpec::Tcplib`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TcplibSpec {
    /// Mean of the exponential time from the start of one conversation to that
    /// of the next (000 §2.1 names the distribution, not the mean).
    #[serde(default = "TcplibSpec::default_interarrival")]
    pub interarrival: Span,
    /// Only these kinds of conversation, in the proportion in which they are
    /// among all; all without.
    #[serde(default)]
    pub only: Vec<Service>,
    /// How many stream bytes a packet of the paper has: files, articles and mails
    /// grow as the datagrams here are larger, so that they take as many packets.
    /// Without it their sizes are tcplib's.
    #[serde(default)]
    pub packet: Option<Size>,
}

impl Default for TcplibSpec {
    fn default() -> TcplibSpec {
        TcplibSpec {
            interarrival: TcplibSpec::default_interarrival(),
            only: Vec::new(),
            packet: None,
        }
    }
}

impl TcplibSpec {
    fn default_interarrival() -> Span {
        span(Duration::from_secs(1))
    }
}

/// A kind of conversation in tcplib.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Keystrokes and their echoes.
    Telnet,
    /// Commands and files.
    Ftp,
    /// News articles.
    Nntp,
    /// A mail.
    Smtp,
}

/// See [`TrafficSpec::Requests`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RequestsSpec {
    /// What carries requests and answers.
    #[serde(default)]
    pub protocol: Protocol,
    /// How long an answer's body is.
    #[serde(default = "RequestsSpec::default_size")]
    pub size: Sizes,
    /// From the end of an answer to the next request.
    #[serde(default)]
    pub think: Times,
    /// From one request to the next, answered or not; in place of `think` and
    /// `at-once`.
    #[serde(default)]
    pub interarrival: Option<Times>,
    /// How many requests are under way at once: each waits for its answer and
    /// thinks on its own.
    #[serde(default = "RequestsSpec::default_at_once")]
    pub at_once: NonZeroU64,
    /// How many requests altogether; endless without.
    #[serde(default)]
    pub count: Option<NonZeroU64>,
}

impl RequestsSpec {
    fn default_size() -> Sizes {
        Sizes::Constant(Size::Packets(
            const { NonZeroU64::new(10).expect("not zero") },
        ))
    }

    fn default_at_once() -> NonZeroU64 {
        NonZeroU64::MIN
    }
}

/// What carries requests and answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// HTTP/3 (RFC 9114).
    #[default]
    Http3,
    /// A QUIC stream for each, and nothing else on it.
    Streams,
}

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
        /// Its shape: the smaller, the heavier the tail; above 1, so that there
        /// is a mean.
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

impl Default for Sizes {
    /// As of [`ShortFlowsSpec`].
    fn default() -> Sizes {
        ShortFlowsSpec::default_size()
    }
}

fn span(duration: Duration) -> Span {
    Span::try_from(duration).unwrap_or_default()
}

impl Default for TrafficSpec {
    /// An endless transfer.
    fn default() -> TrafficSpec {
        TrafficSpec::Bulk(BulkSpec::default())
    }
}

impl TrafficSpec {
    /// Whether it makes a connection per transfer, so that its numbers are sums
    /// and means over many.
    #[must_use]
    pub fn is_many_connections(&self) -> bool {
        matches!(self, TrafficSpec::ShortFlows(_) | TrafficSpec::Tcplib(_))
    }

    /// Checks what the types cannot; `place` is that of the traffic in the file.
    ///
    /// # Errors
    /// Names the first value that makes no sense.
    pub fn validate(&self, place: &str) -> Result<(), Invalid> {
        let at = |key: &str| format!("{place}.{key}");
        let positive = |key: &str, time: Span| {
            require(!time.duration().is_zero(), &at(key), || {
                "it is zero; it must take some time".to_owned()
            })
        };
        match self {
            TrafficSpec::Bulk(_) => Ok(()),
            TrafficSpec::OnOff(spec) => positive("every", spec.every),
            TrafficSpec::Media(spec) => {
                positive("heartbeat", spec.heartbeat)?;
                let whole = spec.xfactor.is_finite() && spec.xfactor > 0.0;
                require(whole, &at("xfactor"), || {
                    format!(
                        "it is {}; it must be more than 0, and 1 is as fast as it plays",
                        spec.xfactor
                    )
                })?;
                require(spec.chunk_bytes(1) > 0, &at("heartbeat"), || {
                    "not a byte becomes ready in this time; make it longer, or the rate higher"
                        .to_owned()
                })
            }
            TrafficSpec::ShortFlows(spec) => {
                spec.interarrival.validate_positive(&at("interarrival"))?;
                spec.size.validate(&at("size"))
            }
            TrafficSpec::Tcplib(spec) => positive("interarrival", spec.interarrival),
            TrafficSpec::Requests(spec) => {
                spec.size.validate(&at("size"))?;
                if let Some(interarrival) = &spec.interarrival {
                    interarrival.validate_positive(&at("interarrival"))?;
                    let closed = spec.think != Times::default() || spec.at_once.get() > 1;
                    require(!closed, &at("interarrival"), || {
                        "requests come at their own times, or after the answers to others; leave out this, or think and at-once"
                            .to_owned()
                    })?;
                }
                let most = 60;
                require(spec.at_once.get() <= most, &at("at-once"), || {
                    format!("it is {}; at most {most} can be under way", spec.at_once)
                })
            }
        }
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

    fn validate_positive(&self, place: &str) -> Result<(), Invalid> {
        require(!self.mean().is_zero(), place, || {
            "it is zero; it must take some time".to_owned()
        })
    }
}

impl Sizes {
    fn validate(&self, place: &str) -> Result<(), Invalid> {
        let Sizes::Pareto { shape, .. } = self else {
            return Ok(());
        };
        require(*shape > 1.0 && shape.is_finite(), place, || {
            format!("its shape is {shape}; it must be above 1, so that there is a mean")
        })
    }
}

/// The kinds, as tables.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum TrafficTable {
    Bulk(BulkSpec),
    OnOff(OnOffSpec),
    Media(MediaSpec),
    #[serde(alias = "http")]
    ShortFlows(ShortFlowsSpec),
    Tcplib(TcplibSpec),
    Requests(RequestsSpec),
}

impl From<TrafficTable> for TrafficSpec {
    fn from(table: TrafficTable) -> TrafficSpec {
        match table {
            TrafficTable::Bulk(spec) => TrafficSpec::Bulk(spec),
            TrafficTable::OnOff(spec) => TrafficSpec::OnOff(spec),
            TrafficTable::Media(spec) => TrafficSpec::Media(spec),
            TrafficTable::ShortFlows(spec) => TrafficSpec::ShortFlows(spec),
            TrafficTable::Tcplib(spec) => TrafficSpec::Tcplib(spec),
            TrafficTable::Requests(spec) => TrafficSpec::Requests(spec),
        }
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

/// A kind with its defaults, or a table.
impl<'de> Deserialize<'de> for TrafficSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TrafficSpec, D::Error> {
        let expecting = "a kind of traffic, such as \"bulk\", or a table with its kind";
        deserializer.deserialize_any(TextOrTable::<_, TrafficTable> {
            expecting,
            text: |text| {
                let table = MapDeserializer::new([("kind", text)].into_iter());
                TrafficTable::deserialize(table)
                    .map(TrafficSpec::from)
                    .map_err(|error: de::value::Error| error.to_string())
            },
            table: TrafficSpec::from,
            marker: PhantomData,
        })
    }
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

/// Reads a value that may be written as a text or as a table `Table`.
struct TextOrTable<Value, Table> {
    expecting: &'static str,
    text: fn(&str) -> Result<Value, String>,
    table: fn(Table) -> Value,
    marker: PhantomData<Table>,
}

impl<'de, Value, Table: DeserializeOwned> Visitor<'de> for TextOrTable<Value, Table> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        (self.text)(text).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        Table::deserialize(MapAccessDeserializer::new(map)).map(self.table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<TrafficSpec, String> {
        let spec: TrafficSpec = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let valid = spec.validate("flow[0].traffic");
        valid.map_err(|error| error.to_string())?;
        Ok(spec)
    }

    #[test]
    fn a_text_is_a_kind_with_its_defaults() {
        assert_eq!(read(r#""bulk""#), Ok(TrafficSpec::default()));
        assert_eq!(read(r#""http""#), read(r#"{"kind": "short-flows"}"#));
        assert_eq!(
            read(r#""tcplib""#),
            read(r#"{"kind": "tcplib", "interarrival": "1s"}"#)
        );
        let requests = read(r#"{"kind": "requests", "size": "10p", "think": "0s"}"#);
        assert_eq!(read(r#""requests""#), requests);
    }

    #[test]
    fn tables_are_read() {
        for json in [
            r#"{"kind": "bulk", "size": "300p"}"#,
            r#"{"kind": "on-off", "burst": "4kb", "every": "20ms", "total": "1mb"}"#,
            r#"{"kind": "media", "rate": "1mbit", "xfactor": 1.5, "heartbeat": "40ms"}"#,
            r#"{"kind": "http", "interarrival": {"distribution": "exponential", "mean": "2s"},
                "size": {"distribution": "pareto", "mean": "30kb", "shape": 1.5}}"#,
            r#"{"kind": "http", "interarrival": "1s", "size": "2p"}"#,
            r#"{"kind": "tcplib", "only": ["ftp", "smtp"]}"#,
            r#"{"kind": "requests", "protocol": "streams", "at-once": 4, "count": 100,
                "size": {"distribution": "exponential", "mean": "1mb"}}"#,
        ] {
            read(json).expect(json);
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (json, problem) in [
            (
                r#""bluk""#,
                "unknown variant `bluk`, expected one of `bulk`, `on-off`",
            ),
            (r#"{"size": "1mb"}"#, "missing field `kind`"),
            (
                r#"{"kind": "bulk", "sise": "1mb"}"#,
                "unknown field `sise`, expected `size`",
            ),
            (
                r#"{"kind": "bulk", "size": "1mbit"}"#,
                "\"1mbit\" is not a size: unknown unit",
            ),
            (r#"{"kind": "bulk", "size": "-1p"}"#, "it is negative"),
            (
                r#"{"kind": "on-off", "burst": "1p"}"#,
                "missing field `every`",
            ),
            (
                r#"{"kind": "on-off", "burst": "1p", "every": "0s"}"#,
                "flow[0].traffic.every: it is zero",
            ),
            (
                r#"{"kind": "media", "rate": "1mbit", "xfactor": 0}"#,
                "flow[0].traffic.xfactor: it is 0; it must be more than 0",
            ),
            (
                r#"{"kind": "media", "rate": "8bit", "heartbeat": "1ms"}"#,
                "flow[0].traffic.heartbeat: not a byte",
            ),
            (
                r#"{"kind": "http", "size": {"distribution": "pareto", "mean": "1p", "shape": 1}}"#,
                "flow[0].traffic.size: its shape is 1",
            ),
            (
                r#"{"kind": "http", "interarrival": "0s"}"#,
                "flow[0].traffic.interarrival: it is zero",
            ),
            (
                r#"{"kind": "http", "size": {"distribution": "normal", "mean": "1p"}}"#,
                "unknown variant `normal`, expected `exponential` or `pareto`",
            ),
            (
                r#"{"kind": "tcplib", "only": ["gopher"]}"#,
                "unknown variant `gopher`",
            ),
            (
                r#"{"kind": "requests", "think": "1s", "interarrival": "1s"}"#,
                "flow[0].traffic.interarrival: requests come at their own times, or after",
            ),
            (
                r#"{"kind": "requests", "at-once": 61}"#,
                "flow[0].traffic.at-once: it is 61; at most 60",
            ),
        ] {
            let error = read(json).expect_err(json);
            assert!(error.contains(problem), "{json}: {error}");
        }
    }

    #[test]
    fn a_chunk_is_what_plays_in_a_heartbeat_times_the_factor() {
        let json = r#"{"kind": "media", "rate": "1mbit", "xfactor": 3, "heartbeat": "40ms"}"#;
        let TrafficSpec::Media(spec) = read(json).expect("it is right") else {
            panic!("another kind");
        };
        assert_eq!(spec.chunk_bytes(1000), 15_000);
        let json = r#"{"kind": "media", "rate": "125pps", "heartbeat": "40ms"}"#;
        let TrafficSpec::Media(spec) = read(json).expect("it is right") else {
            panic!("another kind");
        };
        assert_eq!(spec.chunk_bytes(1000), 5_000);
    }
}
