//! Places of flows in a network.

use gallop_network::units::Span;
use serde::Deserialize;

/// Place of a flow in a network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowPlace {
    /// The flow's name.
    pub name: String,
    /// The node of the sender of data (the server); not in a dumbbell.
    pub from: Option<String>,
    /// The node of the receiver (the client); not in a dumbbell.
    pub to: Option<String>,
    /// One-way delay of the flow's own access links, at both sides; only in a dumbbell.
    pub access_delay: Option<Span>,
    /// Direction of its data; only in a dumbbell.
    pub direction: Option<FlowDirection>,
    /// Number of equal flows.
    pub count: usize,
}

/// Direction of data in a dumbbell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowDirection {
    /// Over the link "bottleneck".
    #[default]
    Forward,
    /// Over the link "reverse".
    Reverse,
}
