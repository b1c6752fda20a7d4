//! Properties of all impairments that hold packets and keep them in order.

use std::time::Duration;

use gallop_network::Side;
use gallop_network::conveyor::Conveyor;
use gallop_network::impairment::{Bursts, Fate, Impairment, Jittering, Slots, Times};
use gallop_network::link::Link;
use gallop_network::packet::Packet;
use gallop_network::random::stream;
use gallop_network::stalls::Stalls;
use gallop_network::time::Time;
use gallop_network::units::Rate;
use proptest::prelude::*;

fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

/// One of each kind, whose times are of the length `scale`.
fn all_kinds(scale: Duration, probability: f64, seed: u64) -> Vec<Box<dyn Impairment>> {
    let random = |part| stream(seed, part);
    vec![
        Box::new(Jittering::new(Times::Uniform(scale), true, random(0))),
        Box::new(Jittering::new(Times::Exponential(scale), true, random(1))),
        Box::new(Bursts::new(Stalls::new(3 * scale, scale, random(2)))),
        Box::new(
            Slots::new(scale)
                .with_retransmission(probability, scale * 8 / 5, random(3))
                .expect("a probability"),
        ),
    ]
}

fn packet(sequence: u64) -> Packet {
    Packet::whole(0, Side::Client, sequence, vec![0; 100])
}

/// Times of packets, whole microseconds, so that they often meet each other and slots.
fn arrivals() -> impl Strategy<Value = Vec<Duration>> {
    let gap = prop_oneof![Just(0), 1..20_u64, 20..2000_u64];
    prop::collection::vec(gap, 1..300).prop_map(|gaps| {
        let mut now = 0;
        let sum = |gap| {
            now += gap;
            us(now)
        };
        gaps.into_iter().map(sum).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Every packet goes on once, after those before it, no later than its longest time explains;
    /// the same seed holds for the same times.
    #[test]
    fn order_is_kept_and_nothing_is_lost(
        arrivals in arrivals(),
        scale in 1..3000_u64,
        probability in 0.0..=1.0,
        seed: u64,
    ) {
        let scale = us(scale);
        let again = all_kinds(scale, probability, seed);
        for (mut impairment, mut again) in all_kinds(scale, probability, seed).into_iter().zip(again) {
            let mut last = (Time::ZERO, Duration::ZERO);
            for (sequence, &at) in (0..).zip(&arrivals) {
                let now = Time::from(at);
                let fate = impairment.decide(&mut packet(sequence), now);
                prop_assert_eq!(fate, again.decide(&mut packet(sequence), now));
                let Fate::Hold(held) = fate else { panic!("{fate:?}") };
                prop_assert!(held <= 10 * scale + Duration::from_nanos(1), "{:?}", held);
                let release = now + held;
                prop_assert!(last.0 <= release);
                // A packet that is not held goes on at once, perhaps before those held until now.
                prop_assert!(!held.is_zero() || last.1.is_zero() || last.0 < release);
                last = (release, held);
            }
        }
    }

    /// The same on a link: each packet arrives, in order.
    #[test]
    fn links_deliver_in_order(arrivals in arrivals(), scale in 1..3000_u64, seed: u64) {
        for impairment in all_kinds(us(scale), 0.3, seed) {
            let link = Link::line(Rate::GIGABIT, us(500)).with_impairment(impairment);
            let mut conveyor = Conveyor::new(link);
            for (sequence, &at) in (0..).zip(&arrivals) {
                conveyor.offer(packet(sequence), at.into());
            }
            let end = Time::from(Duration::from_secs(3600));
            let delivered = std::iter::from_fn(|| conveyor.arrival(end));
            let delivered: Vec<u64> = delivered.map(|(_, packet)| packet.sequence()).collect();
            prop_assert!(delivered.into_iter().eq(0..arrivals.len() as u64));
        }
    }
}
