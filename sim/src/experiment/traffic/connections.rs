//! The connections that a flow of an experiment makes.

use std::iter;
use std::time::Duration;

use gallop_network::random::Random;
use gallop_network::units::{Rate, WIRE_OVERHEAD_BYTES};

use super::tcplib;
use super::{LiveSpec, MediaSpec, PagesSpec, RequestsSpec, TrafficSpec};
use crate::engine::flow::{Flow, Follow};
use crate::traffic::conversation::{Conversation, Exchange, Pace, Protocol, REQUEST_BYTES};
use crate::traffic::draw::fork;
use crate::traffic::live::{Live, Media, Silence};
use crate::traffic::load::Load;
use crate::traffic::player::Player;
use crate::traffic::{Bulk, OnOff, Source};

/// The period of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Its start, counted from the start of the simulation.
    pub start: Duration,
    /// Its end, if it stops before the simulation does.
    pub stop: Option<Duration>,
    /// End of the simulation.
    pub end: Duration,
}

impl Period {
    fn last(&self) -> Duration {
        self.stop.map_or(self.end, |stop| stop.min(self.end))
    }
}

impl TrafficSpec {
    /// The connections that carry this traffic: flows like those that `flow` makes, in which
    /// controller, datagrams and acknowledgements are set. `packet_bytes` is the part of a stream
    /// that a datagram of full size carries.
    ///
    /// Traffic of [many connections](TrafficSpec::is_many_connections) has all connections that
    /// start in the `period`, and closes each when it is over. Other traffic is one connection that
    /// stays open.
    #[must_use]
    pub fn connections(
        &self,
        period: Period,
        packet_bytes: u64,
        random: &mut Random,
        flow: impl Fn() -> Flow,
    ) -> Vec<Flow> {
        let one = |conversation, player| {
            vec![Flow {
                start: period.start,
                stop: period.stop,
                conversation,
                player,
                ..flow()
            }]
        };
        let answer = |source: Box<dyn Source>| one(Conversation::answer(source), None);
        match self {
            TrafficSpec::Bulk(spec) => answer(Box::new(match spec.size {
                Some(size) => Bulk::Bytes(size.bytes(packet_bytes)),
                None => Bulk::Endless,
            })),
            TrafficSpec::OnOff(spec) => answer(Box::new(OnOff {
                bytes: spec.burst.bytes(packet_bytes),
                interval: spec.every.duration(),
                total: spec.total.map(|total| total.bytes(packet_bytes)),
            })),
            TrafficSpec::Media(spec) => {
                let (source, player) = media(spec, packet_bytes);
                one(Conversation::answer(Box::new(source)), Some(player))
            }
            TrafficSpec::Live(spec) => vec![Flow {
                start: period.start,
                stop: period.stop,
                conversation: Conversation::answer(Box::new(Silence)),
                live: Some(Live::new(live(spec, packet_bytes, fork(random)))),
                ..flow()
            }],
            TrafficSpec::Constant(spec) => {
                let flow = flow();
                let wire_bytes = (flow.datagram_bytes + WIRE_OVERHEAD_BYTES) as u64;
                // A rate that a link cannot have is that of the fastest.
                let rate = spec.rate.resolve(flow.datagram_bytes).unwrap_or(Rate::MAX);
                let pattern = spec.on.zip(spec.off);
                vec![Flow {
                    start: period.start,
                    stop: period.stop,
                    load: Some(Load {
                        interval: rate.time_to_send(wire_bytes),
                        pattern: pattern.map(|(on, off)| (on.duration(), off.duration())),
                    }),
                    ..flow
                }]
            }
            TrafficSpec::Pages(spec) => pages(spec, period, packet_bytes, random, &flow),
            TrafficSpec::Requests(spec) => one(requests(spec, packet_bytes, fork(random)), None),
            TrafficSpec::ShortFlows(spec) => many(period, &flow, || {
                let after = spec.interarrival.draw(random);
                let size = spec.size.draw(random, packet_bytes);
                (after, Conversation::answer(Box::new(Bulk::Bytes(size))))
            }),
            TrafficSpec::Tcplib(spec) => {
                many(period, &flow, || tcplib::next(spec, packet_bytes, random))
            }
        }
    }
}

