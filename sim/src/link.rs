//! Links: they serialise packets one at a time and carry them to their end.

use crate::clock::Time;
use crate::impairment::{Fate, Impairment};
use crate::meter::{Backlog, Meter};
use crate::packet::Packet;
use crate::queue::Queue;
use crate::random::Random;
use crate::units::Rate;
use rand::RngExt;
use std::time::Duration;

/// A one-way link.
#[derive(Debug)]
pub struct Link {
    rate: Rate,
    delay: Duration,
    impairments: Vec<Box<dyn Impairment>>,
    meter: Meter,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Queued {
        queue: Box<dyn Queue>,
        in_service: Option<Box<Packet>>,
    },
    Line {
        jitter: Option<Jitter>,
        /// When the last packet will have been sent.
        free_at: Time,
    },
}

/// Random time that a host takes before it sends a packet, uniform between zero
/// and `max`. It keeps flows from moving in lockstep (phase effects: Floyd and
/// Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways", 1992).
#[derive(Clone, Debug)]
pub struct Jitter {
    /// The longest time.
    pub max: Duration,
    /// Where the times come from.
    pub random: Random,
}

/// What the engine has to do after a link took a packet.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Nothing: it waits, or was dropped.
    Nothing,
    /// Call [`Link::served`] at that time.
    ServedAt(Time),
    /// The packet arrives at the end of the link at that time.
    ArrivesAt(Time, Box<Packet>),
}

impl Link {
    /// A link of `rate` and propagation `delay` with `queue` in front of it.
    #[must_use]
    pub fn queued(rate: Rate, delay: Duration, queue: Box<dyn Queue>) -> Link {
        let in_service = None;
        Link::new(rate, delay, Kind::Queued { queue, in_service })
    }

    /// A link of `rate` and propagation `delay` on which no queue to speak of
    /// can form, such as a host's: it holds whatever comes and never drops.
    #[must_use]
    pub fn line(rate: Rate, delay: Duration) -> Link {
        let (jitter, free_at) = (None, Time::ZERO);
        Link::new(rate, delay, Kind::Line { jitter, free_at })
    }

    /// A [`line`](Link::line) whose host takes a random time per packet. Packets
    /// stay in order.
    #[must_use]
    pub fn host_line(rate: Rate, delay: Duration, jitter: Jitter) -> Link {
        let (jitter, free_at) = (Some(jitter), Time::ZERO);
        Link::new(rate, delay, Kind::Line { jitter, free_at })
    }

    fn new(rate: Rate, delay: Duration, kind: Kind) -> Link {
        Link {
            rate,
            delay,
            impairments: Vec::new(),
            meter: Meter::default(),
            kind,
        }
    }

    /// The link with one more impairment at its entrance, after those it has.
    #[must_use]
    pub fn with_impairment(mut self, impairment: Box<dyn Impairment>) -> Link {
        self.impairments.push(impairment);
        self
    }

    /// Rate in bits on the wire.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Propagation delay.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// What has been measured. The queue of a [`line`](Link::line) is not.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Asks the impairments about `packet`. Times to hold it add up; the first
    /// impairment that loses it has the last word.
    pub(crate) fn admit(&mut self, packet: &Packet, now: Time) -> Fate {
        let mut held = Duration::ZERO;
        for impairment in &mut self.impairments {
            match impairment.decide(packet, now) {
                Fate::Pass => {}
                Fate::Hold(delay) => held += delay,
                Fate::Lose => {
                    self.meter.count_impaired();
                    return Fate::Lose;
                }
            }
        }
        match held {
            Duration::ZERO => Fate::Pass,
            held => Fate::Hold(held),
        }
    }

    /// Takes a packet past the entrance.
    pub(crate) fn take(
        &mut self,
        packet: Box<Packet>,
        now: Time,
        dropped: &mut Vec<Box<Packet>>,
    ) -> Taken {
        let sending = self.rate.time_to_send(packet.wire_bytes());
        match &mut self.kind {
            Kind::Line { jitter, free_at } => {
                let ready = match jitter {
                    Some(jitter) => now + jitter.draw(),
                    None => now,
                };
                *free_at = ready.max(*free_at) + sending;
                self.meter.count_forwarded(packet.wire_bytes());
                Taken::ArrivesAt(*free_at + self.delay, packet)
            }
            Kind::Queued { queue, in_service } => {
                queue.enqueue(packet, now, in_service.is_none(), dropped);
                match in_service {
                    Some(_) => {
                        self.record(now, dropped);
                        Taken::Nothing
                    }
                    None => self
                        .serve_next(now, dropped)
                        .map_or(Taken::Nothing, Taken::ServedAt),
                }
            }
        }
    }

    /// The packet in service has been sent: returns it, when it arrives at the
    /// end of the link, and when the next one will have been sent.
    pub(crate) fn served(
        &mut self,
        now: Time,
        dropped: &mut Vec<Box<Packet>>,
    ) -> Option<(Box<Packet>, Time, Option<Time>)> {
        let Kind::Queued { in_service, .. } = &mut self.kind else {
            return None;
        };
        let packet = in_service.take()?;
        self.meter.count_forwarded(packet.wire_bytes());
        let next = self.serve_next(now, dropped);
        Some((packet, now + self.delay, next))
    }

    /// Starts to send the next packet, if there is one; returns when it ends.
    fn serve_next(&mut self, now: Time, dropped: &mut Vec<Box<Packet>>) -> Option<Time> {
        let Kind::Queued { queue, in_service } = &mut self.kind else {
            return None;
        };
        let packet = queue.dequeue(now, dropped);
        let end = packet
            .as_ref()
            .map(|packet| now + self.rate.time_to_send(packet.wire_bytes()));
        *in_service = packet;
        self.record(now, dropped);
        end
    }

    fn record(&mut self, now: Time, dropped: &[Box<Packet>]) {
        let Kind::Queued { queue, in_service } = &self.kind else {
            return;
        };
        let in_service = in_service.as_ref();
        let backlog = Backlog {
            packets: queue.packets() + usize::from(in_service.is_some()),
            bytes: queue.bytes() + in_service.map_or(0, |packet| packet.wire_bytes()),
        };
        self.meter.record(backlog, now);
        self.meter.count_drops(dropped.len());
    }
}

impl Jitter {
    fn draw(&mut self) -> Duration {
        let max = u64::try_from(self.max.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.random.random_range(0..=max))
    }
}
