//! Random scripts of a transfer, and a record of the sender in each.

use std::cell::RefCell;
use std::num::{NonZeroU32, NonZeroU64};
use std::rc::Rc;
use std::time::Duration;

use gallop_sim::clock::Time;
use gallop_sim::impairment::{Outage, RandomLoss, Reordering};
use gallop_sim::random::stream;
use gallop_sim::traffic::{Bulk, OnOff, Source};
use gallop_sim::units::{Buffer, Rate};
use gallop_sim::{
    isolated, AckPolicy, Action, Controller, Conversation, Dumbbell, Flow, Side, Simulation,
    SimulationError,
};
use quiche::{StartupExit, StartupExitReason};
use rand::RngExt;

/// A transfer over a path with difficulties.
#[derive(Clone, Debug)]
pub struct Script {
    seed: u64,
    rate_bps: f64,
    rtt: Duration,
    buffer_packets: u64,
    /// Probability of loss, of packets and of acknowledgments.
    loss: (f64, f64),
    /// Probability and delay of packets that others overtake.
    reordering: Option<(f64, Duration)>,
    /// The times from which and to which nothing arrives.
    outage: Option<(Duration, Duration)>,
    bytes: u64,
    /// Bytes and interval of an application that limits the rate.
    chunks: Option<(u64, Duration)>,
    datagram_bytes: usize,
    initial_window_packets: usize,
    ack_every: u32,
    hystart: bool,
}

/// The visible state of the sender after a send, a receive or a timeout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    time: Time,
    action: Action,
    window: usize,
    sent: usize,
    lost: usize,
    spurious_losses: usize,
    startup_exit: Option<StartupExit>,
}

/// The events that a script brought about.
#[derive(Debug)]
pub struct Seen {
    pub losses: usize,
    pub spurious_losses: usize,
    pub timeouts: usize,
    pub exits_by_hystart: usize,
}

impl Script {
    /// The script that a seed determines.
    pub fn random(seed: u64) -> Script {
        let mut random = stream(seed, 0);
        let ms = Duration::from_millis;
        let rtt = ms(random.random_range(5..250));
        let outage_from = ms(random.random_range(100..3000));
        let outage_length = ms(random.random_range(20..1500));
        let reordering_delay = rtt.mul_f64(random.random_range(0.05..0.8));
        Script {
            seed,
            rate_bps: 10_f64.powf(random.random_range(5.3..7.5)),
            rtt,
            buffer_packets: random.random_range(3..80),
            loss: match random.random_range(0..4) {
                0 => (0.0, 0.0),
                1 => (0.0, random.random_range(0.0..0.1)),
                _ => (
                    random.random_range(0.0..0.03),
                    random.random_range(0.0..0.03),
                ),
            },
            reordering: random
                .random_bool(0.4)
                .then(|| (random.random_range(0.0..0.05), reordering_delay)),
            outage: random
                .random_bool(0.3)
                .then_some((outage_from, outage_from + outage_length)),
            bytes: random.random_range(50_000..700_000),
            chunks: random.random_bool(0.3).then(|| {
                let bytes = random.random_range(1000..60_000);
                (bytes, ms(random.random_range(5..300)))
            }),
            datagram_bytes: random.random_range(1200..1400),
            initial_window_packets: random.random_range(2..20),
            ack_every: random.random_range(1..4),
            hystart: random.random_bool(0.6),
        }
    }

    /// The states of a sender with this controller, from the start to the end of the transfer.
    pub fn run(&self, controller: Controller) -> Vec<Row> {
        isolated(self.seed, || self.simulate(controller)).expect("virtual time")
    }

    fn simulate(&self, controller: Controller) -> Vec<Row> {
        let random = |part| stream(self.seed, part);
        let loss = |probability, part| {
            Box::new(RandomLoss::new(probability, random(part)).expect("a probability"))
        };
        let buffer = Buffer::Packets(NonZeroU64::new(self.buffer_packets).expect("not zero"));
        let rate = Rate::from_bps(self.rate_bps).expect("a rate");
        let mut path = Dumbbell::new(rate, self.rtt, buffer);
        path.impairments.push(loss(self.loss.0, 1));
        path.reverse_impairments.push(loss(self.loss.1, 2));
        if let Some((probability, delay)) = self.reordering {
            let reordering = Reordering::new(probability, delay, random(3));
            path.impairments
                .push(Box::new(reordering.expect("a probability")));
        }
        if let Some((from, to)) = self.outage {
            path.impairments.push(Box::new(Outage::new(from, to)));
        }

        let rows = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&rows);
        let source: Box<dyn Source> = match self.chunks {
            Some((bytes, interval)) => Box::new(OnOff {
                bytes,
                interval,
                total: Some(self.bytes),
            }),
            None => Box::new(Bulk::Bytes(self.bytes)),
        };
        let flow = Flow {
            initial_window_packets: self.initial_window_packets,
            datagram_bytes: self.datagram_bytes,
            hystart: self.hystart,
            acks: AckPolicy {
                every: NonZeroU32::new(self.ack_every).expect("not zero"),
                max_delay: Duration::from_millis(25),
            },
            conversation: Conversation::answer(source),
            observer: Some(Box::new(move |observation| {
                if observation.side == Side::Client {
                    return;
                }
                let Some(path) = observation.connection.path_stats().next() else {
                    return;
                };
                seen.borrow_mut().push(Row {
                    time: observation.time,
                    action: observation.action,
                    window: path.cwnd,
                    sent: path.sent,
                    lost: path.lost,
                    spurious_losses: observation.connection.stats().spurious_lost,
                    startup_exit: path.startup_exit,
                });
            })),
            ..Flow::new(controller)
        };
        let built = path.build(1, self.seed);
        let mut simulation = Simulation::new(built.topology).expect("a simulation");
        simulation.add_flow(flow).expect("a route");
        match simulation.run_to_completion(Duration::from_secs(60)) {
            Ok(_) | Err(SimulationError::Unfinished { .. }) => {}
            Err(error) => panic!("{self:?}: {error}"),
        }
        drop(simulation);
        rows.take()
    }
}

impl Seen {
    /// The events that these rows show.
    pub fn of(rows: &[Row]) -> Seen {
        let last = rows.last().expect("something was sent");
        let timeouts = rows.iter().filter(|row| row.action == Action::TimedOut);
        let by_hystart = last
            .startup_exit
            .is_some_and(|exit| exit.reason == StartupExitReason::ConservativeSlowStartRounds);
        Seen {
            losses: last.lost,
            spurious_losses: last.spurious_losses,
            timeouts: timeouts.count(),
            exits_by_hystart: usize::from(by_hystart),
        }
    }
}
