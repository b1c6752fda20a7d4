//! Links: they serialise packets one at a time and carry them to their end.

use std::time::Duration;

use rand::RngExt;

use crate::impairment::{Fate, Impairment};
use crate::measure::Measure;
use crate::meter::{Backlog, Meter};
use crate::packet::Packet;
use crate::queue::Queue;
use crate::random::Random;
use crate::rate_course::RateCourse;
use crate::time::Time;
use crate::units::Rate;

/// A one-way link.
#[derive(Debug)]
pub struct Link {
    rate: Rate,
    delay: Duration,
    /// Present if the rate or the delay changes.
    course: Option<Box<Course>>,
    impairments: Vec<Box<dyn Impairment>>,
    meter: Meter,
    /// Marks of the queue before measuring started.
    marks_before: u64,
    kind: Kind,
}

/// The changes of a link over time.
#[derive(Debug, Default)]
struct Course {
    rate: Option<RateCourse>,
    /// The times from which later delays hold, and those delays.
    delays: Vec<(Time, Duration)>,
    in_order: bool,
    last_arrival: Time,
}

#[derive(Debug)]
enum Kind {
    Queued {
        queue: Box<dyn Queue>,
        in_service: Option<Packet>,
    },
    Line {
        jitter: Option<Jitter>,
        /// The time at which the last packet will have been sent.
        free_at: Time,
    },
}

/// The random time that a host takes before it sends a packet, uniform between zero and `max`. It
/// keeps flows from moving in lockstep (phase effects: Floyd and Jacobson, "On Traffic Phase
/// Effects in Packet-Switched Gateways", 1992).
#[derive(Clone, Debug)]
pub struct Jitter {
    /// The longest time.
    pub max: Duration,
    /// The source of the times.
    pub random: Random,
}

/// The fate of a packet at the entrance of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The time for which it is held; `None` if it is lost.
    pub held: Option<Duration>,
    /// The number of copies that go on with it.
    pub copies: usize,
}

/// The engine's next step after a link took a packet.
#[derive(Debug)]
pub enum Taken {
    /// There is none: the packet waits, or was dropped.
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

    /// A link of `rate` and propagation `delay` on which no queue to speak of can form, such as a
    /// host's: it holds whatever comes and never drops.
    #[must_use]
    pub fn line(rate: Rate, delay: Duration) -> Link {
        let (jitter, free_at) = (None, Time::ZERO);
        Link::new(rate, delay, Kind::Line { jitter, free_at })
    }

    /// A [`line`](Link::line) whose host takes a random time per packet. Packets stay in order.
    #[must_use]
    pub fn host_line(rate: Rate, delay: Duration, jitter: Jitter) -> Link {
        let (jitter, free_at) = (Some(jitter), Time::ZERO);
        Link::new(rate, delay, Kind::Line { jitter, free_at })
    }

    fn new(rate: Rate, delay: Duration, kind: Kind) -> Link {
        Link {
            rate,
            delay,
            course: None,
            impairments: Vec::new(),
            meter: Meter::default(),
            marks_before: 0,
            kind,
        }
    }

    /// The link with a rate that changes. A packet that is being sent at a change goes on at the
    /// new rate.
    #[must_use]
    pub fn with_rate_course(mut self, course: RateCourse) -> Link {
        self.course.get_or_insert_default().rate = Some(course);
        self
    }

    /// The link with these propagation delays from given times on, in order of time. A packet has
    /// the delay of the time at which it has been sent, so that after a change to a shorter delay
    /// packets overtake those under way, as on a new route.
    #[must_use]
    pub fn with_delays(mut self, delays: &[(Duration, Duration)]) -> Link {
        self.change_delays(delays, Time::ZERO);
        self
    }

    /// Gives the link the delays of [`with_delays`](Self::with_delays), whose times count from
    /// `since`.
    pub fn change_delays(&mut self, delays: &[(Duration, Duration)], since: Time) {
        let delays = delays.iter().map(|&(at, delay)| (since + at, delay));
        self.course.get_or_insert_default().delays = delays.collect();
    }

    /// The link without overtaking: a packet arrives no earlier than the one sent before it,
    /// whatever the delays, as in a handover that keeps the packets under way.
    #[must_use]
    pub fn in_order(mut self) -> Link {
        self.course.get_or_insert_default().in_order = true;
        self
    }

    /// The link with one more impairment at its entrance, after those it has.
    #[must_use]
    pub fn with_impairment(mut self, impairment: Box<dyn Impairment>) -> Link {
        self.impairments.push(impairment);
        self
    }

    /// Rate in bits on the wire, before changes.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Propagation delay, before changes.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// The link's measurements. The queue of a [`line`](Link::line) is not measured.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Packets that the queue has marked.
    #[must_use]
    pub fn marks(&self) -> u64 {
        self.marks_in_all() - self.marks_before
    }

    fn marks_in_all(&self) -> u64 {
        match &self.kind {
            Kind::Queued { queue, .. } => queue.marks(),
            Kind::Line { .. } => 0,
        }
    }

