//! The events that a controller is told of.

use std::time::{Duration, Instant};

use quiche::{Connection, ConnectionId, PathEvent};

use crate::pair::{
    config, in_virtual_time, pass, receive, send_all, write, Datagram, Pair, CLIENT_LATER, SERVER,
};
use crate::recorder::Recorder;
use crate::support::{lose, recorded, WIDE};

#[test]
fn a_path_has_a_controller_of_its_own() {
    in_virtual_time(|| {
        let recorder = Recorder::new(WIDE);
        let mut server = recorded(&recorder);
        server.set_initial_congestion_window_packets(7);
        server.enable_hystart(false);
        server.enable_pacing(false);
        server.set_max_pacing_rate(5);
        let mut pair = Pair::connected(&mut config(), &mut server);
        assert_eq!(recorder.log().paths.len(), 1);
        let made = recorder.log().paths[0].config.clone();
        assert_eq!(made.max_datagram_size, 1200);
        assert_eq!(made.initial_congestion_window_packets, 7);
        assert_eq!((made.hystart, made.pacing), (false, false));
        assert_eq!(made.max_pacing_rate, Some(5));

        // The client moves to another address.
        let id = ConnectionId::from_vec(vec![3; 16]);
        pair.server.new_scid(&id, 1, false).unwrap();
        pair.client
            .new_scid(&ConnectionId::from_vec(vec![4; 16]), 2, false)
            .unwrap();
        pair.settle();
        let before = recorder.log().paths[0].sent.len();
        let (from, to) = (CLIENT_LATER.into(), SERVER.into());
        pair.client.probe_path(from, to).unwrap();
        exchange_on_all_paths(&mut pair);
        pair.client.migrate(from, to).unwrap();
        pair.client.send_ack_eliciting().unwrap();
        exchange_on_all_paths(&mut pair);
        let events: Vec<PathEvent> = std::iter::from_fn(|| pair.server.path_event_next()).collect();
        assert!(
            events.contains(&PathEvent::PeerMigrated(to, from)),
            "{events:?}"
        );

        assert_eq!(recorder.log().paths.len(), 2);
        let sent = |path: usize| recorder.log().paths[path].sent.len();
        let (old, new) = (sent(0), sent(1));
        assert!(old >= before);
        write(&mut pair.server, 5000);
        exchange_on_all_paths(&mut pair);
        assert_eq!(sent(0), old, "the old path is not used any more");
        assert!(sent(1) >= new + 5, "the new path carries the data");

        drop(pair);
        assert!(recorder.log().paths.iter().all(|path| path.dropped));
    });
}

/// Does as [`Pair::settle`] does, over all paths.
fn exchange_on_all_paths(pair: &mut Pair) {
    fn send_on_paths(connection: &mut Connection) -> Vec<Datagram> {
        let mut datagrams = Vec::new();
        let locals: Vec<_> = connection.path_stats().map(|p| p.local_addr).collect();
        for local in locals {
            let peers: Vec<_> = connection.paths_iter(local).collect();
            for peer in peers {
                let mut buffer = vec![0; 2000];
                while let Ok((length, info)) =
                    connection.send_on_path(&mut buffer, Some(local), Some(peer))
                {
                    datagrams.push((buffer[..length].to_vec(), info));
                }
            }
        }
        datagrams
    }
    loop {
        let to_server = send_on_paths(&mut pair.client);
        let to_client = send_on_paths(&mut pair.server);
        if to_server.is_empty() && to_client.is_empty() {
            return;
        }
        receive(&mut pair.server, to_server);
        receive(&mut pair.client, to_client);
    }
}

#[test]
fn bytes_in_flight_can_be_counted_from_the_events() {
    in_virtual_time(|| {
        let recorder = Recorder::new(WIDE);
        let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
        for round in 0..20 {
            write(&mut pair.server, 40_000);
            lose(&mut pair, &[round % 7, round % 11, 20]);
            pair.settle();
        }
        let log = recorder.log();
        let path = &log.paths[0];
        assert!(path.lost.len() > 20, "{}", path.lost.len());
        assert_eq!(path.differences, []);
        assert!(path
            .acked
            .windows(2)
            .all(|two| two[0].pkt_num != two[1].pkt_num));
        let data = |size: usize| size == 1200;
        assert!(path
            .sent
            .iter()
            .any(|p| data(p.size) && p.has_data && !p.is_pmtud_probe));
    });
}

