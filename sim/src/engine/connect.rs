//! Makes the two ends of a flow.

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use gallop_network::packet::Side;
use gallop_network::random;
use gallop_network::time::Time;
use gallop_network::units::stream_bytes_per_packet;

use crate::endpoint::acks::AckPolicy;
use crate::endpoint::application::{Application, Client, Requests, Server};
use crate::endpoint::buffers::Content;
use crate::endpoint::foreign::{self, Foreign, Plan};
use crate::endpoint::moves::{Addresses, Itinerary};
use crate::endpoint::settings::{ConfigError, Controller, Settings};
use crate::endpoint::tcp::Tcp;
use crate::endpoint::{Connection, Endpoint, Packets, Place};
use crate::engine::ends::{End, Ends, connection_id};
use crate::engine::flow::Flow;
use crate::isolation::clock::Epoch;
use crate::stack::Stack;
use crate::tcp;
use crate::traffic::conversation::{Conversation, Protocol};
/// Makes both ends of flow `number`, which starts `now`.
pub(crate) fn connect(
    number: usize,
    flow: &mut Flow,
    now: Time,
    epoch: Epoch,
) -> Result<Ends, ConfigError> {
    let mut conversation = std::mem::replace(&mut flow.conversation, Conversation::empty());
    let cc = match &flow.controller {
        Controller::Named(name) => name.clone(),
        Controller::Factory(_) => String::new(),
    };
    let title = if cc.is_empty() {
        format!("flow {number}")
    } else {
        format!("{cc}, flow {number}")
    };
    let (stack, cc) = Stack::of(&cc);
    if stack != Stack::Quiche {
        conversation.protocol = Protocol::Streams;
    }
    let protocol = conversation.protocol;
    let requests: Requests = Rc::default();
    // TCP has a socket buffer of its own.
    let buffer_bytes = flow.send_buffer_bytes.filter(|_| stack != Stack::Tcp);
    let [client_application, server_application] =
        applications(flow, conversation, protocol, &requests, buffer_bytes);
    let addresses = Addresses {
        client: address(Side::Client, number),
        server: address(Side::Server, number),
    };
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
    if stack == Stack::Tcp {
        let flavour =
            tcp::Flavour::parse(cc).map_err(|error| ConfigError::Other(error.to_string()))?;
        let segment_bytes = stream_bytes_per_packet(flow.datagram_bytes);
        let records: Rc<tcp::Records> = Rc::default();
        let end = |side, application| {
            let mut phases = random::stream(gallop_stacks::draw_seed(), 0);
            let phases = [random::uniform(&mut phases), random::uniform(&mut phases)];
            let connection = tcp::Connection::new(
                side,
                flavour,
                segment_bytes,
                flow.send_buffer_bytes,
                phases,
                Rc::clone(&records),
            );
            let tcp = Tcp::new(connection, application, place(side), packets);
            End::Tcp(Box::new(tcp))
        };
        return Ok(Ends {
            client: end(Side::Client, client_application),
            server: end(Side::Server, server_application),
            started: now,
            moves: false,
        });
    }
    if stack != Stack::Quiche {
        let now_instant = epoch.instant(now);
        let end = |side, application| {
            let is_server = side == Side::Server;
            let plan = Plan {
                cc: if is_server { cc } else { "new-reno" },
                datagram_bytes: flow.datagram_bytes.try_into().unwrap_or(u16::MAX),
                initial_window_packets: flow.initial_window_packets as u64,
                acks: is_server.then_some((flow.acks.every.get(), flow.acks.max_delay)),
                seed: gallop_stacks::draw_seed(),
            };
            let peer = foreign::peer(stack, side, &plan, now_instant)?;
            let peer = peer.ok_or_else(|| ConfigError::Other("no such stack".to_owned()))?;
            let end = Foreign::new(peer, application, place(side), packets);
            Ok::<End, ConfigError>(End::Foreign(end))
        };
        return Ok(Ends {
            client: end(Side::Client, client_application)?,
            server: end(Side::Server, server_application)?,
            started: now,
            moves: false,
        });
    }
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
        live: flow.live.is_some(),
    };
    let mut client_config = settings(&reno, flow.acks.max_delay).config()?;
    let server_acks = AckPolicy::EVERY_PACKET;
    let mut server_config = settings(&flow.controller, server_acks.max_delay).config()?;

    let (client_id, server_id) = (
        connection_id(Side::Client, number, 0),
        connection_id(Side::Server, number, 0),
    );
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
            connection.set_qlog(qlog, format!("{title}, {side}"), "gallop-sim".to_owned());
        }
    }
    Ok(Ends {
        client: End::Quiche(Endpoint::new(
            client,
            client_application,
            place(Side::Client),
            packets,
            flow.acks,
            Itinerary::new(&flow.moves),
        )),
        server: End::Quiche(Endpoint::new(
            server,
            server_application,
            place(Side::Server),
            packets,
            server_acks,
            Itinerary::new(&[]),
        )),
        started: now,
        moves: !flow.moves.is_empty(),
    })
}

/// The applications of client and server.
fn applications(
    flow: &Flow,
    conversation: Conversation,
    protocol: Protocol,
    requests: &Requests,
    buffer_bytes: Option<u64>,
) -> [Application; 2] {
    let stop = flow.stop.map(Time::from);
    let content = match flow.checks_content {
        true => Content::Pattern,
        false => Content::Zeros,
    };
    let client = Client::new(
        conversation,
        Rc::clone(requests),
        stop,
        flow.closes,
        content,
        flow.live.clone(),
    );
    let server = Server::new(
        Rc::clone(requests),
        protocol,
        stop,
        buffer_bytes,
        stream_bytes_per_packet(flow.datagram_bytes),
        content,
        flow.live.clone(),
    );
    [Application::Client(client), Application::Server(server)]
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
