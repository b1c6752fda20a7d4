//! The simulation: flows over a topology, moved by events in virtual time.

use crate::acks::AckPolicy;
use crate::agenda::{Agenda, Event};
use crate::clock::{self, Epoch, Time};
use crate::endpoint::{
    Action, Application, Connection, ConnectionError, Endpoint, Fetch, Place, Pool, Service,
};
use crate::impairment::Fate;
use crate::link::{Link, Taken};
use crate::meter::{Sample, Sampler};
use crate::packet::{Packet, Side};
use crate::settings::{ConfigError, Controller, Settings};
use crate::topology::{LinkId, Topology};
use crate::traffic::{Bulk, Source};
use quiche::ConnectionId;
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use thiserror::Error;

/// A flow: a client that fetches what a server sends.
pub struct Flow {
    /// The server's congestion controller. The client, which sends next to
    /// nothing, runs quiche's Reno.
    pub controller: Controller,
    /// When the client connects, counted from the start of the simulation.
    pub start: Duration,
    /// The server's initial window (RFC 9002 §7.2), in datagrams.
    pub initial_window_packets: usize,
    /// The largest datagram of both sides: UDP payload, in bytes.
    pub datagram_bytes: usize,
    /// Whether HyStart++ ends slow start, in controllers that ask.
    pub hystart: bool,
    /// Whether controllers that can may pace.
    pub pacing: bool,
    /// When the client acknowledges. The server acknowledges at once.
    pub acks: AckPolicy,
    /// What the server sends.
    pub source: Box<dyn Source>,
    /// Where the server's qlog goes.
    pub server_qlog: Option<Box<dyn Write + Send + Sync>>,
    /// Where the client's qlog goes.
    pub client_qlog: Option<Box<dyn Write + Send + Sync>>,
    /// Is told of every send, receive and timeout of both sides.
    pub observer: Option<Box<dyn FnMut(Observation<'_>)>>,
}

impl Flow {
    /// An endless download with `controller` that starts at once, otherwise set
    /// up as quiche is by default: an initial window of 10 packets of 1350
    /// bytes, HyStart++, pacing; every packet is acknowledged.
    #[must_use]
    pub fn new(controller: Controller) -> Flow {
        Flow {
            controller,
            start: Duration::ZERO,
            initial_window_packets: 10,
            datagram_bytes: 1350,
            hystart: true,
            pacing: true,
            acks: AckPolicy::EVERY_PACKET,
            source: Box::new(Bulk::Endless),
            server_qlog: None,
            client_qlog: None,
            observer: None,
        }
    }
}

/// What an observer is told.
#[derive(Clone, Copy)]
pub struct Observation<'a> {
    /// Virtual time.
    pub time: Time,
    /// Which side acted.
    pub side: Side,
    /// What it did.
    pub action: Action,
    /// The connection, after it.
    pub connection: &'a Connection,
}

/// Why a simulation cannot go on.
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
        /// What is wrong.
        error: ConfigError,
    },
    /// quiche failed.
    #[error("flow {flow}, {side:?}, at {time}: {error}")]
    Connection {
        /// The flow.
        flow: usize,
        /// The side.
        side: Side,
        /// When.
        time: Time,
        /// What failed.
        error: ConnectionError,
    },
    /// A connection has been closed, which no simulated application does.
    #[error("flow {flow}, {side:?}, at {time}: the connection closed ({reason})")]
    Closed {
        /// The flow.
        flow: usize,
        /// The side.
        side: Side,
        /// When.
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
    /// Nothing will ever happen again, but a flow has not ended.
    #[error(
        "no progress: at {time} nothing is under way and no timer is set, but flow {flow} has not ended"
    )]
    Deadlock {
        /// When.
        time: Time,
        /// A flow that has not ended.
        flow: usize,
    },
    /// Events go on without time going on.
    #[error(
        "no progress: {events} events at {time} and time stands still; the last were for flow {flow}"
    )]
    Livelock {
        /// When.
        time: Time,
        /// Events at that time.
        events: u64,
        /// The flow of the last event.
        flow: usize,
    },
    /// A sized transfer did not end in time.
    #[error("no progress: flow {flow} has not ended at {time}; the client has {received} bytes")]
    Unfinished {
        /// The flow.
        flow: usize,
        /// When.
        time: Time,
        /// Bytes received.
        received: u64,
    },
}

