//! Properties that all queue disciplines have in common, and the shares of FQ-CoDel.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::time::Duration;

use gallop_network::packet::{Packet, Side};
use gallop_network::queue::{
    Codel, CodelParameters, DropTail, FqCodel, FqCodelParameters, Policer, Queue, Red,
    RedParameters,
};
use gallop_network::random;
use gallop_network::time::Time;
use gallop_network::units::{Buffer, WIRE_OVERHEAD_BYTES};
use proptest::prelude::*;

const QUANTUM: u32 = 1500;

fn packet(flow: usize, sequence: u64, wire_bytes: usize) -> Packet {
    let payload = vec![0; wire_bytes - WIRE_OVERHEAD_BYTES];
    Packet::new(flow, Side::Client, sequence, payload)
}

fn at(microseconds: u64) -> Time {
    Duration::from_micros(microseconds).into()
}

fn codel(limit: Buffer) -> CodelParameters {
    CodelParameters {
        limit,
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
        ecn: true,
    }
}

fn fq_codel(limit: Buffer) -> FqCodelParameters {
    FqCodelParameters {
        limit,
        flows: NonZeroUsize::new(1024).expect("not zero"),
        quantum: NonZeroU32::new(QUANTUM).expect("not zero"),
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
        ecn: true,
    }
}

/// One queue of each kind, with room for at most `limit`.
fn all_kinds(limit: Buffer) -> Vec<Box<dyn Queue>> {
    let part = |divisor: u64| match limit {
        Buffer::Packets(all) => Buffer::Packets(nonzero(all.get() / divisor)),
        Buffer::Bytes(all) => Buffer::Bytes(nonzero(all.get() / divisor)),
    };
    let red = RedParameters {
        limit,
        min: part(4),
        max: part(2),
        weight: 0.2,
        max_probability: 0.5,
        gentle: true,
        wait: false,
        ecn: true,
        mean_packet_bytes: nonzero(500),
    };
    let rate = "8mbit".parse().expect("a rate");
    vec![
        Box::new(DropTail::new(limit)),
        Box::new(Red::new(red, rate, random::stream(1, 0)).expect("good parameters")),
        Box::new(Codel::new(codel(limit))),
        Box::new(FqCodel::new(fq_codel(limit), 1)),
        Box::new(Policer::new(rate, 3000, limit)),
    ]
}

fn nonzero(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).expect("not zero")
}

#[derive(Clone, Debug)]
enum Step {
    Arrive {
        flow: usize,
        wire_bytes: usize,
        ecn: bool,
    },
    Leave,
    Wait {
        microseconds: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..4_usize, 100..1500_usize, any::<bool>())
            .prop_map(|(flow, wire_bytes, ecn)| Step::Arrive { flow, wire_bytes, ecn }),
        3 => Just(Step::Leave),
        1 => (0..60_000_u64).prop_map(|microseconds| Step::Wait { microseconds }),
    ];
    prop::collection::vec(step, 1..600)
}

