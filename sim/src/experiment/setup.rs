//! One point of an experiment: everything that a run needs except its seed.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use gallop::AlgorithmError;

use super::axes::check_id;
use super::file::{File, FlowSpec};
use super::network::{FlowPlace, Network, StallsSpec};
use super::traffic::{BulkSpec, TrafficSpec};
use crate::invalid::{Invalid, require};
use crate::stack::{Selection, Stack};
use crate::units::{Size, Span};

/// The smallest datagram a QUIC path must carry (RFC 9000 §14), and the largest
/// UDP payload over IPv4.
const DATAGRAM_BYTES: RangeInclusive<usize> = 1200..=65_507;

/// quiche's largest window.
const MOST_WINDOW_PACKETS: usize = 1 << 20;

/// max_ack_delay must be less than 2^14 ms (RFC 9000 §18.2).
const MOST_ACK_DELAY: Duration = Duration::from_millis((1 << 14) - 1);

/// The number of addresses that can be given out.
const MOST_FLOWS: usize = 100_000;

/// The jitter of hosts that keeps several flows out of step.
const HOST_JITTER: Duration = Duration::from_micros(120);

/// Everything that a run needs except its seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Simulated time.
    pub duration: Duration,
    /// The time from which meters count.
    pub measure_from: Duration,
    /// The time at which the network changes, from which flows are to recover.
    pub change_at: Option<Duration>,
    /// UDP payload of a full datagram.
    pub datagram_bytes: usize,
    /// Initial window (RFC 9002 §7.2), in datagrams.
    pub initial_window_packets: usize,
    /// The number of packets for one acknowledgement.
    pub ack_every: NonZeroU32,
    /// The longest time for which an acknowledgement is held.
    pub max_ack_delay: Duration,
    /// The longest random time that a server takes before it sends a packet.
    pub host_jitter: Duration,
    /// Times in which servers' hosts stand still.
    pub host_stalls: Option<StallsSpec>,
    /// The links.
    pub network: Network,
    /// The places of the flows in the network; one for each of `flows`.
    pub places: Vec<FlowPlace>,
    /// The flows.
    pub flows: Vec<FlowSetup>,
}

/// A flow, or as many equal flows as its place says.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSetup {
    /// Its name.
    pub name: String,
    /// The sender's controller, and options after a colon.
    pub cc: String,
    /// True if the file leaves the controller to the run, so that this is what the run is about.
    pub tested: bool,
    /// The time at which it starts …
    pub start: Duration,
    /// … and the longest random time by which it starts later.
    pub start_jitter: Duration,
    /// The time at which the sender stops to offer data.
    pub stop: Option<Duration>,
    /// True if it only makes conditions for others.
    pub background: bool,
    /// Its traffic.
    pub traffic: TrafficSpec,
    /// Limit on unacknowledged and unsent data in the sender's socket buffer.
    pub send_buffer: Option<Size>,
    /// True if its packets allow congestion marks.
    pub ecn: bool,
    /// True if it looks for larger datagrams by probes.
    pub discovers_mtu: bool,
    /// Times at which the receiver moves to another address.
    pub migrations: Vec<Duration>,
    /// Times at which a NAT gives the receiver another address.
    pub rebindings: Vec<Duration>,
}

impl FlowSetup {
    /// The flow of a file, with the run's controller unless it has its own.
    fn new(flow: &FlowSpec, cc: Option<&str>, file: &File) -> FlowSetup {
        FlowSetup {
            name: flow.name.clone(),
            cc: flow.controller(cc, file).unwrap_or_default(),
            tested: flow.cc.is_none(),
            start: flow.start.duration(),
            start_jitter: flow.start_jitter.duration(),
            stop: flow.stop.map(Span::duration),
            background: flow.background,
            traffic: flow.traffic.clone(),
            send_buffer: flow.send_buffer,
            ecn: flow.ecn,
            discovers_mtu: flow.discover_mtu,
            migrations: flow.migrations.iter().map(|at| at.duration()).collect(),
            rebindings: flow.rebindings.iter().map(|at| at.duration()).collect(),
        }
    }
}

impl Setup {
    /// The number of flows, with every member of a count.
    #[must_use]
    pub fn members(&self) -> usize {
        self.places.iter().map(|place| place.count).sum()
    }

