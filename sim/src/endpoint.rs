//! One end of a connection, and the driver that moves it: it waits for release
//! times, arms one timer, delays acknowledgements, and writes and reads stream
//! data.

use crate::acks::{AckPolicy, PendingAcks};
use crate::buffers::{ZeroBuffers, Zeros};
use crate::clock::{Epoch, Time};
use crate::packet::{Packet, Side};
use crate::traffic::Source;
use std::net::SocketAddr;

/// A connection as the simulator drives it.
pub type Connection = quiche::Connection<ZeroBuffers>;

/// The stream that everything is fetched over.
const STREAM: u64 = 0;

/// Length of the client's request, in bytes.
const REQUEST_BYTES: u64 = 32;

/// A datagram with that many bytes less than the largest has not been filled:
/// quiche leaves a few bytes over when the rest would not hold a frame.
const FILLING_SLACK_BYTES: usize = 40;

/// What a connection has just done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// It made a datagram.
    Sent,
    /// It took a datagram in.
    Received,
    /// Its timer expired.
    TimedOut,
}

/// Is told of every action of a connection, right after it.
pub(crate) type Watch<'a> = dyn FnMut(Action, &Connection) + 'a;

/// What the application at this end does.
#[derive(Debug)]
pub(crate) enum Application {
    Fetches(Fetch),
    Serves(Service),
}

/// The client's application.
#[derive(Debug, Default)]
pub(crate) struct Fetch {
    requested: bool,
    /// Stream bytes read.
    pub(crate) received: u64,
    /// When the end of the stream had been read.
    pub(crate) finished: Option<Time>,
}

/// The server's application.
#[derive(Debug)]
pub(crate) struct Service {
    source: Box<dyn Source>,
    requested: Option<Time>,
    written: u64,
    /// The end of the stream has been written.
    ended: bool,
    /// When the source has more.
    more_at: Option<Time>,
}

impl Service {
    pub(crate) fn new(source: Box<dyn Source>) -> Service {
        Service {
            source,
            requested: None,
            written: 0,
            ended: false,
            more_at: None,
        }
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.source.length()
    }
}

/// Which operation of a connection failed.
#[derive(Debug, thiserror::Error)]
#[error("{operation} failed: {error}")]
pub struct ConnectionError {
    operation: &'static str,
    error: quiche::Error,
}

fn failed(operation: &'static str) -> impl Fn(quiche::Error) -> ConnectionError {
    move |error| ConnectionError { operation, error }
}

/// One end of a connection.
pub(crate) struct Endpoint {
    pub(crate) connection: Connection,
    pub(crate) application: Application,
    side: Side,
    flow: usize,
    local: SocketAddr,
    peer: SocketAddr,
    datagram_bytes: usize,
    acks: PendingAcks,
    /// Packets allow marks.
    ecn: bool,
    /// Datagrams sent.
    sent: u64,
    /// The last datagram was not full, or there was none to send: the stream's
    /// buffer has run dry, or the window is used up.
    hungry: bool,
    /// When the controller lets the next packet go.
    release_at: Option<Time>,
    /// The earliest event under way that will wake this endpoint.
    pub(crate) armed: Option<Time>,
}

/// Where an endpoint sits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) flow: usize,
    pub(crate) side: Side,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

impl Endpoint {
    pub(crate) fn new(
        connection: Connection,
        application: Application,
        place: Place,
        datagram_bytes: usize,
        acks: AckPolicy,
        ecn: bool,
    ) -> Endpoint {
        Endpoint {
            connection,
            application,
            side: place.side,
            flow: place.flow,
            local: place.local,
            peer: place.peer,
            datagram_bytes,
            acks: PendingAcks::new(acks),
            ecn,
            sent: 0,
            hungry: true,
            release_at: None,
            armed: None,
        }
    }

    /// Takes `packet` in; returns whether to call [`transmit`](Self::transmit)
    /// now.
    pub(crate) fn receive(
        &mut self,
        packet: &mut Packet,
        now: Time,
        watch: &mut Watch,
    ) -> Result<bool, ConnectionError> {
        // RFC 9000 §17.2: the first bit is set in the long headers of handshake
        // packets, which must be acknowledged at once (§13.2.1).
        let handshake = packet
            .payload()
            .first()
            .is_some_and(|first| first & 0x80 != 0);
        let info = quiche::RecvInfo {
            from: self.peer,
            to: self.local,
        };
        if packet.is_corrupted() {
            // A server makes no connection for a first packet that it cannot read,
            // and quiche gives one up that has read nothing else.
            if self.connection.stats().recv > 0 || self.side == Side::Client {
                let _unreadable = self.connection.recv(packet.payload_mut(), info);
            }
            return Ok(handshake || !self.connection.is_established());
        }
        match self.connection.recv(packet.payload_mut(), info) {
            Ok(_) | Err(quiche::Error::Done) => {}
            Err(error) => return Err(failed("recv()")(error)),
        }
        watch(Action::Received, &self.connection);
        let acknowledge = self.acks.received(packet.sequence(), now);
        self.read(now)?;
        Ok(acknowledge || handshake || !self.connection.is_established())
    }

