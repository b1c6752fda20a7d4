//! Makes links and routes of an experiment's network.

mod error;
mod impairments;
mod pace;

pub use error::BuildError;

use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use gallop_network::Invalid;
use gallop_network::link::{Jitter, Link};
use gallop_network::queue::QueueSpec;
use gallop_network::random::{self, STALL_PARTS};
use gallop_network::units::{Buffer, Rate, Span, WIRE_OVERHEAD_BYTES};

use super::Network;
use super::course::CourseSpec;
use super::graph::{Graph, Step};
use super::impairment::StallsSpec;
use super::link::{Conditions, DUMBBELL_LINKS, DumbbellSpec, LinkSpec, ReverseSpec};
use super::place::{FlowDirection, FlowPlace};
use crate::engine::topology::{Access, DEFAULT_ACCESS_SHARE, LinkId, Route, Topology};
use impairments::{Randoms, impairments};
use pace::{Drawn, Pace, resolve};

/// A network in the simulator's form.
#[derive(Debug)]
pub struct Built {
    /// The links, and a route for every member of every flow, in order.
    pub topology: Topology,
    /// The links that are measured, by name, in the file's order.
    pub links: Vec<(String, LinkId)>,
    /// Facts of the routes before any change, in the same order.
    pub paths: Vec<PathFacts>,
    ways: Vec<WayFacts>,
    routes: Vec<WaysOfRoute>,
    full_packet_bytes: u64,
}

/// Rate and delay of a flow's path at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathFacts {
    /// Rate of the slowest link from sender to receiver; of a trace or a course, the mean.
    pub rate: Rate,
    /// Propagation delay there and back.
    pub round_trip: Duration,
    /// The RTT of a full datagram that never waits: the propagation delay, and the time to send it
    /// on each link there. The acknowledgement counts nothing.
    pub base_rtt: Duration,
    /// True if neither rate nor delay ever change.
    pub steady: bool,
}

/// Rate and delay of a direction of a link.
#[derive(Clone, Debug)]
struct WayFacts {
    id: LinkId,
    rate: Rate,
    delay: Duration,
    /// Times from which later rates hold, and those rates.
    rates: Vec<(Duration, Rate)>,
    /// Times from which later delays hold, and those delays.
    delays: Vec<(Duration, Duration)>,
    /// True if the rate changes without being in `rates`.
    varies: bool,
}

/// The links of a route that flows share, as numbers of directions, and its hosts' own.
#[derive(Clone, Debug)]
struct WaysOfRoute {
    there: Vec<usize>,
    back: Vec<usize>,
    access: Option<Access>,
}

impl Built {
    /// Facts of the routes right after the changes at a time.
    #[must_use]
    pub fn paths_at(&self, at: Duration) -> Vec<PathFacts> {
        let routes = self.routes.iter();
        routes
            .map(|route| route.facts(&self.ways, self.full_packet_bytes, Some(at)))
            .collect()
    }
}

/// The value that holds at a time, or before any change.
fn value_at<T: Copy>(first: T, changes: &[(Duration, T)], at: Option<Duration>) -> T {
    let later = changes.iter().rev().find(|&&(from, _)| Some(from) <= at);
    later.map_or(first, |&(_, value)| value)
}

impl WayFacts {
    fn rate_at(&self, at: Option<Duration>) -> Rate {
        value_at(self.rate, &self.rates, at)
    }

    fn delay_at(&self, at: Option<Duration>) -> Duration {
        value_at(self.delay, &self.delays, at)
    }

    fn is_steady(&self) -> bool {
        self.rates.is_empty() && self.delays.is_empty() && !self.varies
    }
}

impl WaysOfRoute {
    /// Facts of the route at a time, or before any change.
    fn facts(&self, ways: &[WayFacts], full_packet_bytes: u64, at: Option<Duration>) -> PathFacts {
        let there = || self.there.iter().map(|&way| &ways[way]);
        let back = || self.back.iter().map(|&way| &ways[way]);
        let mut rate = there().map(|way| way.rate_at(at)).min();
        let delays = there().chain(back()).map(|way| way.delay_at(at));
        let mut round_trip: Duration = delays.sum();
        let sending = there().map(|way| way.rate_at(at).time_to_send(full_packet_bytes));
        let mut sending: Duration = sending.sum();
        if let Some(access) = self.access {
            rate = rate.map(|rate| rate.min(access.rate));
            round_trip += access.delay * 4;
            sending += access.rate.time_to_send(full_packet_bytes) * 2;
        }
        PathFacts {
            rate: rate.unwrap_or(Rate::GIGABIT),
            round_trip,
            base_rtt: round_trip + sending,
            steady: there().chain(back()).all(WayFacts::is_steady),
        }
    }
}

/// Limit of the queue on the way back, if the file gives none.
const REVERSE_LIMIT: Buffer = Buffer::Packets(NonZeroU64::MIN.saturating_add(999));

