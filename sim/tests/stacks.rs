//! Connections of quinn and noq in the simulator.

use std::time::Duration;

use gallop_sim::traffic::Bulk;
use gallop_sim::{Controller, Conversation, Dumbbell, Flow, Simulation, isolated};

const SECONDS: u64 = 10;

/// The bytes that flows with these controllers received in ten seconds over 10 Mbit/s, 40 ms and 50
/// packets, and the digest of all packets.
fn received(controllers: &[&str], seed: u64) -> (Vec<u64>, u64) {
    isolated(seed, || {
        let (rate, rtt) = ("10mbit".parse().unwrap(), Duration::from_millis(40));
        let path = Dumbbell::new(rate, rtt, "50p".parse().unwrap()).build(controllers.len(), seed);
        let mut simulation = Simulation::new(path.topology).unwrap();
        simulation.keep_digest();
        for controller in controllers {
            simulation
                .add_flow(Flow::new(Controller::named(*controller)))
                .unwrap();
        }
        simulation.run_until(Duration::from_secs(SECONDS)).unwrap();
        let received = |flow| simulation.report(flow).unwrap().received_bytes;
        let all = (0..controllers.len()).map(received).collect();
        (all, simulation.digest().unwrap())
    })
    .unwrap()
}

/// The part of the path's capacity that one flow had.
fn utilisation(controller: &str) -> f64 {
    received(&[controller], 1).0[0] as f64 * 8.0 / 10e6 / SECONDS as f64
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for controller in ["quinn/vegas", "quinn/bbr", "noq/gallop-vegas", "noq/bbr3"] {
        let first = received(&[controller], 7);
        assert_eq!(first, received(&[controller], 7), "{controller}");
        assert_ne!(first.1, received(&[controller], 8).1, "{controller}");
    }
}

#[test]
fn every_controller_fills_a_short_path_in_every_stack() {
    for stack in ["quinn", "noq"] {
        for name in [
            "vegas",
            "gallop-vegas",
            "copa",
            "cubic-rfc9438",
            "reno-rfc9002",
        ] {
            let share = utilisation(&format!("{stack}/{name}"));
            assert!((0.85..=1.0).contains(&share), "{stack}/{name}: {share}");
        }
    }
}

/// The adapter adds nothing of its own: Reno by the same RFC comes to the same as the stack's.
#[test]
fn reno_behind_the_adapter_is_the_stacks_own() {
    for stack in ["quinn", "noq"] {
        let ours = utilisation(&format!("{stack}/reno-rfc9002"));
        let own = utilisation(&format!("{stack}/new-reno"));
        assert!((ours / own - 1.0).abs() < 0.01, "{stack}: {ours} and {own}");
    }
}

#[test]
fn stacks_share_a_bottleneck() {
    gallop::register().unwrap();
    let (all, _) = received(&["vegas", "quinn/vegas", "noq/vegas"], 1);
    let sum: u64 = all.iter().sum();
    assert!(all.iter().all(|&bytes| bytes * 8 > sum), "{all:?}");
    assert!(sum as f64 * 8.0 > 0.85 * 10e6 * SECONDS as f64, "{all:?}");
}

#[test]
fn a_conversation_ends_and_its_connection_closes() {
    for stack in ["quinn", "noq"] {
        let finished = isolated(1, || {
            let (rate, rtt) = ("10mbit".parse().unwrap(), Duration::from_millis(40));
            let path = Dumbbell::new(rate, rtt, "50p".parse().unwrap()).build(1, 1);
            let mut simulation = Simulation::new(path.topology).unwrap();
            let flow = simulation
                .add_flow(Flow {
                    conversation: Conversation::answer(Box::new(Bulk::Bytes(1_000_000))),
                    closes: true,
                    ..Flow::new(Controller::named(format!("{stack}/vegas")))
                })
                .unwrap();
            simulation.run_until(Duration::from_secs(60)).unwrap();
            assert!(simulation.has_closed(flow), "{stack}");
            simulation.report(flow).unwrap()
        })
        .unwrap();
        assert_eq!(finished.received_bytes, 1_000_000);
        assert!(finished.finished.is_some());
    }
}
