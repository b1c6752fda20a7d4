//! The two ends of a running flow.

use crate::endpoint::acks::AckPolicy;
use crate::endpoint::application::{ALL_IS_DONE, Answer, Application, Client, Server};
use crate::endpoint::buffers::Content;
use crate::endpoint::moves::{Addresses, Itinerary};
use crate::endpoint::settings::{ConfigError, Controller, Settings};
use crate::endpoint::{Action, Connection, ConnectionError, Endpoint, Packets, Place, failed};
use crate::engine::flow::{Flow, FlowReport, Observation, Observer};
use crate::engine::flow_meter::{FlowMeter, base_rtt};
use crate::packet::Side;
use crate::time::Time;
use crate::traffic::conversation::Conversation;
use crate::units::stream_bytes_per_packet;
use quiche::ConnectionId;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

/// A flow of a running simulation.
pub(crate) struct Running {
    pub(crate) flow: Flow,
    pub(crate) stage: Stage,
    pub(crate) meter: FlowMeter,
}

/// How far a flow has come.
pub(crate) enum Stage {
    /// It has not started.
    Waiting,
    /// It has connections. Boxed: connections are large, and flows are added to
    /// a growing vector.
    Open(Box<Ends>),
    /// It has closed, and this is what it came to.
    Closed(Box<Closed>),
}

/// What is left of a flow that has closed.
pub(crate) struct Closed {
    report: FlowReport,
    answers: Vec<Answer>,
}

impl Running {
    pub(crate) fn new(flow: Flow) -> Running {
        let controller = match &flow.controller {
            Controller::Named(name) => Some(name.as_str()),
            Controller::Factory(_) => None,
        };
        Running {
            meter: FlowMeter::new(controller, flow.datagram_bytes),
            flow,
            stage: Stage::Waiting,
        }
    }

    /// The connections, if they are open.
    pub(crate) fn ends(&self) -> Option<&Ends> {
        match &self.stage {
            Stage::Open(ends) => Some(ends),
            Stage::Waiting | Stage::Closed(_) => None,
        }
    }

    /// Whether it has read to the end.
    pub(crate) fn has_finished(&self) -> bool {
        match &self.stage {
            Stage::Waiting => false,
            Stage::Open(ends) => ends.finished().is_some(),
            Stage::Closed(_) => true,
        }
    }

    /// Stream bytes that the client's application has read.
    pub(crate) fn received_bytes(&self) -> u64 {
        match &self.stage {
            Stage::Waiting => 0,
            Stage::Open(ends) => ends.client().map_or(0, |client| client.received),
            Stage::Closed(closed) => closed.report.received_bytes,
        }
    }

    /// Answers that were read to their end.
    pub(crate) fn answers(&self) -> &[Answer] {
        match &self.stage {
            Stage::Waiting => &[],
            Stage::Open(ends) => ends.client().map_or(&[], |client| &client.answers),
            Stage::Closed(closed) => &closed.answers,
        }
    }

    pub(crate) fn report(&self) -> FlowReport {
        match &self.stage {
            Stage::Waiting => FlowReport::default(),
            Stage::Open(ends) => ends.report(),
            Stage::Closed(closed) => closed.report.clone(),
        }
    }

    /// Drops what was measured over time, and who was told of it.
    pub(crate) fn forget(&mut self) {
        self.meter = FlowMeter::new(None, self.flow.datagram_bytes);
        self.flow.observer = None;
        if let Stage::Closed(closed) = &mut self.stage {
            closed.answers = Vec::new();
        }
    }

    /// Drops the connections; what they came to stays.
    pub(crate) fn close(&mut self) {
        if let Stage::Open(ends) = &mut self.stage {
            let report = ends.report();
            let answers = ends.take_answers();
            self.stage = Stage::Closed(Box::new(Closed { report, answers }));
        }
    }
}

/// Client and server of a flow.
pub(crate) struct Ends {
    client: Endpoint,
    server: Endpoint,
    started: Time,
    /// The client moves, for which both sides need connection ids.
    moves: bool,
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

    /// Gives the peer of `side` as many connection ids as it takes, if the client
    /// moves.
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

    fn client(&self) -> Option<&Client> {
        match &self.client.application {
            Application::Client(client) => Some(client),
            Application::Server(_) => None,
        }
    }

    fn take_answers(&mut self) -> Vec<Answer> {
        match &mut self.client.application {
            Application::Client(client) => std::mem::take(&mut client.answers),
            Application::Server(_) => Vec::new(),
        }
    }

