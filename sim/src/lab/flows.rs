//! The flows of a run: every member of every flow of the experiment, with its connections.

use std::time::Duration;

use rand::RngExt;

use super::outcome::Subject;
use crate::acks::AckPolicy;
use crate::engine::{ShareWindow, Simulation};
use crate::experiment::network::PathFacts;
use crate::experiment::traffic::{Period, TrafficSpec};
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
    /// Its path, before any change.
    path: PathFacts,
}

/// The part of its share that a flow has when it has "most" of it.
pub(super) const MOST: f64 = 0.95;

/// The window of time in which a flow has most of its share: so many base RTTs, …
const WINDOW_RTTS: u32 = 4;

/// … at least this time, …
const LEAST_WINDOW: Duration = Duration::from_millis(50);

/// … and at least the time of so many full datagrams at the rate of its share.
const LEAST_WINDOW_PACKETS: f64 = 20.0;

/// The members of all flows in the order of the routes, with the connections of each.
pub(super) fn members<'a>(
    setup: &'a Setup,
    paths: &'a Paths,
    seed: u64,
) -> impl Iterator<Item = (Member, Vec<Flow>)> + 'a {
    let all = setup.places.iter().enumerate();
    let all = all.flat_map(|(flow, place)| (0..place.count).map(move |index| (flow, index)));
    all.zip(&paths.before)
        .enumerate()
        .map(move |(route, ((flow, index), &path))| {
            let member = Member {
                flow,
                index,
                flows: Vec::new(),
                fair_packets_per_s: setup.fair_packets_per_s(flow, &path),
                path,
            };
            let spec = &setup.flows[flow];
            let mut random = random::stream(seed, START_PARTS + route as u64);
            let late = spec.start_jitter.mul_f64(random.random());
            let mut flows = spec.connections(setup, spec.start + late, &mut random);
            if let [one] = &mut flows[..]
                && spec.traffic.is_one_connection()
            {
                let ramp_up = setup.share_window(flow, "ramp_up_s", &path, None);
                let after = paths.after.get(route).zip(setup.change_at);
                let recovered =
                    after.map(|(path, at)| setup.share_window(flow, "recovered_s", path, Some(at)));
                one.share_windows = [Some(ramp_up), recovered].into_iter().flatten().collect();
            }
            (member, flows)
        })
}

/// Facts of the routes of all members.
pub(super) struct Paths {
    /// Before any change.
    pub(super) before: Vec<PathFacts>,
    /// Right after the change of the network; empty if the setup names none.
    pub(super) after: Vec<PathFacts>,
}

impl Setup {
    /// The share of a flow's member of the narrowest link of its path, in full datagrams per second.
    fn fair_packets_per_s(&self, flow: usize, path: &PathFacts) -> f64 {
        self.packets_per_s(path) / self.sharing(flow) as f64
    }

    /// The window in which a member of a flow has most of its share of a path.
    fn share_window(
        &self,
        flow: usize,
        metric: &'static str,
        path: &PathFacts,
        start: Option<Duration>,
    ) -> ShareWindow {
        let packets_per_s = self.fair_packets_per_s(flow, path);
        let packets = Duration::try_from_secs_f64(LEAST_WINDOW_PACKETS / packets_per_s);
        let length = (path.base_rtt * WINDOW_RTTS)
            .max(LEAST_WINDOW)
            .max(packets.unwrap_or(Duration::MAX));
        let bytes = MOST * packets_per_s * self.datagram_bytes as f64 * length.as_secs_f64();
        ShareWindow::new(metric, length, bytes, start)
    }

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
                    && setup.traffic.is_one_connection()
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

/// Gives the time of a connection the name that it has as the time of a page.
fn name_page(measure: &mut Measure) {
    measure.metric = match measure.metric {
        "connections_finished" => "pages",
        "completion_mean_s" => "page_time_mean_s",
        "completion_p95_s" => "page_time_p95_s",
        "completion_p99_s" => "page_time_p99_s",
        other => other,
    };
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

    /// Measures that follow from others and the path: rounds, and the power.
    fn relative(&self, measures: &[Measure]) -> Vec<Measure> {
        let value = |metric: &str| {
            let mut found = measures.iter().filter(|measure| measure.metric == metric);
            found.next().map(|measure| measure.value)
        };
        let base_rtt_s = self.path.base_rtt.as_secs_f64();
        let rounds = value("ramp_up_s").map(|took| took / base_rtt_s);
        let power = value("throughput_pps")
            .zip(value("rtt_mean_s"))
            .filter(|_| self.path.steady)
            .map(|(rate, rtt)| rate / self.fair_packets_per_s * base_rtt_s / rtt);
        [
            rounds.map(|rounds| Measure::new("ramp_up_rounds", "", rounds)),
            power.map(|power| Measure::new("power_ratio", "", power)),
        ]
        .into_iter()
        .flatten()
        .collect()
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
                measures.extend(self.relative(&measures));
                measures
            }
            _ => {
                let mut measures = simulation.measure_flows(&self.flows);
                if let TrafficSpec::Pages(_) = self.setup(setup).traffic {
                    measures.iter_mut().for_each(name_page);
                }
                measures
            }
        };
        self.subject(setup, measures)
    }
}