/// What a flow has come to.
#[derive(Clone, Debug, Default)]
pub struct FlowReport {
    /// Packets that the server sent (QUIC packets, [`quiche::Stats::sent`]).
    pub packets_sent: u64,
    /// Packets that the server declared lost.
    pub packets_lost: u64,
    /// Bytes of UDP payload that the server sent.
    pub bytes_sent: u64,
    /// Bytes that the server declared lost.
    pub bytes_lost: u64,
    /// Stream bytes that the server sent again.
    pub retransmitted_bytes: u64,
    /// Stream bytes that the client's application read.
    pub received_bytes: u64,
    /// When the client had read the end of the stream, if it has one.
    pub finished: Option<Time>,
}

/// At that many events without a step of time, a simulation is stuck.
const LIVELOCK_EVENTS: u64 = 1_000_000;

/// A flow of a running simulation. The endpoints are boxed: a connection is
/// large, and flows are added to a growing vector.
struct Running {
    flow: Flow,
    ends: Option<Box<Ends>>,
}

struct Ends {
    client: Endpoint,
    server: Endpoint,
}

impl Ends {
    fn get(&mut self, side: Side) -> &mut Endpoint {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    fn fetch(&self) -> Option<&Fetch> {
        match &self.client.application {
            Application::Fetches(fetch) => Some(fetch),
            Application::Serves(_) => None,
        }
    }
}

impl Running {
    fn finished(&self) -> Option<Time> {
        self.ends.as_ref()?.fetch()?.finished
    }

    fn received(&self) -> u64 {
        self.ends
            .as_ref()
            .and_then(|ends| ends.fetch())
            .map_or(0, |fetch| fetch.received)
    }
}

/// A simulation in virtual time. Everything about it is determined by the seed
/// given to [`isolated`](crate::isolated), the topology and the flows.
pub struct Simulation {
    epoch: Epoch,
    now: Time,
    agenda: Agenda,
    links: Vec<Link>,
    routes: Vec<crate::topology::Route>,
    flows: Vec<Running>,
    sampler: Option<(LinkId, Sampler)>,
    digest: Option<DefaultHasher>,
    events: u64,
    events_at_now: u64,
    pool: Pool,
    outgoing: Vec<Box<Packet>>,
    dropped: Vec<Box<Packet>>,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("now", &self.now)
            .field("links", &self.links)
            .field("routes", &self.routes)
            .field("flows", &self.flows.len())
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

impl Simulation {
    /// A simulation of `topology`, at the start of virtual time.
    ///
    /// # Errors
    /// Refuses a thread without virtual clock and routes over unknown links.
    pub fn new(topology: Topology) -> Result<Simulation, SimulationError> {
        clock::now().ok_or(SimulationError::NotIsolated)?;
        clock::set(Time::ZERO);
        let epoch = Epoch::of_this_thread().ok_or(SimulationError::NotIsolated)?;
        let Topology { links, routes } = topology;
        for (flow, route) in routes.iter().enumerate() {
            let ids = route.to_client.iter().chain(&route.to_server);
            if let Some(id) = ids.map(|id| id.index()).find(|&id| id >= links.len()) {
                return Err(SimulationError::NoLink {
                    flow,
                    link: id,
                    links: links.len(),
                });
            }
        }
        Ok(Simulation {
            epoch,
            now: Time::ZERO,
            agenda: Agenda::new(links.len()),
            links,
            routes,
            flows: Vec::new(),
            sampler: None,
            digest: None,
            events: 0,
            events_at_now: 0,
            pool: Pool::default(),
            outgoing: Vec::new(),
            dropped: Vec::new(),
        })
    }