    /// When the client had read everything, if it has.
    pub(crate) fn finished(&self) -> Option<Time> {
        self.client()?.finished
    }

    /// Stream bytes that the client has read.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.client().map_or(0, |client| client.received)
    }

    fn report(&self) -> FlowReport {
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

    /// Why the connection of `side` has closed, if it has although neither
    /// application wanted it.
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

    /// Whether the client has closed the connection because all is read.
    pub(crate) fn is_closing(&self) -> bool {
        let error = self.client.connection.local_error();
        error.is_some_and(|error| error.is_app && error.error_code == ALL_IS_DONE)
    }

    /// Whether the client's closing period is over.
    pub(crate) fn has_closed(&self) -> bool {
        self.client.connection.is_closed()
    }

    /// If an answer ended at another length than it should have: the bytes it
    /// should have had and those read.
    pub(crate) fn wrong_length(&self) -> Option<(u64, u64)> {
        self.client()?.wrong_length
    }

    /// Where an answer first had a byte that the server did not send.
    pub(crate) fn wrong_content(&self) -> Option<u64> {
        self.client()?.wrong_content
    }
}

/// Hands what an endpoint does on to the flow's observer.
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

/// Makes both ends of flow `number`, which starts `now`.
pub(crate) fn connect(number: usize, flow: &mut Flow, now: Time) -> Result<Ends, ConfigError> {
    let conversation = std::mem::replace(&mut flow.conversation, Conversation::empty());
    let protocol = conversation.protocol;
    let reno = Controller::named("reno");
    let settings = |controller, max_ack_delay| Settings {
        controller,
        datagram_bytes: flow.datagram_bytes,
        initial_window_packets: flow.initial_window_packets,
        hystart: flow.hystart,
        pacing: flow.pacing,
        discovers_mtu: flow.discovers_mtu,
        moves: !flow.moves.is_empty(),
        max_ack_delay,
        protocol,
    };
    let mut client_config = settings(&reno, flow.acks.max_delay).config()?;
    let server_acks = AckPolicy::EVERY_PACKET;
    let mut server_config = settings(&flow.controller, server_acks.max_delay).config()?;

    let (client_id, server_id) = (
        connection_id(Side::Client, number, 0),
        connection_id(Side::Server, number, 0),
    );
    let addresses = Addresses {
        client: address(Side::Client, number),
        server: address(Side::Server, number),
    };
    let mut client: Connection = quiche::connect_with_buffer_factory(
        None,
        &client_id,
        addresses.client,
        addresses.server,
        &mut client_config,
    )?;
    let mut server: Connection = quiche::accept_with_buf_factory(
        &server_id,
        None,
        addresses.server,
        addresses.client,
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
    let requests = Rc::default();
    let stop = flow.stop.map(Time::from);
    let content = match flow.checks_content {
        true => Content::Pattern,
        false => Content::Zeros,
    };
    let client_application = Client::new(
        conversation,
        Rc::clone(&requests),
        stop,
        flow.closes,
        content,
    );
    let server_application = Server::new(
        requests,
        protocol,
        stop,
        flow.send_buffer_bytes,
        stream_bytes_per_packet(flow.datagram_bytes),
        content,
    );
    let place = |side| Place {
        flow: number,
        side,
        addresses,
    };
    let packets = Packets {
        datagram_bytes: flow.datagram_bytes,
        discovers_mtu: flow.discovers_mtu,
        ecn: flow.ecn,
    };
    Ok(Ends {
        client: Endpoint::new(
            client,
            Application::Client(client_application),
            place(Side::Client),
            packets,
            flow.acks,
            Itinerary::new(&flow.moves),
        ),
        server: Endpoint::new(
            server,
            Application::Server(server_application),
            place(Side::Server),
            packets,
            server_acks,
            Itinerary::new(&[]),
        ),
        started: now,
        moves: !flow.moves.is_empty(),
    })
}

/// An identifier that names side and flow, so that no entropy decides it; `serial`
/// tells those of one connection apart.
fn connection_id(side: Side, number: usize, serial: u16) -> ConnectionId<'static> {
    let mut id = match side {
        Side::Client => *b"client\0\0\0\0\0\0\0\0\0\0",
        Side::Server => *b"server\0\0\0\0\0\0\0\0\0\0",
    };
    id[6..8].copy_from_slice(&serial.to_be_bytes());
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
