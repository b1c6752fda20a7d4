//! All connections of a server: who gets a datagram, who is woken when.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use boring::ssl::{NameType, SslContextBuilder};
use quiche::{Config, ConnectionId, Header, RecvInfo, SendInfo, Type};

use crate::congestion_control::CongestionControl;
use crate::outbox::{self, Outbox, Pacing};
use crate::server::Service;
use crate::server::retry::Tokens;
use crate::server::rules::{Facts, Rules};
use crate::server::session::Session;
use crate::socket::Socket;
use crate::transport;

/// A client's first datagram is at least this long (RFC 9000 §14.1).
const MIN_INITIAL_BYTES: usize = 1_200;

/// A client's first destination connection id is at least this long (RFC 9000 §7.2).
const MIN_INITIAL_ID_BYTES: usize = 8;

/// The side of connections whose traces are written.
const SIDE: &str = "server";

/// Room for the packets of one system call.
const SCRATCH_BYTES: usize = 64 << 10;

/// How connections are accepted.
pub(super) struct Acceptance {
    pub(super) config: Config,
    pub(super) chooser: Arc<Chooser>,
    pub(super) pacing: Pacing,
    pub(super) tokens: Tokens,
    /// Whether every client proves its address, or those alone that come when it is getting full.
    pub(super) always_retry: bool,
    pub(super) max_connections: usize,
    pub(super) handshake_timeout: Duration,
}

/// Chooses controllers in the handshake, where the host is known.
pub(super) struct Chooser {
    rules: Rules,
    /// The connection whose packets are being read, and the choice for it.
    current: Mutex<Option<(Facts, Option<CongestionControl>)>>,
}

impl Chooser {
    pub(super) fn new(rules: Rules) -> Arc<Self> {
        Arc::new(Chooser {
            rules,
            current: Mutex::default(),
        })
    }

