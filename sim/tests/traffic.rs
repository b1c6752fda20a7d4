//! The traffic of flows and its metrics.

use std::num::NonZeroU32;
use std::time::Duration;

use gallop_sim::conversation::Protocol;
use gallop_sim::conversation::{Exchange, Pace};
use gallop_sim::experiment::traffic::{Period, TrafficSpec};
use gallop_sim::impairment::{Impairment, Outage, RandomLoss};
use gallop_sim::measure::Measure;
use gallop_sim::traffic::Bulk;
use gallop_sim::units::stream_bytes_per_packet;
use gallop_sim::{
    Controller, Conversation, Dumbbell, Flow, Side, Simulation, SimulationError, isolated, random,
};

const SEED: u64 = 3;
const DATAGRAM_BYTES: usize = 1350;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn simulate<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    isolated(SEED, || {
        gallop::register().expect("the names are free");
        work()
    })
    .expect("clock and entropy are linked")
}

/// 10 Mbit/s, 40 ms, no jitter.
fn dumbbell(buffer: &str) -> Dumbbell {
    let rate = "10mbit".parse().expect("a rate");
    let mut dumbbell = Dumbbell::new(rate, ms(40), buffer.parse().expect("a buffer"));
    dumbbell.host_jitter = Duration::ZERO;
    dumbbell
}

fn simulation(buffer: &str, routes: usize) -> Simulation {
    Simulation::new(dumbbell(buffer).build(routes, SEED).topology).expect("isolated")
}

fn reno() -> Flow {
    Flow::new(Controller::named("reno"))
}

fn value(measures: &[Measure], metric: &str) -> f64 {
    let mut found = measures.iter().filter(|measure| measure.metric == metric);
    found.next().expect(metric).value
}

fn conversation(lengths: &[u64], wait: Duration, pace: Pace, protocol: Protocol) -> Conversation {
    let exchanges: Vec<Exchange> = lengths
        .iter()
        .map(|&bytes| Exchange {
            wait,
            request_bytes: 40,
            answer: Box::new(Bulk::Bytes(bytes)),
        })
        .collect();
    Conversation::new(exchanges.into_iter(), pace, protocol)
}

/// The measures of a flow that holds this conversation alone.
fn hold(conversation: Conversation) -> Vec<Measure> {
    let mut simulation = simulation("1000p", 1);
    let flow = Flow {
        conversation,
        ..reno()
    };
    simulation.add_flow(flow).expect("there is a route");
    simulation.run_to_completion(ms(60_000)).expect("it ends");
    simulation.measure_flow(0, None)
}

#[test]
fn exchanges_take_turns_or_run_at_once() {
    simulate(|| {
        let lengths = [1000; 10];
        for protocol in [Protocol::Streams, Protocol::Http3] {
            let one = hold(conversation(&lengths, ms(100), Pace::Closed(1), protocol));
            let five = hold(conversation(&lengths, ms(100), Pace::Closed(5), protocol));
            let open = hold(conversation(&lengths, ms(10), Pace::Open, protocol));
            for measures in [&one, &five, &open] {
                assert_eq!(value(measures, "responses"), 10.0);
                assert_eq!(value(measures, "received_bytes"), 10_000.0);
                let mean = value(measures, "response_time_mean_s");
                assert!((0.040..0.060).contains(&mean), "{protocol:?}: {mean}");
            }
            // Each takes its wait and a round trip, and the handshake takes one.
            let near = |measures, expected: f64| {
                let took = value(measures, "completion_s");
                assert!((took / expected - 1.0).abs() < 0.1, "{protocol:?}: {took}");
            };
            near(&one, 10.0 * 0.14 + 0.04);
            near(&five, 2.0 * 0.14 + 0.04);
            near(&open, 10.0 * 0.01 + 0.08);
        }
    });
}