    /// Lets this many equal flows run in place of those of the first.
    pub(crate) fn set_members(&mut self, members: usize) {
        let by_default = self.host_jitter == host_jitter(self.members());
        if let Some(place) = self.places.first_mut() {
            place.count = members;
        }
        if by_default {
            self.host_jitter = host_jitter(self.members());
        }
    }

    /// Checks the values that can be changed after a file was read: the datagrams, the initial
    /// window, the number of flows and the network.
    ///
    /// # Errors
    ///
    /// Names the first value that makes no sense, by its place in a file.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        within("datagram", self.datagram_bytes, DATAGRAM_BYTES)?;
        let window = self.initial_window_packets;
        within("initial-window", window, 1..=MOST_WINDOW_PACKETS)?;
        within("flow", self.members(), 1..=MOST_FLOWS)?;
        self.network.validate(&self.places)
    }

    /// The approximate number of packets that a run moves, to estimate its time.
    #[must_use]
    pub fn cost(&self) -> f64 {
        let rate = self.network.busiest_rate();
        let rate = rate.and_then(|rate| rate.resolve(self.datagram_bytes).ok());
        let bytes_per_s = rate.map_or(1e6, |rate| rate.bps() as f64 / 8.0);
        let most = self.duration.as_secs_f64() * bytes_per_s / self.datagram_bytes as f64;
        let packets = self.flows.iter().zip(&self.places).map(|(flow, place)| {
            let TrafficSpec::Bulk(BulkSpec { size: Some(size) }) = flow.traffic else {
                return most;
            };
            let packets = size.bytes(self.datagram_bytes as u64) / self.datagram_bytes as u64;
            (packets.saturating_mul(place.count as u64)) as f64
        });
        packets.sum::<f64>().min(most) + 1.0
    }

    /// Checks a file and takes the values that a run needs; `cc` is the run's controller.
    ///
    /// # Errors
    /// Names the first value of each part of the file that makes no sense.
    pub(super) fn new(file: &File, cc: Option<&str>) -> Result<Setup, Vec<Invalid>> {
        let mut problems = Vec::new();
        let mut note = |result: Result<(), Invalid>| problems.extend(result.err());
        note(check_times(file));
        if let Some(stalls) = file.host_stalls {
            note(stalls.validate("host-stalls"));
        }
        note(check_packets(file));
        note(check_flows(file));
        for (number, flow) in file.flow.iter().enumerate() {
            note(check_flow(flow, cc, file, &format!("flow[{number}]")));
        }
        let places: Vec<FlowPlace> = file.flow.iter().map(FlowSpec::place).collect();
        let network = network(file);
        match &network {
            Ok(network) => note(network.validate(&places)),
            Err(invalid) => note(Err(invalid.clone())),
        }
        let (true, Ok(network)) = (problems.is_empty(), network) else {
            return Err(problems);
        };
        let members = places.iter().map(|place| place.count).sum();
        let host_jitter = match file.host_jitter {
            Some(jitter) => jitter.duration(),
            None => host_jitter(members),
        };
        Ok(Setup {
            duration: file.duration.duration(),
            measure_from: file.measure_from.duration(),
            change_at: file.change_at.map(Span::duration),
            datagram_bytes: file.datagram,
            initial_window_packets: file.initial_window,
            ack_every: file.ack_every,
            max_ack_delay: file.max_ack_delay.duration(),
            host_jitter,
            host_stalls: file.host_stalls,
            network,
            places,
            flows: file
                .flow
                .iter()
                .map(|flow| FlowSetup::new(flow, cc, file))
                .collect(),
        })
    }
}

/// The default of the jitter of hosts. A flow alone has nothing to fall into step with, and a
/// jitter of 60 µs in the mean looks like a fraction of a packet of backlog to a controller that
/// watches delays.
fn host_jitter(members: usize) -> Duration {
    match members {
        1 => Duration::ZERO,
        _ => HOST_JITTER,
    }
}

/// Checks that a value is in its range.
fn within(place: &str, value: usize, range: RangeInclusive<usize>) -> Result<(), Invalid> {
    require(range.contains(&value), place, || {
        format!("{value} is not from {} to {}", range.start(), range.end())
    })
}