    /// Has TLS ask when it has read a ClientHello.
    pub(super) fn attach(self: &Arc<Self>, tls: &mut SslContextBuilder) {
        let chooser = Arc::clone(self);
        tls.set_select_certificate_callback(move |mut hello| {
            let mut current = chooser.lock();
            if let Some((facts, choice)) = current.as_mut() {
                let chosen = chooser
                    .rules
                    .choose(facts, hello.servername(NameType::HOST_NAME));
                if let Err(error) = chosen.configure_in_handshake(hello.ssl_mut()) {
                    tracing::warn!(%error, controller = %chosen, "not set");
                }
                *choice = Some(chosen.clone());
            }
            Ok(())
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Facts, Option<CongestionControl>)>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Sessions {
    acceptance: Acceptance,
    service: Service,
    sessions: BTreeMap<u64, Session>,
    ids: HashMap<ConnectionId<'static>, u64>,
    next: u64,
    agenda: BTreeSet<(Instant, u64)>,
    ready: BTreeSet<u64>,
    blocked: BTreeSet<u64>,
    leaving: bool,
    scratch: Vec<u8>,
}

impl Sessions {
    pub(super) fn new(acceptance: Acceptance, service: Service) -> Self {
        Sessions {
            acceptance,
            service,
            sessions: BTreeMap::new(),
            ids: HashMap::new(),
            next: 0,
            agenda: BTreeSet::new(),
            ready: BTreeSet::new(),
            blocked: BTreeSet::new(),
            leaving: false,
            scratch: vec![0; SCRATCH_BYTES],
        }
    }

    /// When the next session wakes.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.agenda.first().map(|(time, _)| *time)
    }

    /// Whether some session has more to do at once.
    pub(super) fn is_busy(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether all connections have ended.
    pub(super) fn is_over(&self) -> bool {
        self.ready.is_empty() && self.sessions.values().all(Session::is_over)
    }

    /// A datagram has come. What cannot be read is nobody's.
    pub(super) fn receive(&mut self, sockets: &[Socket], datagram: &mut [u8], info: RecvInfo) {
        let Ok(header) = Header::from_slice(datagram, transport::CONNECTION_ID_BYTES) else {
            return;
        };
        let id = match self.ids.get(&header.dcid) {
            Some(id) => *id,
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
            *self.acceptance.chooser.lock() = Some((session.facts, None));
        }
        if let Err(error) = session.connection.recv(datagram, info)
            && error != quiche::Error::Done
        {
            tracing::debug!(from = %info.from, %error, "packet");
        }
        // What begins with nothing that can be decrypted gets no answer and no room.
        if session.connection.stats().recv == 0 {
            if let Some(traces) = &self.service.traces {
                traces.discard(&session.connection, SIDE);
            }
            self.remove(id);
            return;
        }
        if is_undecided {
            let chosen = self.acceptance.chooser.lock().take();
            if let Some((_, Some(controller))) = chosen {
                self.decide(id, &controller);
            }
        }
        self.ready.insert(id);
    }

    fn accept(
        &mut self,
        sockets: &[Socket],
        datagram_bytes: usize,
        header: &Header<'_>,
        info: RecvInfo,
    ) -> quiche::Result<Option<u64>> {
        let mut reply = [0; MIN_INITIAL_BYTES];
        if datagram_bytes < MIN_INITIAL_BYTES {
            return Ok(None);
        }
        let is_long = !matches!(header.ty, Type::Short | Type::VersionNegotiation);
        if is_long && !quiche::version_is_supported(header.version) {
            let length = quiche::negotiate_version(&header.scid, &header.dcid, &mut reply)?;
            send(sockets, &reply[..length], info);
            return Ok(None);
        }
        let is_beginning = header.ty == Type::Initial && header.dcid.len() >= MIN_INITIAL_ID_BYTES;
        if !is_beginning || self.leaving {
            return Ok(None);
        }
        if self.sessions.len() >= self.acceptance.max_connections {
            self.service.metrics.refuse();
            return Ok(None);
        }
        let token = header.token.as_deref().unwrap_or_default();
        let mut id = transport::connection_id()?;
        let mut original = None;
        // Half of the room is for clients whose address is proven (RFC 9000 §8.1.2): who begins
        // connections under other people's addresses cannot take it.
        let is_filling = 2 * self.sessions.len() >= self.acceptance.max_connections;
        if self.acceptance.always_retry || is_filling {
            let tokens = &self.acceptance.tokens;
            let now = SystemTime::now();
            original = tokens.check(token, info.from, &header.dcid, now);
            if original.is_none() {
                let token = tokens.make(info.from, &header.dcid, &id, now)?;
                let length = quiche::retry(
                    &header.scid,
                    &header.dcid,
                    &id,
                    &token,
                    header.version,
                    &mut reply,
                )?;
                send(sockets, &reply[..length], info);
                return Ok(None);
            }
            // The id of the Retry stays, so that the client need not change it again.
            id = header.dcid.clone().into_owned();
        }
        let mut chance = [0; 4];
        boring::rand::rand_bytes(&mut chance).map_err(|_| quiche::Error::CryptoFail)?;
        let facts = Facts {
            client: info.from,
            local: info.to,
            chance: f64::from(u32::from_be_bytes(chance)) / f64::from(u32::MAX),
        };
        let early = self
            .acceptance
            .chooser
            .rules
            .choose_before_handshake(&facts)
            .cloned();
        let config = &mut self.acceptance.config;
        early
            .as_ref()
            .unwrap_or(self.acceptance.chooser.rules.otherwise())
            .configure(config)?;
        let mut connection = quiche::accept(&id, original.as_ref(), info.to, info.from, config)?;
        if let Some(keylog) = &self.service.keylog {
            match keylog.writer() {
                Ok(writer) => connection.set_keylog(writer),
                Err(error) => tracing::warn!(%error, "no key log"),
            }
        }
        let ids = vec![id, header.dcid.clone().into_owned()];
        let number = self.next;
        self.next += 1;
        for id in &ids {
            self.ids.insert(id.clone(), number);
        }
        let outbox = Outbox::new(self.acceptance.pacing);
        let establish_until = Instant::now() + self.acceptance.handshake_timeout;
        let session = Session::new(connection, facts, ids, outbox, establish_until);
        self.sessions.insert(number, session);
        if let Some(controller) = early {
            self.trace(number, &controller);
        }
        Ok(Some(number))
    }

    /// Begins the trace of a session, if there is to be one.
    fn trace(&mut self, id: u64, controller: &CongestionControl) {
        if let Some(session) = self.sessions.get_mut(&id)
            && let Some(traces) = &self.service.traces
            && !std::mem::replace(&mut session.is_traced, true)
        {
            traces.begin(&mut session.connection, SIDE, controller.label());
        }
    }

    /// The client has said what it wants, and the controller of its session is known.
    fn decide(&mut self, id: u64, controller: &CongestionControl) {
        self.trace(id, controller);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.sampled = Some(self.service.metrics.open(controller.label()));
        tracing::info!(
            id = session.connection.trace_id(),
            client = %session.peer(),
            host = session.connection.server_name(),
            controller = controller.label(),
            "connection"
        );
    }

    /// Sockets take packets again.
    pub(super) fn unblock(&mut self) {
        self.ready.append(&mut self.blocked);
    }

    /// Gives each session whose time has come, or that has received something, a turn.
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
    }

    fn turn(&mut self, sockets: &[Socket], id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if let Some(wake) = session.wake.take() {
            self.agenda.remove(&(wake, id));
        }
        let next = session.turn(&self.service, sockets, &mut self.scratch);
        if next.over {
            self.remove(id);
            return;
        }
        let issued = transport::issue_connection_ids(&mut session.connection, |connection_id| {
            self.ids.insert(connection_id.clone(), id);
            session.ids.push(connection_id);
        });
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
        for connection_id in &session.ids {
            self.ids.remove(connection_id);
        }
        self.blocked.remove(&id);
        // Who never said what it wants is not worth a line.
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
        self.service.metrics.close(sampled, &session.connection);
    }

    /// Accepts no more, and lets clients know.
    pub(super) fn leave(&mut self) {
        self.leaving = true;
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
