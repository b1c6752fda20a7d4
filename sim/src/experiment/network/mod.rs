//! The network of an experiment's file: links between named nodes, or the short form for a
//! dumbbell.

mod build;
mod check;
mod course;
mod graph;
mod impairment;
mod link;
mod place;

pub use build::{BuildError, Built, Circumstances, PathFacts};
pub use course::{CellularSpec, ConstellationSpec, CourseSpec};
pub use impairment::{
    ExponentialJitterSpec, GilbertElliottSpec, GivenSpec, JitterSpec, LossSpec, PeriodSpec,
    ReorderSpec, SlotsSpec, StallsSpec, UniformJitterSpec,
};
pub use link::{ChangeSpec, DUMBBELL_LINKS, DumbbellSpec, LinkSpec, ReverseSpec};
pub use place::{FlowDirection, FlowPlace};

use std::path::Path;

use gallop_network::Invalid;
use gallop_network::units::{LinkRate, Rate};

use link::reverse_trace;

/// The links of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub enum Network {
    /// The table `[dumbbell]`.
    Dumbbell(Box<DumbbellSpec>),
    /// The tables `[[link]]`.
    Links(Vec<LinkSpec>),
}

/// The UDP payload with which rates in packets are compared with rates in bits.
const ANY_DATAGRAM_BYTES: usize = 1350;

impl Network {
    /// Checks the links, and that every flow has a path.
    ///
    /// # Errors
    /// Names the first value that makes no sense, by its place in the file.
    pub fn validate(&self, flows: &[FlowPlace]) -> Result<(), Invalid> {
        match self {
            Network::Dumbbell(dumbbell) => {
                dumbbell.validate()?;
                flows.iter().enumerate().try_for_each(check::dumbbell_place)
            }
            Network::Links(links) => {
                let graph = check::graph(links)?;
                flows
                    .iter()
                    .enumerate()
                    .try_for_each(|(number, flow)| check::place(&graph, number, flow))
            }
        }
    }

    /// The highest constant or typical rate of the links that are measured; none of traces.
    pub(super) fn busiest_rate(&self) -> Option<LinkRate> {
        let key = |rate: &LinkRate| rate.resolve(ANY_DATAGRAM_BYTES).map_or(0, Rate::bps);
        match self {
            Network::Dumbbell(dumbbell) => dumbbell.conditions().typical_rate(),
            Network::Links(links) => {
                let measured = links.iter().filter(|link| link.name.is_some());
                let rates = measured.filter_map(|link| link.conditions().typical_rate());
                rates.max_by_key(key)
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
