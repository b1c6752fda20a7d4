//! Links as an experiment's file describes them.

use std::path::{Path, PathBuf};

use gallop_network::queue::QueueSpec;
use gallop_network::units::{LinkRate, Span};
use serde::Deserialize;

use super::course::CourseSpec;
use super::impairment::{JitterSpec, LossSpec, PeriodSpec, ReorderSpec};

/// Names of the two shared links of a dumbbell, there and back.
pub const DUMBBELL_LINKS: [&str; 2] = ["bottleneck", "reverse"];

/// Defines a table with the keys that every description of a link has, after its own.
macro_rules! link_table {
    ($(#[$doc:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub struct $name {
            $($own)*
            /// Rate on the wire; not with `trace` or `course`.
            pub rate: Option<LinkRate>,
            /// The queue in front of the link.
            pub queue: Option<QueueSpec>,
            /// Loss at its entrance.
            pub loss: Option<LossSpec>,
            /// Reordering at its entrance.
            pub reorder: Option<ReorderSpec>,
            /// Probability of a packet being duplicated.
            pub duplicate: Option<f64>,
            /// Probability of a bit of a packet being changed.
            pub corrupt: Option<f64>,
            /// Additional random time of packets, before the queue.
            pub jitter: Option<JitterSpec>,
            /// Packets go on at multiples of this time; those that wait go on together.
            pub bundle: Option<Span>,
            /// Packets of more bytes, headers included, are lost.
            pub mtu: Option<u64>,
            /// The only time in which the link loses, reorders, duplicates, corrupts, delays or
            /// bundles packets, or has an MTU; default always.
            pub impaired_during: Option<PeriodSpec>,
            /// Times in which everything is lost.
            #[serde(default)]
            pub outages: Vec<PeriodSpec>,
            /// Changes of rate and delay, in order of time.
            #[serde(default)]
            pub changes: Vec<ChangeSpec>,
            /// A file of packet delivery times as Mahimahi has them, instead of `rate`; its place
            /// is relative to the experiment's file.
            pub trace: Option<PathBuf>,
            /// A rate, and perhaps a delay, that changes at random; instead of `rate`.
            pub course: Option<CourseSpec>,
            /// Packets never overtake others on the link, even when its delay becomes shorter (a
            /// handover); default false (a new route).
            pub keep_order: Option<bool>,
        }

        impl $name {
            /// The keys that all links have.
            pub(super) fn conditions(&self) -> Conditions<'_> {
                Conditions {
                    rate: self.rate,
                    queue: self.queue.as_ref(),
                    loss: self.loss.as_ref(),
                    reorder: self.reorder.as_ref(),
                    duplicate: self.duplicate,
                    corrupt: self.corrupt,
                    jitter: self.jitter.as_ref(),
                    bundle: self.bundle,
                    mtu: self.mtu,
                    impaired_during: self.impaired_during.as_ref(),
                    outages: &self.outages,
                    changes: &self.changes,
                    trace: self.trace.as_ref(),
                    course: self.course.as_ref(),
                    keep_order: self.keep_order,
                }
            }
        }
    };
}

link_table! {
    /// A link between two nodes, both ways.
    LinkSpec {
        /// Names the link in the results, from `from` to `to`; a link without a name is not
        /// measured.
        pub name: Option<String>,
        /// One end.
        pub from: String,
        /// The other end.
        pub to: String,
        /// Propagation delay, one way.
        pub delay: Span,
        /// Differences of the direction from `to` to `from`.
        pub reverse: Option<ReverseSpec>,
    }
}

link_table! {
    /// One bottleneck that all flows share, and access links of their own. Its links are called
    /// "bottleneck" and "reverse".
    DumbbellSpec {
        /// Propagation delay there and back, with access links of `access-delay`.
        pub rtt: Span,
        /// Rate of every access link; default 1 Gbit/s, or twice the bottleneck's if that is more.
        pub access_rate: Option<LinkRate>,
        /// Propagation delay of every access link, one way; default 1 % of `rtt`.
        pub access_delay: Option<Span>,
        /// Differences on the way back.
        pub reverse: Option<ReverseSpec>,
    }
}

link_table! {
    /// The other direction of a link. Without a rate, trace or course it is as fast, and without a delay as
    /// long, at all times. Without a queue it has room for 1000 packets, or never drops if there is
    /// no limit there either. Nothing is impaired.
    ReverseSpec {
        /// Names this direction in the results; not in a dumbbell.
        pub name: Option<String>,
        /// Propagation delay, one way.
        pub delay: Option<Span>,
    }
}

/// The keys that all descriptions of a link have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Conditions<'a> {
    pub(super) rate: Option<LinkRate>,
    pub(super) queue: Option<&'a QueueSpec>,
    pub(super) loss: Option<&'a LossSpec>,
    pub(super) reorder: Option<&'a ReorderSpec>,
    pub(super) duplicate: Option<f64>,
    pub(super) corrupt: Option<f64>,
    pub(super) jitter: Option<&'a JitterSpec>,
    pub(super) bundle: Option<Span>,
    pub(super) mtu: Option<u64>,
    pub(super) impaired_during: Option<&'a PeriodSpec>,
    pub(super) outages: &'a [PeriodSpec],
    pub(super) changes: &'a [ChangeSpec],
    pub(super) trace: Option<&'a PathBuf>,
    pub(super) course: Option<&'a CourseSpec>,
    pub(super) keep_order: Option<bool>,
}

/// A change of a link at a given time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ChangeSpec {
    /// Time of the change.
    pub at: Span,
    /// The rate from then on; default as before.
    pub rate: Option<LinkRate>,
    /// The propagation delay, one way, from then on; default as before.
    pub delay: Option<Span>,
}

impl LinkSpec {
    /// The names of both directions.
    pub(super) fn names(&self) -> [Option<&str>; 2] {
        let reverse = self.reverse.as_ref();
        [
            self.name.as_deref(),
            reverse.and_then(|reverse| reverse.name.as_deref()),
        ]
    }
}

pub(super) fn reverse_trace(reverse: &Option<ReverseSpec>) -> Option<&Path> {
    reverse.as_ref()?.trace.as_deref()
}

impl Conditions<'_> {
    /// True if it gives the rate.
    pub(super) fn has_rate(&self) -> bool {
        self.rate.is_some() || self.trace.is_some() || self.course.is_some()
    }

    /// The rate, or one that is typical of the course.
    pub(super) fn typical_rate(&self) -> Option<LinkRate> {
        self.rate.or(self.course.map(CourseSpec::typical_rate))
    }
}
