//! The network of an experiment's file: links between named nodes, or the short
//! form for a dumbbell.

mod build;
pub mod graph;
mod impairment;

pub use build::{BuildError, Built, PathFacts};
pub use impairment::{
    GilbertElliottSpec, GivenSpec, JitterSpec, LossSpec, PeriodSpec, ReorderSpec,
};

use crate::invalid::{Invalid, require};
use crate::queue::QueueSpec;
use crate::units::{LinkRate, Rate, Span};
use graph::{Graph, GraphError};
use impairment::probability;
use serde::Deserialize;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Which links there are.
#[derive(Clone, Debug, PartialEq)]
pub enum Network {
    /// The table `[dumbbell]`.
    Dumbbell(Box<DumbbellSpec>),
    /// The tables `[[link]]`.
    Links(Vec<LinkSpec>),
}

/// Where a flow runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowPlace {
    /// The flow's name.
    pub name: String,
    /// The node of the sender of data (the server); not in a dumbbell.
    pub from: Option<String>,
    /// The node of the receiver (the client); not in a dumbbell.
    pub to: Option<String>,
    /// One-way delay of the flow's own access links, at both sides; only in a
    /// dumbbell.
    pub access_delay: Option<Span>,
    /// Which way data goes; only in a dumbbell.
    pub direction: Option<FlowDirection>,
    /// So many equal flows.
    pub count: usize,
}

/// Which way data goes in a dumbbell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowDirection {
    /// Over the link "bottleneck".
    #[default]
    Forward,
    /// Over the link "reverse".
    Reverse,
}

/// To compare rates in packets with rates in bits.
const ANY_DATAGRAM_BYTES: usize = 1350;

/// Names of the two shared links of a dumbbell, there and back.
pub const DUMBBELL_LINKS: [&str; 2] = ["bottleneck", "reverse"];

/// Defines a table with the keys that every description of a link has, after its
/// own.
macro_rules! link_table {
    ($(#[$doc:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub struct $name {
            $($own)*
            /// Rate on the wire; not with `trace`.
            pub rate: Option<LinkRate>,
            /// What waits for the link, and what becomes of it.
            pub queue: Option<QueueSpec>,
            /// What the link loses at its entrance.
            pub loss: Option<LossSpec>,
            /// What it holds back there.
            pub reorder: Option<ReorderSpec>,
            /// Probability of a packet being there twice.
            pub duplicate: Option<f64>,
            /// Probability of a bit of a packet being changed.
            pub corrupt: Option<f64>,
            /// Random time that packets take longer, before the queue.
            pub jitter: Option<JitterSpec>,
            /// Packets go on at multiples of this time, those that wait together.
            pub bundle: Option<Span>,
            /// Packets of more bytes, headers included, are lost.
            pub mtu: Option<u64>,
            /// The only time in which the link loses, reorders, duplicates,
            /// corrupts, delays or bundles packets, or has an MTU; default always.
            pub impaired_during: Option<PeriodSpec>,
            /// Times in which everything is lost.
            #[serde(default)]
            pub outages: Vec<PeriodSpec>,
            /// Changes of rate and delay, in order of time.
            #[serde(default)]
            pub changes: Vec<ChangeSpec>,
            /// A file of packet delivery times as Mahimahi has them, instead of
            /// `rate`; its place is relative to the experiment's file.
            pub trace: Option<PathBuf>,
            /// Packets never overtake others on the link, even when its delay
            /// becomes shorter (a handover); default false (a new route).
            pub keep_order: Option<bool>,
        }

        impl $name {
            /// The keys that all links have.
            fn conditions(&self) -> Conditions<'_> {
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
                    keep_order: self.keep_order,
                }
            }
        }
    };
}

link_table! {
    /// A link between two nodes, both ways.
    LinkSpec {
        /// Names the link in the results, from `from` to `to`; a link without a
        /// name is not measured.
        pub name: Option<String>,
        /// One end.
        pub from: String,
        /// The other end.
        pub to: String,
        /// Propagation delay, one way.
        pub delay: Span,
        /// What differs from `to` to `from`.
        pub reverse: Option<ReverseSpec>,
    }
}

link_table! {
    /// One bottleneck that all flows share, and access links of their own. Its
    /// links are called "bottleneck" and "reverse".
    DumbbellSpec {
        /// Propagation delay there and back, with access links of
        /// `access-delay`.
        pub rtt: Span,
        /// Rate of every access link; default 1 Gbit/s, or twice the
        /// bottleneck's if that is more.
        pub access_rate: Option<LinkRate>,
        /// Propagation delay of every access link, one way; default 1 % of
        /// `rtt`.
        pub access_delay: Option<Span>,
        /// What differs on the way back.
        pub reverse: Option<ReverseSpec>,
    }
}

link_table! {
    /// The other direction of a link. Without a rate or trace it is as fast, and
    /// without a delay as long, at all times. Without a queue it has room for
    /// 1000 packets, or never drops if there is no limit there either. Nothing is
    /// impaired.
    ReverseSpec {
        /// Names this direction in the results; not in a dumbbell.
        pub name: Option<String>,
        /// Propagation delay, one way.
        pub delay: Option<Span>,
    }
}

