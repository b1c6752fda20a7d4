//! All connections of a thread: datagrams are given to them, and they are woken in time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use gallop::stack::quiche::Selection;
use quiche::{ConnectionId, Header, RecvInfo, SendInfo};

use crate::outbox;
use crate::server::Service;
use crate::server::acceptance::{Acceptance, Accepted, Answer};
use crate::server::chooser::Chooser;
use crate::server::memory::{Memory, measured};
use crate::server::post::Post;
use crate::server::session::Session;
use crate::socket::Socket;
use crate::transport;

/// The side of connections whose traces are written.
const SIDE: &str = "server";

/// Room for the packets of one system call.
const SCRATCH_BYTES: usize = 64 << 10;

pub(super) struct Sessions {
    acceptance: Acceptance,
    service: Arc<Service>,
    memory: Arc<Memory>,
    post: Post,
    sessions: BTreeMap<u64, Session>,
    ids: HashMap<ConnectionId<'static>, u64>,
    next: u64,
    agenda: BTreeSet<(Instant, u64)>,
    ready: BTreeSet<u64>,
    blocked: BTreeSet<u64>,
    scratch: Vec<u8>,
}

impl Sessions {
    pub(super) fn new(
        acceptance: Acceptance,
        service: Arc<Service>,
        memory: Arc<Memory>,
        post: Post,
    ) -> Self {
        Sessions {
            acceptance,
            service,
            memory,
            post,
            sessions: BTreeMap::new(),
            ids: HashMap::new(),
            next: 0,
            agenda: BTreeSet::new(),
            ready: BTreeSet::new(),
            blocked: BTreeSet::new(),
            scratch: vec![0; SCRATCH_BYTES],
        }
    }

    /// True on the first thread of the server.
    pub(super) fn is_first_thread(&self) -> bool {
        self.post.thread() == 0
    }