fn network(file: &File) -> Result<Network, Invalid> {
    match (&file.dumbbell, &file.link) {
        (Some(dumbbell), None) => Ok(Network::Dumbbell(Box::new(dumbbell.clone()))),
        (None, Some(links)) => Ok(Network::Links(links.clone())),
        (Some(_), Some(_)) => Err(Invalid::new(
            "dumbbell",
            "there are also tables [[link]]; give one or the other",
        )),
        (None, None) => Err(Invalid::new(
            "network",
            "there is neither a table [dumbbell] nor any [[link]]",
        )),
    }
}

fn check_times(file: &File) -> Result<(), Invalid> {
    let positive = |place: &str, span: Span| {
        require(!span.duration().is_zero(), place, || {
            "it is 0; it must be positive".to_owned()
        })
    };
    positive("duration", file.duration)?;
    require(file.measure_from < file.duration, "measure-from", || {
        format!(
            "{} is not before the end, {}",
            file.measure_from, file.duration
        )
    })?;
    if let Some(change_at) = file.change_at {
        require(change_at < file.duration, "change-at", || {
            format!("{change_at} is not before the end, {}", file.duration)
        })?;
    }
    match &file.series {
        Some(series) => positive("series.every", series.every),
        None => Ok(()),
    }
}

fn check_packets(file: &File) -> Result<(), Invalid> {
    within("datagram", file.datagram, DATAGRAM_BYTES)?;
    within(
        "initial-window",
        file.initial_window,
        1..=MOST_WINDOW_PACKETS,
    )?;
    require(
        file.max_ack_delay.duration() <= MOST_ACK_DELAY,
        "max-ack-delay",
        || {
            format!(
                "{} is too long; the most is {} ms (RFC 9000 §18.2)",
                file.max_ack_delay,
                MOST_ACK_DELAY.as_millis()
            )
        },
    )
}

fn check_flows(file: &File) -> Result<(), Invalid> {
    require(!file.flow.is_empty(), "flow", || {
        "there is no [[flow]]".to_owned()
    })?;
    let mut names = BTreeSet::new();
    for (number, flow) in file.flow.iter().enumerate() {
        check_id("flow", &flow.name, !names.insert(&flow.name))
            .map_err(|problem| Invalid::new(format!("flow[{number}].name"), problem))?;
    }
    let all = file
        .flow
        .iter()
        .fold(0, |all: usize, flow| all.saturating_add(flow.count.get()));
    require(all <= MOST_FLOWS, "flow", || {
        format!("there are {all} flows; the most is {MOST_FLOWS}")
    })
}

fn check_flow(flow: &FlowSpec, cc: Option<&str>, file: &File, place: &str) -> Result<(), Invalid> {
    let at = |key: &str| format!("{place}.{key}");
    let Some(cc) = flow.controller(cc, file) else {
        return Err(Invalid::new(
            place,
            format!(
                "flow \"{}\" has no `cc`, and neither has the run",
                flow.name
            ),
        ));
    };
    let selection: Selection = cc
        .parse()
        .map_err(|error: AlgorithmError| Invalid::new(at("cc"), error.to_string()))?;
    if selection.stack() != Stack::Quiche {
        check_without_quiche(flow, selection.stack(), &at)?;
    }
    if let Some(stop) = flow.stop {
        require(stop > flow.start, &at("stop"), || {
            format!("{stop} is not after the start, {}", flow.start)
        })?;
    }
    flow.traffic.validate(&at("traffic"))
}

/// Checks that a flow asks for nothing that only quiche has in the simulator.
fn check_without_quiche(
    flow: &FlowSpec,
    stack: Stack,
    at: &dyn Fn(&str) -> String,
) -> Result<(), Invalid> {
    let moves = !flow.migrations.is_empty() || !flow.rebindings.is_empty();
    for (key, is_asked, what) in [
        (
            "send-buffer",
            flow.send_buffer.is_some() && stack != Stack::Tcp,
            "a limited buffer",
        ),
        (
            "discover-mtu",
            flow.discover_mtu,
            "the discovery of the MTU",
        ),
        ("migrations", moves, "changes of address"),
        (
            "traffic",
            stack == Stack::Tcp && matches!(flow.traffic, TrafficSpec::Live(_)),
            "live media",
        ),
    ] {
        require(!is_asked, &at(key), || {
            let stack = stack.as_str();
            format!("{stack} has not {what} in the simulator; only quiche has")
        })?;
    }
    Ok(())
}
