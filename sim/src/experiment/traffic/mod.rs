//! Traffic of a flow of an experiment: the key `traffic`.
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
//! | `media` | a stream that is played (Boyden et al. 2007 §4.2) | `rate`, `xfactor` (1), `heartbeat` (`"100ms"`), `buffer` (`"5s"` of playing), `length` (endless) |
//! | `live` | frames of live media on a clock, a stream each | `rate`, `frames-per-second` (30), `key-every` (60), `key-factor` (5), `variation` (0), `deadline` (`"500ms"`) |
//! | `short-flows`, also `http` | transfers, each over a connection of its own | `interarrival` (exponential, `"500ms"`), `size` (Pareto, `"50p"`, shape 1.2): Boyden et al. 2007 §4.3 |
//! | `pages` | pages of many objects, each over a connection of its own | `objects` (40), `object` (Pareto, `"12kb"`, shape 1.2), `at-once` (60), `think` (`"2s"`) |
//! | `constant` | datagrams at equal distances, without a connection | `rate`, `on` and `off` (always on) |
//! | `tcplib` | conversations of TELNET, FTP, NNTP and SMTP (Brakmo et al. 1994 §2.1) | `interarrival` (`"1s"`, the mean), `only` (all four), `packet` (sizes as they are) |
//! | `requests` | requests over one connection | `protocol` (`"http3"`), `size` (`"10p"`), `think` (`"0s"`) and `at-once` (1), or `interarrival`; `count` (endless) |
//!
//! Sizes are [`Size`](crate::units::Size)s, times [`Span`]s, rates
//! [`LinkRate`](crate::units::LinkRate)s. `interarrival` (but that of `tcplib`), `size` (but that
//! of `bulk`) and `think` are random: a constant, or a table such as
//! `{ distribution = "exponential", mean = "1s" }` or
//! `{ distribution = "pareto", mean = "50p", shape = 1.2 }`.

mod connections;
mod distribution;
mod kinds;
mod tcplib;
mod text_or_table;

pub use connections::Period;
pub use distribution::{Sizes, Times};
pub use kinds::{
    BulkSpec, ConstantSpec, LiveSpec, MediaSpec, OnOffSpec, PagesSpec, RequestsSpec, Service,
    ShortFlowsSpec, TcplibSpec,
};

use std::marker::PhantomData;
use std::num::NonZeroU64;

use gallop_network::invalid::{Invalid, require};
use gallop_network::units::Span;
use serde::de::value::MapDeserializer;
use serde::{Deserialize, Deserializer, de};

use text_or_table::TextOrTable;

/// Traffic of a flow.
#[derive(Clone, Debug, PartialEq)]
pub enum TrafficSpec {
    /// One transfer, as fast as the network takes it.
    Bulk(BulkSpec),
    /// A burst at regular intervals.
    OnOff(OnOffSpec),
    /// A stream that is played while it arrives.
    Media(MediaSpec),
    /// Live media: frames that a clock makes, whatever the network does.
    Live(LiveSpec),
    /// Transfers that start at random times, each over its own connection.
    ShortFlows(ShortFlowsSpec),
    /// Pages of many objects, one after the other, each over its own connection (HTTP/3).
    Pages(PagesSpec),
    /// Load that answers to no congestion: full datagrams at equal distances, and no connection.
    Constant(ConstantSpec),
    /// The conversations of tcplib.
    Tcplib(TcplibSpec),
    /// Requests and answers over one connection.
    Requests(RequestsSpec),
}

impl Default for TrafficSpec {
    /// An endless transfer.
    fn default() -> TrafficSpec {
        TrafficSpec::Bulk(BulkSpec::default())
    }
}

impl TrafficSpec {
    /// True if it makes a connection per transfer, so that its metrics are sums and means over many
    /// connections.
    #[must_use]
    pub fn is_many_connections(&self) -> bool {
        matches!(
            self,
            TrafficSpec::ShortFlows(_) | TrafficSpec::Tcplib(_) | TrafficSpec::Pages(_)
        )
    }

    /// True if it is one connection.
    #[must_use]
    pub fn is_one_connection(&self) -> bool {
        !self.is_many_connections() && !matches!(self, TrafficSpec::Constant(_))
    }

    /// Checks the values, beyond their types; `place` is that of the traffic in the file.
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
            TrafficSpec::Live(spec) => validate_live(spec, &at),
            TrafficSpec::ShortFlows(spec) => {
                spec.interarrival.validate_positive(&at("interarrival"))?;
                spec.size.validate(&at("size"))
            }
            TrafficSpec::Pages(spec) => {
                spec.object.validate(&at("object"))?;
                spec.think.validate_positive(&at("think"))?;
                validate_at_once(spec.at_once, &at)
            }
            TrafficSpec::Constant(spec) => match (spec.on, spec.off) {
                (None, None) => Ok(()),
                (Some(on), Some(off)) => {
                    positive("on", on)?;
                    positive("off", off)
                }
                (Some(_), None) => Err(Invalid::new(
                    at("on"),
                    "there is no `off`; give both, or neither",
                )),
                (None, Some(_)) => Err(Invalid::new(
                    at("off"),
                    "there is no `on`; give both, or neither",
                )),
            },
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
                validate_at_once(spec.at_once, &at)
            }
        }
    }
}

