//! Flows over a dumbbell: timing, acknowledgements, transfers, and ends.

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gallop_sim::impairment::{Outage, RandomLoss, Reordering};
use gallop_sim::traffic::{Bulk, Offer, OnOff, Source};
use gallop_sim::{
    AckPolicy, Action, Controller, Conversation, Dumbbell, Flow, Side, Simulation, SimulationError,
    clock, isolated, random,
};
use quiche::{
    AckEvent, CongestionController, CongestionControllerFactory, ControllerConfig, LossEvent,
    SentPacket,
};

const SEED: u64 = 7;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// 10 Mbit/s, 40 ms, 50 packets (a little more than the path holds), no jitter.
fn dumbbell() -> Dumbbell {
    let rate = "10mbit".parse().expect("a rate");
    let mut dumbbell = Dumbbell::new(rate, ms(40), "50p".parse().expect("a buffer"));
    dumbbell.host_jitter = Duration::ZERO;
    dumbbell
}

fn reno() -> Flow {
    Flow::new(Controller::named("reno"))
}

fn simulate<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    isolated(SEED, work).expect("clock and entropy are linked")
}

/// Actions of a flow with their times.
type Log = Rc<RefCell<Vec<(Side, Action, Duration)>>>;

fn logged(flow: Flow) -> (Flow, Log) {
    let log = Log::default();
    let writer = Rc::clone(&log);
    let observer = move |seen: gallop_sim::Observation<'_>| {
        let entry = (seen.side, seen.action, Duration::from(seen.time));
        writer.borrow_mut().push(entry);
    };
    let flow = Flow {
        observer: Some(Box::new(observer)),
        ..flow
    };
    (flow, log)
}

fn times(log: &Log, side: Side, action: Action) -> Vec<Duration> {
    let log = log.borrow();
    let wanted = log
        .iter()
        .filter(|entry| (entry.0, entry.1) == (side, action));
    wanted.map(|entry| entry.2).collect()
}

#[test]
fn a_packet_takes_serialisation_and_propagation() {
    simulate(|| {
        let mut simulation = Simulation::new(dumbbell().build(1, SEED).topology).expect("isolated");
        let (flow, log) = logged(reno());
        simulation.add_flow(flow).expect("there is a route");
        simulation.run_until(ms(30)).expect("it makes progress");
        // Two Initials, padded to 1200 bytes (RFC 9000 §14.1), 1228 on the wire: half the round
        // trip, twice 9.824 µs at 1 Gbit/s, and 982.4 µs at 10 Mbit/s, where the second waits for
        // the first.
        assert_eq!(times(&log, Side::Client, Action::Sent), [Duration::ZERO; 2]);
        let arrival = |nth: u64| ms(20) + Duration::from_nanos(2 * 9_824 + nth * 982_400);
        let arrivals = times(&log, Side::Server, Action::Received);
        assert_eq!(arrivals, [arrival(1), arrival(2)]);
    });
}

#[test]
fn a_bulk_flow_fills_the_link() {
    simulate(|| {
        let path = dumbbell().build(1, SEED);
        let mut simulation = Simulation::new(path.topology).expect("isolated");
        simulation.add_flow(reno()).expect("there is a route");
        let forwarded = |simulation: &Simulation| {
            let link = simulation.link(path.bottleneck).expect("the bottleneck");
            link.meter().forwarded_bytes()
        };
        simulation.run_until(ms(10_000)).expect("it makes progress");
        let before = forwarded(&simulation);
        simulation.run_until(ms(40_000)).expect("it makes progress");
        let bits = (forwarded(&simulation) - before) as f64 * 8.0;
        let utilisation = bits / (10e6 * 30.0);
        assert!((0.97..=1.001).contains(&utilisation), "{utilisation}");
        let link = simulation.link(path.bottleneck).expect("the bottleneck");
        let meter = link.meter();
        assert_eq!(meter.max_packets(), 51);
        let report = simulation.report(0).expect("flow 0");
        assert_eq!(report.packets_lost, meter.drops());
        assert!(report.received_bytes > 40_000_000);
    });
}

