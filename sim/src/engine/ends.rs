//! The two ends of a running flow.

use gallop_network::packet::Side;
use gallop_network::time::Time;
use quiche::ConnectionId;

use crate::endpoint::application::{ALL_IS_DONE, Answer, Application, Client};
use crate::endpoint::{Action, Connection, ConnectionError, Endpoint, base_rtt, failed};
use crate::engine::flow::{FlowReport, Observation, Observer};

/// Client and server of a flow.
pub(crate) struct Ends {
    pub(super) client: Endpoint,
    pub(super) server: Endpoint,
    pub(super) started: Time,
    /// True if the client moves, for which both sides need connection ids.
    pub(super) moves: bool,
}

impl Ends {
    pub(crate) fn get(&self, side: Side) -> &Endpoint {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    pub(crate) fn get_mut(&mut self, side: Side) -> &mut Endpoint {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// Gives the peer of `side` as many connection ids as it takes, if the client moves.
    pub(crate) fn issue_connection_ids(&mut self, side: Side) -> Result<(), ConnectionError> {
        if !self.moves || !self.get(side).connection.is_established() {
            return Ok(());
        }
        let endpoint = self.get_mut(side);
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
        match &self.client.application {
            Application::Client(client) => Some(client),
            Application::Server(_) => None,
        }
    }

    pub(super) fn take_answers(&mut self) -> Vec<Answer> {
        match &mut self.client.application {
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
        let connection = &self.server.connection;
        let stats = connection.stats();
        let path = connection.path_stats().find(|path| path.active);
        FlowReport {
            packets_sent: stats.sent as u64,
            packets_lost: stats.lost as u64,
            bytes_sent: stats.sent_bytes,
            bytes_lost: stats.lost_bytes,
            retransmitted_bytes: stats.stream_retrans_bytes,
            received_bytes: self.received_bytes(),
            timeouts: self.server.probe_timeouts,
            min_rtt: path.and_then(|path| path.min_rtt),
            base_rtt: base_rtt(connection),
            started: Some(self.started),
            finished: self.finished(),
        }
    }

    /// The error with which the connection of `side` has closed, if neither application closed it.
    pub(crate) fn failed(&self, side: Side) -> Option<String> {
        let connection = &self.get(side).connection;
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
        let error = self.client.connection.local_error();
        error.is_some_and(|error| error.is_app && error.error_code == ALL_IS_DONE)
    }

    /// True if the client's closing period is over.
    pub(crate) fn has_closed(&self) -> bool {
        self.client.connection.is_closed()
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