#[test]
fn acknowledged_packets_are_described_as_they_were_sent() {
    in_virtual_time(|| {
        let recorder = Recorder::new(WIDE);
        let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
        let before = recorder.log().paths[0].acked.len();
        let start = Instant::now();
        write(&mut pair.server, 3000);
        let datagrams = send_all(&mut pair.server);
        pass(Duration::from_millis(30));
        receive(&mut pair.client, datagrams);
        pass(Duration::from_millis(12));
        pair.acknowledge();

        let log = recorder.log();
        let path = &log.paths[0];
        let acked = &path.acked[before..];
        assert!(acked.len() >= 3);
        for packet in acked {
            let sent = path.sent.iter().find(|s| s.pkt_num == packet.pkt_num);
            let sent = sent.expect("was sent");
            assert_eq!((packet.size, packet.time_sent), (sent.size, sent.time_sent));
            assert_eq!(packet.time_sent, start);
            assert_eq!(packet.rtt, Duration::from_millis(42));
        }
        let earlier: usize = path.acked[..before].iter().map(|p| p.size).sum();
        assert_eq!(acked[0].delivered, earlier);
    });
}

#[test]
fn a_loss_that_was_none_is_reported() {
    in_virtual_time(|| {
        let recorder = Recorder::new(WIDE);
        let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
        write(&mut pair.server, 12_000);
        let mut datagrams = send_all(&mut pair.server);
        let late = datagrams.remove(0);
        pass(Duration::from_millis(10));
        receive(&mut pair.client, datagrams);
        pair.acknowledge();
        let lost: Vec<u64> = lost(&recorder);
        assert_eq!(lost.len(), 1);
        receive(&mut pair.client, vec![late]);
        pair.acknowledge();
        let log = recorder.log();
        let spurious: Vec<u64> = log.paths[0].spurious.iter().map(|p| p.pkt_num).collect();
        assert_eq!(spurious, lost);
    });
}

fn lost(recorder: &Recorder) -> Vec<u64> {
    recorder.log().paths[0]
        .lost
        .iter()
        .map(|p| p.pkt_num)
        .collect()
}

#[test]
fn probe_timeouts_are_counted() {
    in_virtual_time(|| {
        let recorder = Recorder::new(WIDE);
        let mut pair = Pair::connected(&mut config(), &mut recorded(&recorder));
        write(&mut pair.server, 1000);
        for _ in 0..3 {
            send_all(&mut pair.server);
            pass(pair.server.timeout().expect("a timer"));
            pair.server.on_timeout();
        }
        assert_eq!(recorder.log().paths[0].pto, [1, 2, 3]);
        assert!(lost(&recorder).is_empty(), "a probe timeout is no loss");
    });
}

#[test]
fn path_mtu_probes_do_not_reach_the_controller() {
    in_virtual_time(|| {
        let recorder = Recorder::new(WIDE);
        let mut server = recorded(&recorder);
        server.set_max_send_udp_payload_size(1500);
        server.discover_pmtu(true);
        server.set_pmtud_max_probes(1);
        let mut pair = Pair::new(&mut config(), &mut server);
        pair.path_mtu = 1350;

        // With small packets after each probe its loss is found.
        for _ in 0..100 {
            pair.settle();
            pass(Duration::from_millis(20));
            write(&mut pair.server, 10);
        }
        let stats = pair.server.path_stats().next().unwrap();
        assert_eq!(stats.pmtu, 1350);

        let log = recorder.log();
        let mtu = &log.paths[0].mtu;
        assert_eq!(mtu.first(), Some(&1200), "what QUIC guarantees: {mtu:?}");
        assert_eq!(mtu.last(), Some(&1350));
        assert!(mtu.is_sorted(), "{mtu:?}");
        let probes = log.paths[0].sent.iter().filter(|p| p.is_pmtud_probe);
        let probed: Vec<usize> = probes.map(|p| p.size).collect();
        assert_eq!(probed.first(), Some(&1500), "{probed:?}");
        assert!(probed.contains(&1351), "{probed:?}");
    });
}

#[test]
fn a_smaller_datagram_of_the_peer_reaches_the_controller() {
    in_virtual_time(|| {
        let recorder = Recorder::new(0);
        let mut client = config();
        client.set_max_recv_udp_payload_size(1250);
        let mut server = recorded(&recorder);
        server.set_max_send_udp_payload_size(1400);
        let pair = Pair::connected(&mut client, &mut server);
        assert_eq!(recorder.log().paths[0].config.max_datagram_size, 1400);
        assert_eq!(recorder.log().paths[0].mtu, [1250]);
        let cwnd = pair.server.path_stats().next().unwrap().cwnd;
        assert_eq!(cwnd, 2 * 1250, "the bounds of the window follow");
    });
}