/// QUIC packets that server and client sent in a transfer of 1 MB.
fn packets_of_a_transfer(acks: AckPolicy, mut dumbbell: Dumbbell) -> (usize, usize) {
    dumbbell.buffer = "1000p".parse().expect("a buffer");
    let mut simulation = Simulation::new(dumbbell.build(1, SEED).topology).expect("isolated");
    let flow = Flow {
        acks,
        conversation: Conversation::answer(Box::new(Bulk::Bytes(1_000_000))),
        ..reno()
    };
    simulation.add_flow(flow).expect("there is a route");
    simulation.run_to_completion(ms(60_000)).expect("it ends");
    let sent = |side| {
        let connection = simulation.connection(0, side).expect("started");
        connection.stats().sent
    };
    (sent(Side::Server), sent(Side::Client))
}

fn ack_every(every: u32, max_delay: Duration) -> AckPolicy {
    AckPolicy {
        every: NonZeroU32::new(every).expect("not zero"),
        max_delay,
    }
}

#[test]
fn one_acknowledgement_for_so_many_packets() {
    simulate(|| {
        let sent = |every| packets_of_a_transfer(ack_every(every, ms(1000)), dumbbell());
        // Besides the handshake, the server sends some packets that need no acknowledgement: its
        // own acknowledgements.
        for every in [1, 2, 10] {
            let (data, acks) = sent(every);
            let expected = data / every as usize;
            assert!(acks.abs_diff(expected) <= data / 40, "{acks} for {data}");
        }
    });
}

#[test]
fn packets_out_of_order_are_acknowledged_at_once() {
    simulate(|| {
        let rare = ack_every(100, ms(1000));
        let (_, in_order) = packets_of_a_transfer(rare, dumbbell());
        let mut reordering = dumbbell();
        let held = Reordering::new(0.1, ms(5), random::stream(SEED, 1)).expect("a probability");
        reordering.impairments.push(Box::new(held));
        let (_, reordered) = packets_of_a_transfer(rare, reordering);
        // A tenth of 760 packets are held: one gap and one late packet each.
        assert!(in_order < 30, "{in_order}");
        assert!((100..=190).contains(&reordered), "{reordered}");
        let mut jittery = dumbbell();
        jittery.host_jitter = Duration::from_micros(120);
        let (_, jittered) = packets_of_a_transfer(rare, jittery);
        assert!(jittered < 30, "{jittered}");
    });
}

#[test]
fn a_lone_packet_is_acknowledged_after_the_delay() {
    simulate(|| {
        for (every, delay) in [(1, ms(0)), (2, ms(80))] {
            let mut simulation =
                Simulation::new(dumbbell().build(1, SEED).topology).expect("isolated");
            let (flow, log) = logged(Flow {
                acks: ack_every(every, ms(80)),
                conversation: Conversation::answer(Box::new(OnOff {
                    bytes: 100,
                    interval: ms(500),
                    total: None,
                })),
                ..reno()
            });
            simulation.add_flow(flow).expect("there is a route");
            simulation.run_until(ms(5_000)).expect("it makes progress");
            let late = |times: Vec<Duration>| -> Vec<Duration> {
                times.into_iter().filter(|&time| time > ms(3_000)).collect()
            };
            let arrivals = late(times(&log, Side::Client, Action::Received));
            let acks = late(times(&log, Side::Client, Action::Sent));
            assert_eq!(arrivals.len(), 4);
            let expected: Vec<Duration> = arrivals.iter().map(|&time| time + delay).collect();
            assert_eq!(acks, expected, "every {every}");
        }
    });
}

