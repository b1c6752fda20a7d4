//! Senders and receivers over a path that loses what a test says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gallop_network::time::Time;
use proptest::prelude::*;

use super::clock::Clock;
use super::flavour::{Flavour, NAMES};
use super::receiver::Receiver;
use super::sender::{Counters, Sender};

const SEGMENT: u64 = 1000;
const ONE_WAY: Duration = Duration::from_millis(50);
const SERVICE: Duration = Duration::from_millis(5);

/// The window, in segments, that the socket buffer allows.
const WINDOW: u64 = 12;

/// The losses of a test: a segment's number, and the number of its transmission.
type Losses = BTreeSet<(u64, u32)>;

enum Arrival {
    Data(u64, u64),
    Ack(u64, Vec<(u64, u64)>),
}

/// A transfer that has come to its end.
struct Outcome {
    counters: Counters,
    took: Duration,
    /// The time at which each transmission left, by segment.
    left: BTreeMap<u64, Vec<Time>>,
    backoff: u32,
    window_packets: f64,
}

/// Sends `segments` over the path, of which the transmissions in `losses` are lost, and every
/// acknowledgement whose number is in `lost_acks`. `None` if it takes longer than an hour.
fn transfer(
    name: &str,
    segments: u64,
    losses: &Losses,
    lost_acks: &BTreeSet<u32>,
) -> Option<Outcome> {
    let flavour = Flavour::parse(name).unwrap();
    let clock = Clock::new(flavour.tick, 0.3);
    let mut sender = Sender::new(flavour, clock, SEGMENT, Some(WINDOW * SEGMENT));
    let ack_clock = flavour.ack_tick.map(|tick| Clock::new(tick, 0.6));
    let mut receiver = Receiver::new(ack_clock);
    let mut under_way: BTreeMap<(Time, u64), Arrival> = BTreeMap::new();
    let (mut serial, mut acks) = (0, 0);
    let mut busy_until = Time::ZERO;
    let mut now = Time::ZERO;
    let mut unwritten = segments * SEGMENT;
    let mut left: BTreeMap<u64, Vec<Time>> = BTreeMap::new();
    sender.opened(0, now);
    loop {
        unwritten -= sender.write(unwritten);
        while let Some((first, bytes)) = sender.poll(now) {
            let times = left.entry(first / SEGMENT).or_default();
            times.push(now);
            busy_until = busy_until.max(now) + SERVICE;
            if !losses.contains(&(first / SEGMENT, times.len() as u32)) {
                serial += 1;
                under_way.insert((busy_until + ONE_WAY, serial), Arrival::Data(first, bytes));
            }
        }
        if receiver.next() == segments * SEGMENT {
            return Some(Outcome {
                counters: sender.counters,
                took: now.into(),
                left,
                backoff: sender.backoff(),
                window_packets: sender.window_bytes() / SEGMENT as f64,
            });
        }
        let arrival = under_way.first_key_value().map(|((at, _), _)| *at);
        let deadlines = [arrival, sender.deadline(), receiver.deadline()];
        now = now.max(deadlines.into_iter().flatten().min()?);
        if Duration::from(now) > Duration::from_secs(3600) {
            return None;
        }
        let mut acknowledges = false;
        if arrival.is_some_and(|at| at <= now) {
            match under_way.pop_first()?.1 {
                Arrival::Data(first, bytes) => acknowledges = receiver.receive(first, bytes, now),
                Arrival::Ack(ack, ranges) => sender.acknowledge(ack, &ranges, false, now),
            }
        }
        acknowledges |= receiver.deadline().is_some_and(|at| at <= now);
        if acknowledges {
            receiver.sent();
            acks += 1;
            if !lost_acks.contains(&acks) {
                serial += 1;
                let ack = Arrival::Ack(receiver.next(), receiver.ranges());
                under_way.insert((now + ONE_WAY, serial), ack);
            }
        }
        sender.wake(now);
    }
}

const ALL: u64 = 150;

/// The segment at which losses begin: the window is full by then.
const FIRST: u64 = 100;

fn with_losses(name: &str, losses: &[(u64, u32)]) -> Outcome {
    let losses = losses.iter().copied().collect();
    transfer(name, ALL, &losses, &BTreeSet::new()).unwrap()
}

/// The time from one transmission of a segment to the next.
fn wait(outcome: &Outcome, segment: u64, transmission: usize) -> Duration {
    let left = &outcome.left[&segment];
    left[transmission] - left[transmission - 1]
}

const ROUND_TRIP: Duration = Duration::from_millis(105);

#[test]
fn nothing_is_sent_again_without_a_loss() {
    for (name, _) in NAMES {
        let outcome = with_losses(name, &[]);
        assert_eq!(outcome.counters, Counters::default(), "{name}");
    }
}

/// Brakmo et al. 1994 §3.2; RFC 2001 §3.
#[test]
fn every_flavour_repairs_one_loss_without_its_timer() {
    for (name, _) in NAMES {
        let outcome = with_losses(name, &[(FIRST, 1)]);
        assert_eq!(outcome.counters.timeouts, 0, "{name}");
        assert_eq!(outcome.counters.resent_segments, 1, "{name}");
        assert!(wait(&outcome, FIRST, 1) < 2 * ROUND_TRIP, "{name}");
    }
}

