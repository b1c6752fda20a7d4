//! The path of a long run, its changes, and the flows that come.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use gallop_network::impairment::{GilbertElliott, Impairment, Outage, Reordering, WhileItLasts};
use gallop_network::link::{Jitter, Link};
use gallop_network::queue::DropTail;
use gallop_network::random::{self, Random};
use gallop_network::rate_course::RateCourse;
use gallop_network::units::{Buffer, Rate};
use rand::RngExt;

use crate::endpoint::acks::AckPolicy;
use crate::endpoint::moves::Move;
use crate::endpoint::settings::Controller;
use crate::engine::flow::Flow;
use crate::engine::topology::{Access, DEFAULT_HOST_JITTER, Route, Topology};
use crate::traffic::conversation::{Conversation, Exchange, Pace, Protocol, REQUEST_BYTES};
use crate::traffic::draw::{exponential, pareto};
use crate::traffic::{Bulk, OnOff};

/// The controllers that compete. The first two are watched most closely and come most often.
const CONTROLLERS: [&str; 13] = [
    "vegas",
    "gallop-vegas",
    "vegas",
    "gallop-vegas",
    "vegas:alpha=1,beta=3",
    "gallop-vegas:alpha=1,beta=3",
    "canter",
    "canter",
    "canter:compete=on",
    "reno",
    "cubic",
    "bbr2_gcongestion",
    "cubic-rfc9438",
];

/// The number of routes between hosts, each with access links of its own length.
const ROUTES: usize = 16;

/// The longest delay of an access link, one way.
const LONGEST_ACCESS: Duration = Duration::from_millis(60);

/// The mean time from the start of one flow to that of the next.
const MEAN_UNTIL_NEXT_FLOW_S: f64 = 4.0;

/// The mean of the stream bytes of a flow, and the most.
const MEAN_BYTES: f64 = 1_200_000.0;
const MOST_BYTES: f64 = 10_000_000.0;

/// The mean time from one change of the path to the next.
const MEAN_UNTIL_NEXT_CHANGE_S: f64 = 300.0;

/// The range of rates that the path has in turn, in bits per second.
const LOWEST_BPS: f64 = 200_000.0;
const HIGHEST_BPS: f64 = 8_000_000.0;
/// The rate at the beginning and in the end.
const NORMAL_BPS: f64 = 4_000_000.0;

/// The longest delay of the path, one way.
const LONGEST_DELAY: Duration = Duration::from_millis(150);

/// The longest outage.
const LONGEST_OUTAGE_S: f64 = 30.0;

/// Limit of the bottleneck's queue, in packets.
const BUFFER_PACKETS: NonZeroU64 = NonZeroU64::MIN.saturating_add(59);

/// The part of the random numbers that decides about the flows that come.
const FLOWS_PART: u64 = 1;

/// The part of the random numbers that decides about the changes of the path; those after it decide
/// about losses and reordering.
const PATH_PART: u64 = 2;

/// The path and its flows.
#[derive(Debug)]
pub(super) struct World {
    random: Random,
}

