//! A client behind a NAT that gives it another address again and again.

use std::net::SocketAddr;
use std::time::Duration;

use quiche::{Connection, ConnectionId};

use crate::pair::{
    config, in_virtual_time, pass, receive, send_all, write, Datagram, Pair, CLIENT, STREAM,
};
use crate::recorder::Recorder;
use crate::{recorded, WIDE};

/// More than there may be paths.
const TIMES: u16 = 12;

/// What fits into an initial window.
const BYTES: usize = 10_000;

#[test]
fn a_transfer_goes_on_wherever_the_client_appears() {
    for has_spare_ids in [true, false] {
        in_virtual_time(|| {
            let recorder = Recorder::new(WIDE);
            let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
            rebind(&mut pair, has_spare_ids);

            let log = recorder.log();
            assert_eq!(
                log.paths.len(),
                1 + usize::from(TIMES),
                "each has a controller"
            );
            for path in &log.paths {
                assert_eq!(path.differences, []);
                assert!(path.lost.is_empty(), "a rebinding is no congestion");
            }
            let live = log.paths.iter().filter(|path| !path.dropped).count();
            assert_eq!(live as u64, 4, "as many as there may be connection ids");
        });
    }
}

#[test]
fn quiches_own_recovery_goes_on_as_well() {
    for name in ["reno", "cubic", "bbr2_gcongestion"] {
        in_virtual_time(|| {
            let mut server = config();
            server.set_cc_algorithm_name(name).unwrap();
            server.enable_pacing(false);
            let mut pair = Pair::connected(&mut config(), &mut server);
            rebind(&mut pair, true);
        });
    }
}

/// Has the client appear at other ports. What is under way to the old one is lost each time, and
/// still arrives, without waiting for a probe timeout.
fn rebind(pair: &mut Pair, has_spare_ids: bool) {
    let mut issued = 10;
    let mut received = 0;
    for port in (0..TIMES).map(|number| 20_000 + number) {
        if has_spare_ids {
            for connection in [&mut pair.client, &mut pair.server] {
                while connection.scids_left() > 0 {
                    issued += 1;
                    let id = ConnectionId::from_vec(vec![issued; 16]);
                    connection.new_scid(&id, issued.into(), false).unwrap();
                }
            }
        }
        write(&mut pair.server, BYTES);
        assert!(
            !send_all(&mut pair.server).is_empty(),
            "lost by the path that is gone"
        );
        pair.client.send_ack_eliciting().unwrap();
        exchange(pair, port);
        received += read(&mut pair.client);
        let active = pair.server.path_stats().find(|path| path.active).unwrap();
        assert_eq!(active.peer_addr.port(), port);
        assert!(pair
            .server
            .is_path_validated(active.local_addr, active.peer_addr)
            .unwrap());
    }
    assert_eq!(received, usize::from(TIMES) * BYTES);
}

/// Exchanges datagrams over a NAT that lends the client this port.
fn exchange(pair: &mut Pair, port: u16) {
    let outside = SocketAddr::from((CLIENT.0, port));
    for _ in 0..20 {
        pass(Duration::from_millis(1));
        let to_server = send_all(&mut pair.client);
        receive(
            &mut pair.server,
            readdressed(to_server, |info| info.from = outside),
        );
        let mut to_client = send_all(&mut pair.server);
        to_client.retain(|(_, info)| info.to == outside);
        receive(
            &mut pair.client,
            readdressed(to_client, |info| info.to = CLIENT.into()),
        );
    }
}

fn readdressed(
    mut datagrams: Vec<Datagram>,
    change: impl Fn(&mut quiche::SendInfo),
) -> Vec<Datagram> {
    datagrams.iter_mut().for_each(|(_, info)| change(info));
    datagrams
}

/// Reads what has come, in order.
fn read(client: &mut Connection) -> usize {
    let mut buffer = vec![0; BYTES];
    let mut bytes = 0;
    while let Ok((length, _)) = client.stream_recv(STREAM, &mut buffer) {
        bytes += length;
    }
    bytes
}