fn validate_at_once(at_once: NonZeroU64, at: &dyn Fn(&str) -> String) -> Result<(), Invalid> {
    let most = 60;
    require(at_once.get() <= most, &at("at-once"), || {
        format!("it is {at_once}; at most {most} can be under way")
    })
}

/// The most frames that a live stream has in a second.
const MOST_FRAMES_PER_S: u32 = 1000;

fn validate_live(spec: &LiveSpec, at: &dyn Fn(&str) -> String) -> Result<(), Invalid> {
    let frames = spec.frames_per_second.get();
    require(
        frames <= MOST_FRAMES_PER_S,
        &at("frames-per-second"),
        || format!("it is {frames}; the most is {MOST_FRAMES_PER_S}"),
    )?;
    let factor = spec.key_factor;
    require(
        factor.is_finite() && factor >= 1.0,
        &at("key-factor"),
        || {
            format!(
                "it is {factor}; it must be at least 1, with which key frames are as large as others"
            )
        },
    )?;
    let variation = spec.variation;
    require((0.0..1.0).contains(&variation), &at("variation"), || {
        format!("it is {variation}; it must be at least 0 and less than 1")
    })?;
    require(!spec.deadline.duration().is_zero(), &at("deadline"), || {
        "it is zero; it must take some time".to_owned()
    })
}

/// The kinds, as tables.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum TrafficTable {
    Bulk(BulkSpec),
    OnOff(OnOffSpec),
    Media(MediaSpec),
    Live(LiveSpec),
    #[serde(alias = "http")]
    ShortFlows(ShortFlowsSpec),
    Pages(PagesSpec),
    Constant(ConstantSpec),
    Tcplib(TcplibSpec),
    Requests(RequestsSpec),
}

impl From<TrafficTable> for TrafficSpec {
    fn from(table: TrafficTable) -> TrafficSpec {
        match table {
            TrafficTable::Bulk(spec) => TrafficSpec::Bulk(spec),
            TrafficTable::OnOff(spec) => TrafficSpec::OnOff(spec),
            TrafficTable::Media(spec) => TrafficSpec::Media(spec),
            TrafficTable::Live(spec) => TrafficSpec::Live(spec),
            TrafficTable::ShortFlows(spec) => TrafficSpec::ShortFlows(spec),
            TrafficTable::Pages(spec) => TrafficSpec::Pages(spec),
            TrafficTable::Constant(spec) => TrafficSpec::Constant(spec),
            TrafficTable::Tcplib(spec) => TrafficSpec::Tcplib(spec),
            TrafficTable::Requests(spec) => TrafficSpec::Requests(spec),
        }
    }
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
            r#"{"kind": "constant", "rate": "4mbit", "on": "1s", "off": "500ms"}"#,
            r#"{"kind": "pages", "objects": 40, "at-once": 6, "think": "2s",
                "object": {"distribution": "pareto", "mean": "12kb", "shape": 1.2}}"#,
            r#"{"kind": "live", "rate": "5mbit", "frames-per-second": 30, "key-every": 60,
                "key-factor": 5, "variation": 0.3, "deadline": "500ms"}"#,
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
                r#"{"kind": "live", "rate": "1mbit", "frames-per-second": 1001}"#,
                "flow[0].traffic.frames-per-second: it is 1001; the most is 1000",
            ),
            (
                r#"{"kind": "constant", "rate": "1mbit", "on": "1s"}"#,
                "flow[0].traffic.on: there is no `off`; give both, or neither",
            ),
            (
                r#"{"kind": "pages", "at-once": 61}"#,
                "flow[0].traffic.at-once: it is 61; at most 60 can be under way",
            ),
            (
                r#"{"kind": "pages", "think": "0s"}"#,
                "flow[0].traffic.think: it is zero",
            ),
            (
                r#"{"kind": "live", "rate": "1mbit", "key-factor": 0.5}"#,
                "flow[0].traffic.key-factor: it is 0.5; it must be at least 1",
            ),
            (
                r#"{"kind": "live", "rate": "1mbit", "variation": 1}"#,
                "flow[0].traffic.variation: it is 1; it must be at least 0 and less than 1",
            ),
            (
                r#"{"kind": "live", "rate": "1mbit", "deadline": "0s"}"#,
                "flow[0].traffic.deadline: it is zero",
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
