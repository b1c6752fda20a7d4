//! The adapter between quiche's plug point and the controllers: beside each controller behind it
//! runs one of the same kind that is told the same without it, and both always answer the same.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gallop::Algorithm;
use gallop::controller::{
    Ack, Controller as Plain, Loss, PacketInfo, PathConfig, Phase, RttEstimate, SentPacket,
};
use gallop_sim::clock::Time;
use gallop_sim::impairment::{Fate, Impairment};
use gallop_sim::packet::Packet;
use gallop_sim::traffic::Bulk;
use gallop_sim::{Controller, Conversation, Dumbbell, Flow, Simulation, isolated};
use quiche::{
    AckEvent, CongestionController, CongestionControllerFactory, ControllerConfig, LossEvent,
    LostPacket, StartupExitReason,
};

const SEED: u64 = 1;

/// The number of times that each event and each answer was compared.
type Seen = Arc<Mutex<BTreeMap<&'static str, u64>>>;

/// Makes controllers of an algorithm, each with its double.
#[derive(Debug)]
struct Doubles {
    algorithm: Algorithm,
    seen: Seen,
}

impl CongestionControllerFactory for Doubles {
    fn build(&self, config: &ControllerConfig) -> Box<dyn CongestionController> {
        let path = PathConfig {
            max_datagram_size_bytes: config.max_datagram_size,
            initial_window_packets: config.initial_congestion_window_packets as u64,
            pacing: config.pacing,
        };
        Box::new(Double {
            plain: self.algorithm.build(&path),
            adapted: CongestionControllerFactory::build(&self.algorithm, config),
            seen: Arc::clone(&self.seen),
        })
    }
}

#[derive(Debug)]
struct Double {
    adapted: Box<dyn CongestionController>,
    plain: Box<dyn Plain>,
    seen: Seen,
}

/// A lost packet, as controllers are told of it.
fn lost(packet: &LostPacket) -> PacketInfo {
    PacketInfo {
        packet_number: packet.pkt_num,
        time_sent: packet.time_sent,
        size_bytes: packet.size,
    }
}

impl Double {
    fn see(&self, what: &'static str) {
        *self.seen.lock().unwrap().entry(what).or_default() += 1;
    }

    fn compare(&self, event: &'static str) {
        self.see(event);
        let (adapted, plain) = (&self.adapted, &self.plain);
        let now = Instant::now();
        assert_eq!(adapted.congestion_window(), plain.window_bytes(), "{event}");
        assert_eq!(adapted.ssthresh(), plain.ssthresh_bytes(), "{event}");
        assert_eq!(adapted.send_quantum(), plain.burst_bytes(), "{event}");
        assert_eq!(adapted.next_release_time(), plain.next_release_time());
        assert_eq!(adapted.state_str(now), plain.phase_name(), "{event}");
        assert!(adapted.whole_datagrams());

        // In bytes per second there, in bits here.
        let bytes_per_second = plain.pacing_rate_bps().map(|bps| (bps * 0.125).floor());
        let rate = adapted.pacing_rate().map(|rate| rate as f64);
        assert_eq!(rate, bytes_per_second, "{event}");

        let is_after_loss = plain.phase() == Phase::Recovery;
        let reason = adapted.startup_exit_reason();
        assert_eq!(reason == StartupExitReason::Loss, is_after_loss, "{event}");

        let [mut reported, mut figures] = [BTreeMap::new(), BTreeMap::new()];
        adapted.metrics(&mut |name, value| {
            reported.insert(name, value);
        });
        plain.figures(&mut |figure| {
            figures.insert(figure.name, figure.value);
        });
        assert_eq!(reported, figures, "{event}");

        for (what, is_there) in [
            ("ssthresh", adapted.ssthresh().is_some()),
            ("a release time", adapted.next_release_time().is_some()),
            ("a pacing rate", rate.is_some_and(|rate| rate > 0.0)),
            ("a burst", adapted.send_quantum().is_some()),
            ("recovery", is_after_loss),
            ("a figure", !reported.is_empty()),
        ] {
            if is_there {
                self.see(what);
            }
        }
    }
}

impl CongestionController for Double {
    fn congestion_window(&self) -> usize {
        self.adapted.congestion_window()
    }

