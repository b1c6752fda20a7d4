//! One end of a connection, and the driver that moves it: it waits for release times, arms one
//! timer, delays acknowledgements, moves to other addresses, and lets the application write and
//! read.

use std::time::Duration;

use gallop_network::packet::{Packet, Side};

use crate::endpoint::acks::{AckPolicy, PendingAcks};
use crate::endpoint::application::Application;
use crate::endpoint::connection::{Connection, ConnectionError, failed};
use crate::endpoint::moves::{Addresses, Itinerary, Move};
use crate::endpoint::pool::Pool;
use crate::isolation::clock::{Epoch, Time};

/// A datagram that is this many bytes shorter than the largest has not been filled. quiche leaves a
/// few bytes free if they would not hold a frame.
const FILLING_SLACK_BYTES: usize = 40;

/// The silence after which a client that moves and waits for an answer sends something.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// An action of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// It made a datagram.
    Sent,
    /// It took a datagram in.
    Received,
    /// Its timer expired.
    TimedOut,
}

/// A function that is told of every action of a connection, right after it.
pub(crate) type Watch<'a> = dyn FnMut(Action, &Connection) + 'a;

/// One end of a connection.
pub(crate) struct Endpoint {
    pub(crate) connection: Connection,
    pub(crate) application: Application,
    place: Place,
    packets: Packets,
    acks: PendingAcks,
    /// A client's addresses.
    itinerary: Itinerary,
    /// Time at which a client that moves last heard of its server, or asked whether it is still
    /// there.
    heard_at: Option<Time>,
    /// Connection ids given to the peer after the first.
    pub(crate) ids_issued: u16,
    /// Datagrams sent.
    sent: u64,
    /// True if the last datagram was not full or there was none to send: the stream's buffer has
    /// run dry, or the window is used up.
    hungry: bool,
    /// Release time of the next packet.
    release_at: Option<Time>,
    /// Probe timeouts.
    pub(crate) probe_timeouts: u64,
    /// The first time that the connection's timer expired after the last datagram came in.
    probing_since: Option<Time>,
    /// The last time at which the application was woken up.
    woken_at: Option<Time>,
    /// The earliest event under way that will wake this endpoint.
    pub(crate) armed: Option<Time>,
}

/// Result of waking an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Woken {
    /// True if [`transmit`](Endpoint::transmit) is to be called.
    pub(crate) due: bool,
    /// True if the connection's timer had expired.
    pub(crate) timed_out: bool,
}

/// Place of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) flow: usize,
    pub(crate) side: Side,
    pub(crate) addresses: Addresses,
}

/// Properties of an endpoint's datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packets {
    /// Largest UDP payload.
    pub(crate) datagram_bytes: usize,
    /// True if it probes for the largest datagram that the path carries.
    pub(crate) discovers_mtu: bool,
    /// True if they allow marks.
    pub(crate) ecn: bool,
}

impl Endpoint {
    pub(crate) fn new(
        connection: Connection,
        application: Application,
        place: Place,
        packets: Packets,
        acks: AckPolicy,
        itinerary: Itinerary,
    ) -> Endpoint {
        Endpoint {
            connection,
            application,
            place,
            packets,
            acks: PendingAcks::new(acks),
            itinerary,
            heard_at: None,
            ids_issued: 0,
            sent: 0,
            hungry: true,
            release_at: None,
            probe_timeouts: 0,
            probing_since: None,
            woken_at: None,
            armed: None,
        }
    }

    /// The number of its flow.
    pub(crate) fn flow(&self) -> usize {
        self.place.flow
    }

    /// The addresses of `packet` as this end sees them; `None` if it does not reach the client,
    /// whose address has changed.
    fn recv_info(&self, packet: &Packet) -> Option<quiche::RecvInfo> {
        let Addresses { server, .. } = self.place.addresses;
        let number = packet.client_address();
        Some(match self.place.side {
            Side::Client => quiche::RecvInfo {
                from: server,
                to: self.place.addresses.client(self.itinerary.inside(number)?),
            },
            Side::Server => quiche::RecvInfo {
                from: self.place.addresses.client(number),
                to: server,
            },
        })
    }

    /// The client's address of a packet that this end sends, as the network sees it.
    fn client_address(&self, info: &quiche::SendInfo) -> u16 {
        let addresses = &self.place.addresses;
        match self.place.side {
            Side::Client => self.itinerary.outside(addresses.number(info.from)),
            Side::Server => addresses.number(info.to),
        }
    }

    /// Migrates if that is due. A client must not move before the handshake is done, nor without
    /// spare connection ids (RFC 9000 §9, §9.5); it waits.
    fn migrate(&mut self, now: Time) -> Result<(), ConnectionError> {
        if !self.itinerary.is_due(Move::Migration, now) {
            return Ok(());
        }
        let number = self.itinerary.next_number();
        let local = self.place.addresses.client(number);
        if !self.connection.is_established() {
            self.itinerary.wait();
            return Ok(());
        }
        match self.connection.migrate_source(local) {
            Ok(_) => self.itinerary.make(),
            Err(quiche::Error::OutOfIdentifiers) => self.itinerary.wait(),
            Err(error) => return Err(failed("migrate_source()")(error)),
        }
        Ok(())
    }

    /// Lets the NAT give the client another address if that is due. A server does not follow a
    /// client before it has the end of the handshake (RFC 9000 §9). The first sign of that for a
    /// client are the server's spare connection ids.
    fn rebind(&mut self, now: Time) {
        if self.itinerary.is_due(Move::Rebinding, now) && self.connection.available_dcids() > 0 {
            self.itinerary.make();
        }
    }