/// The keys that all descriptions of a link have.
#[derive(Clone, Copy, Debug, Default)]
struct Conditions<'a> {
    rate: Option<LinkRate>,
    queue: Option<&'a QueueSpec>,
    loss: Option<&'a LossSpec>,
    reorder: Option<&'a ReorderSpec>,
    duplicate: Option<f64>,
    corrupt: Option<f64>,
    jitter: Option<&'a JitterSpec>,
    bundle: Option<Span>,
    mtu: Option<u64>,
    impaired_during: Option<&'a PeriodSpec>,
    outages: &'a [PeriodSpec],
    changes: &'a [ChangeSpec],
    trace: Option<&'a PathBuf>,
    keep_order: Option<bool>,
}

/// A change of a link at a given time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ChangeSpec {
    /// When.
    pub at: Span,
    /// The rate from then on; default as before.
    pub rate: Option<LinkRate>,
    /// The propagation delay, one way, from then on; default as before.
    pub delay: Option<Span>,
}

impl Network {
    /// Checks what the types cannot: the links, and that every flow has a path.
    ///
    /// # Errors
    /// Names the first value that makes no sense, by its place in the file.
    pub fn validate(&self, flows: &[FlowPlace]) -> Result<(), Invalid> {
        match self {
            Network::Dumbbell(dumbbell) => {
                dumbbell.validate()?;
                flows.iter().enumerate().try_for_each(dumbbell_place)
            }
            Network::Links(links) => {
                let graph = graph(links)?;
                flows
                    .iter()
                    .enumerate()
                    .try_for_each(|(number, flow)| place(&graph, number, flow))
            }
        }
    }

    /// The highest rate of a link that is measured, where it is constant.
    pub(super) fn busiest_rate(&self) -> Option<LinkRate> {
        let key = |rate: &LinkRate| rate.resolve(ANY_DATAGRAM_BYTES).map_or(0, Rate::bps);
        match self {
            Network::Dumbbell(dumbbell) => dumbbell.rate,
            Network::Links(links) => {
                let measured = links.iter().filter(|link| link.name.is_some());
                measured.filter_map(|link| link.rate).max_by_key(key)
            }
        }
    }

    /// The traces that links are read from, as the file names them.
    #[must_use]
    pub fn trace_files(&self) -> Vec<&Path> {
        let traces: Vec<[Option<&Path>; 2]> = match self {
            Network::Dumbbell(spec) => vec![[spec.trace.as_deref(), reverse_trace(&spec.reverse)]],
            Network::Links(links) => links
                .iter()
                .map(|link| [link.trace.as_deref(), reverse_trace(&link.reverse)])
                .collect(),
        };
        traces.into_iter().flatten().flatten().collect()
    }

    /// The names of the links that are measured, in the order of the results.
    #[must_use]
    pub fn measured_links(&self) -> Vec<&str> {
        match self {
            Network::Dumbbell(_) => DUMBBELL_LINKS.to_vec(),
            Network::Links(links) => links.iter().flat_map(LinkSpec::names).flatten().collect(),
        }
    }
}

impl LinkSpec {
    /// The names of both directions.
    fn names(&self) -> [Option<&str>; 2] {
        let reverse = self.reverse.as_ref();
        [
            self.name.as_deref(),
            reverse.and_then(|reverse| reverse.name.as_deref()),
        ]
    }
}

fn reverse_trace(reverse: &Option<ReverseSpec>) -> Option<&Path> {
    reverse.as_ref()?.trace.as_deref()
}

/// The nodes of the links, after a check of the links.
fn graph(links: &[LinkSpec]) -> Result<Graph, Invalid> {
    let mut graph = Graph::new();
    let mut names = HashSet::new();
    for (number, link) in links.iter().enumerate() {
        let place = format!("link[{number}]");
        for (key, name) in ["name", "reverse.name"].into_iter().zip(link.names()) {
            if let Some(name) = name {
                require(names.insert(name), &format!("{place}.{key}"), || {
                    format!("there is another link \"{name}\"")
                })?;
            }
        }
        link.conditions().validate(&place)?;
        rate_or_trace(link.conditions(), &place)?;
        if let Some(reverse) = &link.reverse {
            reverse.validate(&format!("{place}.reverse"))?;
        }
        graph.link(&link.from, &link.to).map_err(|error| {
            let key = match error {
                GraphError::Itself(_) => "to",
                _ => "from",
            };
            Invalid::new(format!("{place}.{key}"), error.to_string())
        })?;
    }
    Ok(graph)
}