    /// The bits on the wire that the link has sent until `now`, as a share of those that it could
    /// have sent; 0 if no time has passed.
    #[must_use]
    pub fn utilisation(&self, now: Time) -> f64 {
        let start = self.meter.start();
        let rate = self.course.as_ref().and_then(|course| course.rate.as_ref());
        let capacity_bits = match rate {
            Some(rate) => rate.capacity_bits(start, now),
            None => self.rate.bps() as f64 * (now - start).as_secs_f64(),
        };
        match capacity_bits > 0.0 {
            true => 8.0 * self.meter.forwarded_bytes() as f64 / capacity_bits,
            false => 0.0,
        }
    }

    /// All measurements until `now`, those of the queue only if there is one.
    #[must_use]
    pub fn measures(&self, now: Time) -> Vec<Measure> {
        let meter = &self.meter;
        let count = |metric, value: u64| Measure::new(metric, "packets", value as f64);
        let mut measures = vec![
            Measure::new("utilisation", "", self.utilisation(now)),
            count("impaired", meter.impaired()),
            count("duplicated", meter.duplicated()),
            Measure::new(
                "forwarded_packets",
                "packets",
                meter.forwarded_packets() as f64,
            ),
            Measure::new("forwarded_bytes", "bytes", meter.forwarded_bytes() as f64),
        ];
        if let Kind::Line { .. } = self.kind {
            return measures;
        }
        let arrived = meter.arrived().max(1) as f64;
        let max_packets = meter.max_packets() as f64;
        measures.extend([
            Measure::new("queue_mean_packets", "packets", meter.mean_packets(now)),
            Measure::new("queue_sd_packets", "packets", meter.deviation_packets(now)),
            count("queue_p95_packets", meter.p95_packets(now) as u64),
            Measure::new("queue_max_packets", "packets", max_packets),
            count("drops", meter.drops()),
            Measure::new("drop_ratio", "", meter.drops() as f64 / arrived),
            count("marks", self.marks()),
        ]);
        let delays = [
            ("queue_mean_delay_s", meter.mean_delay(now)),
            ("queue_p95_delay_s", meter.delay_percentile(95)),
            ("queue_p99_delay_s", meter.delay_percentile(99)),
        ];
        measures.extend(
            delays.into_iter().filter_map(|(metric, delay)| {
                Some(Measure::new(metric, "s", delay?.as_secs_f64()))
            }),
        );
        measures
    }

    /// Measures from `now` on.
    pub fn start_measuring(&mut self, now: Time) {
        self.meter.restart(now);
        self.marks_before = self.marks_in_all();
    }

    /// Asks the impairments about `packet`, each as of the time at which those before it let it go
    /// on. Times to hold it and copies add up; the first impairment that loses it has the last word.
    pub fn admit(&mut self, packet: &mut Packet, now: Time) -> Admission {
        let (mut held, mut copies) = (Duration::ZERO, 0);
        for impairment in &mut self.impairments {
            match impairment.decide(packet, now + held) {
                Fate::Pass => {}
                Fate::Hold(delay) => held += delay,
                Fate::Duplicate => copies += 1,
                Fate::Lose => {
                    self.meter.count_impaired();
                    let (held, copies) = (None, 0);
                    return Admission { held, copies };
                }
            }
        }
        for _ in 0..copies {
            self.meter.count_duplicated();
        }
        let held = Some(held);
        Admission { held, copies }
    }

    /// The time at which the link has sent a packet that it begins to send at `start`.
    fn end_of_sending(&self, start: Time, bytes: u64) -> Time {
        match self.course.as_deref() {
            Some(Course {
                rate: Some(rate), ..
            }) => rate.end_of_sending(start, bytes),
            _ => start + self.rate.time_to_send(bytes),
        }
    }

    /// The time at which a packet that has been sent at `sent` is at the end of the link.
    fn arrival(&mut self, sent: Time) -> Time {
        let Some(course) = self.course.as_deref_mut() else {
            return sent + self.delay;
        };
        let changes = course.delays.partition_point(|&(from, _)| from <= sent);
        let latest = course.delays[..changes].last();
        let mut arrival = sent + latest.map_or(self.delay, |&(_, delay)| delay);
        if course.in_order {
            arrival = arrival.max(course.last_arrival);
            course.last_arrival = arrival;
        }
        arrival
    }