/// The values for which a network is built, beside its flows.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// UDP payload of a full datagram.
    pub datagram_bytes: usize,
    /// Simulated time.
    pub duration: Duration,
    /// The longest random time that a sender takes before each packet.
    pub host_jitter: Duration,
    /// Times in which a sender's host stands still.
    pub host_stalls: Option<StallsSpec>,
    /// It determines everything random.
    pub seed: u64,
    /// The folder of the experiment's file, beside which traces lie.
    pub directory: &'a Path,
}

impl Circumstances<'_> {
    /// A full datagram on the wire.
    fn full_packet_bytes(&self) -> u64 {
        (self.datagram_bytes + WIRE_OVERHEAD_BYTES) as u64
    }
}

impl Network {
    /// Builds the network for `flows`.
    ///
    /// # Errors
    /// Refuses what [`validate`](Network::validate) does, and traces that cannot be read.
    pub fn build(
        &self,
        flows: &[FlowPlace],
        circumstances: Circumstances,
    ) -> Result<Built, BuildError> {
        self.validate(flows)?;
        let mut builder = Builder {
            circumstances,
            topology: Topology::new(),
            graph: Graph::new(),
            ways: Vec::new(),
            links: Vec::new(),
            routes: Vec::new(),
        };
        match self {
            Network::Dumbbell(dumbbell) => builder.dumbbell(dumbbell, flows)?,
            Network::Links(links) => builder.links(links, flows)?,
        }
        let Builder {
            topology,
            links,
            ways,
            routes,
            ..
        } = builder;
        let full_packet_bytes = circumstances.full_packet_bytes();
        let facts = |route: &WaysOfRoute| route.facts(&ways, full_packet_bytes, None);
        Ok(Built {
            paths: routes.iter().map(facts).collect(),
            topology,
            links,
            ways,
            routes,
            full_packet_bytes,
        })
    }
}

struct Builder<'a> {
    circumstances: Circumstances<'a>,
    topology: Topology,
    graph: Graph,
    /// Facts of the links of the graph: there and back, in turn.
    ways: Vec<WayFacts>,
    links: Vec<(String, LinkId)>,
    routes: Vec<WaysOfRoute>,
}

/// The keys of a direction, and its number.
#[derive(Clone, Copy)]
struct Source<'a> {
    conditions: Conditions<'a>,
    way: usize,
}

/// One direction of a link.
struct Way<'a> {
    place: &'a str,
    /// The name under which it is measured.
    name: Option<&'a str>,
    own: Conditions<'a>,
    /// The keys from which rate and delay come.
    rate: Source<'a>,
    delays: Source<'a>,
    delay: Duration,
    queue: QueueSpec,
}

/// The nodes of a dumbbell.
const DUMBBELL_NODES: [&str; 2] = ["left", "right"];

impl<'a> Builder<'a> {
    fn links(&mut self, links: &[LinkSpec], flows: &[FlowPlace]) -> Result<(), BuildError> {
        for (number, link) in links.iter().enumerate() {
            let place = format!("link[{number}]");
            let delay = link.delay.duration();
            let names = link.names();
            let queue = link.queue.clone().unwrap_or(QueueSpec::Unlimited);
            self.two_way(
                &place,
                (&link.from, &link.to),
                names,
                link.conditions(),
                link.reverse.as_ref(),
                delay,
                queue,
            )?;
        }
        for (number, flow) in flows.iter().enumerate() {
            let ends = (flow.from.as_deref(), flow.to.as_deref());
            let (Some(from), Some(to)) = ends else {
                continue;
            };
            for _ in 0..flow.count {
                self.route(number, from, to, None)?;
            }
        }
        Ok(())
    }

    fn dumbbell(&mut self, spec: &DumbbellSpec, flows: &[FlowPlace]) -> Result<(), BuildError> {
        let place = "dumbbell";
        let rtt = spec.rtt.duration();
        let default_delay = spec
            .access_delay
            .map_or(rtt / DEFAULT_ACCESS_SHARE, Span::duration);
        let delay = (rtt / 2).saturating_sub(default_delay * 2);
        let [left, right] = DUMBBELL_NODES;
        let highest = self.two_way(
            place,
            (left, right),
            DUMBBELL_LINKS.map(Some),
            spec.conditions(),
            spec.reverse.as_ref(),
            delay,
            spec.queue.clone().unwrap_or(QueueSpec::Unlimited),
        )?;
        let rate = match spec.access_rate {
            Some(rate) => resolve(
                rate,
                self.circumstances.datagram_bytes,
                "dumbbell.access-rate",
            )?,
            None => Rate::GIGABIT.max(highest.saturating_mul(2)),
        };
        for (number, flow) in flows.iter().enumerate() {
            let delay = flow.access_delay.map_or(default_delay, Span::duration);
            let access = Access { rate, delay };
            let (from, to) = match flow.direction.unwrap_or_default() {
                FlowDirection::Forward => (left, right),
                FlowDirection::Reverse => (right, left),
            };
            for _ in 0..flow.count {
                self.route(number, from, to, Some(access))?;
            }
        }
        Ok(())
    }

