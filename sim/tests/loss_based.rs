//! CUBIC and Reno as their RFCs have them, over real quiche connections.

use std::time::Duration;

use gallop_sim::{Controller, Dumbbell, Flow, FlowReport, Simulation, isolated};

const DATAGRAM_BYTES: usize = 1350;

/// A flow alone at some rate with 100 ms and 100 packets of buffer, and how much of the rate it
/// used in the last so many of the seconds.
fn run(controller: &'static str, rate: &'static str, seconds: u64, last: u64) -> (FlowReport, f64) {
    isolated(1, || {
        gallop::register().expect("names that quiche does not have");
        let rate: gallop_sim::units::Rate = rate.parse().expect("a rate");
        let mut dumbbell = Dumbbell::new(
            rate,
            Duration::from_millis(100),
            "100p".parse().expect("a buffer"),
        );
        dumbbell.host_jitter = Duration::ZERO;
        let path = dumbbell.build(1, 1);
        let mut simulation = Simulation::new(path.topology).expect("a sound topology");
        let flow = simulation
            .add_flow(Flow {
                datagram_bytes: DATAGRAM_BYTES,
                ..Flow::new(Controller::named(controller))
            })
            .expect("a route");
        let mut forwarded_bytes = |seconds| {
            simulation
                .run_until(Duration::from_secs(seconds))
                .expect("a flow that gets on");
            simulation
                .link(path.bottleneck)
                .map_or(0, |link| link.meter().forwarded_bytes())
        };
        let before = forwarded_bytes(seconds - last);
        let bits = (forwarded_bytes(seconds) - before) as f64 * 8.0;
        let used = bits / (rate.bps() as f64 * last as f64);
        (simulation.report(flow).expect("the flow"), used)
    })
    .expect("clock and entropy are linked")
}

#[test]
fn cubic_keeps_the_bottleneck_busy_with_whole_datagrams() {
    let (report, used) = run("cubic-rfc9438", "50mbit", 60, 40);
    assert!(used > 0.97, "{used}: {report:?}");
    let mean_bytes = report.bytes_sent as f64 / report.packets_sent as f64;
    assert!(mean_bytes > 0.98 * DATAGRAM_BYTES as f64, "{mean_bytes}");
}

#[test]
fn hystart_spares_losses_of_slow_start() {
    let [with, without] = ["cubic-rfc9438", "cubic-rfc9438:hystart=off"]
        .map(|controller| run(controller, "10mbit", 5, 5).0.packets_lost);
    assert!(
        with * 3 < without * 2,
        "{with} packets lost with HyStart++, {without} without"
    );
}

#[test]
fn reno_grows_by_one_datagram_per_round_trip() {
    let (report, used) = run("reno-rfc9002", "50mbit", 80, 40);
    assert!((0.75..0.97).contains(&used), "{used}: {report:?}");
    let mean_bytes = report.bytes_sent as f64 / report.packets_sent as f64;
    assert!(mean_bytes > 0.98 * DATAGRAM_BYTES as f64, "{mean_bytes}");
}
