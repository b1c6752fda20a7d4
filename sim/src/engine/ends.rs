//! The two ends of a running flow.

use std::time::Duration;

use gallop_network::packet::{Packet, Side};
use gallop_network::time::Time;
use quiche::ConnectionId;

use crate::endpoint::application::{ALL_IS_DONE, Answer, Application, Client};
use crate::endpoint::foreign::Foreign;
use crate::endpoint::tcp::Tcp;
use crate::endpoint::{
    Action, Connection, ConnectionError, Endpoint, Pool, Sender, Watch, Woken, base_rtt, failed,
};
use crate::engine::flow::{FlowReport, Observation, Observer};
use crate::isolation::clock::Epoch;

/// One end of a flow.
#[expect(
    clippy::large_enum_variant,
    reason = "both ends are boxed together, and most are quiche's"
)]
pub(crate) enum End {
    Quiche(Endpoint),
    Foreign(Foreign),
    Tcp(Box<Tcp>),
}

impl End {
    /// quiche's connection, if it is one.
    pub(crate) fn connection(&self) -> Option<&Connection> {
        match self {
            End::Quiche(endpoint) => Some(&endpoint.connection),
            End::Foreign(_) | End::Tcp(_) => None,
        }
    }

    fn application(&self) -> &Application {
        match self {
            End::Quiche(endpoint) => &endpoint.application,
            End::Foreign(foreign) => &foreign.application,
            End::Tcp(tcp) => &tcp.application,
        }
    }

    fn application_mut(&mut self) -> &mut Application {
        match self {
            End::Quiche(endpoint) => &mut endpoint.application,
            End::Foreign(foreign) => &mut foreign.application,
            End::Tcp(tcp) => &mut tcp.application,
        }
    }

    /// Takes `packet` in; returns true if it is to send now.
    pub(crate) fn receive(
        &mut self,
        packet: &mut Packet,
        now: Time,
        epoch: Epoch,
        watch: &mut Watch,
    ) -> Result<bool, ConnectionError> {
        match self {
            End::Quiche(endpoint) => endpoint.receive(packet, now, watch),
            End::Foreign(foreign) => foreign.receive(packet, now, epoch),
            End::Tcp(tcp) => tcp.receive(packet, now),
        }
    }

    /// Does all work that is due at `now`.
    pub(crate) fn wake(&mut self, now: Time, epoch: Epoch, watch: &mut Watch) -> Woken {
        match self {
            End::Quiche(endpoint) => endpoint.wake(now, epoch, watch),
            End::Foreign(foreign) => {
                let (due, timed_out) = foreign.wake(now, epoch);
                Woken { due, timed_out }
            }
            End::Tcp(tcp) => {
                let (due, timed_out) = tcp.wake(now);
                Woken { due, timed_out }
            }
        }
    }

    /// Sends all packets that may leave now.
    pub(crate) fn transmit(
        &mut self,
        now: Time,
        epoch: Epoch,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
        watch: &mut Watch,
    ) -> Result<(), ConnectionError> {
        match self {
            End::Quiche(endpoint) => endpoint.transmit(now, epoch, pool, out, watch),
            End::Foreign(foreign) => foreign.transmit(now, epoch, pool, out),
            End::Tcp(tcp) => tcp.transmit(now, pool, out),
        }
    }

    /// Time at which [`wake`](Self::wake) is to be called.
    pub(crate) fn deadline(&mut self, epoch: Epoch) -> Option<Time> {
        match self {
            End::Quiche(endpoint) => endpoint.deadline(epoch),
            End::Foreign(foreign) => foreign.deadline(epoch),
            End::Tcp(tcp) => tcp.deadline(),
        }
    }

    /// The earliest event under way that will wake this end.
    pub(crate) fn armed(&mut self) -> &mut Option<Time> {
        match self {
            End::Quiche(endpoint) => &mut endpoint.armed,
            End::Foreign(foreign) => &mut foreign.armed,
            End::Tcp(tcp) => &mut tcp.armed,
        }
    }