/// After the first repair too few segments are under way for three duplicates of the second loss
/// (Brakmo et al. 1994 §3.1).
#[test]
fn reno_waits_for_its_timer_after_three_losses_in_a_window() {
    let losses = [(FIRST, 1), (FIRST + 2, 1), (FIRST + 4, 1)];
    for name in ["tcp-reno-1990", "tcp-reno-ns2"] {
        let outcome = with_losses(name, &losses);
        assert!(outcome.counters.timeouts >= 1, "{name}");
        assert!(outcome.counters.resent_segments >= 3, "{name}");
    }
    // Vegas keeps that timer for what its looks at acknowledgements do not find.
    let [reno, vegas] = ["tcp-reno-1990", "tcp-vegas-1994"].map(|name| with_losses(name, &losses));
    assert!(vegas.counters.timeouts <= reno.counters.timeouts);
    for name in ["tcp-newreno-ns2", "tcp-sack-ns2", "tcp-sack-delack-ns2"] {
        let outcome = with_losses(name, &losses);
        assert_eq!(outcome.counters.timeouts, 0, "{name}");
        assert_eq!(outcome.counters.resent_segments, 3, "{name}");
    }
}

#[test]
fn two_losses_in_a_window_cost_reno_more_than_vegas() {
    let losses = [(FIRST, 1), (FIRST + 1, 1)];
    let reno = with_losses("tcp-reno-1990", &losses);
    let vegas = with_losses("tcp-vegas-1994", &losses);
    // The second of them is found by the acknowledgement of the first repair.
    assert_eq!(
        (vegas.counters.timeouts, vegas.counters.resent_segments),
        (0, 2)
    );
    let found = vegas.left[&(FIRST + 1)][1] - vegas.left[&FIRST][1];
    assert!(found < ROUND_TRIP + 5 * SERVICE, "{found:?}");
    // Reno halves its window twice, or waits for its timer.
    assert!(reno.took > vegas.took);
    assert!(reno.window_packets < vegas.window_packets);
}

/// NewReno repairs one loss in a round trip (RFC 2582 §3), ranges show all at once (RFC 2018).
#[test]
fn ranges_repair_in_one_round_trip_what_newreno_repairs_one_by_one() {
    let losses = [(FIRST, 1), (FIRST + 2, 1), (FIRST + 4, 1)];
    let between = |outcome: &Outcome| outcome.left[&(FIRST + 4)][1] - outcome.left[&FIRST][1];
    let newreno = between(&with_losses("tcp-newreno-ns2", &losses));
    let sack = between(&with_losses("tcp-sack-ns2", &losses));
    assert!(newreno > 2 * (ROUND_TRIP - SERVICE), "{newreno:?}");
    assert!(sack < ROUND_TRIP, "{sack:?}");
}

/// Duplicates say nothing about a repair that is lost, except to a fine clock.
#[test]
fn a_lost_retransmission_waits_for_the_timer_and_its_backoff_for_a_sample() {
    for name in ["tcp-reno-1990", "tcp-newreno-ns2", "tcp-sack-ns2"] {
        let outcome = with_losses(name, &[(FIRST, 1), (FIRST, 2)]);
        assert_eq!(outcome.counters.timeouts, 1, "{name}");
        // Karn: the transfer goes on, and a segment that was sent once ends the backoff.
        assert_eq!(outcome.backoff, 0, "{name}");
    }
    let reno = with_losses("tcp-reno-1990", &[(FIRST, 1), (FIRST, 2), (FIRST, 3)]);
    assert_eq!(reno.counters.timeouts, 2);
    let (first, second) = (wait(&reno, FIRST, 2), wait(&reno, FIRST, 3));
    assert!((500..=1000).contains(&first.as_millis()), "{first:?}");
    assert_eq!(second, Duration::from_secs(2), "two ticks, doubled");
}

#[test]
fn a_timeout_goes_back_and_starts_slowly() {
    // All but the last of a window is lost, so that there is one duplicate.
    let losses: Vec<(u64, u32)> = (FIRST..FIRST + WINDOW - 1).map(|lost| (lost, 1)).collect();
    let outcome = with_losses("tcp-reno-1990", &losses);
    assert_eq!(outcome.counters.timeouts, 1);
    // The one that came is sent again, too.
    assert_eq!(outcome.counters.resent_segments, WINDOW);
    let again = |segment: u64| outcome.left[&segment][1];
    assert!(
        again(FIRST + 1) - again(FIRST) >= ROUND_TRIP - SERVICE,
        "one segment at first"
    );
    assert!(
        again(FIRST + 2) - again(FIRST + 1) < SERVICE,
        "then two at once"
    );
}

#[test]
fn vegas_decreases_once_for_the_losses_of_one_window() {
    let one = with_losses("tcp-vegas-1994", &[(FIRST, 1)]);
    let three = with_losses(
        "tcp-vegas-1994",
        &[(FIRST, 1), (FIRST + 2, 1), (FIRST + 4, 1)],
    );
    assert!((one.window_packets - three.window_packets).abs() <= 2.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// All bytes come, whatever is lost; every loss is sent again, and the same losses give the same
    /// transfer.
    #[test]
    fn all_bytes_come_whatever_is_lost(
        flavour in 0..NAMES.len(),
        losses in proptest::collection::btree_set((0..ALL, 1_u32..4), 0..30),
        lost_acks in proptest::collection::btree_set(1_u32..200, 0..20),
    ) {
        let name = NAMES[flavour].0;
        let outcome = transfer(name, ALL, &losses, &lost_acks).expect("it ends");
        let times: u64 = outcome.left.values().map(|left| left.len() as u64).sum();
        let lost = losses.iter().filter(|&&(segment, transmission)| {
            outcome.left[&segment].len() >= transmission as usize
        });
        prop_assert_eq!(outcome.left.len() as u64, ALL);
        prop_assert!(times >= ALL + lost.count() as u64);
        prop_assert_eq!(outcome.counters.resent_segments, times - ALL);
        let second = transfer(name, ALL, &losses, &lost_acks).expect("it ends");
        prop_assert_eq!((second.counters, second.took), (outcome.counters, outcome.took));
    }
}
