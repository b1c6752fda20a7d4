//! Vegas and Gallop-Vegas over real quiche connections: the results of Ho et al. 2006, and release
//! times.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::{Duration, Instant};

use gallop_sim::clock::Time;
use gallop_sim::impairment::{Fate, Impairment};
use gallop_sim::packet::Packet;
use gallop_sim::traffic::OnOff;
use gallop_sim::units::Rate;
use gallop_sim::{
    AckPolicy, Action, Controller, Conversation, Dumbbell, Flow, Side, Simulation, isolated,
};

const SEED: u64 = 1;
const DATAGRAM_BYTES: usize = 1350;

/// The behaviour of a flow's server.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// The time at which slow start ended, and the window at that time.
    slow_start_exit: Option<(f64, usize)>,
    /// The time at which the window first was the bandwidth-delay product of the path of Ho et al.
    /// 2006 and one more.
    available_window_reached: Option<f64>,
    /// The window at the end.
    window_packets: usize,
    packets_lost: u64,
    /// The most datagrams that left at one moment after slow start.
    largest_burst: usize,
    /// The largest batch that a sender may hand over, at the end.
    send_quantum: usize,
    /// The controller's own state at the end.
    state: &'static str,
    metrics: BTreeMap<&'static str, f64>,
}

/// The path of Ho et al. 2006 §V.B in packets: 6250 per second, 100 ms there and back.
fn figure_4(buffer: &str) -> Dumbbell {
    let wire_bits = (DATAGRAM_BYTES as u64 + 28) * 8;
    let rate: Rate = format!("{}bit", 6250 * wire_bits).parse().expect("a rate");
    let mut dumbbell = Dumbbell::new(
        rate,
        Duration::from_millis(100),
        buffer.parse().expect("a buffer"),
    );
    dumbbell.host_jitter = Duration::ZERO;
    dumbbell
}

/// A flow as Ho et al. 2006 has it: an initial window of two, one ACK per packet.
fn paper(controller: &str) -> Flow {
    Flow {
        initial_window_packets: 2,
        datagram_bytes: DATAGRAM_BYTES,
        acks: AckPolicy::EVERY_PACKET,
        ..Flow::new(Controller::named(controller))
    }
}

fn run(
    dumbbell: impl FnOnce() -> Dumbbell + Send,
    flow: impl FnOnce() -> Flow + Send,
    seconds: u64,
) -> Seen {
    isolated(SEED, || {
        gallop::register().expect("names that quiche does not have");
        let path = dumbbell().build(1, SEED);
        let mut simulation = Simulation::new(path.topology).expect("a sound topology");
        let seen = Rc::new(RefCell::new(Seen::default()));
        let writer = Rc::clone(&seen);
        let mut sent_at = BTreeMap::<Duration, usize>::new();
        let observer = move |event: gallop_sim::Observation<'_>| {
            if event.side != Side::Server {
                return;
            }
            let time = Duration::from(event.time);
            let mut seen = writer.borrow_mut();
            let path = event.connection.path_stats().next().expect("a path");
            seen.window_packets = path.cwnd / DATAGRAM_BYTES;
            seen.send_quantum = event.connection.send_quantum();
            if let Some(controller) = event.connection.congestion_controller() {
                seen.state = controller.state_str(Instant::now());
                controller.metrics(&mut |name, value| {
                    seen.metrics.insert(name, value);
                });
            }
            if path.startup_exit.is_some() && seen.slow_start_exit.is_none() {
                seen.slow_start_exit = Some((time.as_secs_f64(), seen.window_packets));
            }
            if seen.window_packets >= 627 {
                seen.available_window_reached
                    .get_or_insert(time.as_secs_f64());
            }
            if seen.slow_start_exit.is_some() && event.action == Action::Sent {
                let burst = sent_at.entry(time).or_default();
                *burst += 1;
                seen.largest_burst = seen.largest_burst.max(*burst);
                sent_at = sent_at.split_off(&time);
            }
        };
        let flow = Flow {
            observer: Some(Box::new(observer)),
            ..flow()
        };
        let flow = simulation.add_flow(flow).expect("a route");
        simulation
            .run_until(Duration::from_secs(seconds))
            .expect("a flow that gets on");
        let report = simulation.report(flow).expect("the flow");
        let mut seen = seen.borrow().clone();
        seen.packets_lost = report.packets_lost;
        seen
    })
    .expect("clock and entropy are linked")
}