    /// The time at which the next session wakes.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.agenda.first().map(|(time, _)| *time)
    }

    /// True if a session has more to do at once.
    pub(super) fn is_busy(&self) -> bool {
        !self.ready.is_empty()
    }

    /// True if all connections have ended.
    pub(super) fn is_over(&self) -> bool {
        self.ready.is_empty() && self.sessions.values().all(Session::is_over)
    }

    /// Reads a datagram that came at `at`, or hands it over to the thread that has its connection. One
    /// whose header cannot be parsed is dropped.
    pub(super) fn receive(
        &mut self,
        sockets: &[Socket],
        datagram: &mut [u8],
        info: RecvInfo,
        at: Instant,
    ) {
        self.read(sockets, datagram, info, at, true);
    }

    /// Reads the datagrams that other threads have handed over.
    pub(super) fn receive_handed_over(&mut self, sockets: &[Socket]) {
        for mut letter in self.post.letters() {
            self.read(sockets, &mut letter.datagram, letter.info, letter.at, false);
        }
    }

    fn read(
        &mut self,
        sockets: &[Socket],
        datagram: &mut [u8],
        info: RecvInfo,
        at: Instant,
        may_hand_over: bool,
    ) {
        let Ok(header) = Header::from_slice(datagram, transport::CONNECTION_ID_BYTES) else {
            return;
        };
        let known = self.ids.get(&header.dcid).copied();
        let id = match known {
            Some(id) => id,
            None if may_hand_over && self.post.hand_over(&header.dcid, datagram, info, at) => {
                self.service.metrics.hand_over();
                return;
            }
            None => match self.accept(sockets, datagram.len(), &header, info) {
                Ok(Some(id)) => id,
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(from = %info.from, %error, "not accepted");
                    return;
                }
            },
        };
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let is_undecided = session.sampled.is_none();
        if is_undecided {
            Chooser::begin(session.facts);
        }
        let (received, change) = measured(|| session.connection.recv_at(datagram, info, at));
        session.held_bytes += change;
        self.memory
            .add(self.post.thread(), change, session.held_bytes);
        if let Err(error) = received
            && error != quiche::Error::Done
        {
            tracing::debug!(from = %info.from, %error, "packet");
        }
        // A connection whose first packet cannot be decrypted gets no answer and no room.
        if session.connection.stats().recv == 0 {
            if let Some(traces) = &self.service.traces {
                traces.discard(&session.connection, SIDE);
            }
            self.remove(id);
            return;
        }
        if is_undecided && let Some(controller) = Chooser::end() {
            self.decide(id, &controller);
        }
        self.ready.insert(id);
    }

    /// Reads a datagram that belongs to no connection; it may begin one.
    fn accept(
        &mut self,
        sockets: &[Socket],
        datagram_bytes: usize,
        header: &Header<'_>,
        info: RecvInfo,
    ) -> quiche::Result<Option<u64>> {
        let (answer, held_bytes) =
            measured(|| (self.acceptance).accept(datagram_bytes, header, info, &self.post));
        let Accepted {
            mut session,
            controller,
        } = match answer? {
            Answer::Session(accepted) => *accepted,
            Answer::Reply(datagram) => {
                send(sockets, &datagram, info);
                return Ok(None);
            }
            Answer::Full => {
                self.service.metrics.refuse();
                return Ok(None);
            }
            Answer::None => return Ok(None),
        };
        if let Some(keylog) = &self.service.keylog {
            match keylog.writer() {
                Ok(writer) => session.connection.set_keylog(writer),
                Err(error) => tracing::warn!(%error, "no key log"),
            }
        }
        session.held_bytes = held_bytes;
        self.memory.add(self.post.thread(), held_bytes, held_bytes);
        let number = self.next;
        self.next += 1;
        for id in &session.ids {
            self.ids.insert(id.clone(), number);
        }
        self.sessions.insert(number, session);
        if let Some(controller) = controller {
            self.trace(number, &controller);
        }
        Ok(Some(number))
    }

    /// Begins the trace of a session, if traces are on.
    fn trace(&mut self, id: u64, controller: &Selection) {
        if let Some(session) = self.sessions.get_mut(&id)
            && let Some(traces) = &self.service.traces
            && !std::mem::replace(&mut session.is_traced, true)
        {
            traces.begin(&mut session.connection, SIDE, controller.as_str());
        }
    }

    /// Takes note of the controller, which is known once the ClientHello has been read.
    fn decide(&mut self, id: u64, controller: &Selection) {
        self.trace(id, controller);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.sampled = Some(self.service.metrics.open(controller.as_str()));
        tracing::info!(
            id = session.connection.trace_id(),
            client = %session.peer(),
            host = session.connection.server_name(),
            controller = controller.as_str(),
            "connection"
        );
    }

    /// Sockets take packets again.
    pub(super) fn unblock(&mut self) {
        self.ready.append(&mut self.blocked);
    }

    /// Gives a turn to each session that is due or has received something.
    pub(super) fn turns(&mut self, sockets: &[Socket]) {
        let now = Instant::now();
        while let Some((time, id)) = self.agenda.first().copied()
            && time <= now
        {
            self.agenda.pop_first();
            self.ready.insert(id);
        }
        for id in std::mem::take(&mut self.ready) {
            self.turn(sockets, id);
        }
        while self.memory.is_exceeded() {
            let largest = self.largest();
            let held_bytes = largest.map_or(0, |(_, held_bytes)| held_bytes);
            let here = self.post.thread();
            let thread = self.memory.thread_to_shed(here, held_bytes);
            match largest {
                Some((id, _)) if thread == here => self.shed(sockets, id),
                _ => {
                    if thread != here {
                        self.post.wake_later(thread);
                    }
                    break;
                }
            }
        }
        self.service.metrics.hold(self.memory.held_bytes());
        self.post.wake();
    }

    /// The session that holds the most memory, and how much.
    fn largest(&self) -> Option<(u64, i64)> {
        let held = self.sessions.iter();
        held.map(|(id, session)| (*id, session.held_bytes))
            .max_by_key(|(_, held_bytes)| *held_bytes)
    }

    /// Closes a session that holds too much memory, without waiting for what is left of it.
    fn shed(&mut self, sockets: &[Socket], id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        tracing::warn!(
            id = session.connection.trace_id(),
            client = %session.peer(),
            held_bytes = session.held_bytes,
            "too much memory"
        );
        self.service.metrics.shed();
        session.shed(sockets, &mut self.scratch);
        self.remove(id);
    }

    fn turn(&mut self, sockets: &[Socket], id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if let Some(wake) = session.wake.take() {
            self.agenda.remove(&(wake, id));
        }
        let (next, change) = measured(|| session.turn(&self.service, sockets, &mut self.scratch));
        session.held_bytes += change;
        self.memory
            .add(self.post.thread(), change, session.held_bytes);
        if next.over {
            self.remove(id);
            return;
        }
        if self.memory.is_too_much(session.held_bytes) {
            self.shed(sockets, id);
            return;
        }
        let port = session.facts.local.port();
        let issued = transport::issue_connection_ids(
            &mut session.connection,
            || self.post.connection_id(),
            |connection_id| self.acceptance.resets.token(connection_id, port),
            |connection_id| {
                self.ids.insert(connection_id.clone(), id);
                session.ids.push(connection_id);
            },
        );
        if let Err(error) = issued {
            tracing::debug!(%error, "no more connection ids");
        }
        while let Some(retired) = session.connection.retired_scid_next() {
            self.ids.remove(&retired);
            session.ids.retain(|id| *id != retired);
        }
        if let Some(wake) = next.wake {
            session.wake = Some(wake);
            self.agenda.insert((wake, id));
        }
        if next.soon {
            self.ready.insert(id);
        }
        if next.blocked {
            self.blocked.insert(id);
        }
    }

    fn remove(&mut self, id: u64) {
        let Some(mut session) = self.sessions.remove(&id) else {
            return;
        };
        self.memory.give_back(session.held_bytes);
        for connection_id in &session.ids {
            self.ids.remove(connection_id);
        }
        if let Some(wake) = session.wake {
            self.agenda.remove(&(wake, id));
        }
        self.ready.remove(&id);
        self.blocked.remove(&id);
        // A client without a ClientHello gets no line in the log.
        let Some(sampled) = session.sampled.take() else {
            return;
        };
        let stats = session.connection.stats();
        tracing::info!(
            id = session.connection.trace_id(),
            client = %session.peer(),
            sent_bytes = stats.sent_bytes,
            received_bytes = stats.recv_bytes,
            sent_packets = stats.sent,
            lost_packets = stats.lost,
            timed_out = session.connection.is_timed_out(),
            error = ?session.connection.peer_error().or(session.connection.local_error())
                .filter(|error| error.error_code != 0 && error.error_code != 0x100)
                .map(|error| (error.is_app, error.error_code)),
            "connection closed"
        );
        let calls = session.send_calls();
        self.service
            .metrics
            .close(sampled, &session.connection, calls);
    }

    /// Accepts no more connections, and tells the clients.
    pub(super) fn leave(&mut self) {
        self.acceptance.is_leaving = true;
        let now = Instant::now();
        for session in self.sessions.values_mut() {
            session.leave(now);
        }
        self.ready.extend(self.sessions.keys());
    }

    /// Ends all connections now.
    pub(super) fn end(&mut self, sockets: &[Socket]) {
        for session in self.sessions.values_mut() {
            session.end();
        }
        self.ready.extend(self.sessions.keys());
        self.turns(sockets);
        for id in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.remove(id);
        }
    }
}

/// Sends an answer that belongs to no connection.
fn send(sockets: &[Socket], datagram: &[u8], info: RecvInfo) {
    let (from, to): (SocketAddr, SocketAddr) = (info.to, info.from);
    let at = Instant::now();
    if let Some(socket) = outbox::find(sockets, from)
        && let Err(error) = socket.send(datagram, datagram.len(), &SendInfo { from, to, at })
    {
        tracing::debug!(%to, %error, "an answer could not be sent");
    }
}
