//! The simulation: flows over a topology, moved by events in virtual time.

use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::time::Duration;

use crate::endpoint::{Connection, ConnectionError, Pool};
use crate::engine::agenda::{Agenda, Event};
use crate::engine::connect::connect;
use crate::engine::ends::watch;
use crate::engine::error::SimulationError;
use crate::engine::flow::{Flow, FlowReport};
use crate::engine::host::{Host, Waiting};
use crate::engine::running::{Loading, Running, Stage};
use crate::engine::share::ShareWindow;
use crate::engine::topology::{LinkId, Route, Topology};
use crate::isolation::clock::{self, Epoch, Time};
use crate::link::{Link, Taken};
use crate::meter::{Sample, Sampler};
use crate::packet::{Packet, Side};
use crate::traffic::load::Counted;

/// The number of events without a step of time after which a simulation is stuck.
const LIVELOCK_EVENTS: u64 = 1_000_000;

/// The time for which an end may probe without anything coming in, unless
/// [`Simulation::set_stall_limit`] says otherwise. After it, the flow has stalled.
const STALL_LIMIT: Duration = Duration::from_secs(60);

/// A simulation in virtual time. Everything about it is determined by the seed
/// given to [`isolated`](crate::isolated), the topology and the flows.
pub struct Simulation {
    epoch: Epoch,
    now: Time,
    agenda: Agenda,
    links: Vec<Link>,
    routes: Vec<Route>,
    /// The servers' hosts that stand still at times, by route; none after the last of them.
    hosts: Vec<Option<Host>>,
    flows: Vec<Running>,
    /// The route of each flow.
    route_of: Vec<usize>,
    /// Flows that were added without a route of their choice.
    routed: usize,
    stall_limit: Duration,
    samplers: Vec<(LinkId, Sampler)>,
    /// The time at which the next sample of a queue is taken.
    next_sample: Time,
    digest: Option<DefaultHasher>,
    events: u64,
    events_at_now: u64,
    pool: Pool,
    outgoing: Vec<Packet>,
    dropped: Vec<Packet>,
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
        let Topology {
            links,
            routes,
            mut stalls,
        } = topology;
        let stalling = stalls.keys().next_back().map_or(0, |last| last + 1);
        let hosts = (0..stalling).map(|route| stalls.remove(&route).map(Host::new));
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
            hosts: hosts.collect(),
            flows: Vec::new(),
            route_of: Vec::new(),
            routed: 0,
            stall_limit: STALL_LIMIT,
            samplers: Vec::new(),
            next_sample: Time::from_nanos(u64::MAX),
            digest: None,
            events: 0,
            events_at_now: 0,
            pool: Pool::default(),
            outgoing: Vec::new(),
            dropped: Vec::new(),
        })
    }

    /// Adds a flow over the topology's next route, the first at first; returns
    /// its number. If its start has passed, it starts now.
    ///
    /// # Errors
    /// Refuses a flow for which the topology has no route.
    pub fn add_flow(&mut self, flow: Flow) -> Result<usize, SimulationError> {
        let number = self.add_flow_over(self.routed, flow)?;
        self.routed += 1;
        Ok(number)
    }

    /// Adds a flow over route number `route` of the topology; returns the
    /// flow's number. Several flows may share a route, such as connections
    /// between the same hosts. If its start has passed, it starts now.
    ///
    /// # Errors
    /// Refuses a flow for which the topology has no route.
    pub fn add_flow_over(&mut self, route: usize, flow: Flow) -> Result<usize, SimulationError> {
        let number = self.flows.len();
        if route >= self.routes.len() {
            return Err(SimulationError::NoRoute {
                flow: number,
                routes: self.routes.len(),
            });
        }
        let start = self.now.max(flow.start.into());
        let follows = number > 0 && flow.follows.is_some();
        self.flows.push(Running::new(flow));
        self.route_of.push(route);
        if !follows {
            self.agenda.at(start, Event::Start(number));
        }
        Ok(number)
    }

    /// Sets the time for which an end may probe without anything coming in before the simulation
    /// fails. It is a minute by default.
    pub fn set_stall_limit(&mut self, limit: Duration) {
        self.stall_limit = limit;
    }

    /// Samples the queue of `link` at the start and then at intervals of `every`.
    pub fn sample_queue(&mut self, link: LinkId, every: Duration) {
        let sampler = Sampler::new(every);
        self.next_sample = self.next_sample.min(sampler.next());
        self.samplers.push((link, sampler));
    }

    /// Lets all meters measure from now on, instead of from the start.
    pub fn start_measuring(&mut self) {
        for link in &mut self.links {
            link.start_measuring(self.now);
        }
        for flow in &mut self.flows {
            let report = flow.report();
            flow.meter.start(self.now, report);
        }
    }

    /// Keeps a digest of all packets at the entrance of every link: of the time, the link and every
    /// byte.
    pub fn keep_digest(&mut self) {
        self.digest = Some(DefaultHasher::new());
    }

    /// The digest of all packets until now, if kept.
    #[must_use]
    pub fn digest(&self) -> Option<u64> {
        self.digest.as_ref().map(Hasher::finish)
    }

    /// The samples of a link's queue until now; empty if it is not sampled.
    #[must_use]
    pub fn samples(&self, link: LinkId) -> &[Sample] {
        let mut samplers = self.samplers.iter();
        samplers
            .find(|(sampled, _)| *sampled == link)
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

    /// Events that are to come.
    #[must_use]
    pub fn pending_events(&self) -> usize {
        self.agenda.pending()
    }

    /// Flows that have been added.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// True if a flow has finished, and its connection is closed and dropped.
    #[must_use]
    pub fn has_closed(&self, flow: usize) -> bool {
        let stage = self.flows.get(flow).map(|flow| &flow.stage);
        matches!(stage, Some(Stage::Closed(_)))
    }

    /// Forgets a flow that has closed; returns its report.
    pub fn forget(&mut self, flow: usize) -> Option<FlowReport> {
        let closed = self.has_closed(flow);
        let flow = self.flows.get_mut(flow).filter(|_| closed)?;
        flow.forget();
        Some(flow.report())
    }

    /// A link and its meter.
    #[must_use]
    pub fn link(&self, link: LinkId) -> Option<&Link> {
        self.links.get(link.index())
    }

    /// quiche's connection of one side of a flow, once the flow has started and until it has closed;
    /// `None` if the flow has another stack.
    #[must_use]
    pub fn connection(&self, flow: usize, side: Side) -> Option<&Connection> {
        let ends = self.flows.get(flow)?.ends()?;
        ends.get(side).connection()
    }

    /// Bytes of the datagrams that have come to the client of a flow, once the flow has started and
    /// until it has closed.
    #[must_use]
    pub fn datagram_bytes_received(&self, flow: usize) -> Option<u64> {
        let ends = self.flows.get(flow)?.ends()?;
        Some(ends.get(Side::Client).datagram_bytes_received())
    }

    /// The flow of that number.
    pub(crate) fn flow(&self, flow: usize) -> Option<&Running> {
        self.flows.get(flow)
    }

    /// The report of flow number `flow`; `None` before it starts.
    #[must_use]
    pub fn report(&self, flow: usize) -> Option<FlowReport> {
        self.flows.get(flow).map(Running::report)
    }

    /// Runs to `end`, counted from the start of the simulation.
    ///
    /// # Errors
    /// Fails when a connection does, when a flow stalls, and when nothing will
    /// ever happen again although a flow has not ended.
    pub fn run_until(&mut self, end: Duration) -> Result<(), SimulationError> {
        let end = Time::from(end);
        while let Some(next) = self.agenda.next_time().filter(|&next| next <= end) {
            self.step(next)?;
        }
        if self.agenda.next_time().is_none() {
            self.check_all_ended()?;
        }
        self.advance(end.max(self.now));
        // All events until then have happened, so that a sample that is due now can be taken.
        self.sample_before(self.now + Duration::from_nanos(1));
        Ok(())
    }

    /// Runs until the clients have read all data of the servers; returns the time at which they
    /// had.
    ///
    /// # Errors
    /// Fails when a connection does, when nothing will ever happen again, and when a flow has not
    /// ended after `limit`, counted from the start of the simulation.
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
                        received: self.flows[unfinished].received_bytes(),
                    });
                }
                None => return self.check_all_ended().map(|()| self.now),
            }
        }
    }

    fn first_unfinished(&self) -> Option<usize> {
        self.flows.iter().position(|flow| !flow.has_finished())
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
        if self.next_sample >= time {
            return;
        }
        for (link, sampler) in &mut self.samplers {
            sampler.sample_before(time, self.links[link.index()].meter());
        }
        let next = self.samplers.iter().map(|(_, sampler)| sampler.next());
        self.next_sample = next.min().unwrap_or(self.next_sample);
    }

    /// Executes the next event, which is at `time`.
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
                let flow = packet.flow();
                self.arrive(packet).map(|()| flow)
            }
            Event::Enter(link, packet) => {
                let flow = packet.flow();
                self.enter(link, packet);
                Ok(flow)
            }
            Event::Served(link) => Ok(self.served(link)),
            Event::Wake(flow, side) => self.wake(flow, side).map(|()| flow),
            Event::Resume(route) => self.resume(route),
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

    /// Makes the connections of a flow and lets the client begin. Not inlined: they
    /// are large, and every step would make room for them on the stack.
    #[inline(never)]
    fn start(&mut self, number: usize) -> Result<(), SimulationError> {
        let running = &mut self.flows[number];
        if running.flow.load.is_some() {
            running.stage = Stage::Loading(Loading {
                started: self.now,
                finished: None,
                counted: Counted::default(),
            });
            return self.load(number);
        }
        let ends = connect(number, &mut running.flow, self.now, self.epoch).map_err(|error| {
            SimulationError::Config {
                flow: number,
                error,
            }
        })?;
        running.stage = Stage::Open(Box::new(ends));
        self.transmit(number, Side::Client)
    }

    /// Sends the next datagram of a load.
    fn load(&mut self, number: usize) -> Result<(), SimulationError> {
        let now = self.now;
        let Running { flow, stage, .. } = &mut self.flows[number];
        let (Stage::Loading(loading), Some(load)) = (stage, flow.load) else {
            return Ok(());
        };
        if flow.stop.is_some_and(|stop| Time::from(stop) <= now) {
            loading.finished = Some(now);
            return Ok(());
        }
        let mut packet = self.pool.take();
        packet.room_for(flow.datagram_bytes).fill(0);
        packet.readdress(number, Side::Client, 0, loading.counted.sent);
        if flow.ecn {
            packet.allow_marks();
        }
        loading.counted.sent += 1;
        let next = load.next(loading.started, now);
        self.agenda.at(next, Event::Wake(number, Side::Server));
        self.arrive(packet)
    }

    /// Lets the next flow start if it follows this one, which has finished.
    fn follow(&mut self, number: usize) {
        let next = number + 1;
        let follows = self
            .flows
            .get(next)
            .is_some_and(|next| next.flow.follows.is_some());
        if !follows || !self.flows[number].has_finished() {
            return;
        }
        let Some(follow) = self.flows[next].flow.follows.take() else {
            return;
        };
        let start = self.now + follow.wait;
        if follow.before.is_none_or(|before| start < before.into()) {
            self.agenda.at(start, Event::Start(next));
        } else {
            self.flows[next].cancel();
            self.follow(next);
        }
    }

    /// Handles a packet at its next link or at its end.
    fn arrive(&mut self, mut packet: Packet) -> Result<(), SimulationError> {
        let Some(&id) = self.routes[self.route_of[packet.flow()]]
            .towards(packet.to())
            .get(packet.hop())
        else {
            return self.deliver(packet);
        };
        if let Some(digest) = &mut self.digest {
            digest.write_u64(self.now.as_nanos());
            digest.write_usize(id.index());
            digest.write(packet.payload());
        }
        let admission = self.links[id.index()].admit(&mut packet, self.now);
        let Some(held) = admission.held else {
            self.pool.put(packet);
            return Ok(());
        };
        for _ in 0..admission.copies {
            self.enter_after(held, id, packet.clone());
        }
        self.enter_after(held, id, packet);
        Ok(())
    }

    fn enter_after(&mut self, held: Duration, id: LinkId, packet: Packet) {
        match held {
            Duration::ZERO => self.enter(id, packet),
            held => self.agenda.at(self.now + held, Event::Enter(id, packet)),
        }
    }

    /// Moves a packet past the entrance of a link.
    fn enter(&mut self, id: LinkId, packet: Packet) {
        let taken = self.links[id.index()].take(packet, self.now, &mut self.dropped);
        match taken {
            Taken::Nothing => {}
            Taken::ServedAt(time) => self.agenda.at(time, Event::Served(id)),
            Taken::ArrivesAt(time, packet) => self.agenda.arrival(id, time, packet),
        }
        self.bury_dropped();
    }

    /// Takes the packet that a link has sent; returns the packet's flow.
    fn served(&mut self, id: LinkId) -> usize {
        let mut flow = 0;
        let served = self.links[id.index()].served(self.now, &mut self.dropped);
        if let Some((packet, arrival, next)) = served {
            flow = packet.flow();
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

    /// The work that waits for the host of an endpoint, if it stands still.
    fn waiting(&mut self, number: usize, side: Side) -> Option<&mut Waiting> {
        if side == Side::Client {
            return None;
        }
        let route = self.route_of[number];
        let host = self.hosts.get_mut(route)?.as_mut()?;
        let (waiting, resumes_at) = host.stalled(self.now)?;
        if let Some(time) = resumes_at {
            self.agenda.at(time, Event::Resume(route));
        }
        Some(waiting)
    }

    /// Lets the host of a route's servers go on; returns a flow of them.
    fn resume(&mut self, route: usize) -> Result<usize, SimulationError> {
        let host = self.hosts.get_mut(route).and_then(Option::as_mut);
        let Waiting { packets, mut flows } = host.map(Host::resume).unwrap_or_default();
        for packet in packets {
            let flow = packet.flow();
            let sends = self.receive(packet)?;
            *flows.entry(flow).or_default() |= sends;
        }
        for (&flow, &sends) in &flows {
            self.go_on(flow, Side::Server, sends)?;
        }
        Ok(flows.keys().next().copied().unwrap_or(0))
    }

    /// Delivers a packet to its end.
    fn deliver(&mut self, packet: Packet) -> Result<(), SimulationError> {
        let (number, side) = (packet.flow(), packet.to());
        if let Some(waiting) = self.waiting(number, side) {
            waiting.packets.push(packet);
            return Ok(());
        }
        let sends = self.receive(packet)?;
        self.go_on(number, side, sends)
    }

    /// Lets an endpoint send, or only arms its timer.
    fn go_on(&mut self, number: usize, side: Side, sends: bool) -> Result<(), SimulationError> {
        match sends {
            true => self.transmit(number, side),
            false => {
                self.arm(number, side);
                Ok(())
            }
        }
    }

    /// Lets an endpoint read a packet; returns true if it is to send.
    fn receive(&mut self, mut packet: Packet) -> Result<bool, SimulationError> {
        let (number, side, now) = (packet.flow(), packet.to(), self.now);
        let epoch = self.epoch;
        let running = &mut self.flows[number];
        if let Stage::Loading(loading) = &mut running.stage {
            loading.counted.receive(packet.sequence());
        }
        let Stage::Open(ends) = &mut running.stage else {
            self.pool.put(packet);
            return Ok(false);
        };
        let observer = &mut running.flow.observer;
        let answer = ends
            .get_mut(side)
            .receive(&mut packet, now, epoch, &mut watch(observer, now, side))
            .map_err(failed(number, side, now))?;
        self.pool.put(packet);
        match side {
            Side::Server => running.meter.look(now, ends.get(side).sender()),
            Side::Client => {
                let flow = &mut running.flow;
                if let Some(player) = &mut flow.player {
                    player.read(now, ends.received_bytes());
                }
                if flow.share_windows.iter().any(ShareWindow::is_open) {
                    let received = ends.get(side).datagram_bytes_received();
                    let has_read = ends.received_bytes() > 0;
                    for window in &mut flow.share_windows {
                        window.note(now, received, has_read);
                    }
                }
            }
        }
        self.check(number, side)?;
        if side == Side::Client {
            self.follow(number);
        }
        Ok(answer)
    }

    /// Handles an endpoint's timer that has expired.
    fn wake(&mut self, number: usize, side: Side) -> Result<(), SimulationError> {
        let (now, epoch) = (self.now, self.epoch);
        if let Stage::Loading(_) = self.flows[number].stage {
            return self.load(number);
        }
        let Stage::Open(ends) = &mut self.flows[number].stage else {
            return Ok(());
        };
        let endpoint = ends.get_mut(side);
        if *endpoint.armed() != Some(now) {
            return Ok(());
        }
        *endpoint.armed() = None;
        if let Some(waiting) = self.waiting(number, side) {
            waiting.flows.entry(number).or_default();
            return Ok(());
        }
        let running = &mut self.flows[number];
        let Stage::Open(ends) = &mut running.stage else {
            return Ok(());
        };
        let endpoint = ends.get_mut(side);
        let observer = &mut running.flow.observer;
        let woken = endpoint.wake(now, epoch, &mut watch(observer, now, side));
        if woken.timed_out {
            if ends.has_closed() {
                running.close();
                return Ok(());
            }
            if side == Side::Server {
                running.meter.look(now, ends.get(side).sender());
            }
            if ends.get(side).probing_for(now) >= self.stall_limit {
                return Err(SimulationError::Stalled {
                    flow: number,
                    side,
                    time: now,
                    limit: self.stall_limit,
                    received: running.received_bytes(),
                });
            }
        }
        if woken.due {
            self.check(number, side)?;
        }
        self.go_on(number, side, woken.due)
    }

    /// Lets an endpoint send, and puts its packets on their way.
    fn transmit(&mut self, number: usize, side: Side) -> Result<(), SimulationError> {
        let (now, epoch) = (self.now, self.epoch);
        let running = &mut self.flows[number];
        let Stage::Open(ends) = &mut running.stage else {
            return Ok(());
        };
        let mut outgoing = std::mem::take(&mut self.outgoing);
        let (pool, observer) = (&mut self.pool, &mut running.flow.observer);
        ends.issue_connection_ids(side)
            .map_err(failed(number, side, now))?;
        ends.get_mut(side)
            .transmit(
                now,
                epoch,
                pool,
                &mut outgoing,
                &mut watch(observer, now, side),
            )
            .map_err(failed(number, side, now))?;
        self.arm(number, side);
        for packet in outgoing.drain(..) {
            self.arrive(packet)?;
        }
        self.outgoing = outgoing;
        Ok(())
    }

    /// Arms an endpoint's timer, unless it will wake up early enough.
    fn arm(&mut self, number: usize, side: Side) {
        let Stage::Open(ends) = &mut self.flows[number].stage else {
            return;
        };
        let endpoint = ends.get_mut(side);
        let Some(deadline) = endpoint.deadline(self.epoch) else {
            return;
        };
        let deadline = deadline.max(self.now);
        if endpoint.armed().is_none_or(|armed| deadline < armed) {
            *endpoint.armed() = Some(deadline);
            self.agenda.at(deadline, Event::Wake(number, side));
        }
    }

    /// Checks that a connection is not closed, and that an answer is whole.
    fn check(&self, flow: usize, side: Side) -> Result<(), SimulationError> {
        let Some(ends) = self.flows[flow].ends() else {
            return Ok(());
        };
        if let Some(reason) = ends.failed(side) {
            return Err(SimulationError::Closed {
                flow,
                side,
                time: self.now,
                reason,
            });
        }
        if let Some(offset) = ends.wrong_content() {
            return Err(SimulationError::WrongContent { flow, offset });
        }
        match ends.wrong_length() {
            None => Ok(()),
            Some((expected, received)) => Err(SimulationError::WrongLength {
                flow,
                expected,
                received,
            }),
        }
    }
}

fn failed(flow: usize, side: Side, time: Time) -> impl FnOnce(ConnectionError) -> SimulationError {
    move |error| SimulationError::Connection {
        flow,
        side,
        time,
        error,
    }
}