#[test]
fn answers_share_the_connection() {
    simulate(|| {
        for protocol in [Protocol::Streams, Protocol::Http3] {
            let lengths = [2_000_000, 500_000, 1, 70_000];
            let all = hold(conversation(&lengths, ms(0), Pace::Closed(4), protocol));
            assert_eq!(value(&all, "received_bytes"), 2_570_001.0);
            assert_eq!(value(&all, "responses"), 4.0);
            // 2.57 MB at 10 Mbit/s.
            assert!((2.1..2.8).contains(&value(&all, "completion_s")));
        }
    });
}

#[test]
fn the_send_buffer_limits_what_is_on_its_way() {
    simulate(|| {
        let throughput_bps = |packets: u64| {
            let mut simulation = simulation("1000p", 1);
            let flow = Flow {
                send_buffer_bytes: Some(packets * stream_bytes_per_packet(DATAGRAM_BYTES)),
                ..reno()
            };
            simulation.add_flow(flow).expect("there is a route");
            simulation.run_until(ms(2_000)).expect("it makes progress");
            simulation.start_measuring();
            simulation.run_until(ms(12_000)).expect("it makes progress");
            let measures = simulation.measure_flow(0, None);
            assert_eq!(value(&measures, "lost_packets"), 0.0);
            value(&measures, "throughput_pps")
        };
        // Half a round trip of propagation each way and 1.1 ms to send a packet.
        for packets in [4, 10, 20] {
            let expected = packets as f64 / 0.0413;
            let measured = throughput_bps(packets);
            assert!(
                (measured / expected - 1.0).abs() < 0.06,
                "{packets}: {measured}"
            );
        }
        // The path holds 36.
        let full = throughput_bps(60);
        assert!((870.0..910.0).contains(&full), "{full}");
    });
}

#[test]
fn a_flow_that_stops_finishes() {
    simulate(|| {
        let mut simulation = simulation("50p", 2);
        let flow = Flow {
            stop: Some(ms(2_000)),
            ..reno()
        };
        simulation.add_flow(flow).expect("there is a route");
        let lengths = [1000; 1000];
        let talk = Flow {
            stop: Some(ms(1_000)),
            conversation: conversation(&lengths, ms(10), Pace::Closed(1), Protocol::Streams),
            ..reno()
        };
        simulation.add_flow(talk).expect("there is a route");
        let end = simulation.run_to_completion(ms(10_000)).expect("both end");
        let end_s = end.as_secs_f64();
        assert!((2.0..2.5).contains(&end_s), "{end_s}");
        let responses = value(&simulation.measure_flow(1, None), "responses");
        assert!((5.0..25.0).contains(&responses), "{responses}");
    });
}

#[test]
fn connections_that_are_over_are_gone() {
    simulate(|| {
        let mut simulation = simulation("50p", 1);
        let flows: Vec<usize> = (0..200)
            .map(|number| {
                let flow = Flow {
                    start: ms(20 * number),
                    conversation: Conversation::answer(Box::new(Bulk::Bytes(5_000))),
                    closes: true,
                    ..reno()
                };
                simulation.add_flow_over(0, flow).expect("there is a route")
            })
            .collect();
        simulation.run_until(ms(3_000)).expect("they make progress");
        assert!(simulation.connection(0, Side::Server).is_none());
        assert!(simulation.connection(149, Side::Client).is_some());
        assert!(simulation.connection(151, Side::Client).is_none());
        simulation.run_until(ms(10_000)).expect("they end");
        let measures = simulation.measure_flows(&flows);
        for (metric, expected) in [
            ("connections", 200.0),
            ("connections_finished", 200.0),
            ("received_bytes", 1e6),
            ("throughput_bps", 8e5),
        ] {
            assert_eq!(value(&measures, metric), expected, "{metric}");
        }
        let mean = value(&measures, "completion_mean_s");
        assert!((0.08..0.1).contains(&mean), "{mean}");
        let kept = (0..200).filter(|&flow| simulation.connection(flow, Side::Server).is_some());
        assert_eq!(kept.count(), 0);
    });
}