    /// The time for which timers have been expiring without anything coming in; zero of a stack that
    /// has timers for more than what waits for an acknowledgement.
    pub(crate) fn probing_for(&self, now: Time) -> Duration {
        match self {
            End::Quiche(endpoint) => endpoint.probing_for(now),
            End::Foreign(_) | End::Tcp(_) => Duration::ZERO,
        }
    }

    /// Bytes of the datagrams that have come in.
    pub(crate) fn datagram_bytes_received(&self) -> u64 {
        match self {
            End::Quiche(endpoint) => endpoint.connection.stats().recv_bytes,
            End::Foreign(foreign) => foreign.known.received_bytes,
            End::Tcp(tcp) => tcp.connection.received_bytes,
        }
    }

    /// The sender as a meter sees it.
    pub(crate) fn sender(&self) -> &dyn Sender {
        match self {
            End::Quiche(endpoint) => &endpoint.connection,
            End::Foreign(foreign) => foreign,
            End::Tcp(tcp) => &**tcp,
        }
    }
}

/// Client and server of a flow.
pub(crate) struct Ends {
    pub(super) client: End,
    pub(super) server: End,
    pub(super) started: Time,
    /// True if the client moves, for which both sides need connection ids.
    pub(super) moves: bool,
}

impl Ends {
    pub(crate) fn get(&self, side: Side) -> &End {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    pub(crate) fn get_mut(&mut self, side: Side) -> &mut End {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// Gives the peer of `side` as many connection ids as it takes, if the client moves.
    pub(crate) fn issue_connection_ids(&mut self, side: Side) -> Result<(), ConnectionError> {
        if !self.moves {
            return Ok(());
        }
        let End::Quiche(endpoint) = self.get_mut(side) else {
            return Ok(());
        };
        if !endpoint.connection.is_established() {
            return Ok(());
        }
        while endpoint.connection.scids_left() > 0 {
            endpoint.ids_issued = endpoint.ids_issued.wrapping_add(1);
            let id = connection_id(side, endpoint.flow(), endpoint.ids_issued);
            endpoint
                .connection
                .new_scid(&id, endpoint.ids_issued.into(), false)
                .map_err(failed("new_scid()"))?;
        }
        Ok(())
    }

    pub(super) fn client(&self) -> Option<&Client> {
        match self.client.application() {
            Application::Client(client) => Some(client),
            Application::Server(_) => None,
        }
    }

    pub(super) fn take_answers(&mut self) -> Vec<Answer> {
        match self.client.application_mut() {
            Application::Client(client) => std::mem::take(&mut client.answers),
            Application::Server(_) => Vec::new(),
        }
    }

    /// The time at which the client had read everything, if it has.
    pub(crate) fn finished(&self) -> Option<Time> {
        self.client()?.finished
    }

    /// Stream bytes that the client has read.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.client().map_or(0, |client| client.received)
    }

    pub(super) fn report(&self) -> FlowReport {
        let server = match &self.server {
            End::Quiche(server) => server,
            End::Foreign(server) => {
                let known = server.known;
                return FlowReport {
                    packets_sent: known.sent_packets,
                    packets_lost: known.lost_packets,
                    bytes_sent: known.sent_bytes,
                    bytes_lost: known.lost_bytes,
                    received_bytes: self.received_bytes(),
                    hides_retransmissions: true,
                    min_rtt: known.min_rtt,
                    base_rtt: Sender::base_rtt(server),
                    started: Some(self.started),
                    finished: self.finished(),
                    ..FlowReport::default()
                };
            }
            End::Tcp(server) => {
                let sender = &server.connection.sender;
                let counters = sender.counters;
                return FlowReport {
                    packets_sent: server.connection.sent_segments,
                    packets_lost: counters.resent_segments,
                    bytes_sent: server.connection.sent_bytes,
                    bytes_lost: counters.resent_bytes,
                    retransmitted_bytes: counters.resent_bytes,
                    received_bytes: self.received_bytes(),
                    timeouts: counters.timeouts,
                    hides_retransmissions: false,
                    min_rtt: sender.min_rtt(),
                    base_rtt: sender.base_rtt(),
                    started: Some(self.started),
                    finished: self.finished(),
                };
            }
        };
        let connection = &server.connection;
        let stats = connection.stats();
        let path = connection.path_stats().find(|path| path.active);
        FlowReport {
            packets_sent: stats.sent as u64,
            packets_lost: stats.lost as u64,
            bytes_sent: stats.sent_bytes,
            bytes_lost: stats.lost_bytes,
            retransmitted_bytes: stats.stream_retrans_bytes,
            received_bytes: self.received_bytes(),
            timeouts: server.probe_timeouts,
            hides_retransmissions: false,
            min_rtt: path.and_then(|path| path.min_rtt),
            base_rtt: base_rtt(connection),
            started: Some(self.started),
            finished: self.finished(),
        }
    }

    /// The error with which the connection of `side` has closed, if neither application closed it.
    pub(crate) fn failed(&self, side: Side) -> Option<String> {
        let connection = match self.get(side) {
            End::Quiche(endpoint) => &endpoint.connection,
            End::Foreign(foreign) => {
                let lost = foreign.peer.lost().filter(|_| !self.is_closing());
                return lost.map(str::to_owned);
            }
            // A segment is sent until it comes.
            End::Tcp(_) => return None,
        };
        if !connection.is_closed() && !connection.is_draining() || self.is_closing() {
            return None;
        }
        let error = connection.local_error().or(connection.peer_error());
        Some(error.map_or_else(
            || "no reason given".to_owned(),
            |error| {
                let reason = String::from_utf8_lossy(&error.reason);
                format!("error code {:#x}, \"{reason}\"", error.error_code)
            },
        ))
    }

    /// True if the client has closed the connection because it has read everything.
    pub(crate) fn is_closing(&self) -> bool {
        let error = match &self.client {
            End::Quiche(client) => client.connection.local_error(),
            End::Foreign(client) => return client.is_closing,
            End::Tcp(client) => return client.is_closing(),
        };
        error.is_some_and(|error| error.is_app && error.error_code == ALL_IS_DONE)
    }

    /// True if the client's closing period is over.
    pub(crate) fn has_closed(&self) -> bool {
        match &self.client {
            End::Quiche(client) => client.connection.is_closed(),
            End::Foreign(client) => client.peer.is_drained(),
            End::Tcp(client) => client.has_closed,
        }
    }

    /// The expected and the read bytes of an answer that ended at another length than it should
    /// have, if there was one.
    pub(crate) fn wrong_length(&self) -> Option<(u64, u64)> {
        self.client()?.wrong_length
    }

    /// The first offset at which an answer had a byte that the server did not send.
    pub(crate) fn wrong_content(&self) -> Option<u64> {
        self.client()?.wrong_content
    }
}

/// Hands the actions of an endpoint on to the flow's observer.
pub(crate) fn watch<'a>(
    observer: &'a mut Option<Observer>,
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

/// An identifier that names side and flow, so that no entropy decides it; `serial` makes those of
/// one connection different.
pub(super) fn connection_id(side: Side, number: usize, serial: u16) -> ConnectionId<'static> {
    let mut id = match side {
        Side::Client => *b"client\0\0\0\0\0\0\0\0\0\0",
        Side::Server => *b"server\0\0\0\0\0\0\0\0\0\0",
    };
    id[6..8].copy_from_slice(&serial.to_be_bytes());
    id[8..].copy_from_slice(&(number as u64).to_be_bytes());
    ConnectionId::from_vec(id.to_vec())
}
