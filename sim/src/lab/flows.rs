//! The flows of a run: every member of every flow of the experiment, and the
//! connections that it is.

use super::outcome::Subject;
use crate::acks::AckPolicy;
use crate::engine::Simulation;
use crate::experiment::network::PathFacts;
use crate::experiment::{FlowSetup, Setup};
use crate::flow::{Flow, FlowReport};
use crate::measure::Measure;
use crate::random::{self, START_PARTS};
use crate::settings::Controller;
use crate::units::{WIRE_OVERHEAD_BYTES, stream_bytes_per_packet};
use rand::RngExt;
use std::time::Duration;

/// A member of a flow.
#[derive(Debug)]
pub(super) struct Member {
    /// Which of the setup's flows.
    flow: usize,
    /// Which of those that its `count` stands for.
    pub(super) index: usize,
    /// Its connections in the simulation.
    pub(super) flows: Vec<usize>,
    marks: Vec<FlowReport>,
}

/// The members of all flows in the order of the routes, and the connections of
/// each.
pub(super) fn members<'a>(
    setup: &'a Setup,
    seed: u64,
) -> impl Iterator<Item = (Member, Vec<Flow>)> + 'a {
    let all = setup.places.iter().enumerate();
    let all = all.flat_map(|(flow, place)| (0..place.count).map(move |index| (flow, index)));
    all.enumerate().map(move |(route, (flow, index))| {
        let member = Member {
            flow,
            index,
            flows: Vec::new(),
            marks: Vec::new(),
        };
        let spec = &setup.flows[flow];
        let mut random = random::stream(seed, START_PARTS + route as u64);
        let late = spec.start_jitter.mul_f64(random.random());
        (member, spec.connections(setup, spec.start + late))
    })
}

impl Setup {
    /// Full datagrams that the narrowest link of a path forwards per second.
    pub(super) fn packets_per_s(&self, path: &PathFacts) -> f64 {
        path.rate.bps() as f64 / (8 * (self.datagram_bytes + WIRE_OVERHEAD_BYTES)) as f64
    }
}

impl FlowSetup {
    /// The connections of one member that starts at `start`.
    fn connections(&self, setup: &Setup, start: Duration) -> Vec<Flow> {
        let flow = Flow {
            start,
            initial_window_packets: setup.initial_window_packets,
            datagram_bytes: setup.datagram_bytes,
            acks: AckPolicy {
                every: setup.ack_every,
                max_delay: setup.max_ack_delay,
            },
            ..Flow::new(Controller::named(&self.cc))
        };
        vec![flow]
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

    /// What was measured of it.
    pub(super) fn measured(&self, simulation: &Simulation, setup: &Setup) -> Subject {
        let seconds = (setup.duration - setup.measure_from).as_secs_f64();
        let report = |flow| simulation.report(flow).unwrap_or_default();
        let now = self.flows.iter().map(|&flow| report(flow));
        let grown = |value: fn(&FlowReport) -> u64| {
            let now: u64 = now.clone().map(|report| value(&report)).sum();
            let before: u64 = self.marks.iter().map(value).sum();
            (now - before) as f64
        };
        let received = grown(|report| report.received_bytes);
        let packets = received / stream_bytes_per_packet(setup.datagram_bytes) as f64;
        let measures = vec![
            Measure::new("received_bytes", "bytes", received),
            Measure::new("received_packets", "packets", packets),
            Measure::new("throughput_bps", "bit/s", 8.0 * received / seconds),
            Measure::new("throughput_pps", "packets/s", packets / seconds),
            Measure::new(
                "sent_packets",
                "packets",
                grown(|report| report.packets_sent),
            ),
            Measure::new(
                "lost_packets",
                "packets",
                grown(|report| report.packets_lost),
            ),
        ];
        self.subject(setup, measures)
    }

    /// Counts from now on.
    pub(super) fn start_measuring(&mut self, simulation: &Simulation) {
        let reports = self.flows.iter();
        self.marks = reports
            .map(|&flow| simulation.report(flow).unwrap_or_default())
            .collect();
    }
}
