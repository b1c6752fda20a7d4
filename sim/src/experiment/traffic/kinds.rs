//! The kinds of traffic, each with its keys.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use gallop_network::units::{LinkRate, Size, Span};
use serde::Deserialize;

use super::distribution::{Sizes, Times};
use crate::traffic::conversation::Protocol;

/// See [`TrafficSpec::Bulk`](super::TrafficSpec::Bulk).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BulkSpec {
    /// Size of the transfer; endless by default.
    #[serde(default)]
    pub size: Option<Size>,
}

/// See [`TrafficSpec::OnOff`](super::TrafficSpec::OnOff).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OnOffSpec {
    /// Size of a burst.
    pub burst: Size,
    /// The time from one burst to the next.
    pub every: Span,
    /// Total size; endless by default.
    #[serde(default)]
    pub total: Option<Size>,
}

/// See [`TrafficSpec::Media`](super::TrafficSpec::Media). The sender hands over chunks of `xfactor`
/// · `rate` · `heartbeat`, one per heartbeat; the receiver waits until it has `buffer` and then
/// plays at `rate` (Boyden et al. 2007 §4.2).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MediaSpec {
    /// The rate at which the media is encoded and played (Boyden et al. 2007: mediarate), in bits
    /// of stream data or in the stream data of so many datagrams of full size.
    pub rate: LinkRate,
    /// Rate at which the media is handed over, as a multiple of the rate at which it is played: 1
    /// makes a constrained stream, a factor beyond the network's rate an unconstrained one.
    #[serde(default = "MediaSpec::default_xfactor")]
    pub xfactor: f64,
    /// The time from one chunk to the next.
    #[serde(default = "MediaSpec::default_heartbeat")]
    pub heartbeat: Span,
    /// Data that is buffered before playing starts, in playing time.
    #[serde(default = "MediaSpec::default_buffer")]
    pub buffer: Span,
    /// Playing time of the media; endless by default.
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

    /// Stream bytes that become ready with every heartbeat, where a datagram of full size carries
    /// `packet_bytes` of a stream.
    #[must_use]
    pub fn chunk_bytes(&self, packet_bytes: u64) -> u64 {
        let seconds = self.heartbeat.duration().as_secs_f64();
        (self.xfactor * self.bytes_per_s(packet_bytes) * seconds).round() as u64
    }

    /// Stream bytes that play in one second.
    #[must_use]
    pub fn bytes_per_s(&self, packet_bytes: u64) -> f64 {
        bytes_per_s(self.rate, packet_bytes)
    }
}

/// A rate in stream bytes per second, where a datagram of full size carries `packet_bytes`.
fn bytes_per_s(rate: LinkRate, packet_bytes: u64) -> f64 {
    match rate {
        LinkRate::Bits(rate) => rate.bps() as f64 / 8.0,
        LinkRate::Packets(packets) => packets * packet_bytes as f64,
    }
}

/// See [`TrafficSpec::Live`](super::TrafficSpec::Live). The receiver asks once; from then on the
/// sender makes a frame at regular times and sends each over a stream of its own, the oldest first,
/// as subgroups of MoQ are sent (draft-ietf-moq-transport).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LiveSpec {
    /// Mean rate, in bits of stream data or in the stream data of so many datagrams of full size.
    pub rate: LinkRate,
    /// Frames per second.
    #[serde(default = "LiveSpec::default_frames_per_second")]
    pub frames_per_second: NonZeroU32,
    /// The number of frames from one key frame to the next.
    #[serde(default = "LiveSpec::default_key_every")]
    pub key_every: NonZeroU32,
    /// The size of a key frame over that of another.
    #[serde(default = "LiveSpec::default_key_factor")]
    pub key_factor: f64,
    /// Sizes are uniform between 1 − this and 1 + this of what they would be.
    #[serde(default)]
    pub variation: f64,
    /// The longest time that a frame waits for its first byte to be sent; then it is skipped.
    #[serde(default = "LiveSpec::default_deadline")]
    pub deadline: Span,
}

impl LiveSpec {
    fn default_frames_per_second() -> NonZeroU32 {
        const { NonZeroU32::new(30).expect("not zero") }
    }

    fn default_key_every() -> NonZeroU32 {
        const { NonZeroU32::new(60).expect("not zero") }
    }

    fn default_key_factor() -> f64 {
        5.0
    }

    fn default_deadline() -> Span {
        span(Duration::from_millis(500))
    }

    /// Stream bytes per second, where a datagram of full size carries `packet_bytes` of a stream.
    #[must_use]
    pub fn bytes_per_s(&self, packet_bytes: u64) -> f64 {
        bytes_per_s(self.rate, packet_bytes)
    }
}