#[test]
fn transfers_are_whole_in_spite_of_everything() {
    simulate(|| {
        for controller in ["reno", "cubic", "bbr2"] {
            let mut dumbbell = dumbbell();
            let outage = Outage::new(ms(500), ms(900));
            let loss = RandomLoss::new(0.02, random::stream(SEED, 1)).expect("a probability");
            let held =
                Reordering::new(0.02, ms(7), random::stream(SEED, 2)).expect("a probability");
            dumbbell.impairments = vec![Box::new(outage), Box::new(loss.clone()), Box::new(held)];
            dumbbell.reverse_impairments = vec![Box::new(loss)];
            let path = dumbbell.build(2, SEED);
            let mut simulation = Simulation::new(path.topology).expect("isolated");
            let flow = |source: Box<dyn Source>| Flow {
                conversation: Conversation::answer(source),
                ..Flow::new(Controller::named(controller))
            };
            let bulk = flow(Box::new(Bulk::Bytes(2_000_001)));
            let on_off = flow(Box::new(OnOff {
                bytes: 30_000,
                interval: ms(100),
                total: Some(1_000_000),
            }));
            simulation.add_flow(bulk).expect("there is a route");
            simulation.add_flow(on_off).expect("there is a route");
            simulation.run_to_completion(ms(120_000)).expect(controller);
            let report = |flow| simulation.report(flow).expect("it is there");
            assert_eq!(report(0).received_bytes, 2_000_001);
            assert_eq!(report(1).received_bytes, 1_000_000);
            assert!(report(0).finished.is_some());
            assert!(report(0).packets_lost > 10 && report(0).retransmitted_bytes > 10_000);
            let link = simulation.link(path.bottleneck).expect("the bottleneck");
            assert!(link.meter().impaired() > 20);
        }
    });
}

#[test]
fn an_application_limited_flow_sends_what_there_is() {
    simulate(|| {
        let mut simulation = Simulation::new(dumbbell().build(1, SEED).topology).expect("isolated");
        let flow = Flow {
            conversation: Conversation::answer(Box::new(OnOff {
                bytes: 10_000,
                interval: ms(100),
                total: None,
            })),
            ..reno()
        };
        simulation.add_flow(flow).expect("there is a route");
        simulation.run_until(ms(10_000)).expect("it makes progress");
        // It is 800 kbit/s, from the request's arrival on.
        let received = simulation.report(0).expect("flow 0").received_bytes;
        assert!((980_000..=1_000_000).contains(&received), "{received}");
    });
}

#[test]
fn a_flow_starts_when_it_should() {
    simulate(|| {
        let mut simulation = Simulation::new(dumbbell().build(1, SEED).topology).expect("isolated");
        let (flow, log) = logged(Flow {
            start: ms(300),
            ..reno()
        });
        simulation.add_flow(flow).expect("there is a route");
        simulation.run_until(ms(299)).expect("it makes progress");
        assert!(log.borrow().is_empty());
        simulation.run_until(ms(300)).expect("it makes progress");
        let first = log.borrow().first().copied();
        assert_eq!(first, Some((Side::Client, Action::Sent, ms(300))));
    });
}

/// Sends a packet every 10 ms, with a window that never limits.
#[derive(Debug)]
struct Metronome {
    packet_bytes: usize,
    next: Option<Instant>,
}

const BEAT: Duration = Duration::from_millis(10);

impl CongestionController for Metronome {
    fn congestion_window(&self) -> usize {
        100 * self.packet_bytes
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.next = Some(packet.time_sent + BEAT);
    }

