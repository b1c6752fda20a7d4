//! One connection of a client.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quiche::{Connection, ConnectionId};

use crate::outbox::{Outbox, Turn};
use crate::server::Service;
use crate::server::hq::Hq;
use crate::server::http3::Http3;
use crate::server::metrics::Sampled;
use crate::server::room::Place;
use crate::server::rules::Facts;
use crate::socket::Socket;
use crate::transport::{H3, HQ};

/// The number of times that one turn refills a connection before others get theirs.
const FILLS_PER_TURN: usize = 16;

/// Transport error codes (RFC 9000 §20.1).
const INTERNAL_ERROR: u64 = 0x1;
const CONNECTION_REFUSED: u64 = 0x2;

/// The codes with which a connection ends in order, and one that takes too much (RFC 9114 §8.1).
const H3_NO_ERROR: u64 = 0x100;
const H3_EXCESSIVE_LOAD: u64 = 0x107;

pub(super) struct Session {
    pub(super) connection: Connection,
    pub(super) facts: Facts,
    /// The connection IDs of packets for it.
    pub(super) ids: Vec<ConnectionId<'static>>,
    /// Its counters, once the ClientHello has been read.
    pub(super) sampled: Option<Sampled>,
    /// True once its trace has begun.
    pub(super) is_traced: bool,
    /// The memory that it holds.
    pub(super) held_bytes: i64,
    /// The time at which it wakes next, as in the server's agenda.
    pub(super) wake: Option<Instant>,
    outbox: Outbox,
    /// The time by which its handshake has to be complete.
    establish_until: Instant,
    application: Option<Application>,
    /// It is not closed as idle before this time; set only while the server is ending.
    leave_after: Option<Instant>,
    _place: Place,
}

enum Application {
    Http3(Box<Http3>),
    Hq(Hq),
}

impl Application {
    fn new(connection: &mut Connection) -> quiche::h3::Result<Option<Self>> {
        Ok(match connection.application_proto() {
            H3 => Some(Application::Http3(Box::new(Http3::new(connection)?))),
            HQ => Some(Application::Hq(Hq::default())),
            _ => None,
        })
    }

    fn read(&mut self, connection: &mut Connection, service: &Service) {
        match self {
            Application::Http3(http3) => http3.read(connection, service),
            Application::Hq(hq) => hq.read(connection, service),
        }
    }

    fn write(&mut self, connection: &mut Connection) -> bool {
        match self {
            Application::Http3(http3) => http3.write(connection),
            Application::Hq(hq) => hq.write(connection),
        }
    }

    fn is_idle(&mut self, connection: &mut Connection) -> bool {
        match self {
            Application::Http3(http3) => http3.is_idle(connection),
            Application::Hq(hq) => hq.is_idle(connection),
        }
    }
}

/// The next need of a session.
pub(super) struct Next {
    /// Another turn at this time.
    pub(super) wake: Option<Instant>,
    /// Another turn as soon as others had theirs.
    pub(super) soon: bool,
    /// Another turn when its socket is writable.
    pub(super) blocked: bool,
    /// None: it has ended.
    pub(super) over: bool,
}

impl Session {
    pub(super) fn new(
        connection: Connection,
        facts: Facts,
        ids: Vec<ConnectionId<'static>>,
        outbox: Outbox,
        establish_until: Instant,
        place: Place,
    ) -> Self {
        Session {
            connection,
            facts,
            ids,
            sampled: None,
            is_traced: false,
            held_bytes: 0,
            wake: None,
            outbox,
            establish_until,
            application: None,
            leave_after: None,
            _place: place,
        }
    }