#[test]
fn gallop_vegas_finds_the_available_window_in_11_4_seconds_without_loss() {
    for buffer in ["100p", "30p"] {
        let seen = run(
            || figure_4(buffer),
            || paper("gallop-vegas:alpha=1,beta=3"),
            20,
        );
        let (exit, _) = seen.slow_start_exit.expect("slow start ends");
        assert!(
            (11.4 * 0.95..=11.4 * 1.05).contains(&exit),
            "{buffer}: {seen:?}"
        );
        // The band is 625 + α to 625 + β, and one packet more for the time to send one.
        assert!(
            (625..=630).contains(&seen.window_packets),
            "{buffer}: {seen:?}"
        );
        assert_eq!(seen.packets_lost, 0, "{buffer}");
    }
}

#[test]
fn vegas_leaves_slow_start_early_and_needs_50_seconds() {
    let seen = run(
        || figure_4("100p"),
        || paper("vegas:alpha=1,beta=3,gamma=1"),
        62,
    );
    let (exit, window) = seen.slow_start_exit.expect("slow start ends");
    assert!((1.0..=1.4).contains(&exit), "{seen:?}");
    assert_eq!(window, 56, "one eighth less than 64");
    let reached = seen.available_window_reached.expect("the available window");
    assert!((50.0..60.0).contains(&reached), "{seen:?}");
    assert_eq!(seen.packets_lost, 0);
}

#[test]
fn vegas_loses_packets_in_slow_start_at_a_buffer_of_30() {
    for options in ["alpha=1,beta=3", "alpha=1,beta=3,gamma=3"] {
        let seen = run(|| figure_4("30p"), || paper(&format!("vegas:{options}")), 5);
        assert!(seen.packets_lost > 0, "{options}: {seen:?}");
    }
}

#[test]
fn with_delayed_acks_the_default_options_fill_the_path() {
    let every_second = AckPolicy {
        every: NonZeroU32::new(2).expect("two"),
        max_delay: Duration::from_millis(25),
    };
    let flow = || Flow {
        acks: every_second,
        ..Flow::new(Controller::named("gallop-vegas"))
    };
    let seen = run(|| figure_4("100p"), flow, 20);
    assert!((620..=640).contains(&seen.window_packets), "{seen:?}");
    assert_eq!(seen.packets_lost, 0);
}

#[test]
fn the_simulated_hosts_wait_for_release_times() {
    // Every ACK makes room for ten packets; spike suppression lets two leave at a time.
    let flow = |pacing| {
        move || Flow {
            acks: AckPolicy {
                every: NonZeroU32::new(10).expect("ten"),
                max_delay: Duration::from_millis(25),
            },
            pacing,
            ..Flow::new(Controller::named("vegas"))
        }
    };
    let spaced = run(|| figure_4("100p"), flow(true), 10);
    assert_eq!(spaced.largest_burst, 2, "{spaced:?}");
    assert_eq!(spaced.send_quantum, 2 * DATAGRAM_BYTES);
    let bursts = run(|| figure_4("100p"), flow(false), 10);
    assert!(bursts.largest_burst >= 10, "{bursts:?}");
}

#[test]
fn the_state_of_a_connection_can_be_read() {
    let growing = run(
        || figure_4("100p"),
        || paper("gallop-vegas:alpha=1,beta=3"),
        2,
    );
    assert_eq!(growing.state, "stable_growth");
    let settled = run(
        || figure_4("100p"),
        || paper("gallop-vegas:alpha=1,beta=3"),
        13,
    );
    assert_eq!(settled.state, "congestion_avoidance");
    let metric = |name| settled.metrics[name];
    assert!((100.0..100.3).contains(&metric("vegas_base_rtt_ms")));
    assert!((100.3..101.0).contains(&metric("vegas_round_rtt_ms")));
    assert!((0.5..3.5).contains(&metric("vegas_backlog_packets")));
    assert_eq!(metric("vegas_alpha_packets"), 1.0);
    assert_eq!(metric("vegas_beta_packets"), 3.0);
    assert!(metric("vegas_expected_bps") > metric("vegas_actual_bps"));
    assert!(metric("vegas_incr_packets") >= 1.0);
    assert_eq!(metric("vegas_status"), 0.0);

    let built_in = run(|| figure_4("100p"), || paper("reno"), 1);
    assert!(built_in.metrics.is_empty());
}

