//! Makes the two ends of a flow.

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use gallop_network::packet::Side;
use gallop_network::time::Time;
use gallop_network::units::stream_bytes_per_packet;

use crate::endpoint::acks::AckPolicy;
use crate::endpoint::application::{Application, Client, Server};
use crate::endpoint::buffers::Content;
use crate::endpoint::moves::{Addresses, Itinerary};
use crate::endpoint::settings::{ConfigError, Controller, Settings};
use crate::endpoint::{Connection, Endpoint, Packets, Place};
use crate::engine::ends::{Ends, connection_id};
use crate::engine::flow::Flow;
use crate::traffic::conversation::Conversation;
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
        live: flow.live.is_some(),
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
        flow.live.clone(),
    );
    let server_application = Server::new(
        requests,
        protocol,
        stop,
        flow.send_buffer_bytes,
        stream_bytes_per_packet(flow.datagram_bytes),
        content,
        flow.live.clone(),
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
