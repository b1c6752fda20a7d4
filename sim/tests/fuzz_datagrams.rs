//! Datagrams that a broken or hostile network loses, delays, repeats and rewrites: a connection
//! goes on, and gives its controller no nonsense.

use std::time::Duration;

use bolero::TypeGenerator;
use gallop_sim::clock::Time;
use gallop_sim::impairment::{Fate, Impairment};
use gallop_sim::packet::Packet;
use gallop_sim::traffic::Bulk;
use gallop_sim::{
    Controller, Conversation, Dumbbell, Flow, Observation, Simulation, SimulationError, isolated,
};

const SEED: u64 = 1;
const DATAGRAM_BYTES: usize = 1350;
const ANSWER_BYTES: u64 = 200_000;

/// The changes that the network makes to a transfer; all other datagrams pass unchanged.
#[derive(Debug, TypeGenerator)]
struct Network {
    gallop: bool,
    #[generator(bolero::produce::<Vec<Change>>().with().len(0..=8usize))]
    to_client: Vec<Change>,
    #[generator(bolero::produce::<Vec<Change>>().with().len(0..=8usize))]
    to_server: Vec<Change>,
}

/// A change to one datagram.
#[derive(Clone, Debug, TypeGenerator)]
struct Change {
    /// The number of datagrams that pass between the previous change and this one.
    #[generator(0..=12)]
    after: u8,
    kind: Kind,
}

#[derive(Clone, Debug, TypeGenerator)]
enum Kind {
    Lose,
    Duplicate,
    Hold {
        #[generator(0..=500)]
        ms: u16,
    },
    Write {
        at: u16,
        bytes: Vec<u8>,
    },
    Truncate {
        length: u16,
    },
    /// An earlier datagram, by its distance, in this one's place.
    Replay {
        #[generator(1..=8)]
        before: u8,
    },
    /// Two datagrams in one (RFC 9000 §12.2).
    Coalesce {
        #[generator(1..=8)]
        with: u8,
    },
    Garbage(Vec<u8>),
}

/// The changes of one direction.
#[derive(Debug)]
struct Changing {
    changes: std::vec::IntoIter<Change>,
    next: Option<(u64, Kind)>,
    passed: u64,
    recent: Vec<Vec<u8>>,
}

impl Changing {
    fn boxed(changes: Vec<Change>) -> Vec<Box<dyn Impairment>> {
        let mut changing = Changing {
            changes: changes.into_iter(),
            next: None,
            passed: 0,
            recent: Vec::new(),
        };
        changing.look_ahead();
        vec![Box::new(changing)]
    }

    fn look_ahead(&mut self) {
        let change = self.changes.next();
        self.next = change.map(|change| (self.passed + u64::from(change.after), change.kind));
    }

    fn recent(&self, before: u8) -> Option<&Vec<u8>> {
        let index = self.recent.len().checked_sub(before.into())?;
        self.recent.get(index)
    }

    fn apply(&self, kind: Kind, packet: &mut Packet) -> Fate {
        let mut payload = packet.payload().to_vec();
        match kind {
            Kind::Lose => return Fate::Lose,
            Kind::Duplicate => return Fate::Duplicate,
            Kind::Hold { ms } => return Fate::Hold(Duration::from_millis(ms.into())),
            Kind::Write { at, bytes } => {
                let at = usize::from(at) % payload.len().max(1);
                for (byte, new) in payload[at..].iter_mut().zip(bytes) {
                    *byte = new;
                }
            }
            Kind::Truncate { length } => payload.truncate(length.into()),
            Kind::Replay { before } => {
                if let Some(old) = self.recent(before) {
                    payload.clone_from(old);
                }
            }
            Kind::Coalesce { with } => {
                if let Some(old) = self.recent(with) {
                    payload.extend_from_slice(old);
                }
            }
            Kind::Garbage(bytes) => payload = bytes,
        }
        packet.replace_payload(&payload);
        Fate::Pass
    }
}

impl Impairment for Changing {
    fn decide(&mut self, packet: &mut Packet, _now: Time) -> Fate {
        let sent = packet.payload().to_vec();
        let due = self.next.take_if(|(number, _)| *number <= self.passed);
        self.passed += 1;
        let fate = match due {
            None => Fate::Pass,
            Some((_, kind)) => {
                let fate = self.apply(kind, packet);
                self.look_ahead();
                fate
            }
        };
        self.recent.push(sent);
        if self.recent.len() > 8 {
            self.recent.remove(0);
        }
        fate
    }
}

fn observe(seen: Observation<'_>) {
    for path in seen.connection.path_stats() {
        let packets = path.cwnd / DATAGRAM_BYTES;
        assert!((2..=1 << 20).contains(&packets), "{packets} packets");
    }
    if let Some(controller) = seen.connection.congestion_controller() {
        controller.metrics(&mut |name, value| {
            assert!(value.is_finite() && value >= 0.0, "{name} is {value}");
        });
    }
}

fn transfer(network: &Network) -> Result<(), SimulationError> {
    let mut dumbbell = Dumbbell::new(
        "10mbit".parse().expect("a rate"),
        Duration::from_millis(40),
        "50p".parse().expect("a buffer"),
    );
    dumbbell.impairments = Changing::boxed(network.to_client.clone());
    dumbbell.reverse_impairments = Changing::boxed(network.to_server.clone());
    let mut simulation = Simulation::new(dumbbell.build(1, SEED).topology)?;
    let controller = if network.gallop {
        "gallop-vegas"
    } else {
        "vegas"
    };
    simulation.add_flow(Flow {
        conversation: Conversation::answer(Box::new(Bulk::Bytes(ANSWER_BYTES))),
        observer: Some(Box::new(observe)),
        datagram_bytes: DATAGRAM_BYTES,
        ..Flow::new(Controller::named(controller))
    })?;
    // Eight datagrams lost in a row make a client of a handshake wait for 255 s (RFC 9002 §6.2.1).
    simulation.set_stall_limit(Duration::from_secs(1000));
    simulation.run_to_completion(Duration::from_secs(2000))?;
    let report = simulation.report(0).expect("the flow");
    assert_eq!(report.received_bytes, ANSWER_BYTES);
    Ok(())
}

fn outcome(network: &Network) -> Result<(), SimulationError> {
    let outcome = isolated(SEED, || {
        gallop::register().expect("names that quiche does not have");
        transfer(network)
    });
    outcome.expect("the clock is linked")
}

#[test]
fn fuzz_changed_datagrams() {
    gallop_fuzz::check("changed_datagrams", 200, |network| {
        // Until the handshake is confirmed a network can end a connection (RFC 9000 §21.1); after
        // that it can only delay it.
        match outcome(network) {
            Ok(()) | Err(SimulationError::Closed { .. } | SimulationError::Connection { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    });
}

#[test]
fn what_is_sound_in_a_changed_datagram_is_read() {
    let unharmed = |after| Change {
        after,
        kind: Kind::Truncate { length: u16::MAX },
    };
    let network = Network {
        gallop: true,
        to_client: Vec::new(),
        // The client's request, and the next.
        to_server: vec![unharmed(3), unharmed(0)],
    };
    assert!(outcome(&network).is_ok());
}