/// A connection for each conversation that starts in the `period`; `next` gives the time after the
/// conversation before.
fn many(
    period: Period,
    flow: &impl Fn() -> Flow,
    mut next: impl FnMut() -> (Duration, Conversation),
) -> Vec<Flow> {
    let mut start = period.start;
    let mut flows = Vec::new();
    loop {
        let (after, conversation) = next();
        start = start.saturating_add(after);
        if start >= period.last() {
            return flows;
        }
        flows.push(Flow {
            start,
            stop: period.stop,
            conversation,
            closes: true,
            ..flow()
        });
    }
}

/// A media stream and its player (Boyden et al. 2007 §4.2).
fn media(spec: &MediaSpec, packet_bytes: u64) -> (OnOff, Player) {
    let bytes_per_s = spec.bytes_per_s(packet_bytes);
    let bytes_of = |time: Duration| (bytes_per_s * time.as_secs_f64()).round() as u64;
    let total = spec.length.map(|length| bytes_of(length.duration()));
    let source = OnOff {
        bytes: spec.chunk_bytes(packet_bytes),
        interval: spec.heartbeat.duration(),
        total,
    };
    let player = Player::new(bytes_per_s, bytes_of(spec.buffer.duration()), total);
    (source, player)
}

/// The frames of a live stream.
fn live(spec: &LiveSpec, packet_bytes: u64, random: Random) -> Media {
    Media {
        bytes_per_s: spec.bytes_per_s(packet_bytes),
        frames_per_s: spec.frames_per_second,
        key_every: spec.key_every,
        key_factor: spec.key_factor,
        variation: spec.variation,
        deadline: spec.deadline.duration(),
        random,
    }
}

/// As many pages as could be there if they took no time; each begins when the one before is there
/// and has been read, as long as the flow has not stopped.
fn pages(
    spec: &PagesSpec,
    period: Period,
    packet_bytes: u64,
    random: &mut Random,
    flow: &impl Fn() -> Flow,
) -> Vec<Flow> {
    let mut flows = Vec::new();
    let mut earliest = period.start;
    while earliest < period.last() {
        let wait = spec.think.draw(random);
        let (size, mut draws) = (spec.object, fork(random));
        let objects = (0..spec.objects.get()).map(move |_| Exchange {
            wait: Duration::ZERO,
            request_bytes: REQUEST_BYTES,
            answer: Box::new(Bulk::Bytes(size.draw(&mut draws, packet_bytes))),
        });
        let pace = Pace::Closed(spec.at_once.get());
        let follow = Follow {
            wait,
            before: period.stop,
        };
        flows.push(Flow {
            start: period.start,
            conversation: Conversation::new(objects, pace, Protocol::Http3),
            follows: (!flows.is_empty()).then_some(follow),
            closes: true,
            ..flow()
        });
        earliest = earliest.saturating_add(wait);
    }
    flows
}

/// Requests: one after the other, several at once, or at their own times.
fn requests(spec: &RequestsSpec, packet_bytes: u64, mut random: Random) -> Conversation {
    let (size, think, interarrival) = (spec.size, spec.think, spec.interarrival);
    let pace = match interarrival {
        Some(_) => Pace::Open,
        None => Pace::Closed(spec.at_once.get()),
    };
    let mut left = spec.count.map(|count| count.get());
    let mut first = spec.at_once.get();
    let exchanges = iter::from_fn(move || {
        if let Some(left) = &mut left {
            *left = left.checked_sub(1)?;
        }
        let wait = match (interarrival, first) {
            (Some(interarrival), _) => interarrival.draw(&mut random),
            (None, 0) => think.draw(&mut random),
            // The first of each needs no thinking.
            (None, _) => Duration::ZERO,
        };
        first = first.saturating_sub(1);
        Some(Exchange {
            wait,
            request_bytes: REQUEST_BYTES,
            answer: Box::new(Bulk::Bytes(size.draw(&mut random, packet_bytes))),
        })
    });
    Conversation::new(exchanges, pace, spec.protocol)
}