#[test]
fn an_end_that_probes_in_vain_ends_the_simulation() {
    simulate(|| {
        let mut cut = dumbbell("50p");
        let outage = Outage::new(ms(1_000), Duration::MAX);
        cut.impairments = vec![Box::new(outage)];
        let mut simulation = Simulation::new(cut.build(1, SEED).topology).expect("isolated");
        simulation.add_flow(reno()).expect("there is a route");
        let error = simulation.run_until(ms(1_000_000)).expect_err("it stalls");
        let SimulationError::Stalled { received, .. } = error else {
            panic!("{error}");
        };
        assert!(received > 500_000);
        assert!(
            error.to_string().contains("has been probing for 60 s"),
            "{error}"
        );
    });
}

#[test]
fn losses_that_acknowledgements_reveal_are_no_timeouts() {
    simulate(|| {
        let mut simulation = simulation("50p", 1);
        simulation.add_flow(reno()).expect("there is a route");
        simulation.run_until(ms(20_000)).expect("it makes progress");
        let measures = simulation.measure_flow(0, None);
        assert!(value(&measures, "lost_packets") > 10.0);
        assert_eq!(value(&measures, "timeouts"), 0.0);
    });
}

/// The metrics of a media stream of `traffic` after 30 s over 10 Mbit/s.
fn play(traffic: &str) -> Vec<Measure> {
    let spec: TrafficSpec = serde_json::from_str(traffic).expect("traffic");
    let mut simulation = simulation("50p", 1);
    add(&mut simulation, &spec, ms(30_000));
    simulation.run_until(ms(30_000)).expect("it makes progress");
    simulation.measure_flow(0, None)
}

/// Adds the connections of a flow from 0 to `end`; returns their numbers.
fn add(simulation: &mut Simulation, spec: &TrafficSpec, end: Duration) -> Vec<usize> {
    let period = Period {
        start: Duration::ZERO,
        stop: None,
        end,
    };
    let packet_bytes = stream_bytes_per_packet(DATAGRAM_BYTES);
    let mut random = random::stream(SEED, 77);
    let flows = spec.connections(period, packet_bytes, &mut random, reno);
    flows
        .into_iter()
        .map(|flow| simulation.add_flow_over(0, flow).expect("there is a route"))
        .collect()
}

