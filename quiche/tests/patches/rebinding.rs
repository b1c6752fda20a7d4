//! A client behind a NAT that gives it another address again and again.

use std::net::SocketAddr;
use std::time::Duration;

use quiche::{Connection, ConnectionId};

use crate::pair::{pass, receive, send_all, write, Datagram, Pair, CLIENT, STREAM};

/// A number of bytes that fits into an initial window.
pub const BYTES: usize = 10_000;

/// Has the client appear at this many other ports. Each time, the data under way to the old port is
/// lost. It must arrive at the new one, without a wait for a probe timeout.
pub fn rebind(pair: &mut Pair, times: u16, has_spare_ids: bool) {
    let mut received = 0;
    for number in 0..times {
        if has_spare_ids {
            provide_ids(pair, u8::try_from(number).unwrap());
        }
        write(&mut pair.server, BYTES);
        assert!(!send_all(&mut pair.server).is_empty(), "lost with the path");
        let port = 20_000 + number;
        appear(pair, port);
        received += read(&mut pair.client);
        assert_eq!(active_port(&pair.server), port);
        let active = pair.server.path_stats().find(|path| path.active).unwrap();
        assert!(pair
            .server
            .is_path_validated(active.local_addr, active.peer_addr)
            .unwrap());
    }
    assert_eq!(received, usize::from(times) * BYTES);
}

/// Gives both sides all connection ids that they may have. Those of another `generation` are
/// different.
pub fn provide_ids(pair: &mut Pair, generation: u8) {
    for (side, connection) in [(1, &mut pair.client), (2, &mut pair.server)] {
        for number in 0.. {
            if connection.scids_left() == 0 {
                break;
            }
            let mut id = vec![side; 16];
            id[..3].copy_from_slice(&[0, generation, number]);
            let token = u128::from_be_bytes(id.clone().try_into().unwrap());
            connection
                .new_scid(&ConnectionId::from_vec(id), token, false)
                .unwrap();
        }
    }
}

/// Has the client send from another port, and lets both sides exchange datagrams for a while.
pub fn appear(pair: &mut Pair, port: u16) {
    pair.client.send_ack_eliciting().unwrap();
    for _ in 0..20 {
        pass(Duration::from_millis(1));
        deliver_to_server(pair, port);
        let outside = address(port);
        let mut to_client = send_all(&mut pair.server);
        to_client.retain(|(_, info)| info.to == outside);
        let to_client = readdressed(to_client, |info| info.to = CLIENT.into());
        receive(&mut pair.client, to_client);
    }
}

/// Has the client send from another port, at which nothing reaches it. It sends so much that the
/// server may answer with [`BYTES`] before it has validated the port.
pub fn appear_without_answer(pair: &mut Pair, port: u16) {
    let client_stream = 2;
    let sent = pair
        .client
        .stream_send(client_stream, &[0; BYTES / 2], false);
    assert_eq!(sent, Ok(BYTES / 2));
    deliver_to_server(pair, port);
    assert_eq!(active_port(&pair.server), port);
    assert!(!send_all(&mut pair.server).is_empty(), "lost");
}

/// Lets the server wait, in vain, until it gives up the port that it sends to.
pub fn fail_validation(pair: &mut Pair) {
    let port = active_port(&pair.server);
    for _ in 0..20 {
        pass(pair.server.timeout().expect("a timer"));
        pair.server.on_timeout();
        if active_port(&pair.server) != port {
            return;
        }
        send_all(&mut pair.server);
    }
    panic!("the server still sends to port {port}");
}

/// The client's port to which the server sends.
pub fn active_port(server: &Connection) -> u16 {
    let active = server.path_stats().find(|path| path.active);
    active.expect("an active path").peer_addr.port()
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from((CLIENT.0, port))
}

fn deliver_to_server(pair: &mut Pair, port: u16) {
    let to_server = send_all(&mut pair.client);
    let to_server = readdressed(to_server, |info| info.from = address(port));
    receive(&mut pair.server, to_server);
}

fn readdressed(
    mut datagrams: Vec<Datagram>,
    change: impl Fn(&mut quiche::SendInfo),
) -> Vec<Datagram> {
    datagrams.iter_mut().for_each(|(_, info)| change(info));
    datagrams
}

/// Reads the data that has arrived in order.
pub fn read(client: &mut Connection) -> usize {
    let mut buffer = vec![0; BYTES];
    let mut bytes = 0;
    while let Ok((length, _)) = client.stream_recv(STREAM, &mut buffer) {
        bytes += length;
    }
    bytes
}