/// Checks a flow over links.
fn place(graph: &Graph, number: usize, flow: &FlowPlace) -> Result<(), Invalid> {
    let at = |key: &str| format!("flow[{number}].{key}");
    for (key, given) in [
        ("access-delay", flow.access_delay.is_some()),
        ("direction", flow.direction.is_some()),
    ] {
        require(!given, &at(key), || {
            "only flows over a [dumbbell] have it; here the links say it".to_owned()
        })?;
    }
    let node = |key: &str, node: &Option<String>| {
        node.clone().ok_or_else(|| {
            let problem = format!("flow \"{}\" lacks the node it goes {key}", flow.name);
            Invalid::new(format!("flow[{number}]"), problem)
        })
    };
    let (from, to) = (node("from", &flow.from)?, node("to", &flow.to)?);
    let route = graph.route(&from, &to);
    route.map(drop).map_err(|error| {
        let unknown_from = matches!(&error, GraphError::UnknownNode { name, .. } if *name == from);
        let key = if unknown_from { "from" } else { "to" };
        Invalid::new(at(key), error.to_string())
    })
}

/// Checks a flow over a dumbbell.
fn dumbbell_place((number, flow): (usize, &FlowPlace)) -> Result<(), Invalid> {
    for (key, node) in [("from", &flow.from), ("to", &flow.to)] {
        require(node.is_none(), &format!("flow[{number}].{key}"), || {
            "in a [dumbbell] every flow has hosts of its own; leave it out, or say direction = \"reverse\"".to_owned()
        })?;
    }
    Ok(())
}

fn rate_or_trace(conditions: Conditions, place: &str) -> Result<(), Invalid> {
    let given = conditions.rate.is_some() || conditions.trace.is_some();
    require(given, place, || {
        "it has neither a rate nor a trace".to_owned()
    })
}

impl DumbbellSpec {
    fn validate(&self) -> Result<(), Invalid> {
        let place = "dumbbell";
        self.conditions().validate(place)?;
        rate_or_trace(self.conditions(), place)?;
        require(self.queue.is_some(), place, || {
            "it has no queue; say how much may wait, such as queue = \"100p\"".to_owned()
        })?;
        if let Some(reverse) = &self.reverse {
            let place = "dumbbell.reverse";
            reverse.validate(place)?;
            require(reverse.name.is_none(), &format!("{place}.name"), || {
                format!("in a dumbbell it is called \"{}\"", DUMBBELL_LINKS[1])
            })?;
        }
        let access = self.access_delay.unwrap_or_default().duration();
        require(
            access.saturating_mul(4) <= self.rtt.duration(),
            "dumbbell.access-delay",
            || {
                format!(
                    "the four access links of a round trip take longer than it, {}",
                    self.rtt
                )
            },
        )
    }
}

impl ReverseSpec {
    fn validate(&self, place: &str) -> Result<(), Invalid> {
        self.conditions().validate(place)?;
        for (number, change) in self.changes.iter().enumerate() {
            for (key, changes, first) in [
                ("rate", change.rate.is_some(), self.rate.is_some()),
                ("delay", change.delay.is_some(), self.delay.is_some()),
            ] {
                require(
                    first || !changes,
                    &format!("{place}.changes[{number}].{key}"),
                    || format!("the reverse has no {key} of its own that could change"),
                )?;
            }
        }
        Ok(())
    }
}

impl Conditions<'_> {
    fn validate(&self, place: &str) -> Result<(), Invalid> {
        let at = |key: &str| format!("{place}.{key}");
        if let Some(queue) = self.queue {
            queue.validate(&at("queue"))?;
        }
        if let Some(loss) = self.loss {
            loss.validate(&at("loss"))?;
        }
        if let Some(reorder) = self.reorder {
            probability(reorder.probability, &at("reorder.probability"))?;
        }
        for (key, value) in [("duplicate", self.duplicate), ("corrupt", self.corrupt)] {
            if let Some(value) = value {
                probability(value, &at(key))?;
            }
        }
        if let Some(bundle) = self.bundle {
            require(!bundle.duration().is_zero(), &at("bundle"), || {
                "it is 0; it must be positive".to_owned()
            })?;
        }
        if let Some(during) = self.impaired_during {
            during.validate(&at("impaired-during"))?;
        }
        for (number, outage) in self.outages.iter().enumerate() {
            outage.validate(&at(&format!("outages[{number}]")))?;
        }
        if self.trace.is_some() {
            require(self.rate.is_none(), &at("rate"), || {
                "the link has a trace, which says the rate".to_owned()
            })?;
        }
        self.validate_changes(&at("changes"))
    }

    fn validate_changes(&self, place: &str) -> Result<(), Invalid> {
        let mut last = None;
        for (number, change) in self.changes.iter().enumerate() {
            let at = |key: &str| format!("{place}[{number}].{key}");
            require(last < Some(change.at), &at("at"), || {
                format!("{} is not after the change before it", change.at)
            })?;
            last = Some(change.at);
            require(
                self.trace.is_none() || change.rate.is_none(),
                &at("rate"),
                || "the link has a trace, which says the rate".to_owned(),
            )?;
            let changes = change.rate.is_some() || change.delay.is_some();
            require(changes, &format!("{place}[{number}]"), || {
                "it changes neither rate nor delay".to_owned()
            })?;
        }
        Ok(())
    }
}
