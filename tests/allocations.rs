//! The memory that a controller takes: none is allocated per packet, ACK or loss, and its state is
//! small.

use std::time::{Duration, Instant};

use gallop::catalog::CATALOG;
use gallop::controller::{Ack, Controller, Loss, PacketInfo, PathConfig, RttEstimate, SentPacket};

const MDS: usize = 1200;

/// Forty rounds that pass through every phase: growth, a queue, a loss that is undone, a loss.
fn live(controller: &mut dyn Controller, packets: &mut Vec<PacketInfo>) {
    let mut now = Instant::now();
    let mut number = 0;
    for round in 0..40 {
        let rtt = Duration::from_millis(if round > 10 { 120 } else { 100 });
        packets.clear();
        while packets.len() < packets.capacity()
            && (packets.len() + 1) * MDS <= controller.window_bytes()
        {
            controller.on_packet_sent(&SentPacket {
                packet_number: number,
                time_sent: now,
                size_bytes: MDS,
                bytes_in_flight: packets.len() * MDS,
            });
            controller.next_release_time();
            packets.push(PacketInfo {
                packet_number: number,
                time_sent: now,
                size_bytes: MDS,
            });
            number += 1;
        }
        now += rtt;
        if round % 10 == 8 {
            let loss = Loss {
                now,
                persistent_congestion: None,
            };
            controller.on_packets_lost(&loss, &packets[..2]);
        }
        if round == 18 {
            controller.on_spurious_loss(now, &packets[..2]);
        }
        let ack = Ack {
            now,
            measures_rtt: true,
            ack_delay: None,
            rtt: RttEstimate {
                smoothed: rtt,
                variation: Duration::ZERO,
                max_ack_delay: Duration::ZERO,
            },
            bytes_in_flight: packets.len() * MDS,
        };
        controller.on_packets_acked(&ack, &packets[2.min(packets.len() - 1)..]);
        controller.figures(&mut |figure| {
            std::hint::black_box(figure);
        });
    }
}

const PATH: PathConfig = PathConfig {
    max_datagram_size_bytes: MDS,
    initial_window_packets: 10,
    pacing: true,
};

#[test]
fn nothing_is_allocated() {
    let mut packets = Vec::with_capacity(5000);
    for entry in CATALOG {
        let mut controller = entry.algorithm("").expect("defaults").build(&PATH);
        let counted = allocation_counter::measure(|| live(&mut *controller, &mut packets));
        assert_eq!(counted.count_total, 0, "{}", entry.name);
    }
    // The counter counts.
    let one = allocation_counter::measure(|| drop(std::hint::black_box(vec![1])));
    assert_eq!(one.count_total, 1);
}

#[test]
fn the_state_of_a_connection_is_small() {
    for entry in CATALOG {
        let algorithm = entry.algorithm("").expect("defaults");
        let counted = allocation_counter::measure(|| drop(algorithm.build(&PATH)));
        assert_eq!(counted.count_total, 1, "{}", entry.name);
        let most = match entry.name {
            "vegas" | "gallop-vegas" => 512,
            "canter" => 2048,
            _ => 1200,
        };
        assert!(counted.bytes_total < most, "{}: {counted:?}", entry.name);
    }
}
