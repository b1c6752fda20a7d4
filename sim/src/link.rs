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
        in_service: Option<Packet>,
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
    ArrivesAt(Time, Packet),
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
    pub(crate) fn take(&mut self, packet: Packet, now: Time, dropped: &mut Vec<Packet>) -> Taken {
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
        dropped: &mut Vec<Packet>,
    ) -> Option<(Packet, Time, Option<Time>)> {
        let Kind::Queued { in_service, .. } = &mut self.kind else {
            return None;
        };
        let packet = in_service.take()?;
        self.meter.count_forwarded(packet.wire_bytes());
        let next = self.serve_next(now, dropped);
        Some((packet, now + self.delay, next))
    }

    /// Starts to send the next packet, if there is one; returns when it ends.
    fn serve_next(&mut self, now: Time, dropped: &mut Vec<Packet>) -> Option<Time> {
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

    fn record(&mut self, now: Time, dropped: &[Packet]) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impairment::{Outage, Reordering};
    use crate::packet::Side;
    use crate::queue::DropTail;
    use crate::random;
    use crate::units::WIRE_OVERHEAD_BYTES;

    const DELAY: Duration = Duration::from_millis(5);

    fn packet(sequence: u64, wire_bytes: usize) -> Packet {
        let payload = vec![0; wire_bytes - WIRE_OVERHEAD_BYTES];
        Packet::new(0, Side::Client, sequence, payload)
    }

    fn at(microseconds: u64) -> Time {
        Duration::from_micros(microseconds).into()
    }

    /// One byte takes one microsecond.
    fn rate() -> Rate {
        "8mbit".parse().expect("a rate")
    }

    fn queued(buffer: &str) -> Link {
        let queue = DropTail::new(buffer.parse().expect("a buffer"));
        Link::queued(rate(), DELAY, Box::new(queue))
    }

    #[test]
    fn packets_are_sent_one_at_a_time_and_then_travel() {
        let mut link = queued("2p");
        let mut dropped = Vec::new();
        let first = link.take(packet(0, 100), at(0), &mut dropped);
        assert!(matches!(first, Taken::ServedAt(time) if time == at(100)));
        for sequence in 1..4 {
            let next = link.take(packet(sequence, 200), at(10), &mut dropped);
            assert!(matches!(next, Taken::Nothing));
        }
        assert_eq!(
            dropped.drain(..).map(|p| p.sequence()).collect::<Vec<_>>(),
            [3]
        );
        assert_eq!(
            link.meter().backlog(),
            Backlog {
                packets: 3,
                bytes: 500
            }
        );

        let mut log = Vec::new();
        let mut now = at(100);
        while let Some((packet, arrival, next)) = link.served(now, &mut dropped) {
            log.push((packet.sequence(), arrival, next));
            now = next.unwrap_or(now);
        }
        assert_eq!(
            log,
            [
                (0, at(5100), Some(at(300))),
                (1, at(5300), Some(at(500))),
                (2, at(5500), None)
            ]
        );
        // 10 µs of 1 packet, 90 of 3, 200 of 2, 200 of 1, 500 of none.
        let mean = (10.0 + 270.0 + 400.0 + 200.0) / 1000.0;
        let meter = link.meter();
        assert_eq!(meter.mean_packets(at(1000)), mean);
        assert_eq!((meter.max_packets(), meter.drops()), (3, 1));
        assert_eq!(
            (meter.forwarded_packets(), meter.forwarded_bytes()),
            (3, 500)
        );
    }

    #[test]
    fn a_line_serialises_and_delays_without_a_limit() {
        let mut link = Link::line(rate(), DELAY);
        let mut arrivals = Vec::new();
        for (sequence, sent) in [(0, 0), (1, 0), (2, 50), (3, 1000)] {
            match link.take(packet(sequence, 100), at(sent), &mut Vec::new()) {
                Taken::ArrivesAt(time, packet) => arrivals.push((packet.sequence(), time)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(
            arrivals,
            [(0, at(5100)), (1, at(5200)), (2, at(5300)), (3, at(6100))]
        );
    }

    #[test]
    fn host_jitter_delays_and_never_reorders() {
        let jitter = Jitter {
            max: Duration::from_micros(120),
            random: random::stream(1, 1),
        };
        let mut link = Link::host_line(Rate::GIGABIT, DELAY, jitter);
        let mut last = Time::ZERO;
        let (mut longest, mut shortest) = (Duration::ZERO, Duration::MAX);
        for sequence in 0..10_000 {
            let sent = at(sequence * 150);
            match link.take(packet(sequence, 100), sent, &mut Vec::new()) {
                Taken::ArrivesAt(time, _) => {
                    assert!(time > last);
                    last = time;
                    let taken = (time - sent).saturating_sub(DELAY);
                    longest = longest.max(taken);
                    shortest = shortest.min(taken);
                }
                other => panic!("{other:?}"),
            }
        }
        let (least, most) = (Duration::from_nanos(800), Duration::from_nanos(120_800));
        assert!(least <= shortest && shortest < Duration::from_micros(2));
        assert!(Duration::from_micros(119) < longest && longest <= most);
    }

    #[test]
    fn holding_adds_up_and_losing_wins() {
        let hold = |milliseconds| {
            let delay = Duration::from_millis(milliseconds);
            let always = Reordering::new(1.0, delay, random::stream(1, milliseconds));
            Box::new(always.expect("a probability"))
        };
        let outage = Outage::new(Duration::from_millis(1), Duration::from_millis(2));
        let mut link = Link::line(rate(), DELAY)
            .with_impairment(hold(3))
            .with_impairment(hold(4))
            .with_impairment(Box::new(outage));
        let packet = packet(0, 100);
        let held = Fate::Hold(Duration::from_millis(7));
        assert_eq!(link.admit(&packet, at(0)), held);
        assert_eq!(link.admit(&packet, at(1500)), Fate::Lose);
        assert_eq!(link.admit(&packet, at(2000)), held);
        assert_eq!(link.meter().impaired(), 1);
    }
}
