//! Topologies: links, and the routes of flows over them.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

use gallop_network::impairment::Impairment;
use gallop_network::link::{Jitter, Link};
use gallop_network::packet::Side;
use gallop_network::queue::DropTail;
use gallop_network::random;
use gallop_network::stalls::Stalls;
use gallop_network::units::{Buffer, Rate};

/// A link of a [`Topology`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(usize);

impl LinkId {
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

/// The links that a flow's packets pass, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// From the server to the client.
    pub to_client: Vec<LinkId>,
    /// From the client to the server.
    pub to_server: Vec<LinkId>,
}

impl Route {
    pub(crate) fn towards(&self, side: Side) -> &[LinkId] {
        match side {
            Side::Client => &self.to_client,
            Side::Server => &self.to_server,
        }
    }
}

/// Links, and one route per flow.
#[derive(Debug, Default)]
pub struct Topology {
    pub(crate) links: Vec<Link>,
    pub(crate) routes: Vec<Route>,
    /// Times in which the servers of routes stand still, by the routes' numbers.
    pub(crate) stalls: BTreeMap<usize, Stalls>,
}

impl Topology {
    /// A topology without links.
    #[must_use]
    pub fn new() -> Topology {
        Topology::default()
    }

    /// Adds a link.
    pub fn add_link(&mut self, link: Link) -> LinkId {
        self.links.push(link);
        LinkId(self.links.len() - 1)
    }

    /// Adds the route of the next flow. Its links must be of this topology.
    pub fn add_route(&mut self, route: Route) {
        self.routes.push(route);
    }

    /// Lets the host of the servers of the last route stand still in `stalls`: it neither sends nor
    /// reads what has come nor looks at its timers. Then it does everything that waits at once: first
    /// it reads.
    pub fn stall_servers(&mut self, stalls: Stalls) {
        if let Some(last) = self.routes.len().checked_sub(1) {
            self.stalls.insert(last, stalls);
        }
    }

    /// Adds the route of the next flow from its hosts' side: over `inner`, with the hosts' own
    /// links at both ends if there is `access`. The server takes a random time per packet if there
    /// is `jitter`.
    pub fn add_hosts(&mut self, inner: Route, access: Option<Access>, jitter: Option<Jitter>) {
        let Some(Access { rate, delay }) = access else {
            let mut route = inner;
            if let Some(jitter) = jitter {
                let host = Link::host_line(Rate::MAX, Duration::ZERO, jitter);
                route.to_client.insert(0, self.add_link(host));
            }
            return self.add_route(route);
        };
        let from_server = match jitter {
            Some(jitter) => Link::host_line(rate, delay, jitter),
            None => Link::line(rate, delay),
        };
        let mut around = |first: Link, inner: Vec<LinkId>| {
            let mut links = vec![self.add_link(first)];
            links.extend(inner);
            links.push(self.add_link(Link::line(rate, delay)));
            links
        };
        let route = Route {
            to_client: around(from_server, inner.to_client),
            to_server: around(Link::line(rate, delay), inner.to_server),
        };
        self.add_route(route);
    }
}

/// The links between a flow's hosts and the network that it shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Their rate.
    pub rate: Rate,
    /// Their propagation delay, one way, at both sides.
    pub delay: Duration,
}

/// The default of the longest time that a host takes per packet.
pub const DEFAULT_HOST_JITTER: Duration = Duration::from_micros(120);

/// The default share of the round trip that each access link takes one way.
pub(crate) const DEFAULT_ACCESS_SHARE: u32 = 100;

/// One bottleneck that all flows share, and access links at both sides.
///
/// ```text
/// server 0 ──╮                            ╭── client 0
/// server 1 ──┼── bottleneck ⇄ reverse ────┼── client 1
/// server 2 ──╯                            ╰── client 2
/// ```
///
/// A packet's way there and back takes `rtt` and the time to send it (and its acknowledgement) on
/// each link.
#[derive(Debug)]
pub struct Dumbbell {
    /// Rate of the bottleneck.
    pub rate: Rate,
    /// Propagation delay there and back, access links included.
    pub rtt: Duration,
    /// Limit of the bottleneck's queue; drop-tail.
    pub buffer: Buffer,
    /// Rate of the way back.
    pub reverse_rate: Rate,
    /// Limit of the queue on the way back; drop-tail.
    pub reverse_buffer: Buffer,
    /// Rate of every access link.
    pub access_rate: Rate,
    /// Propagation delay of every access link, one way.
    pub access_delay: Duration,
    /// The longest random time that a server takes before it sends a packet; zero for none. Packets
    /// stay in order.
    pub host_jitter: Duration,
    /// Impairments at the bottleneck's entrance.
    pub impairments: Vec<Box<dyn Impairment>>,
    /// Impairments at the entrance of the way back.
    pub reverse_impairments: Vec<Box<dyn Impairment>>,
}

/// A dumbbell as links and routes.
#[derive(Debug)]
pub struct DumbbellTopology {
    /// Links and routes.
    pub topology: Topology,
    /// The bottleneck.
    pub bottleneck: LinkId,
    /// The shared link of the way back.
    pub reverse: LinkId,
}

impl Dumbbell {
    /// A dumbbell with the default access links: 1 Gbit/s, or twice the bottleneck's rate if that
    /// is more, 1 % of the round trip one way, and [`DEFAULT_HOST_JITTER`]; the way back is as fast
    /// as the bottleneck and has room for 1000 packets.
    #[must_use]
    pub fn new(rate: Rate, rtt: Duration, buffer: Buffer) -> Dumbbell {
        Dumbbell {
            rate,
            rtt,
            buffer,
            reverse_rate: rate,
            reverse_buffer: Buffer::Packets(NonZeroU64::MIN.saturating_add(999)),
            access_rate: Rate::GIGABIT.max(rate.saturating_mul(2)),
            access_delay: rtt / DEFAULT_ACCESS_SHARE,
            host_jitter: DEFAULT_HOST_JITTER,
            impairments: Vec::new(),
            reverse_impairments: Vec::new(),
        }
    }

    /// Builds it for `flows` flows; `seed` determines the host jitter.
    ///
    /// If the access links alone take longer than `rtt`, the bottleneck has no propagation delay
    /// and the round trip is theirs.
    #[must_use]
    pub fn build(self, flows: usize, seed: u64) -> DumbbellTopology {
        let delay = (self.rtt / 2).saturating_sub(self.access_delay * 2);
        let shared = |rate, buffer, impairments: Vec<Box<dyn Impairment>>| {
            let link = Link::queued(rate, delay, Box::new(DropTail::new(buffer)));
            impairments.into_iter().fold(link, Link::with_impairment)
        };
        let mut topology = Topology::new();
        let bottleneck = topology.add_link(shared(self.rate, self.buffer, self.impairments));
        let reverse = topology.add_link(shared(
            self.reverse_rate,
            self.reverse_buffer,
            self.reverse_impairments,
        ));
        let access = Access {
            rate: self.access_rate,
            delay: self.access_delay,
        };
        for flow in 0..flows {
            let inner = Route {
                to_client: vec![bottleneck],
                to_server: vec![reverse],
            };
            let jitter = (!self.host_jitter.is_zero()).then(|| Jitter {
                max: self.host_jitter,
                random: random::stream(seed, flow as u64),
            });
            topology.add_hosts(inner, Some(access), jitter);
        }
        DumbbellTopology {
            topology,
            bottleneck,
            reverse,
        }
    }
}