    /// Adds a flow over the topology's next route; returns its number. If its
    /// start has passed, it starts now.
    ///
    /// # Errors
    /// Refuses a flow for which the topology has no route.
    pub fn add_flow(&mut self, flow: Flow) -> Result<usize, SimulationError> {
        let number = self.flows.len();
        if number >= self.routes.len() {
            return Err(SimulationError::NoRoute {
                flow: number,
                routes: self.routes.len(),
            });
        }
        let start = self.now.max(flow.start.into());
        self.flows.push(Running { flow, ends: None });
        self.agenda.at(start, Event::Start(number));
        Ok(number)
    }

    /// Samples the queue of `link` at the start and then `every` so long.
    pub fn sample_queue(&mut self, link: LinkId, every: Duration) {
        self.sampler = Some((link, Sampler::new(every)));
    }

    /// Keeps a digest of all packets: of the time, the link and every byte, at
    /// the entrance of every link.
    pub fn keep_digest(&mut self) {
        self.digest = Some(DefaultHasher::new());
    }

    /// The digest of all packets until now, if kept.
    #[must_use]
    pub fn digest(&self) -> Option<u64> {
        self.digest.as_ref().map(Hasher::finish)
    }

    /// The samples of the queue until now.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        self.sampler
            .as_ref()
            .map_or(&[], |(_, sampler)| sampler.samples())
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Events that have happened.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// A link and its meter.
    #[must_use]
    pub fn link(&self, link: LinkId) -> Option<&Link> {
        self.links.get(link.index())
    }

    /// The connection of one side of a flow, once the flow has started.
    #[must_use]
    pub fn connection(&self, flow: usize, side: Side) -> Option<&Connection> {
        let ends = self.flows.get(flow)?.ends.as_ref()?;
        Some(match side {
            Side::Client => &ends.client.connection,
            Side::Server => &ends.server.connection,
        })
    }

    /// What flow number `flow` has come to; nothing before it starts.
    #[must_use]
    pub fn report(&self, flow: usize) -> Option<FlowReport> {
        let running = self.flows.get(flow)?;
        let Some(ends) = &running.ends else {
            return Some(FlowReport::default());
        };
        let stats = ends.server.connection.stats();
        Some(FlowReport {
            packets_sent: stats.sent as u64,
            packets_lost: stats.lost as u64,
            bytes_sent: stats.sent_bytes,
            bytes_lost: stats.lost_bytes,
            retransmitted_bytes: stats.stream_retrans_bytes,
            received_bytes: running.received(),
            finished: running.finished(),
        })
    }

    /// Runs to `end`, counted from the start of the simulation.
    ///
    /// # Errors
    /// Fails when a connection does, or when nothing will ever happen again
    /// although a flow has not ended.
    pub fn run_until(&mut self, end: Duration) -> Result<(), SimulationError> {
        let end = Time::from(end);
        while let Some(next) = self.agenda.next_time().filter(|&next| next <= end) {
            self.step(next)?;
        }
        if self.agenda.next_time().is_none() {
            self.check_all_ended()?;
        }
        self.advance(end.max(self.now));
        // All that happens until then has happened, so a sample due now is due.
        self.sample_before(self.now + Duration::from_nanos(1));
        Ok(())
    }

    /// Runs until the clients have read all that the servers send; returns when
    /// that was.
    ///
    /// # Errors
    /// Fails when a connection does, when nothing will ever happen again, and
    /// when a flow has not ended after `limit`, counted from the start of the
    /// simulation.
    pub fn run_to_completion(&mut self, limit: Duration) -> Result<Time, SimulationError> {
        let limit = Time::from(limit);
        loop {
            let Some(unfinished) = self.first_unfinished() else {
                return Ok(self.now);
            };
            match self.agenda.next_time() {
                Some(next) if next <= limit => self.step(next)?,
                Some(_) => {
                    return Err(SimulationError::Unfinished {
                        flow: unfinished,
                        time: limit,
                        received: self.flows[unfinished].received(),
                    });
                }
                None => return self.check_all_ended().map(|()| self.now),
            }
        }
    }