    /// Takes a packet past the entrance.
    pub fn take(&mut self, mut packet: Packet, now: Time, dropped: &mut Vec<Packet>) -> Taken {
        self.meter.count_arrival();
        match &mut self.kind {
            Kind::Line { jitter, free_at } => {
                let ready = match jitter {
                    Some(jitter) => now + jitter.draw(),
                    None => now,
                };
                let start = ready.max(*free_at);
                let sent = self.end_of_sending(start, packet.wire_bytes());
                if let Kind::Line { free_at, .. } = &mut self.kind {
                    *free_at = sent;
                }
                self.meter.count_forwarded(packet.wire_bytes());
                Taken::ArrivesAt(self.arrival(sent), packet)
            }
            Kind::Queued { queue, in_service } => {
                packet.queue_at(now);
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
    pub fn served(
        &mut self,
        now: Time,
        dropped: &mut Vec<Packet>,
    ) -> Option<(Packet, Time, Option<Time>)> {
        let Kind::Queued { in_service, .. } = &mut self.kind else {
            return None;
        };
        let packet = in_service.take()?;
        self.meter.count_forwarded(packet.wire_bytes());
        self.meter.count_delay(now - packet.queued_at());
        let next = self.serve_next(now, dropped);
        Some((packet, self.arrival(now), next))
    }

    /// Starts to send the next packet, if there is one; returns when it ends.
    fn serve_next(&mut self, now: Time, dropped: &mut Vec<Packet>) -> Option<Time> {
        let Kind::Queued { queue, in_service } = &mut self.kind else {
            return None;
        };
        let packet = queue.dequeue(now, dropped);
        let bytes = packet.as_ref().map(Packet::wire_bytes);
        *in_service = packet;
        self.record(now, dropped);
        bytes.map(|bytes| self.end_of_sending(now, bytes))
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
    use crate::histogram;
    use crate::impairment::{Outage, Reordering, Slots};
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
        // 100 µs, then 290 and 490 µs from 10 µs on.
        let p95 = histogram::rounded(490_000);
        assert_eq!(meter.delay_percentile(95), Some(Duration::from_nanos(p95)));
        let p50 = histogram::rounded(290_000);
        assert_eq!(meter.delay_percentile(50), Some(Duration::from_nanos(p50)));
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

    /// Sends packets of 100 bytes at these times, in microseconds; returns when they arrive.
    fn arrivals(mut link: Link, sent: &[u64]) -> Vec<Time> {
        let mut take = |&time| match link.take(packet(0, 100), at(time), &mut Vec::new()) {
            Taken::ArrivesAt(time, _) => time,
            other => panic!("{other:?}"),
        };
        sent.iter().map(&mut take).collect()
    }

    #[test]
    fn a_shorter_delay_lets_packets_overtake_unless_they_must_not() {
        let delays = [
            (Duration::from_millis(10), Duration::from_millis(2)),
            (Duration::from_millis(20), Duration::from_millis(8)),
        ];
        let sent = [9_000, 9_950, 12_000, 20_000];
        let link = || Link::line(rate(), DELAY).with_delays(&delays);
        let reordered = [at(14_100), at(12_050), at(14_100), at(28_100)];
        assert_eq!(arrivals(link(), &sent), reordered);
        let in_order = [at(14_100), at(14_100), at(14_100), at(28_100)];
        assert_eq!(arrivals(link().in_order(), &sent), in_order);
    }

    #[test]
    fn delays_may_count_from_any_time() {
        let delays = [(Duration::from_millis(10), Duration::from_millis(8))];
        let mut link = Link::line(rate(), DELAY);
        link.change_delays(&delays, at(5_000));
        let expected = [at(14_100), at(17_100), at(23_100)];
        assert_eq!(arrivals(link, &[9_000, 12_000, 15_000]), expected);
    }

    #[test]
    fn utilisation_is_of_what_could_have_been_sent() {
        let course = RateCourse::changing(
            rate(),
            &[(Duration::from_millis(1), "2mbit".parse().expect("a rate"))],
        );
        let mut link = Link::line(rate(), DELAY).with_rate_course(course);
        for _ in 0..10 {
            link.take(packet(0, 100), at(0), &mut Vec::new());
        }
        // 1000 bytes of 1000, then of 1250.
        assert_eq!(link.utilisation(at(1000)), 1.0);
        assert_eq!(link.utilisation(at(2000)), 0.8);
        link.start_measuring(at(1000));
        link.take(packet(0, 100), at(1500), &mut Vec::new());
        assert_eq!(link.utilisation(at(2000)), 0.4);
        assert_eq!(link.utilisation(at(1000)), 0.0);
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
            .with_impairment(Box::new(outage))
            .with_impairment(hold(3))
            .with_impairment(hold(4));
        let mut packet = packet(0, 100);
        let held = Admission {
            held: Some(Duration::from_millis(7)),
            copies: 0,
        };
        let lost = Admission {
            held: None,
            copies: 0,
        };
        assert_eq!(link.admit(&mut packet, at(0)), held);
        assert_eq!(link.admit(&mut packet, at(1500)), lost);
        assert_eq!(link.admit(&mut packet, at(2000)), held);
        assert_eq!(link.meter().impaired(), 1);
    }

    #[test]
    fn an_impairment_sees_a_packet_when_the_one_before_lets_it_go() {
        let hold = Reordering::new(1.0, Duration::from_millis(3), random::stream(1, 0));
        let mut link = Link::line(rate(), DELAY)
            .with_impairment(Box::new(hold.expect("a probability")))
            .with_impairment(Box::new(Slots::new(Duration::from_millis(4))));
        let admission = link.admit(&mut packet(0, 100), at(2000));
        assert_eq!(admission.held, Some(Duration::from_millis(6)));
    }
}
