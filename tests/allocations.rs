//! What the state of a controller takes: no memory allocated per packet, ACK or loss, and little.

use std::time::{Duration, Instant};

use gallop::controller::{Ack, Controller, PacketInfo, RttEstimate, SentPacket};
use gallop::gallop::StableGrowth;
use gallop::vegas::{Doubling, PathConfig, SlowStart, Vegas};

const MDS: usize = 1200;

/// Forty rounds that pass through every phase: growth, a queue, a loss that is undone, a loss.
fn life<S: SlowStart>() {
    let path = PathConfig {
        max_datagram_size_bytes: MDS,
        initial_window_packets: 10,
        pacing: true,
    };
    let mut vegas = Vegas::<S>::new(S::DEFAULT_OPTIONS, &path);
    let mut now = Instant::now();
    let mut number = 0;
    for round in 0..40 {
        let rtt = Duration::from_millis(if round > 10 { 120 } else { 100 });
        let first = number;
        let time_sent = now;
        while (number - first + 1) as usize * MDS <= vegas.window_bytes() {
            vegas.on_packet_sent(&SentPacket {
                packet_number: number,
                time_sent,
                size_bytes: MDS,
                bytes_in_flight: (number - first) as usize * MDS,
            });
            vegas.next_release_time();
            number += 1;
        }
        now += rtt;
        let packets = (first..number).map(|packet_number| PacketInfo {
            packet_number,
            time_sent,
            size_bytes: MDS,
        });
        if round % 10 == 8 {
            vegas.on_packets_lost(packets.clone().take(2));
        }
        if round == 18 {
            vegas.on_spurious_loss(packets.clone().take(2));
        }
        let rtt = RttEstimate {
            smoothed: rtt,
            variation: Duration::ZERO,
            max_ack_delay: Duration::ZERO,
        };
        let ack = Ack {
            now,
            measures_rtt: true,
            ack_delay: Duration::ZERO,
            rtt,
        };
        vegas.on_packets_acked(&ack, packets.skip(2));
        vegas.state();
    }
}

#[test]
fn nothing_is_allocated() {
    let counted = allocation_counter::measure(|| {
        life::<Doubling>();
        life::<StableGrowth>();
    });
    assert_eq!(counted.count_total, 0);
    // The counter counts.
    let one = allocation_counter::measure(|| drop(std::hint::black_box(vec![1])));
    assert_eq!(one.count_total, 1);
}

#[test]
fn the_state_of_a_connection_is_under_512_bytes() {
    assert!(size_of::<Vegas<Doubling>>() < 512);
    assert!(size_of::<Vegas<StableGrowth>>() < 512);
}