    fn first_unfinished(&self) -> Option<usize> {
        self.flows.iter().position(|flow| flow.finished().is_none())
    }

    fn check_all_ended(&self) -> Result<(), SimulationError> {
        match self.first_unfinished() {
            None => Ok(()),
            Some(flow) => Err(SimulationError::Deadlock {
                time: self.now,
                flow,
            }),
        }
    }

    /// Sets the time.
    fn advance(&mut self, time: Time) {
        self.sample_before(time);
        if time > self.now {
            self.events_at_now = 0;
        }
        self.now = time;
        clock::set(time);
    }

    fn sample_before(&mut self, time: Time) {
        if let Some((link, sampler)) = &mut self.sampler {
            sampler.sample_before(time, self.links[link.index()].meter());
        }
    }

    /// Lets the next event happen, which is at `time`.
    fn step(&mut self, time: Time) -> Result<(), SimulationError> {
        self.advance(time);
        let Some(event) = self.agenda.next() else {
            return Ok(());
        };
        self.events += 1;
        self.events_at_now += 1;
        let flow = match event {
            Event::Start(flow) => self.start(flow).map(|()| flow),
            Event::Arrive(packet) => {
                let flow = packet.flow;
                self.arrive(packet).map(|()| flow)
            }
            Event::Enter(link, packet) => {
                let flow = packet.flow;
                self.enter(link, packet);
                Ok(flow)
            }
            Event::Served(link) => Ok(self.served(link)),
            Event::Wake(flow, side) => self.wake(flow, side).map(|()| flow),
        }?;
        if self.events_at_now >= LIVELOCK_EVENTS {
            return Err(SimulationError::Livelock {
                time,
                events: self.events_at_now,
                flow,
            });
        }
        Ok(())
    }

    /// Makes the connections of a flow and lets the client begin.
    fn start(&mut self, number: usize) -> Result<(), SimulationError> {
        let flow = &mut self.flows[number].flow;
        let ends = connect(number, flow).map_err(|error| SimulationError::Config {
            flow: number,
            error,
        })?;
        self.flows[number].ends = Some(Box::new(ends));
        self.transmit(number, Side::Client)
    }

    /// A packet is at its next link or at its end.
    fn arrive(&mut self, packet: Box<Packet>) -> Result<(), SimulationError> {
        let Some(&id) = self.routes[packet.flow].towards(packet.to).get(packet.hop) else {
            return self.deliver(packet);
        };
        if let Some(digest) = &mut self.digest {
            digest.write_u64(self.now.as_nanos());
            digest.write_usize(id.index());
            digest.write(packet.payload());
        }
        match self.links[id.index()].admit(&packet, self.now) {
            Fate::Pass => self.enter(id, packet),
            Fate::Hold(delay) => self.agenda.at(self.now + delay, Event::Enter(id, packet)),
            Fate::Lose => self.pool.put(packet),
        }
        Ok(())
    }

    /// A packet goes past the entrance of a link.
    fn enter(&mut self, id: LinkId, packet: Box<Packet>) {
        let taken = self.links[id.index()].take(packet, self.now, &mut self.dropped);
        match taken {
            Taken::Nothing => {}
            Taken::ServedAt(time) => self.agenda.at(time, Event::Served(id)),
            Taken::ArrivesAt(time, packet) => self.agenda.arrival(id, time, packet),
        }
        self.bury_dropped();
    }

    /// A link has sent its packet; returns the packet's flow.
    fn served(&mut self, id: LinkId) -> usize {
        let mut flow = 0;
        let served = self.links[id.index()].served(self.now, &mut self.dropped);
        if let Some((packet, arrival, next)) = served {
            flow = packet.flow;
            self.agenda.arrival(id, arrival, packet);
            if let Some(next) = next {
                self.agenda.at(next, Event::Served(id));
            }
        }
        self.bury_dropped();
        flow
    }