    /// Adds both directions of a link; returns the highest rate from first node to second.
    #[expect(
        clippy::too_many_arguments,
        reason = "the keys of one table, each once"
    )]
    fn two_way(
        &mut self,
        place: &str,
        (from, to): (&str, &str),
        names: [Option<&str>; 2],
        there: Conditions,
        back: Option<&ReverseSpec>,
        delay: Duration,
        queue: QueueSpec,
    ) -> Result<Rate, BuildError> {
        self.graph
            .link(from, to)
            .map_err(|error| Invalid::new(place, error.to_string()))?;
        let reverse_queue = match (back.and_then(|back| back.queue.clone()), &queue) {
            (Some(queue), _) => queue,
            (None, QueueSpec::Unlimited) => QueueSpec::Unlimited,
            (None, _) => QueueSpec::drop_tail(REVERSE_LIMIT),
        };
        let source_there = Source {
            conditions: there,
            way: self.ways.len(),
        };
        let highest = self.way(Way {
            place,
            name: names[0],
            own: there,
            rate: source_there,
            delays: source_there,
            delay,
            queue,
        })?;
        let own = back.map(ReverseSpec::conditions).unwrap_or_default();
        let source_back = Source {
            conditions: own,
            way: self.ways.len(),
        };
        let source = |own: bool| if own { source_back } else { source_there };
        let own_delay = back.and_then(|back| back.delay).map(Span::duration);
        self.way(Way {
            place: &format!("{place}.reverse"),
            name: names[1],
            own,
            rate: source(own.has_rate()),
            delays: source(own_delay.is_some() || own.course.is_some_and(CourseSpec::has_delays)),
            delay: own_delay.unwrap_or(delay),
            queue: reverse_queue,
        })?;
        Ok(highest)
    }

    /// Adds one direction of a link; returns its highest rate.
    fn way(&mut self, way: Way) -> Result<Rate, BuildError> {
        let pace = Pace::new(way.place, way.rate, self.circumstances)?;
        let mut random = Randoms::new(self.circumstances.seed, self.ways.len());
        let mut link = match &way.queue {
            QueueSpec::Unlimited if way.name.is_none() => Link::line(pace.rate, way.delay),
            queue => {
                let full_packet_bytes = self.circumstances.full_packet_bytes();
                let place = format!("{}.queue", way.place);
                let next = || random.next();
                let queue = queue.build(&place, pace.rate, full_packet_bytes, next)?;
                Link::queued(pace.rate, way.delay, queue)
            }
        };
        if let Some(course) = pace.course {
            link = link.with_rate_course(course);
        }
        let mut delays: Vec<_> = way
            .delays
            .conditions
            .changes
            .iter()
            .filter_map(|change| Some((change.at.duration(), change.delay?.duration())))
            .collect();
        if let Some(drawn) = Drawn::new(way.place, way.delays, self.circumstances)? {
            let all = drawn.delays.into_iter();
            delays.extend(all.map(|(at, more)| (at, way.delay + more)));
        }
        if !delays.is_empty() {
            link = link.with_delays(&delays);
        }
        if way.own.keep_order.unwrap_or(false) {
            link = link.in_order();
        }
        let impairments = impairments(way.own, &mut random)
            .map_err(|error| Invalid::new(way.place, error.to_string()))?;
        link = impairments.into_iter().fold(link, Link::with_impairment);
        let id = self.topology.add_link(link);
        self.links
            .extend(way.name.map(|name| (name.to_owned(), id)));
        self.ways.push(WayFacts {
            id,
            rate: pace.rate,
            delay: way.delay,
            rates: pace.changes,
            delays,
            varies: way.rate.conditions.rate.is_none(),
        });
        Ok(pace.highest)
    }

    /// Adds the route of the next flow, which is described under number `flow`; with `access`, its
    /// hosts have links of their own.
    fn route(
        &mut self,
        flow: usize,
        from: &str,
        to: &str,
        access: Option<Access>,
    ) -> Result<(), BuildError> {
        let steps = self
            .graph
            .route(from, to)
            .map_err(|error| Invalid::new(format!("flow[{flow}]"), error.to_string()))?;
        let there: Vec<usize> = steps.iter().map(|&step| way(step)).collect();
        let back_steps = steps.iter().rev().map(|step| Step {
            forward: !step.forward,
            ..*step
        });
        let back: Vec<usize> = back_steps.map(way).collect();
        let links = |ways: &[usize]| ways.iter().map(|&way| self.ways[way].id).collect();
        let inner = Route {
            to_client: links(&there),
            to_server: links(&back),
        };
        self.routes.push(WaysOfRoute {
            there,
            back,
            access,
        });
        let route = self.topology.routes.len() as u64;
        let jitter = (!self.circumstances.host_jitter.is_zero()).then(|| Jitter {
            max: self.circumstances.host_jitter,
            random: random::stream(self.circumstances.seed, route),
        });
        self.topology.add_hosts(inner, access, jitter);
        if let Some(stalls) = self.circumstances.host_stalls {
            let random = random::stream(self.circumstances.seed, STALL_PARTS + route);
            self.topology.stall_servers(stalls.stalls(random));
        }
        Ok(())
    }
}

/// The number of a direction among those of all links.
fn way(step: Step) -> usize {
    2 * step.link + usize::from(!step.forward)
}