    /// Takes `packet` in; returns true if [`transmit`](Self::transmit) is to be called now.
    pub(crate) fn receive(
        &mut self,
        packet: &mut Packet,
        now: Time,
        watch: &mut Watch,
    ) -> Result<bool, ConnectionError> {
        // RFC 9000 §17.2: the first bit is set in the long headers of handshake packets, which must
        // be acknowledged at once (§13.2.1).
        let handshake = packet
            .payload()
            .first()
            .is_some_and(|first| first & 0x80 != 0);
        let Some(info) = self.recv_info(packet) else {
            return Ok(false);
        };
        if packet.is_corrupted() {
            // A server makes no connection for a first packet that it cannot read, and quiche gives
            // up a connection that has read nothing else.
            let mut more = false;
            if self.connection.stats().recv > 0 || self.place.side == Side::Client {
                let _unreadable = self.connection.recv(packet.payload_mut(), info);
                // Some of several coalesced packets may be sound.
                more = self.application.read(&mut self.connection, now)?;
                self.hungry |= more;
            }
            return Ok(more || handshake || !self.connection.is_established());
        }
        match self.connection.recv(packet.payload_mut(), info) {
            Ok(_) | Err(quiche::Error::Done) => {}
            Err(error) => return Err(failed("recv()")(error)),
        }
        watch(Action::Received, &self.connection);
        self.heard_at = Some(now).filter(|_| self.itinerary.has_moves());
        self.probing_since = None;
        let acknowledge = self.acks.received(packet.sequence(), now);
        self.hungry |= self.application.read(&mut self.connection, now)?;
        let wants_to_send = handshake || self.application.wants_to_close();
        Ok(acknowledge || wants_to_send || !self.connection.is_established())
    }

    /// Does all work that is due at `now`.
    pub(crate) fn wake(&mut self, now: Time, epoch: Epoch, watch: &mut Watch) -> Woken {
        let is_due = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= now);
        let mut due = is_due(self.release_at) || is_due(self.acks.deadline());
        let timed_out = is_due(self.timeout(epoch));
        if timed_out {
            let lost = self.connection.stats().lost;
            self.connection.on_timeout();
            // NOTE: quiche's own count (PathStats::total_pto_count) has the timers that declare
            // packets lost (RFC 9002 §6.1.2), too.
            let declared_lost = self.connection.stats().lost > lost;
            let probes = !declared_lost && !self.connection.is_draining();
            self.probe_timeouts += u64::from(probes);
            watch(Action::TimedOut, &self.connection);
            self.probing_since.get_or_insert(now);
            due = true;
        }
        due |= is_due(self.itinerary.next());
        if is_due(self.keep_alive_at()) {
            self.heard_at = Some(now);
            // It is refused only if the connection is closed.
            due |= self.connection.send_ack_eliciting().is_ok();
        }
        if is_due(self.application.more_at(self.woken_at)) {
            self.woken_at = Some(now);
            self.application.wake(now);
            self.hungry = true;
            due = true;
        }
        Woken { due, timed_out }
    }

    /// The time for which timers have been expiring without anything coming in.
    pub(crate) fn probing_for(&self, now: Time) -> Duration {
        self.probing_since
            .map_or(Duration::ZERO, |since| now - since)
    }

    /// The time at which a client that moves asks whether its server is still there. The packets
    /// from its new address may have been lost, and then the server would not know the address.
    fn keep_alive_at(&self) -> Option<Time> {
        let waits = self.application.is_waiting() && self.connection.is_established();
        Some(self.heard_at.filter(|_| waits)? + KEEP_ALIVE)
    }

    fn timeout(&self, epoch: Epoch) -> Option<Time> {
        self.connection
            .timeout_instant()
            .map(|instant| epoch.time(instant))
    }

    /// Time at which [`wake`](Self::wake) is to be called.
    pub(crate) fn deadline(&self, epoch: Epoch) -> Option<Time> {
        let more_at = self.application.more_at(self.woken_at);
        let move_at = self.itinerary.next();
        // Acknowledgements, too, wait for the release time.
        let send_at = self.release_at.or(self.acks.deadline());
        let keep_alive_at = self.keep_alive_at();
        [
            self.timeout(epoch),
            send_at,
            more_at,
            move_at,
            keep_alive_at,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Sends all packets that may leave now, into `out`; `pool` holds packets for reuse.
    pub(crate) fn transmit(
        &mut self,
        now: Time,
        epoch: Epoch,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
        watch: &mut Watch,
    ) -> Result<(), ConnectionError> {
        self.migrate(now)?;
        self.release_at = None;
        let full_bytes = match self.packets.discovers_mtu {
            true => self.connection.max_send_udp_payload_size(),
            false => self.packets.datagram_bytes,
        };
        let mut looked_for_more = false;
        loop {
            if let Some(release) = self.next_release(now, epoch) {
                self.release_at = Some(release);
                return Ok(());
            }
            if self.hungry {
                looked_for_more = true;
                self.hungry = false;
                self.application.write(&mut self.connection, now)?;
            }
            let mut packet = pool.take();
            let room = packet.room_for(self.packets.datagram_bytes);
            match self.connection.send(room) {
                Ok((length, info)) => {
                    watch(Action::Sent, &self.connection);
                    self.acks.sent();
                    self.hungry = length + FILLING_SLACK_BYTES < full_bytes;
                    packet.truncate(length);
                    self.rebind(now);
                    let client_address = self.client_address(&info);
                    let Place { flow, side, .. } = self.place;
                    packet.readdress(flow, side.peer(), client_address, self.sent);
                    if self.packets.ecn {
                        packet.allow_marks();
                    }
                    self.sent += 1;
                    out.push(packet);
                }
                Err(quiche::Error::Done) => {
                    pool.put(packet);
                    self.acks.sent();
                    self.hungry = true;
                    if looked_for_more && !self.application.close(&mut self.connection) {
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
}