    fn bury_dropped(&mut self) {
        for packet in self.dropped.drain(..) {
            self.pool.put(packet);
        }
    }

    /// A packet is at its end.
    fn deliver(&mut self, mut packet: Box<Packet>) -> Result<(), SimulationError> {
        let (number, side, now) = (packet.flow, packet.to, self.now);
        let running = &mut self.flows[number];
        let Some(ends) = &mut running.ends else {
            return Ok(());
        };
        let observer = &mut running.flow.observer;
        let answer = ends
            .get(side)
            .receive(&mut packet, now, &mut watch(observer, now, side))
            .map_err(|error| SimulationError::Connection {
                flow: number,
                side,
                time: now,
                error,
            })?;
        self.pool.put(packet);
        self.check(number, side)?;
        match answer {
            true => self.transmit(number, side),
            false => {
                self.arm(number, side);
                Ok(())
            }
        }
    }

    /// An endpoint's timer has expired.
    fn wake(&mut self, number: usize, side: Side) -> Result<(), SimulationError> {
        let (now, epoch) = (self.now, self.epoch);
        let running = &mut self.flows[number];
        let Some(ends) = &mut running.ends else {
            return Ok(());
        };
        let endpoint = ends.get(side);
        if endpoint.armed != Some(now) {
            return Ok(());
        }
        endpoint.armed = None;
        let observer = &mut running.flow.observer;
        let due = endpoint.wake(now, epoch, &mut watch(observer, now, side));
        match due {
            true => {
                self.check(number, side)?;
                self.transmit(number, side)
            }
            false => {
                self.arm(number, side);
                Ok(())
            }
        }
    }

    /// Lets an endpoint send, and puts its packets on their way.
    fn transmit(&mut self, number: usize, side: Side) -> Result<(), SimulationError> {
        let (now, epoch) = (self.now, self.epoch);
        let running = &mut self.flows[number];
        let Some(ends) = &mut running.ends else {
            return Ok(());
        };
        let mut outgoing = std::mem::take(&mut self.outgoing);
        let (pool, observer) = (&mut self.pool, &mut running.flow.observer);
        ends.get(side)
            .transmit(
                now,
                epoch,
                pool,
                &mut outgoing,
                &mut watch(observer, now, side),
            )
            .map_err(|error| SimulationError::Connection {
                flow: number,
                side,
                time: now,
                error,
            })?;
        self.arm(number, side);
        for packet in outgoing.drain(..) {
            self.arrive(packet)?;
        }
        self.outgoing = outgoing;
        Ok(())
    }

    /// Arms an endpoint's timer, unless it will wake up early enough.
    fn arm(&mut self, number: usize, side: Side) {
        let Some(ends) = &mut self.flows[number].ends else {
            return;
        };
        let endpoint = ends.get(side);
        let Some(deadline) = endpoint.deadline(self.epoch) else {
            return;
        };
        let deadline = deadline.max(self.now);
        if endpoint.armed.is_none_or(|armed| deadline < armed) {
            endpoint.armed = Some(deadline);
            self.agenda.at(deadline, Event::Wake(number, side));
        }
    }