#[test]
fn media_that_keeps_up_is_viable_and_media_that_cannot_is_late() {
    simulate(|| {
        // Constrained: exactly as fast as it plays, once the buffer is full.
        let constrained = play(r#"{"kind": "media", "rate": "4mbit", "buffer": "2s"}"#);
        let fill = value(&constrained, "buffer_fill_s");
        assert!((1.9..2.2).contains(&fill), "{fill}");
        assert_eq!(value(&constrained, "late_packets_ratio"), 0.0);
        assert_eq!(value(&constrained, "viable"), 1.0);
        let throughput = value(&constrained, "throughput_bps");
        assert!((throughput / 4e6 - 1.0).abs() < 0.02, "{throughput}");

        // Unconstrained: the buffer fills at the rate of the network.
        let unconstrained =
            play(r#"{"kind": "media", "rate": "4mbit", "buffer": "2s", "xfactor": 100}"#);
        let fill = value(&unconstrained, "buffer_fill_s");
        assert!((0.8..1.2).contains(&fill), "{fill}");
        assert!(value(&unconstrained, "throughput_bps") > 9e6);

        let late = play(r#"{"kind": "media", "rate": "16mbit", "buffer": "2s", "xfactor": 100}"#);
        assert!(value(&late, "late_packets_ratio") > 0.7);
        assert_eq!(value(&late, "viable"), 0.0);
    });
}

/// A live stream of `traffic` with a controller over 10 Mbit/s and 40 ms with these impairments, until
/// it ends after 10 s.
fn live(traffic: &str, cc: &str, impairments: Vec<Box<dyn Impairment>>) -> Vec<Measure> {
    let spec: TrafficSpec = serde_json::from_str(traffic).expect("traffic");
    let mut path = dumbbell("50p");
    path.impairments = impairments;
    let mut simulation = Simulation::new(path.build(1, SEED).topology).expect("isolated");
    let period = Period {
        start: Duration::ZERO,
        stop: Some(ms(10_000)),
        end: ms(20_000),
    };
    let packet_bytes = stream_bytes_per_packet(DATAGRAM_BYTES);
    let mut random = random::stream(SEED, 77);
    let flow = || Flow::new(Controller::named(cc));
    for flow in spec.connections(period, packet_bytes, &mut random, flow) {
        simulation.add_flow(flow).expect("there is a route");
    }
    simulation.run_to_completion(ms(20_000)).expect("it ends");
    simulation.measure_flow(0, None)
}

#[test]
fn live_frames_come_whole_and_in_time_if_there_is_room() {
    simulate(|| {
        // A frame of 8333 bytes takes 7 packets. The request is there after 1.5 round trips.
        let steady = r#"{"kind": "live", "rate": "2mbit", "key-factor": 1}"#;
        let measures = live(steady, "reno", Vec::new());
        let frames = value(&measures, "frames");
        assert!((297.0..=299.0).contains(&frames), "{frames}");
        assert_eq!(value(&measures, "received_bytes"), frames * 8333.0);
        assert_eq!(value(&measures, "late_frames_ratio"), 0.0);
        assert_eq!(value(&measures, "frame_stalls"), 0.0);
        // 20 ms, and from 7 ms at the rate of the link to a round trip.
        let mean = value(&measures, "frame_delay_mean_s");
        let p95 = value(&measures, "frame_delay_p95_s");
        let p99 = value(&measures, "frame_delay_p99_s");
        assert!((0.027..0.060).contains(&mean), "{mean}");
        assert!(p95 <= p99, "{p95}");
        assert!(p99 < 0.070, "{p99}");

        let lossy = RandomLoss::new(0.005, random::stream(SEED, 78)).expect("a probability");
        let measures = live(steady, "reno", vec![Box::new(lossy)]);
        assert_eq!(value(&measures, "frames"), frames);
        assert!(value(&measures, "lost_packets") > 5.0);
        assert_eq!(value(&measures, "received_bytes"), frames * 8333.0);
        assert!(value(&measures, "frame_delay_p99_s") > p99 + 0.02);
    });
}

#[test]
fn live_frames_that_do_not_fit_are_skipped() {
    simulate(|| {
        for cc in ["reno", "cubic", "bbr2", "gallop-vegas"] {
            let media = r#"{"kind": "live", "rate": "16mbit", "variation": 0.2}"#;
            let measures = live(media, cc, Vec::new());
            let frames = value(&measures, "frames");
            assert!((120.0..200.0).contains(&frames), "{cc}: {frames}");
            let late = value(&measures, "late_frames_ratio");
            assert!(late > 0.3, "{cc}: {late}");
            // They wait for half a second, then for the window and the queue, and a key frame has
            // 312 kB.
            let p95 = value(&measures, "frame_delay_p95_s");
            assert!((0.5..0.8).contains(&p95), "{cc}: {p95}");
        }
    });
}

#[test]
fn an_outage_stalls_live_media_once() {
    simulate(|| {
        let media = r#"{"kind": "live", "rate": "1mbit", "deadline": "200ms"}"#;
        let outage = Outage::new(ms(4_000), ms(5_000));
        let measures = live(media, "reno", vec![Box::new(outage)]);
        assert_eq!(value(&measures, "frame_stalls"), 1.0);
        let late = value(&measures, "late_frames_ratio");
        // At least the frames of 0.8 s of 10 s.
        assert!((0.07..0.2).contains(&late), "{late}");
    });
}

#[test]
fn constant_load_is_sent_whatever_becomes_of_it() {
    simulate(|| {
        // 1378 bytes on the wire at 20 Mbit/s, twice what the link carries.
        let load = r#"{"kind": "constant", "rate": "20mbit"}"#;
        let spec: TrafficSpec = serde_json::from_str(load).expect("traffic");
        let mut simulation = simulation("50p", 1);
        add(&mut simulation, &spec, ms(10_000));
        simulation.run_until(ms(5_000)).expect("it is sent");
        simulation.start_measuring();
        simulation.run_until(ms(10_000)).expect("it is sent");
        let measures = simulation.measure_flow(0, None);
        let sent = 5.0 / (1378.0 * 8.0 / 20e6);
        assert!((value(&measures, "sent_packets") - sent).abs() <= 1.0);
        let received = value(&measures, "received_packets");
        assert!((received - sent / 2.0).abs() <= 2.0, "{received}");
        let lost = value(&measures, "lost_packets");
        assert!((lost - sent / 2.0).abs() <= 2.0, "{lost}");
        let rate = value(&measures, "throughput_bps");
        assert!(
            (rate / (1e7 * 1350.0 / 1378.0) - 1.0).abs() < 0.001,
            "{rate}"
        );
    });
}

#[test]
fn constant_load_leaves_the_rest_of_the_link_to_others() {
    simulate(|| {
        let load = r#"{"kind": "constant", "rate": "4mbit", "on": "1s", "off": "1s"}"#;
        let spec: TrafficSpec = serde_json::from_str(load).expect("traffic");
        let mut simulation = simulation("1000p", 1);
        let load = add(&mut simulation, &spec, ms(10_000))[0];
        let flow = simulation
            .add_flow_over(0, reno())
            .expect("there is a route");
        simulation.run_until(ms(10_000)).expect("it is sent");
        let of_load = simulation.measure_flow(load, None);
        assert_eq!(value(&of_load, "lost_packets"), 0.0);
        // Half of the time.
        let sent = 5.0 / (1378.0 * 8.0 / 4e6);
        assert!((value(&of_load, "sent_packets") - sent).abs() <= 5.0);
        let others = value(&simulation.measure_flow(flow, None), "throughput_bps");
        assert!((6.5e6..7.9e6).contains(&others), "{others}");
    });
}

#[test]
fn pages_come_one_after_the_other() {
    simulate(|| {
        let pages = r#"{"kind": "pages", "objects": 5, "object": "10p", "think": "500ms"}"#;
        let spec: TrafficSpec = serde_json::from_str(pages).expect("traffic");
        let mut simulation = simulation("1000p", 1);
        let flows = add(&mut simulation, &spec, ms(20_000));
        assert_eq!(flows.len(), 40);
        simulation.run_until(ms(20_000)).expect("it makes progress");
        let measures = simulation.measure_flows(&flows);
        let started = value(&measures, "connections");
        let finished = value(&measures, "connections_finished");
        assert!(started == finished || started == finished + 1.0);
        // A page takes a handshake, a request and the time of 50 packets: two or three round trips
        // more.
        let mean = value(&measures, "completion_mean_s");
        assert!((0.13..0.30).contains(&mean), "{mean}");
        assert!((finished * (mean + 0.5) - 20.0).abs() < 1.0, "{finished}");
        let bytes = 50.0 * stream_bytes_per_packet(DATAGRAM_BYTES) as f64;
        let received = value(&measures, "received_bytes");
        assert!(
            (finished * bytes..=started * bytes).contains(&received),
            "{received}"
        );
        let reports: Vec<_> = flows
            .iter()
            .filter_map(|&flow| simulation.report(flow))
            .collect();
        for pair in reports.windows(2).take(finished as usize - 1) {
            let (end, start) = (
                pair[0].finished.expect("read"),
                pair[1].started.expect("begun"),
            );
            assert_eq!(start - end, ms(500));
        }
    });
}

#[test]
fn no_page_begins_after_the_stop() {
    simulate(|| {
        let pages = r#"{"kind": "pages", "objects": 3, "object": "2p", "think": "700ms"}"#;
        let spec: TrafficSpec = serde_json::from_str(pages).expect("traffic");
        let mut simulation = simulation("1000p", 1);
        let period = Period {
            start: ms(1_000),
            stop: Some(ms(4_000)),
            end: ms(9_000),
        };
        let mut random = random::stream(SEED, 77);
        let packet_bytes = stream_bytes_per_packet(DATAGRAM_BYTES);
        let flows = spec.connections(period, packet_bytes, &mut random, reno);
        let flows: Vec<usize> = flows
            .into_iter()
            .map(|flow| simulation.add_flow_over(0, flow).expect("there is a route"))
            .collect();
        simulation.run_to_completion(ms(9_000)).expect("all end");
        let measures = simulation.measure_flows(&flows);
        // At 1 s and every 0.8 s; the fifth would begin after 4 s.
        assert_eq!(flows.len(), 5);
        assert_eq!(value(&measures, "connections"), 4.0);
        assert_eq!(value(&measures, "connections_finished"), 4.0);
    });
}

#[test]
fn traffic_of_many_connections_starts_at_the_rate_it_should() {
    simulate(|| {
        for (traffic, per_s) in [
            (r#"{"kind": "http", "size": "3p"}"#, 2.0),
            (r#"{"kind": "tcplib", "interarrival": "100ms"}"#, 10.0),
        ] {
            let spec: TrafficSpec = serde_json::from_str(traffic).expect("traffic");
            let mut simulation = simulation("50p", 1);
            let flows = add(&mut simulation, &spec, ms(60_000));
            simulation.run_until(ms(60_000)).expect("it makes progress");
            let measures = simulation.measure_flows(&flows);
            let expected = 60.0 * per_s;
            let connections = value(&measures, "connections");
            assert!(
                (connections - expected).abs() < 4.0 * expected.sqrt(),
                "{traffic}: {connections}"
            );
            assert!(value(&measures, "connections_finished") > 0.75 * connections);
        }
    });
}

/// Ho et al. 2006 §V.B: the metrics without a qlog are those that the analysis of a qlog gives
/// (docs/results.md).
#[test]
fn gallop_vegas_settles_as_in_its_trace() {
    let measures = simulate(|| {
        let wire_bytes = DATAGRAM_BYTES + 28;
        let rate = gallop_sim::units::Rate::from_bps(6250.0 * 8.0 * wire_bytes as f64);
        let buffer = "100p".parse().expect("a buffer");
        let mut path = Dumbbell::new(rate.expect("a rate"), ms(100), buffer);
        path.host_jitter = Duration::ZERO;
        let mut simulation = Simulation::new(path.build(1, SEED).topology).expect("isolated");
        let flow = Flow {
            initial_window_packets: 2,
            acks: gallop_sim::AckPolicy {
                every: NonZeroU32::MIN,
                max_delay: ms(25),
            },
            ..Flow::new(Controller::named("gallop-vegas:alpha=1,beta=3,gamma=1"))
        };
        simulation.add_flow(flow).expect("there is a route");
        simulation.run_until(ms(16_000)).expect("it makes progress");
        simulation.measure_flow(0, Some(6250.0))
    });
    for (metric, expected, tolerance) in [
        ("slow_start_exit_s", 11.37, 0.05),
        ("window_at_exit_packets", 635.0, 1.0),
        ("window_settled_packets", 628.0, 1.0),
        ("lost_packets", 0.0, 0.0),
    ] {
        let measured = value(&measures, metric);
        assert!(
            (measured - expected).abs() <= tolerance,
            "{metric}: {measured}"
        );
    }
    let reached = value(&measures, "available_window_reached_s");
    let converged = value(&measures, "converged_s");
    let exit = value(&measures, "slow_start_exit_s");
    assert!(
        reached <= exit && exit <= converged && converged < exit + 1.0,
        "{converged}"
    );
}

#[test]
fn hundreds_of_flows_run_at_once() {
    simulate(|| {
        let mut simulation = simulation("300p", 300);
        for number in 0..300 {
            let flow = Flow {
                start: ms(7 * number),
                ..reno()
            };
            simulation.add_flow(flow).expect("there is a route");
        }
        simulation.run_until(ms(6_000)).expect("they make progress");
        let received: f64 = (0..300)
            .map(|flow| value(&simulation.measure_flow(flow, None), "received_bytes"))
            .sum();
        assert!(received * 8.0 > 0.6 * 6.0 * 1e7, "{received}");
    });
}