/// A number between two others, spread evenly over orders of magnitude.
fn at_random(random: &mut Random, least: f64, most: f64) -> f64 {
    least * libm::pow(most / least, random.random())
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

fn rate(bps: f64) -> Rate {
    Rate::from_bps(bps).unwrap_or(Rate::GIGABIT)
}

/// A kind of change of a path.
#[derive(Debug, Default)]
struct Course {
    rates: Vec<(Duration, Rate)>,
    delays: Vec<(Duration, Duration)>,
    outages: Vec<(Duration, Duration)>,
    bad_times: Vec<(Duration, Duration)>,
}

impl Course {
    fn new(duration: Duration, random: &mut Random) -> Course {
        let mut course = Course::default();
        let mut now = Duration::ZERO;
        loop {
            now += seconds(exponential(random, MEAN_UNTIL_NEXT_CHANGE_S));
            if now >= duration {
                break;
            }
            match random.random_range(0..6) {
                0..=2 => {
                    let bps = at_random(random, LOWEST_BPS, HIGHEST_BPS);
                    course.rates.push((now, rate(bps)));
                }
                3 | 4 => {
                    let delay = LONGEST_DELAY.mul_f64(random.random());
                    course.delays.push((now, delay));
                }
                _ => {
                    let length = seconds(at_random(random, 0.01, LONGEST_OUTAGE_S));
                    course.outages.push((now, now + length));
                    course.bad_times.push((now + length, now + 3 * length));
                }
            }
        }
        course.rates.push((duration, rate(NORMAL_BPS)));
        course
    }

    /// One direction of the bottleneck.
    fn link(&self, mut randoms: impl Iterator<Item = Random>) -> Link {
        let normal = rate(NORMAL_BPS);
        let queue = DropTail::new(Buffer::Packets(BUFFER_PACKETS));
        let mut link = Link::queued(normal, LONGEST_DELAY / 10, Box::new(queue))
            .with_rate_course(RateCourse::changing(normal, &self.rates))
            .with_delays(&self.delays);
        for &(from, to) in &self.outages {
            link = link.with_impairment(Box::new(Outage::new(from, to)));
        }
        for &(from, to) in &self.bad_times {
            for impairment in bad_time(&mut randoms) {
                link = link.with_impairment(Box::new(WhileItLasts::new(from, to, impairment)));
            }
        }
        link
    }
}

/// Impairments in a bad time: bursts of losses and reordering.
fn bad_time(randoms: &mut impl Iterator<Item = Random>) -> Vec<Box<dyn Impairment>> {
    let mut all: Vec<Box<dyn Impairment>> = Vec::new();
    let losing = randoms
        .next()
        .map(|random| GilbertElliott::new(0.02, 0.3, 0.001, 0.8, random));
    if let Some(Ok(losing)) = losing {
        all.push(Box::new(losing));
    }
    let reordering = randoms
        .next()
        .map(|random| Reordering::new(0.05, LONGEST_DELAY / 10, random));
    if let Some(Ok(reordering)) = reordering {
        all.push(Box::new(reordering));
    }
    all
}

impl World {
    /// A path that changes for `duration`, by the seed.
    pub(super) fn new(duration: Duration, seed: u64) -> (World, Topology) {
        let mut random = random::stream(seed, PATH_PART);
        let course = Course::new(duration, &mut random);
        let mut topology = Topology::new();
        let mut randoms = (PATH_PART + 1..).map(|part| random::stream(seed, part));
        let to_client = vec![topology.add_link(course.link(&mut randoms))];
        let to_server = vec![topology.add_link(course.link(&mut randoms))];
        for _ in 0..ROUTES {
            let access = Access {
                rate: Rate::GIGABIT,
                delay: LONGEST_ACCESS.mul_f64(random.random()),
            };
            let jitter = randoms.next().map(|random| Jitter {
                max: DEFAULT_HOST_JITTER,
                random,
            });
            let route = Route {
                to_client: to_client.clone(),
                to_server: to_server.clone(),
            };
            topology.add_hosts(route, Some(access), jitter);
        }
        let world = World {
            random: random::stream(seed, FLOWS_PART),
        };
        (world, topology)
    }

    /// Time from the start of a flow to that of the next.
    pub(super) fn until_next_flow(&mut self) -> Duration {
        seconds(exponential(&mut self.random, MEAN_UNTIL_NEXT_FLOW_S))
    }

    /// A flow that comes `now`: its route, its controller and itself.
    pub(super) fn flow(&mut self, now: Duration) -> (usize, &'static str, Flow) {
        let random = &mut self.random;
        let route = random.random_range(0..ROUTES);
        let controller = CONTROLLERS[random.random_range(0..CONTROLLERS.len())];
        let max_delay = Duration::from_millis(random.random_range(0..=50));
        let acks = AckPolicy {
            every: NonZeroU32::MIN.saturating_add(random.random_range(0..8)),
            max_delay,
        };
        let bytes = pareto(random, MEAN_BYTES, 1.2).min(MOST_BYTES) as u64;
        let conversation = conversation(random, bytes);
        let streams = conversation.protocol == Protocol::Streams;
        let mut moves = Vec::new();
        if random.random_bool(0.2) {
            for _ in 0..random.random_range(1..5) {
                let at = now + seconds(exponential(random, 20.0));
                let kind = match random.random() {
                    true => Move::Migration,
                    false => Move::Rebinding,
                };
                moves.push((at, kind));
            }
        }
        let flow = Flow {
            acks,
            conversation,
            moves,
            checks_content: streams,
            discovers_mtu: random.random_bool(0.2),
            pacing: random.random_bool(0.8),
            closes: true,
            ..Flow::new(Controller::named(controller))
        };
        (route, controller, flow)
    }
}

/// Traffic of a flow of about this many bytes.
fn conversation(random: &mut Random, bytes: u64) -> Conversation {
    match random.random_range(0..4) {
        0 | 1 => Conversation::answer(Box::new(Bulk::Bytes(bytes))),
        2 => {
            // Between bursts are idle times, in which RTTs and windows grow old.
            let total = bytes / 4;
            let source = OnOff {
                bytes: random.random_range(1000..100_000),
                interval: seconds(at_random(random, 0.02, 30.0)),
                total: Some(total.clamp(1000, 2_000_000)),
            };
            Conversation::answer(Box::new(source))
        }
        _ => {
            let count = random.random_range(1..20);
            let each = bytes / count + 1;
            let think = seconds(at_random(random, 0.01, 20.0));
            let protocol = match random.random() {
                true => Protocol::Http3,
                false => Protocol::Streams,
            };
            let exchanges = (0..count).map(move |_| Exchange {
                wait: think,
                request_bytes: REQUEST_BYTES,
                answer: Box::new(Bulk::Bytes(each)),
            });
            let at_once = random.random_range(1..4);
            Conversation::new(exchanges, Pace::Closed(at_once), protocol)
        }
    }
}
