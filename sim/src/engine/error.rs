//! Errors of simulations.

use std::time::Duration;

use gallop_network::packet::Side;
use gallop_network::time::Time;
use thiserror::Error;

use crate::endpoint::ConnectionError;
use crate::endpoint::settings::ConfigError;

/// A reason for which a simulation cannot go on.
#[derive(Debug, Error)]
pub enum SimulationError {
    /// It runs outside [`isolated`](crate::isolated).
    #[error(
        "this thread has no virtual clock: make and run simulations inside gallop_sim::isolated()"
    )]
    NotIsolated,
    /// A flow has no route.
    #[error("flow {flow} has no route: the topology was built for {routes} flows")]
    NoRoute {
        /// The flow.
        flow: usize,
        /// Routes that the topology has.
        routes: usize,
    },
    /// A route leads over a link of another topology.
    #[error("the route of flow {flow} leads over link {link}, but the topology has {links} links")]
    NoLink {
        /// The flow.
        flow: usize,
        /// The link's number.
        link: usize,
        /// Links that the topology has.
        links: usize,
    },
    /// A connection cannot be set up.
    #[error("flow {flow}: {error}")]
    Config {
        /// The flow.
        flow: usize,
        /// The problem.
        error: ConfigError,
    },
    /// quiche failed.
    #[error("flow {flow}, {side:?}, at {time}: {error}")]
    Connection {
        /// The flow.
        flow: usize,
        /// The side.
        side: Side,
        /// Virtual time.
        time: Time,
        /// The operation that failed.
        error: ConnectionError,
    },
    /// A connection has been closed, which no simulated application does.
    #[error("flow {flow}, {side:?}, at {time}: the connection closed ({reason})")]
    Closed {
        /// The flow.
        flow: usize,
        /// The side.
        side: Side,
        /// Virtual time.
        time: Time,
        /// The error that closed it.
        reason: String,
    },
    /// The client got another number of bytes than the server had.
    #[error(
        "flow {flow}: the client got {received} bytes to the end of the stream, the server had {expected}"
    )]
    WrongLength {
        /// The flow.
        flow: usize,
        /// Bytes of the whole answer.
        expected: u64,
        /// Bytes received.
        received: u64,
    },
    /// The client read other data than the server sent.
    #[error(
        "flow {flow}: what the client read at byte {offset} or after it is not what the server sent"
    )]
    WrongContent {
        /// The flow.
        flow: usize,
        /// The offset of that data in the answer.
        offset: u64,
    },
    /// Nothing will ever happen again, but a flow has not ended.
    #[error(
        "no progress: at {time} nothing is under way and no timer is set, but flow {flow} has not ended"
    )]
    Deadlock {
        /// Virtual time.
        time: Time,
        /// A flow that has not ended.
        flow: usize,
    },
    /// Events go on, but time does not.
    #[error(
        "no progress: {events} events at {time} and time stands still; the last were for flow {flow}"
    )]
    Livelock {
        /// Virtual time.
        time: Time,
        /// Events at that time.
        events: u64,
        /// The flow of the last event.
        flow: usize,
    },
    /// One end keeps probing, but nothing comes in.
    #[error(
        "no progress: at {time} the {side:?} of flow {flow} has been probing for {} s and nothing came in; \
         the client has {received} bytes", limit.as_secs_f64()
    )]
    Stalled {
        /// The flow.
        flow: usize,
        /// The end that probes.
        side: Side,
        /// Virtual time.
        time: Time,
        /// The time for which an end may probe.
        limit: Duration,
        /// Bytes received.
        received: u64,
    },
    /// A sized transfer did not end in time.
    #[error("no progress: flow {flow} has not ended at {time}; the client has {received} bytes")]
    Unfinished {
        /// The flow.
        flow: usize,
        /// Virtual time.
        time: Time,
        /// Bytes received.
        received: u64,
    },
}
