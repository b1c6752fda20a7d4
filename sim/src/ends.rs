//! The two ends of a running flow.

use crate::acks::AckPolicy;
use crate::clock::Time;
use crate::endpoint::{Action, Application, Connection, Endpoint, Fetch, Place, Service};
use crate::flow::{Flow, FlowReport, Observation, Observer};
use crate::packet::Side;
use crate::settings::{ConfigError, Controller, Settings};
use crate::traffic::Bulk;
use quiche::ConnectionId;
use std::net::{Ipv4Addr, SocketAddr};

/// A flow of a running simulation.
pub(crate) struct Running {
    pub(crate) flow: Flow,
    /// None before the flow starts. Boxed: connections are large, and flows are
    /// added to a growing vector.
    pub(crate) ends: Option<Box<Ends>>,
}

impl Running {
    pub(crate) fn finished(&self) -> Option<Time> {
        self.ends.as_ref()?.fetch()?.finished
    }

    /// Stream bytes that the client's application has read.
    pub(crate) fn received_bytes(&self) -> u64 {
        let fetch = self.ends.as_ref().and_then(|ends| ends.fetch());
        fetch.map_or(0, |fetch| fetch.received)
    }

    pub(crate) fn report(&self) -> FlowReport {
        let Some(ends) = &self.ends else {
            return FlowReport::default();
        };
        let stats = ends.server.connection.stats();
        FlowReport {
            packets_sent: stats.sent as u64,
            packets_lost: stats.lost as u64,
            bytes_sent: stats.sent_bytes,
            bytes_lost: stats.lost_bytes,
            retransmitted_bytes: stats.stream_retrans_bytes,
            received_bytes: self.received_bytes(),
            finished: self.finished(),
        }
    }
}

/// Client and server of a flow.
pub(crate) struct Ends {
    client: Endpoint,
    server: Endpoint,
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

    fn fetch(&self) -> Option<&Fetch> {
        match &self.client.application {
            Application::Fetches(fetch) => Some(fetch),
            Application::Serves(_) => None,
        }
    }

    fn service(&self) -> Option<&Service> {
        match &self.server.application {
            Application::Serves(service) => Some(service),
            Application::Fetches(_) => None,
        }
    }

    /// Why the connection of `side` has closed, if it has.
    pub(crate) fn closed(&self, side: Side) -> Option<String> {
        let connection = &self.get(side).connection;
        if !connection.is_closed() && !connection.is_draining() {
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

    /// If the client has read to the end, but not the whole answer: the bytes of
    /// the answer and those read.
    pub(crate) fn wrong_length(&self) -> Option<(u64, u64)> {
        let fetch = self.fetch()?;
        fetch.finished?;
        let expected = self.service()?.length()?;
        (expected != fetch.received).then_some((expected, fetch.received))
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

/// Makes both ends of flow `number`.
pub(crate) fn connect(number: usize, flow: &mut Flow) -> Result<Ends, ConfigError> {
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
            flow.ecn,
        ),
        server: Endpoint::new(
            server,
            Application::Serves(Service::new(source)),
            place(Side::Server, server_address, client_address),
            flow.datagram_bytes,
            server_acks,
            flow.ecn,
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