    fn on_packet_sent(&mut self, packet: &quiche::SentPacket) {
        self.adapted.on_packet_sent(packet);
        self.plain.on_packet_sent(&SentPacket {
            packet_number: packet.pkt_num,
            time_sent: packet.time_sent,
            size_bytes: packet.size,
            bytes_in_flight: packet.bytes_in_flight,
        });
        self.compare("sent");
    }

    fn on_packets_acked(&mut self, event: &AckEvent<'_>) {
        self.adapted.on_packets_acked(event);
        let ack = Ack {
            now: event.now,
            measures_rtt: event.rtt_updated,
            ack_delay: Some(event.ack_delay),
            rtt: RttEstimate {
                smoothed: event.rtt.rtt(),
                variation: event.rtt.rttvar(),
                max_ack_delay: event.rtt.max_ack_delay(),
            },
            bytes_in_flight: event.bytes_in_flight,
        };
        let packets: Vec<PacketInfo> = event
            .packets
            .iter()
            .map(|packet| PacketInfo {
                packet_number: packet.pkt_num,
                time_sent: packet.time_sent,
                size_bytes: packet.size,
            })
            .collect();
        self.plain.on_packets_acked(&ack, &packets);
        self.compare("acknowledged");
    }

    fn on_packets_lost(&mut self, event: &LossEvent<'_>) {
        self.adapted.on_packets_lost(event);
        let loss = Loss {
            now: event.now,
            persistent_congestion: None,
        };
        let packets: Vec<PacketInfo> = event.packets.iter().map(lost).collect();
        self.plain.on_packets_lost(&loss, &packets);
        self.compare("lost");
    }

    fn on_spurious_loss(&mut self, now: Instant, packets: &[LostPacket]) {
        self.adapted.on_spurious_loss(now, packets);
        let packets: Vec<PacketInfo> = packets.iter().map(lost).collect();
        self.plain.on_spurious_loss(now, &packets);
        self.compare("spuriously lost");
    }

    fn on_mtu_update(&mut self, max_datagram_size: usize) {
        self.adapted.on_mtu_update(max_datagram_size);
        self.plain.on_mtu_update(max_datagram_size);
        self.compare("MTU");
    }

    fn next_release_time(&self) -> Option<Instant> {
        self.adapted.next_release_time()
    }

    fn whole_datagrams(&self) -> bool {
        self.adapted.whole_datagrams()
    }
}

/// Loses some datagrams, and holds some so long that they count as lost.
#[derive(Debug, Default)]
struct Rough {
    passed: u64,
}

impl Impairment for Rough {
    fn decide(&mut self, _packet: &mut Packet, _now: Time) -> Fate {
        self.passed += 1;
        match self.passed {
            passed if passed % 601 == 0 => Fate::Lose,
            passed if passed % 401 == 0 => Fate::Hold(Duration::from_millis(20)),
            _ => Fate::Pass,
        }
    }
}

fn transfer(name: &str, seen: &Seen) {
    let mut path = Dumbbell::new(
        "10mbit".parse().expect("a rate"),
        Duration::from_millis(40),
        "50p".parse().expect("a buffer"),
    );
    path.impairments = vec![Box::new(Rough::default())];
    let mut simulation = Simulation::new(path.build(1, SEED).topology).expect("a sound topology");
    let factory = Doubles {
        algorithm: name.parse().expect("a controller"),
        seen: Arc::clone(seen),
    };
    let flow = Flow {
        conversation: Conversation::answer(Box::new(Bulk::Bytes(5_000_000))),
        discovers_mtu: true,
        ..Flow::new(Controller::Factory(Arc::new(factory)))
    };
    simulation.add_flow(flow).expect("a route");
    simulation
        .run_to_completion(Duration::from_secs(60))
        .expect("a transfer that arrives");
}

#[test]
fn nothing_is_changed_or_lost_on_the_way_to_a_controller_and_back() {
    for name in ["vegas", "gallop-vegas:alpha=1,beta=3", "copa"] {
        let seen = Seen::default();
        isolated(SEED, || transfer(name, &seen)).expect("clock and entropy are linked");
        let seen = seen.lock().unwrap();
        for what in [
            "sent",
            "acknowledged",
            "lost",
            "spuriously lost",
            "MTU",
            "ssthresh",
            "a release time",
            "a pacing rate",
            "a burst",
            "recovery",
            "a figure",
        ] {
            assert!(seen.contains_key(what), "{name}: never {what}: {seen:?}");
        }
    }
}