    /// Reads what the stream has for the application.
    fn read(&mut self, now: Time) -> Result<(), ConnectionError> {
        loop {
            let (bytes, end) = match self.connection.stream_discard(STREAM, usize::MAX) {
                Ok(read) => read,
                Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => return Ok(()),
                Err(error) => return Err(failed("stream_discard()")(error)),
            };
            match &mut self.application {
                Application::Fetches(fetch) => {
                    fetch.received += bytes as u64;
                    if end {
                        fetch.finished = Some(now);
                    }
                }
                Application::Serves(service) if end => {
                    service.requested = Some(now);
                    self.hungry = true;
                }
                Application::Serves(_) => {}
            }
            if end {
                return Ok(());
            }
        }
    }

    /// Does what is due at `now`; returns whether to call
    /// [`transmit`](Self::transmit).
    pub(crate) fn wake(&mut self, now: Time, epoch: Epoch, watch: &mut Watch) -> bool {
        let is_due = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= now);
        let mut due = is_due(self.release_at) || is_due(self.acks.deadline());
        if is_due(self.timeout(epoch)) {
            self.connection.on_timeout();
            watch(Action::TimedOut, &self.connection);
            due = true;
        }
        if let Application::Serves(service) = &mut self.application
            && is_due(service.more_at)
        {
            service.more_at = None;
            self.hungry = true;
            due = true;
        }
        due
    }

    fn timeout(&self, epoch: Epoch) -> Option<Time> {
        self.connection
            .timeout_instant()
            .map(|instant| epoch.time(instant))
    }

    /// When [`wake`](Self::wake) wants to be called.
    pub(crate) fn deadline(&self, epoch: Epoch) -> Option<Time> {
        let more_at = match &self.application {
            Application::Serves(service) => service.more_at,
            Application::Fetches(_) => None,
        };
        // Acknowledgements, too, wait for the release time.
        let send_at = self.release_at.or(self.acks.deadline());
        [self.timeout(epoch), send_at, more_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Sends all that may be sent now, into `out`; `pool` holds packets for
    /// reuse.
    pub(crate) fn transmit(
        &mut self,
        now: Time,
        epoch: Epoch,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
        watch: &mut Watch,
    ) -> Result<(), ConnectionError> {
        self.release_at = None;
        let mut looked_for_more = false;
        loop {
            if let Some(release) = self.next_release(now, epoch) {
                self.release_at = Some(release);
                return Ok(());
            }
            if self.hungry {
                looked_for_more = true;
                self.hungry = false;
                self.write(now)?;
            }
            let mut packet = pool.take();
            let room = packet.room_for(self.datagram_bytes);
            match self.connection.send(room) {
                Ok((length, _)) => {
                    watch(Action::Sent, &self.connection);
                    self.acks.sent();
                    self.hungry = length + FILLING_SLACK_BYTES < self.datagram_bytes;
                    packet.truncate(length);
                    packet.readdress(self.flow, self.side.peer(), self.sent);
                    if self.ecn {
                        packet.allow_marks();
                    }
                    self.sent += 1;
                    out.push(packet);
                }
                Err(quiche::Error::Done) => {
                    pool.put(packet);
                    self.acks.sent();
                    self.hungry = true;
                    if looked_for_more {
                        return Ok(());
                    }
                }
                Err(error) => return Err(failed("send()")(error)),
            }
        }
    }

    fn next_release(&self, now: Time, epoch: Epoch) -> Option<Time> {
        let decision = self.connection.get_next_release_time()?;
        let release = decision.time(epoch.instant(now))?;
        Some(epoch.time(release))
    }

    /// Writes what the application has and the connection takes. Called only
    /// when the stream's buffer has run dry, because quiche would take a whole
    /// free window at every call.
    fn write(&mut self, now: Time) -> Result<(), ConnectionError> {
        match &mut self.application {
            Application::Fetches(fetch) => {
                if !fetch.requested && self.connection.is_established() {
                    let request = Zeros::new(REQUEST_BYTES);
                    self.connection
                        .stream_send_zc(STREAM, request, true)
                        .map_err(failed("sending the request"))?;
                    fetch.requested = true;
                }
                Ok(())
            }
            Application::Serves(service) => service.write(&mut self.connection, now),
        }
    }
}

impl Service {
    fn write(&mut self, connection: &mut Connection, now: Time) -> Result<(), ConnectionError> {
        let Some(requested) = self.requested else {
            return Ok(());
        };
        while !self.ended {
            let offer = self.source.offer(now - requested, self.written);
            self.more_at = offer.more_at.map(|more_at| requested + more_at);
            if offer.bytes == 0 && !offer.last {
                break;
            }
            let piece = Zeros::new(offer.bytes);
            let length = piece.length();
            let last = offer.last && length as u64 == offer.bytes;
            match connection.stream_send_zc(STREAM, piece, last) {
                Ok((written, _)) => {
                    self.written += written as u64;
                    if written < length {
                        break;
                    }
                    self.ended = last;
                }
                Err(quiche::Error::Done) => break,
                Err(error) => return Err(failed("stream_send()")(error)),
            }
        }
        Ok(())
    }
}

/// Packets that have reached their end, for reuse.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    packets: Vec<Packet>,
}

impl Pool {
    /// A packet of any content.
    fn take(&mut self) -> Packet {
        self.packets
            .pop()
            .unwrap_or_else(|| Packet::new(0, Side::Client, 0, Vec::new()))
    }

    pub(crate) fn put(&mut self, packet: Packet) {
        self.packets.push(packet);
    }
}