    /// Checks that a connection lives, and that an answer is whole.
    fn check(&mut self, number: usize, side: Side) -> Result<(), SimulationError> {
        let Some(ends) = &mut self.flows[number].ends else {
            return Ok(());
        };
        let connection = &ends.get(side).connection;
        if connection.is_closed() || connection.is_draining() {
            let error = connection.local_error().or(connection.peer_error());
            return Err(SimulationError::Closed {
                flow: number,
                side,
                time: self.now,
                reason: error.map_or_else(
                    || "no reason given".to_owned(),
                    |error| {
                        let reason = String::from_utf8_lossy(&error.reason);
                        format!("error code {:#x}, \"{reason}\"", error.error_code)
                    },
                ),
            });
        }
        let (Some(fetch), Application::Serves(service)) = (ends.fetch(), &ends.server.application)
        else {
            return Ok(());
        };
        match (fetch.finished, service.length()) {
            (Some(_), Some(expected)) if expected != fetch.received => {
                Err(SimulationError::WrongLength {
                    flow: number,
                    expected,
                    received: fetch.received,
                })
            }
            _ => Ok(()),
        }
    }
}

/// Hands what an endpoint does on to the flow's observer.
fn watch<'a>(
    observer: &'a mut Option<Box<dyn FnMut(Observation<'_>)>>,
    time: Time,
    side: Side,
) -> impl FnMut(Action, &Connection) + 'a {
    move |action, connection| {
        if let Some(observer) = observer {
            observer(Observation {
                time,
                side,
                action,
                connection,
            });
        }
    }
}

/// Makes both ends of flow `number`.
fn connect(number: usize, flow: &mut Flow) -> Result<Ends, ConfigError> {
    let reno = Controller::named("reno");
    let settings = |controller, max_ack_delay| Settings {
        controller,
        datagram_bytes: flow.datagram_bytes,
        initial_window_packets: flow.initial_window_packets,
        hystart: flow.hystart,
        pacing: flow.pacing,
        max_ack_delay,
    };
    let mut client_config = settings(&reno, flow.acks.max_delay).config()?;
    let server_acks = AckPolicy::EVERY_PACKET;
    let mut server_config = settings(&flow.controller, server_acks.max_delay).config()?;

    let (client_id, server_id) = (
        connection_id(Side::Client, number),
        connection_id(Side::Server, number),
    );
    let (client_address, server_address) =
        (address(Side::Client, number), address(Side::Server, number));
    let mut client: Connection = quiche::connect_with_buffer_factory(
        None,
        &client_id,
        client_address,
        server_address,
        &mut client_config,
    )?;
    let mut server: Connection = quiche::accept_with_buf_factory(
        &server_id,
        None,
        server_address,
        client_address,
        &mut server_config,
    )?;
    for (connection, qlog, side) in [
        (&mut client, flow.client_qlog.take(), "client"),
        (&mut server, flow.server_qlog.take(), "server"),
    ] {
        if let Some(qlog) = qlog {
            connection.set_qlog(
                qlog,
                format!("flow {number}, {side}"),
                "gallop-sim".to_owned(),
            );
        }
    }
    let source = std::mem::replace(&mut flow.source, Box::new(Bulk::Bytes(0)));
    let place = |side, local, peer| Place {
        flow: number,
        side,
        local,
        peer,
    };
    Ok(Ends {
        client: Endpoint::new(
            client,
            Application::Fetches(Fetch::default()),
            place(Side::Client, client_address, server_address),
            flow.datagram_bytes,
            flow.acks,
        ),
        server: Endpoint::new(
            server,
            Application::Serves(Service::new(source)),
            place(Side::Server, server_address, client_address),
            flow.datagram_bytes,
            server_acks,
        ),
    })
}

/// An identifier that names side and flow, so that no entropy decides it.
fn connection_id(side: Side, number: usize) -> ConnectionId<'static> {
    let mut id = match side {
        Side::Client => *b"client\0\0\0\0\0\0\0\0\0\0",
        Side::Server => *b"server\0\0\0\0\0\0\0\0\0\0",
    };
    id[8..].copy_from_slice(&(number as u64).to_be_bytes());
    ConnectionId::from_vec(id.to_vec())
}

/// An address per side and flow, in the private range of RFC 1918.
fn address(side: Side, number: usize) -> SocketAddr {
    let [.., high, middle, low] = (number as u64).to_be_bytes();
    let (network, port) = match side {
        Side::Client => (0, 50_000),
        Side::Server => (128, 4433),
    };
    SocketAddr::from((
        Ipv4Addr::new(10, network | (high & 0x7f), middle, low),
        port,
    ))
}