fn limits() -> impl Strategy<Value = Buffer> {
    prop_oneof![
        (4..60_u64).prop_map(|packets| Buffer::Packets(nonzero(packets))),
        (1500..40_000_u64).prop_map(|bytes| Buffer::Bytes(nonzero(bytes))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Each packet that came in waits, has gone out or has been dropped, once; the limit holds;
    /// packets of one flow stay in order.
    #[test]
    fn nothing_appears_or_disappears(limit in limits(), steps in steps()) {
        for mut queue in all_kinds(limit) {
            let mut now = 0;
            let (mut came, mut went) = (0_u64, 0_u64);
            let mut waiting_bytes = 0;
            let mut dropped = Vec::new();
            let mut lost = 0_u64;
            let mut last_of_flow = [None; 4];
            for step in &steps {
                match *step {
                    Step::Wait { microseconds } => now += microseconds,
                    Step::Arrive { flow, wire_bytes, ecn } => {
                        let mut packet = packet(flow, came, wire_bytes);
                        if ecn {
                            packet.allow_marks();
                        }
                        came += 1;
                        waiting_bytes += packet.wire_bytes();
                        queue.enqueue(packet, at(now), false, &mut dropped);
                    }
                    Step::Leave => {
                        if let Some(packet) = queue.dequeue(at(now), &mut dropped) {
                            went += 1;
                            waiting_bytes -= packet.wire_bytes();
                            let last = &mut last_of_flow[packet.flow()];
                            prop_assert!(*last < Some(packet.sequence()));
                            *last = Some(packet.sequence());
                        }
                    }
                }
                for packet in dropped.drain(..) {
                    lost += 1;
                    waiting_bytes -= packet.wire_bytes();
                }
                prop_assert_eq!(came, went + lost + queue.packets() as u64);
                prop_assert_eq!(waiting_bytes, queue.bytes());
                prop_assert!(queue.marks() <= came);
                match limit {
                    Buffer::Packets(limit) => prop_assert!(queue.packets() as u64 <= limit.get()),
                    Buffer::Bytes(limit) => prop_assert!(queue.bytes() <= limit.get()),
                }
            }
            while queue.dequeue(at(now), &mut dropped).is_some() {
                went += 1;
            }
            lost += dropped.len() as u64;
            prop_assert_eq!((came, 0, 0), (went + lost, queue.packets(), queue.bytes()));
        }
    }

    /// A flow with packets of any size gets its share in bytes; a flow that has had nothing to send
    /// waits for no more than a turn of those that are new like itself.
    #[test]
    fn fq_codel_shares_bytes_and_lets_sparse_flows_pass(
        sizes in prop::collection::vec(100..1500_usize, 2..6),
        sparse_bytes in 100..1500_usize,
        turns in 50..300_usize,
    ) {
        let limit = Buffer::Packets(nonzero(1_000_000));
        let mut queue = FqCodel::new(fq_codel(limit), 7);
        let mut dropped = Vec::new();
        for (flow, &size) in sizes.iter().enumerate() {
            for sequence in 0..5000 {
                queue.enqueue(packet(flow, sequence, size), at(0), false, &mut dropped);
            }
        }
        let mut sent = vec![0_u64; sizes.len()];
        for turn in 0..turns {
            let packet = queue.dequeue(at(turn as u64), &mut dropped).expect("plenty");
            sent[packet.flow()] += packet.wire_bytes();
        }
        // All that has become active with it may still be new: one turn each.
        let (most, least) = (sent.iter().max(), sent.iter().min());
        prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 2 * u64::from(QUANTUM)));

        let sparse = sizes.len();
        queue.enqueue(packet(sparse, 0, sparse_bytes), at(1000), false, &mut dropped);
        let mut ahead = 0;
        loop {
            let packet = queue.dequeue(at(1000), &mut dropped).expect("plenty");
            if packet.flow() == sparse {
                break;
            }
            ahead += packet.wire_bytes();
        }
        prop_assert!(ahead <= 2 * u64::from(QUANTUM), "{ahead}");
        prop_assert!(dropped.is_empty());
    }
}

#[test]
fn fq_codel_drops_from_the_longest_queue() {
    let limit = Buffer::Packets(nonzero(100));
    let mut queue = FqCodel::new(fq_codel(limit), 1);
    let mut dropped = Vec::new();
    for sequence in 0..90 {
        queue.enqueue(packet(0, sequence, 1000), at(0), false, &mut dropped);
    }
    for sequence in 0..11 {
        queue.enqueue(packet(1, sequence, 1000), at(0), false, &mut dropped);
    }
    // Half of the 90, from the head.
    let lost: Vec<_> = dropped
        .iter()
        .map(|packet| (packet.flow(), packet.sequence()))
        .collect();
    assert_eq!(
        lost,
        (0..45).map(|sequence| (0, sequence)).collect::<Vec<_>>()
    );
    assert_eq!(queue.packets(), 56);
}