    /// Reads requests, and writes and sends as much as possible.
    pub(super) fn turn(
        &mut self,
        service: &Service,
        sockets: &[Socket],
        scratch: &mut [u8],
    ) -> Next {
        let now = Instant::now();
        if self
            .connection
            .timeout_instant()
            .is_some_and(|timeout| timeout <= now)
        {
            self.connection.on_timeout();
        }
        self.follow_path();
        self.begin_application();
        if let Some(application) = &mut self.application {
            application.read(&mut self.connection, service);
        }
        self.leave_if_idle(now);
        let is_establishing = !self.connection.is_established();
        let is_overdue = is_establishing && self.establish_until <= now;
        if is_overdue {
            tracing::debug!(
                id = self.connection.trace_id(),
                "the handshake takes too long"
            );
            self.close(false, CONNECTION_REFUSED);
        }
        let turn = self.send(sockets, scratch);
        if let Some(sampled) = &mut self.sampled {
            let calls = self.outbox.calls();
            service
                .metrics
                .sample(sampled, &self.connection, calls, now);
        }
        let release = match turn {
            Turn::Until(time) => Some(time),
            Turn::Done | Turn::Blocked | Turn::More => None,
        };
        let leave = self
            .leave_after
            .filter(|time| *time > now && self.connection.local_error().is_none());
        let establish = is_establishing.then_some(self.establish_until);
        Next {
            wake: [self.connection.timeout_instant(), release, leave, establish]
                .into_iter()
                .flatten()
                .min(),
            soon: turn == Turn::More,
            blocked: turn == Turn::Blocked,
            // The limit for a client whose address is not proven (RFC 9000 §8.1) may leave no room
            // for the close: the session does not wait for that, nor for its draining period.
            over: is_overdue || self.connection.is_closed(),
        }
    }

    fn begin_application(&mut self) {
        let is_ready = self.connection.is_established() || self.connection.is_in_early_data();
        if self.application.is_some() || !is_ready {
            return;
        }
        match Application::new(&mut self.connection) {
            Ok(Some(application)) => self.application = Some(application),
            Ok(None) => self.close(false, 0x178), // TLS alert no_application_protocol
            Err(error) => {
                tracing::debug!(%error, "HTTP/3 cannot begin");
                self.close(true, H3_NO_ERROR);
            }
        }
    }

    /// Sends waiting packets, and only then fills the connection: data that is written while
    /// packets wait for their release would pile up in it.
    fn send(&mut self, sockets: &[Socket], scratch: &mut [u8]) -> Turn {
        let mut fills = 0;
        loop {
            match self.outbox.send(&mut self.connection, sockets, scratch) {
                Ok(Turn::Done) => {}
                Ok(turn) => return turn,
                Err(error) => {
                    tracing::debug!(%error, id = self.connection.trace_id(), "cannot go on");
                    self.close(false, INTERNAL_ERROR);
                    return Turn::Done;
                }
            }
            let is_filled = self
                .application
                .as_mut()
                .is_some_and(|application| application.write(&mut self.connection));
            if !is_filled {
                return Turn::Done;
            }
            fills += 1;
            if fills == FILLS_PER_TURN {
                return Turn::More;
            }
        }
    }

    fn follow_path(&mut self) {
        while let Some(event) = self.connection.path_event_next() {
            tracing::debug!(id = self.connection.trace_id(), ?event, "path");
        }
    }

    /// Finishes open responses, and serves no new requests.
    pub(super) fn leave(&mut self, now: Instant) {
        if let Some(Application::Http3(http3)) = &mut self.application {
            http3.leave(&mut self.connection);
        }
        // Requests that are on their way are still answered.
        let rtt = self
            .connection
            .path_stats()
            .find(|path| path.active)
            .map_or(Duration::ZERO, |path| path.rtt);
        self.leave_after.get_or_insert(now + 2 * rtt);
    }

    fn leave_if_idle(&mut self, now: Instant) {
        if self.leave_after.is_none_or(|time| time > now) {
            return;
        }
        let is_idle = self
            .application
            .as_mut()
            .is_none_or(|application| application.is_idle(&mut self.connection));
        if is_idle {
            self.end();
        }
    }

    /// Closes the connection because it holds too much memory, and sends the close at once.
    pub(super) fn shed(&mut self, sockets: &[Socket], scratch: &mut [u8]) {
        self.application = None;
        self.close(true, H3_EXCESSIVE_LOAD);
        self.send(sockets, scratch);
    }

    /// Closes the connection without an error.
    pub(super) fn end(&mut self) {
        let code = match self.application {
            Some(Application::Http3(_)) => H3_NO_ERROR,
            _ => 0,
        };
        self.close(true, code);
    }

    fn close(&mut self, by_application: bool, code: u64) {
        // `Done` says that it is closed already.
        let _ = self.connection.close(by_application, code, b"");
    }

    /// True if only the close of the connection is left.
    pub(super) fn is_over(&self) -> bool {
        self.connection.is_closed()
            || self.connection.is_draining()
            || self.connection.local_error().is_some()
    }

    /// The number of system calls that sent its packets.
    pub(super) fn send_calls(&self) -> u64 {
        self.outbox.calls()
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.facts.client
    }
}
