//! The flows of a run: every member of every flow of the experiment, with its connections.

use std::time::Duration;

use rand::RngExt;

use super::outcome::Subject;
use crate::acks::AckPolicy;
use crate::engine::Simulation;
use crate::experiment::network::PathFacts;
use crate::experiment::traffic::Period;
use crate::experiment::{FlowSetup, Setup};
use crate::flow::Flow;
use crate::measure::Measure;
use crate::moves::Move;
use crate::random::{self, Random, START_PARTS};
use crate::settings::Controller;
use crate::time::Time;
use crate::units::{WIRE_OVERHEAD_BYTES, stream_bytes_per_packet};

/// A member of a flow.
#[derive(Debug)]
pub(super) struct Member {
    /// The number of its flow in the setup.
    flow: usize,
    /// Its number among those that the flow's `count` stands for.
    pub(super) index: usize,
    /// Its connections in the simulation.
    pub(super) flows: Vec<usize>,
    /// Its share of the narrowest link on its way, in full datagrams per second.
    pub(super) fair_packets_per_s: f64,
}

/// The members of all flows in the order of the routes, with the connections of each.
pub(super) fn members<'a>(
    setup: &'a Setup,
    paths: &'a [PathFacts],
    seed: u64,
) -> impl Iterator<Item = (Member, Vec<Flow>)> + 'a {
    let all = setup.places.iter().enumerate();
    let all = all.flat_map(|(flow, place)| (0..place.count).map(move |index| (flow, index)));
    all.zip(paths)
        .enumerate()
        .map(move |(route, ((flow, index), path))| {
            let member = Member {
                flow,
                index,
                flows: Vec::new(),
                fair_packets_per_s: setup.packets_per_s(path) / setup.sharing(flow) as f64,
            };
            let spec = &setup.flows[flow];
            let mut random = random::stream(seed, START_PARTS + route as u64);
            let late = spec.start_jitter.mul_f64(random.random());
            let flows = spec.connections(setup, spec.start + late, &mut random);
            (member, flows)
        })
}

impl Setup {
    /// The number of full datagrams that the narrowest link of a path forwards per second.
    pub(super) fn packets_per_s(&self, path: &PathFacts) -> f64 {
        path.rate.bps() as f64 / (8 * (self.datagram_bytes + WIRE_OVERHEAD_BYTES)) as f64
    }

    /// The number of members that share the way of a flow: those that go the same way as one
    /// connection each and are no background.
    fn sharing(&self, flow: usize) -> usize {
        let direction = |flow: usize| self.places[flow].direction.unwrap_or_default();
        let shares = |&other: &usize| {
            let setup = &self.flows[other];
            other == flow
                || !setup.background
                    && !setup.traffic.is_many_connections()
                    && direction(other) == direction(flow)
        };
        let all = (0..self.flows.len()).filter(shares);
        all.map(|flow| self.places[flow].count).sum()
    }
}

impl FlowSetup {
    /// The receiver's changes of address.
    fn moves(&self) -> Vec<(Duration, Move)> {
        let of = |times: &[Duration], kind| times.iter().map(move |&at| (at, kind)).collect();
        let all: [Vec<_>; 2] = [
            of(&self.migrations, Move::Migration),
            of(&self.rebindings, Move::Rebinding),
        ];
        all.concat()
    }

    /// The connections of one member that starts at `start`.
    fn connections(&self, setup: &Setup, start: Duration, random: &mut Random) -> Vec<Flow> {
        let packet_bytes = stream_bytes_per_packet(setup.datagram_bytes);
        let period = Period {
            start,
            stop: self.stop,
            end: setup.duration,
        };
        let flow = || Flow {
            initial_window_packets: setup.initial_window_packets,
            datagram_bytes: setup.datagram_bytes,
            acks: AckPolicy {
                every: setup.ack_every,
                max_delay: setup.max_ack_delay,
            },
            ecn: self.ecn,
            discovers_mtu: self.discovers_mtu,
            moves: self.moves(),
            send_buffer_bytes: self.send_buffer.map(|size| size.bytes(packet_bytes)),
            ..Flow::new(Controller::named(&self.cc))
        };
        self.traffic.connections(period, packet_bytes, random, flow)
    }
}

impl Member {
    pub(super) fn setup<'a>(&self, setup: &'a Setup) -> &'a FlowSetup {
        &setup.flows[self.flow]
    }

    /// The member with these measures.
    pub(super) fn subject(&self, setup: &Setup, measures: Vec<Measure>) -> Subject {
        let flow = self.setup(setup);
        Subject {
            index: self.index,
            cc: flow.cc.clone(),
            background: flow.background,
            ..Subject::new(format!("flow/{}", flow.name), measures)
        }
    }

    /// Its measurements; at `had_share` it had had most of its share for a second.
    pub(super) fn measured(
        &self,
        simulation: &Simulation,
        setup: &Setup,
        had_share: Option<Duration>,
    ) -> Subject {
        let many = self.setup(setup).traffic.is_many_connections();
        let measures = match self.flows[..] {
            [flow] if !many => {
                let mut measures = simulation.measure_flow(flow, Some(self.fair_packets_per_s));
                let started = simulation.report(flow).and_then(|report| report.started);
                if let (Some(at), Some(started)) = (had_share, started) {
                    let took = (Time::from(at) - started).as_secs_f64();
                    measures.push(Measure::new("time_to_95_percent_s", "s", took));
                }
                measures
            }
            _ => simulation.measure_flows(&self.flows),
        };
        self.subject(setup, measures)
    }
}
