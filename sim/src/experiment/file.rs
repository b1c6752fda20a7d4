//! The keys of an experiment's file in which every `$name` has a value.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::analysis::Analysis;
use super::choice::Where;
use super::claim::{Claim, Plot, Table};
use super::goal::Goal;
use super::limit::Limit;
use super::network::{DumbbellSpec, FlowDirection, FlowPlace, LinkSpec, StallsSpec};
use super::scenario::DATAGRAM_BYTES;
use super::traffic::TrafficSpec;
use crate::stack::Stack;
use crate::units::{Size, Span};

/// A whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    pub(super) title: String,
    #[serde(default)]
    pub(super) source: String,
    #[serde(default)]
    pub(super) about: String,
    pub(super) duration: Span,
    #[serde(default)]
    pub(super) measure_from: Span,
    pub(super) change_at: Option<Span>,
    #[serde(default = "one")]
    pub(super) seeds: NonZeroU64,
    #[serde(default = "datagram")]
    pub(super) datagram: usize,
    #[serde(default = "initial_window")]
    pub(super) initial_window: usize,
    #[serde(default = "ack_every")]
    pub(super) ack_every: NonZeroU32,
    #[serde(default = "max_ack_delay")]
    pub(super) max_ack_delay: Span,
    #[serde(default)]
    pub(super) stack: Stack,
    pub(super) host_jitter: Option<Span>,
    pub(super) host_stalls: Option<StallsSpec>,
    /// It was read before, since it has the values for `$name`.
    #[serde(rename = "sweep")]
    _sweep: Option<IgnoredAny>,
    /// It was read before, as `sweep` was.
    #[serde(rename = "run")]
    _run: Option<IgnoredAny>,
    /// This, `defaults` and `fresh` were read before, as `sweep` was.
    #[serde(rename = "scenario")]
    _scenario: Option<IgnoredAny>,
    #[serde(rename = "defaults")]
    _defaults: Option<IgnoredAny>,
    #[serde(rename = "fresh")]
    _fresh: Option<IgnoredAny>,
    pub(super) link: Option<Vec<LinkSpec>>,
    pub(super) dumbbell: Option<DumbbellSpec>,
    #[serde(default)]
    pub(super) flow: Vec<FlowSpec>,
    pub(super) analysis: Option<Analysis>,
    pub(super) series: Option<Series>,
    #[serde(default)]
    pub(super) trace: Vec<Trace>,
    #[serde(default)]
    pub(super) table: Vec<Table>,
    #[serde(default)]
    pub(super) plot: Vec<Plot>,
    #[serde(default)]
    pub(super) claim: Vec<Claim>,
    #[serde(default)]
    pub(super) limit: Vec<Limit>,
    #[serde(default)]
    pub(super) goal: Vec<Goal>,
    #[serde(default)]
    pub(super) fast: Fast,
}

fn one() -> NonZeroU64 {
    NonZeroU64::MIN
}

fn datagram() -> usize {
    DATAGRAM_BYTES
}

fn initial_window() -> usize {
    10
}

fn ack_every() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(1)
}

/// QUIC's default (RFC 9000 §18.2).
fn max_ack_delay() -> Span {
    Duration::from_millis(25).try_into().unwrap_or_default()
}

/// A table `[[flow]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FlowSpec {
    pub(super) name: String,
    pub(super) cc: Option<String>,
    pub(super) stack: Option<Stack>,
    from: Option<String>,
    to: Option<String>,
    direction: Option<FlowDirection>,
    access_delay: Option<Span>,
    #[serde(default = "one_flow")]
    pub(super) count: NonZeroUsize,
    #[serde(default)]
    pub(super) start: Span,
    #[serde(default)]
    pub(super) start_jitter: Span,
    pub(super) stop: Option<Span>,
    #[serde(default)]
    pub(super) background: bool,
    #[serde(default)]
    pub(super) traffic: TrafficSpec,
    pub(super) send_buffer: Option<Size>,
    #[serde(default)]
    pub(super) ecn: bool,
    #[serde(default)]
    pub(super) discover_mtu: bool,
    #[serde(default)]
    pub(super) migrations: Vec<Span>,
    #[serde(default)]
    pub(super) rebindings: Vec<Span>,
}

fn one_flow() -> NonZeroUsize {
    NonZeroUsize::MIN
}

impl FlowSpec {
    /// The controller with its stack: the flow's own, or the run's `cc`, in the stack that the flow or
    /// the file names.
    pub(super) fn controller(&self, cc: Option<&str>, file: &File) -> Option<String> {
        let cc = self.cc.as_deref().or(cc)?;
        Some(self.stack.unwrap_or(file.stack).controller(cc))
    }

    pub(super) fn place(&self) -> FlowPlace {
        FlowPlace {
            name: self.name.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
            access_delay: self.access_delay,
            direction: self.direction,
            count: self.count.get(),
        }
    }
}

/// The table `[series]`: the values that are kept over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Series {
    /// The time from one value to the next.
    pub every: Span,
    /// The number of seeds, from the first one up.
    #[serde(default = "one")]
    pub seeds: NonZeroU64,
}

/// A table `[[trace]]`: the server's qlogs of a flow are kept, of the first seed.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Trace {
    /// The flow.
    pub flow: String,
    /// True if the qlogs of all its members are kept, false if only the first member's is.
    #[serde(default)]
    pub every_member: bool,
    /// The points.
    #[serde(default, rename = "where")]
    pub points: Where,
}

/// The table `[fast]`: the part that runs if there is little time.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Fast {
    pub(super) seeds: Option<NonZeroU64>,
    #[serde(default, rename = "where")]
    pub(super) points: Where,
    pub(super) duration: Option<Span>,
}