#[test]
fn quiche_takes_names_with_options_and_refuses_what_is_wrong() {
    gallop::register().expect("names that quiche does not have");
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).expect("a configuration");
    for name in [
        "vegas",
        "gallop-vegas",
        "gallop-vegas:alpha=1,beta=3",
        "vegas:rtt=min",
    ] {
        assert_eq!(config.set_cc_algorithm_name(name), Ok(()), "{name}");
    }
    for name in [
        "vegass",
        "vegas:aplha=1",
        "vegas:alpha=9",
        "vegas:alpha=nan",
        "gallop-vegas:decrease=1",
    ] {
        let refused = Err(quiche::Error::CongestionControl);
        assert_eq!(config.set_cc_algorithm_name(name), refused, "{name}");
    }
}

/// Loses the first packet that comes after a time, and reports the time of the loss.
#[derive(Debug)]
struct LoseOne {
    after: Duration,
    lost_at: Rc<Cell<Option<Duration>>>,
}

impl Impairment for LoseOne {
    fn decide(&mut self, _packet: &mut Packet, now: Time) -> Fate {
        let now = Duration::from(now);
        if now < self.after || self.lost_at.get().is_some() {
            return Fate::Pass;
        }
        self.lost_at.set(Some(now));
        Fate::Lose
    }
}

/// The time from the loss of a packet until its sender knows of it, if this many bytes are sent
/// once a second and the first packet of them is lost.
fn time_to_detect(bytes: u64) -> Duration {
    isolated(SEED, || {
        gallop::register().expect("names that quiche does not have");
        let lost_at = Rc::new(Cell::new(None));
        let mut path = figure_4("100p");
        path.impairments.push(Box::new(LoseOne {
            after: Duration::from_secs(10),
            lost_at: Rc::clone(&lost_at),
        }));
        let path = path.build(1, SEED);
        let mut simulation = Simulation::new(path.topology).expect("a sound topology");
        let detected_at = Rc::new(Cell::new(None));
        let writer = Rc::clone(&detected_at);
        let flow = Flow {
            conversation: Conversation::answer(Box::new(OnOff {
                bytes,
                interval: Duration::from_secs(1),
                total: None,
            })),
            observer: Some(Box::new(move |event: gallop_sim::Observation<'_>| {
                let lost = event.connection.stats().lost > 0;
                if event.side == Side::Server && lost && writer.get().is_none() {
                    writer.set(Some(Duration::from(event.time)));
                }
            })),
            ..paper("vegas")
        };
        simulation.add_flow(flow).expect("a route");
        simulation
            .run_until(Duration::from_secs(15))
            .expect("a flow that gets on");
        let lost_at: Duration = lost_at.get().expect("a packet after 10 s");
        detected_at.get().expect("a loss") - lost_at
    })
    .expect("clock and entropy are linked")
}

#[test]
fn a_loss_is_found_as_early_as_vegas_would() {
    let rtt = Duration::from_millis(100);
    // Brakmo et al. 1994 §3.2: on the first duplicate ACK Vegas retransmits packets that are older
    // than its fine-grained timeout, srtt + 4·rttvar; RFC 9002 §6.1.2 waits for 9/8 of an RTT, with
    // a timer of its own.
    let one_packet_later = time_to_detect(2_600);
    assert!(
        one_packet_later <= rtt * 9 / 8 + Duration::from_millis(2),
        "{one_packet_later:?}"
    );
    // After three later packets RFC 9002 §6.1.1 waits no longer, like Reno after the third
    // duplicate ACK.
    let three_packets_later = time_to_detect(5_200);
    assert!(
        three_packets_later <= rtt + Duration::from_millis(2),
        "{three_packets_later:?}"
    );
}