/// See [`TrafficSpec::ShortFlows`](super::TrafficSpec::ShortFlows).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ShortFlowsSpec {
    /// The time from the start of one transfer to that of the next.
    #[serde(default = "ShortFlowsSpec::default_interarrival")]
    pub interarrival: Times,
    /// Size of each transfer.
    #[serde(default = "ShortFlowsSpec::default_size")]
    pub size: Sizes,
}

impl Default for ShortFlowsSpec {
    fn default() -> ShortFlowsSpec {
        ShortFlowsSpec {
            interarrival: ShortFlowsSpec::default_interarrival(),
            size: ShortFlowsSpec::default_size(),
        }
    }
}

impl ShortFlowsSpec {
    /// Boyden et al. 2007 §4.3.
    fn default_interarrival() -> Times {
        Times::Exponential {
            mean: span(Duration::from_millis(500)),
        }
    }

    /// Boyden et al. 2007 §4.3: 50 kB in packets of 1 kB.
    ///
    /// NOTE: the paper's "median of 50 kB" contradicts its mean, which is kept here.
    fn default_size() -> Sizes {
        Sizes::Pareto {
            mean: Size::Packets(const { NonZeroU64::new(50).expect("not zero") }),
            shape: 1.2,
        }
    }
}

/// See [`TrafficSpec::Tcplib`](super::TrafficSpec::Tcplib).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TcplibSpec {
    /// Mean of the exponential time from the start of one conversation to that of the next (Brakmo
    /// et al. 1994 §2.1 names the distribution, not the mean).
    #[serde(default = "TcplibSpec::default_interarrival")]
    pub interarrival: Span,
    /// The kinds of conversation, in the proportion that they have among all kinds; all by default.
    #[serde(default)]
    pub only: Vec<Service>,
    /// Stream bytes of a packet of the paper: files, articles and mails grow as the datagrams here
    /// are larger, so that they take as many packets. Without it their sizes are tcplib's.
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

/// See [`TrafficSpec::Constant`](super::TrafficSpec::Constant).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ConstantSpec {
    /// Rate on the wire, or so many full datagrams per second.
    pub rate: LinkRate,
    /// The time for which there are datagrams, from the start on; always by default.
    #[serde(default)]
    pub on: Option<Span>,
    /// The time after it without datagrams.
    #[serde(default)]
    pub off: Option<Span>,
}

/// See [`TrafficSpec::Pages`](super::TrafficSpec::Pages).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PagesSpec {
    /// The number of objects of a page.
    #[serde(default = "PagesSpec::default_objects")]
    pub objects: NonZeroU64,
    /// Size of an object.
    #[serde(default = "PagesSpec::default_object")]
    pub object: Sizes,
    /// The number of objects that are under way at once.
    #[serde(default = "PagesSpec::default_at_once")]
    pub at_once: NonZeroU64,
    /// The time from the end of a page to the start of the next.
    #[serde(default = "PagesSpec::default_think")]
    pub think: Times,
}

impl Default for PagesSpec {
    fn default() -> PagesSpec {
        PagesSpec {
            objects: PagesSpec::default_objects(),
            object: PagesSpec::default_object(),
            at_once: PagesSpec::default_at_once(),
            think: PagesSpec::default_think(),
        }
    }
}

impl PagesSpec {
    fn default_objects() -> NonZeroU64 {
        const { NonZeroU64::new(40).expect("not zero") }
    }

    fn default_object() -> Sizes {
        Sizes::Pareto {
            mean: Size::Bytes(const { NonZeroU64::new(12 << 10).expect("not zero") }),
            shape: 1.2,
        }
    }

    fn default_at_once() -> NonZeroU64 {
        const { NonZeroU64::new(60).expect("not zero") }
    }

    fn default_think() -> Times {
        Times::Constant(span(Duration::from_secs(2)))
    }
}

/// See [`TrafficSpec::Requests`](super::TrafficSpec::Requests).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RequestsSpec {
    /// The protocol of requests and answers.
    #[serde(default)]
    pub protocol: Protocol,
    /// Size of an answer's body.
    #[serde(default = "RequestsSpec::default_size")]
    pub size: Sizes,
    /// The time from the end of an answer to the next request.
    #[serde(default)]
    pub think: Times,
    /// The time from one request to the next, answered or not; in place of `think` and `at-once`.
    #[serde(default)]
    pub interarrival: Option<Times>,
    /// Number of requests under way at once: each waits for its answer and thinks on its own.
    #[serde(default = "RequestsSpec::default_at_once")]
    pub at_once: NonZeroU64,
    /// Number of requests; endless by default.
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

fn span(duration: Duration) -> Span {
    Span::try_from(duration).unwrap_or_default()
}
