//! The same seed gives the same packets and the same qlog, to the byte.

use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use gallop_sim::{Controller, Dumbbell, Flow, Simulation, isolated};

/// Keeps all bytes that are written to it.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.0.lock().expect("not poisoned"));
        hasher.finish()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The traces of a run: packets, the qlog of both sides, events.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Trace {
    packets: u64,
    server_qlog: u64,
    client_qlog: u64,
    events: u64,
    received_bytes: u64,
}

fn trace(controller: &str, seed: u64) -> Trace {
    isolated(seed, || {
        let rate = "20mbit".parse().expect("a rate");
        let buffer = "50p".parse().expect("a buffer");
        let path = Dumbbell::new(rate, Duration::from_millis(40), buffer).build(2, seed);
        let mut simulation = Simulation::new(path.topology).expect("isolated");
        simulation.keep_digest();
        let (server_qlog, client_qlog) = (Memory::default(), Memory::default());
        simulation
            .add_flow(Flow {
                server_qlog: Some(Box::new(server_qlog.clone())),
                client_qlog: Some(Box::new(client_qlog.clone())),
                ..Flow::new(Controller::named(controller))
            })
            .expect("there is a route");
        simulation
            .add_flow(Flow {
                start: Duration::from_secs(1),
                ..Flow::new(Controller::named(controller))
            })
            .expect("there is a route");
        simulation
            .run_until(Duration::from_secs(5))
            .expect("it makes progress");
        Trace {
            packets: simulation.digest().expect("kept"),
            events: simulation.events(),
            received_bytes: simulation.report(0).expect("flow 0").received_bytes,
            server_qlog: server_qlog.digest(),
            client_qlog: client_qlog.digest(),
        }
    })
    .expect("clock and entropy are linked")
}

fn check(controller: &str) {
    let alone = trace(controller, 1);
    assert!(alone.received_bytes > 1_000_000, "{alone:?}");

    let in_parallel: Vec<Trace> = thread::scope(|scope| {
        let threads: Vec<_> = [1, 2, 1, 2]
            .map(|seed| scope.spawn(move || trace(controller, seed)))
            .into_iter()
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert_eq!(in_parallel[0], alone);
    assert_eq!(in_parallel[2], alone);
    assert_eq!(in_parallel[1], in_parallel[3]);

    let other = in_parallel[1];
    assert_ne!(other.packets, alone.packets);
    assert_ne!(other.server_qlog, alone.server_qlog);
    assert_ne!(other.client_qlog, alone.client_qlog);
}

#[test]
fn reno() {
    check("reno");
}

#[test]
fn cubic() {
    check("cubic");
}

#[test]
fn bbr2() {
    check("bbr2");
}