    fn on_packets_acked(&mut self, _: &AckEvent<'_>) {}

    fn on_packets_lost(&mut self, _: &LossEvent<'_>) {}

    fn next_release_time(&self) -> Option<Instant> {
        self.next
    }
}

#[derive(Debug)]
struct Metronomes;

impl CongestionControllerFactory for Metronomes {
    fn build(&self, config: &ControllerConfig) -> Box<dyn CongestionController> {
        Box::new(Metronome {
            packet_bytes: config.max_datagram_size,
            next: None,
        })
    }
}

#[test]
fn packets_wait_for_their_release_time() {
    simulate(|| {
        let mut simulation = Simulation::new(dumbbell().build(1, SEED).topology).expect("isolated");
        let controller = Controller::Factory(Arc::new(Metronomes));
        let (flow, log) = logged(Flow::new(controller));
        simulation.add_flow(flow).expect("there is a route");
        simulation.run_until(ms(2_000)).expect("it makes progress");
        let sent = times(&log, Side::Server, Action::Sent);
        let late: Vec<Duration> = sent.into_iter().filter(|&time| time > ms(500)).collect();
        assert!(late.len() >= 149, "{}", late.len());
        assert!(late.windows(2).all(|pair| pair[1] - pair[0] == BEAT));
    });
}

/// A source that does not do as it says.
#[derive(Debug)]
struct Liar {
    offer: Offer,
    length: Option<u64>,
}

impl Source for Liar {
    fn offer(&mut self, since_request: Duration, written: u64) -> Offer {
        Offer {
            bytes: self.offer.bytes.saturating_sub(written),
            more_at: self.offer.more_at.map(|_| since_request),
            ..self.offer
        }
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}

fn run_liar(offer: Offer, length: Option<u64>) -> Result<(), SimulationError> {
    let mut simulation = Simulation::new(dumbbell().build(1, SEED).topology)?;
    simulation.add_flow(Flow {
        conversation: Conversation::answer(Box::new(Liar { offer, length })),
        ..reno()
    })?;
    simulation.run_until(ms(10_000))
}

#[test]
fn an_answer_of_the_wrong_length_is_an_error() {
    simulate(|| {
        let offer = Offer {
            bytes: 999,
            last: true,
            more_at: None,
        };
        let error = run_liar(offer, Some(1000)).expect_err("a byte is missing");
        let message =
            "flow 0: the client got 999 bytes to the end of the stream, the server had 1000";
        assert_eq!(error.to_string(), message);
    });
}

#[test]
fn a_run_without_progress_is_an_error() {
    simulate(|| {
        let nothing = Offer {
            bytes: 0,
            last: false,
            more_at: None,
        };
        let error = run_liar(nothing, None).expect_err("the server never answers");
        assert!(
            matches!(error, SimulationError::Deadlock { flow: 0, .. }),
            "{error}"
        );
        let now = Offer {
            more_at: Some(Duration::ZERO),
            ..nothing
        };
        let error = run_liar(now, None).expect_err("time stands still");
        assert!(
            matches!(error, SimulationError::Livelock { flow: 0, .. }),
            "{error}"
        );

        let mut dumbbell = dumbbell();
        let outage = Outage::new(ms(300), Duration::MAX);
        dumbbell.impairments = vec![Box::new(outage)];
        let mut simulation = Simulation::new(dumbbell.build(1, SEED).topology).expect("isolated");
        let flow = Flow {
            conversation: Conversation::answer(Box::new(Bulk::Bytes(1_000_000))),
            ..reno()
        };
        simulation.add_flow(flow).expect("there is a route");
        let error = simulation
            .run_to_completion(ms(60_000))
            .expect_err("nothing gets through");
        let limit = clock::Time::from(ms(60_000));
        assert!(
            matches!(error, SimulationError::Unfinished { flow: 0, time, received }
                if time == limit && received > 0),
            "{error}"
        );
    });
}

#[test]
fn mistakes_of_the_caller_are_named() {
    let outside = Simulation::new(dumbbell().build(1, SEED).topology);
    assert!(matches!(outside, Err(SimulationError::NotIsolated)));
    simulate(|| {
        let mut simulation = Simulation::new(dumbbell().build(1, SEED).topology).expect("isolated");
        simulation.add_flow(reno()).expect("there is a route");
        let error = simulation.add_flow(reno()).expect_err("there is one route");
        assert!(error.to_string().contains("built for 1 flows"), "{error}");

        let mut simulation = Simulation::new(dumbbell().build(1, SEED).topology).expect("isolated");
        let flow = Flow::new(Controller::named("renoo"));
        simulation.add_flow(flow).expect("there is a route");
        let error = simulation.run_until(ms(1)).expect_err("no such controller");
        assert!(error.to_string().contains("\"renoo\""), "{error}");
    });
}
