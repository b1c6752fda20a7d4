//! A link that is driven by any clock: the queues, rates and delays of a simulation, for real
//! packets.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::link::{Link, Taken};
use crate::packet::Packet;
use crate::time::Time;

/// A link and the packets on it.
///
/// Events on the link have their own exact times, however late a call asks for them. If one packet
/// is handled late, the next is not later for it.
///
/// ```
/// use gallop_network::time::Time;
/// use gallop_network::conveyor::Conveyor;
/// use gallop_network::link::Link;
/// use gallop_network::packet::Packet;
/// use gallop_network::{Side, queue::DropTail};
/// use std::time::Duration;
///
/// let queue = DropTail::new("25p".parse()?);
/// let delay = Duration::from_millis(15);
/// let link = Link::queued("10mbit".parse()?, delay, Box::new(queue));
/// let mut conveyor = Conveyor::new(link);
/// conveyor.offer(Packet::whole(0, Side::Server, 0, vec![0; 1500]), Time::ZERO);
///
/// let sent = Time::from(Duration::from_micros(1200));
/// assert_eq!(conveyor.next_event(), Some(sent));
/// assert!(conveyor.arrival(sent).is_none());
/// let arrives = sent + delay;
/// assert_eq!(conveyor.next_event(), Some(arrives));
/// assert!(conveyor.arrival(arrives).is_some_and(|(time, _)| time == arrives));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Conveyor {
    link: Link,
    /// End of sending of the packet in service.
    served_at: Option<Time>,
    /// Packets that are held at the entrance, by the time at which they go on.
    held: BTreeMap<Key, Packet>,
    /// Packets that have been sent, by the time at which they arrive.
    travelling: BTreeMap<Key, Packet>,
    /// The number of packets so far; packets of the same time keep their order by it.
    count: u64,
    dropped: Vec<Packet>,
}

/// A time, and a number that no other packet has.
type Key = (Time, u64);

/// The next event on a link.
enum Event {
    Served,
    GoesOn,
}

impl Conveyor {
    /// Nothing is on `link` yet.
    #[must_use]
    pub fn new(link: Link) -> Conveyor {
        Conveyor {
            link,
            served_at: None,
            held: BTreeMap::new(),
            travelling: BTreeMap::new(),
            count: 0,
            dropped: Vec::new(),
        }
    }

    /// The link.
    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Measures the link from `now` on, which must not be before an earlier call's time.
    pub fn start_measuring(&mut self, now: Time) {
        self.advance(now);
        self.link.start_measuring(now);
    }

    /// Gives the link propagation delays from given times after `since` on, as
    /// [`Link::with_delays`] does.
    pub fn change_delays(&mut self, delays: &[(Duration, Duration)], since: Time) {
        self.link.change_delays(delays, since);
    }

    /// `packet` comes to the link `now`, which must not be before an earlier call's time.
    pub fn offer(&mut self, mut packet: Packet, now: Time) {
        self.advance(now);
        let admission = self.link.admit(&mut packet, now);
        let Some(held) = admission.held else {
            return;
        };
        let copies = std::iter::repeat_n(packet.clone(), admission.copies);
        for packet in std::iter::once(packet).chain(copies) {
            match held.is_zero() {
                true => self.take(packet, now),
                false => {
                    let key = self.key(now + held);
                    self.held.insert(key, packet);
                }
            }
        }
    }

    /// Time of the next event on the link: no packet arrives before it.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        let first = |packets: &BTreeMap<Key, Packet>| Some(packets.first_key_value()?.0.0);
        let inner = self.next_inner().map(|(time, _)| time);
        inner.into_iter().chain(first(&self.travelling)).min()
    }

    /// The next packet that has arrived by `now`, and its time of arrival.
    pub fn arrival(&mut self, now: Time) -> Option<(Time, Packet)> {
        self.advance(now);
        let first = self.travelling.first_entry()?;
        let (time, _) = *first.key();
        (time <= now).then(|| (time, first.remove()))
    }

    fn key(&mut self, time: Time) -> Key {
        self.count += 1;
        (time, self.count)
    }

    /// The next event that is not an arrival.
    fn next_inner(&self) -> Option<(Time, Event)> {
        let served = self.served_at.map(|time| (time, Event::Served));
        let held = self.held.first_key_value();
        let goes_on = held.map(|(&(time, _), _)| (time, Event::GoesOn));
        served
            .into_iter()
            .chain(goes_on)
            .min_by_key(|&(time, _)| time)
    }

    /// Handles all events until `now`.
    fn advance(&mut self, now: Time) {
        while let Some((time, event)) = self.next_inner().filter(|&(time, _)| time <= now) {
            match event {
                Event::Served => self.serve(time),
                Event::GoesOn => {
                    if let Some((_, packet)) = self.held.pop_first() {
                        self.take(packet, time);
                    }
                }
            }
        }
    }

    fn take(&mut self, packet: Packet, now: Time) {
        match self.link.take(packet, now, &mut self.dropped) {
            Taken::Nothing => {}
            Taken::ServedAt(time) => self.served_at = Some(time),
            Taken::ArrivesAt(time, packet) => self.travels(packet, time),
        }
        self.dropped.clear();
    }

    fn serve(&mut self, now: Time) {
        self.served_at = None;
        if let Some((packet, arrival, next)) = self.link.served(now, &mut self.dropped) {
            self.served_at = next;
            self.travels(packet, arrival);
        }
        self.dropped.clear();
    }

    fn travels(&mut self, packet: Packet, arrival: Time) {
        let key = self.key(arrival);
        self.travelling.insert(key, packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impairment::{Duplication, Reordering};
    use crate::packet::Side;
    use crate::queue::DropTail;
    use crate::random;

    fn at(microseconds: u64) -> Time {
        Duration::from_micros(microseconds).into()
    }

    /// One byte takes one microsecond; propagation takes 5 ms.
    fn link() -> Link {
        let queue = DropTail::new("2p".parse().expect("a buffer"));
        let rate = "8mbit".parse().expect("a rate");
        Link::queued(rate, Duration::from_millis(5), Box::new(queue))
    }

    fn packet(sequence: u64) -> Packet {
        Packet::whole(0, Side::Client, sequence, vec![0; 100])
    }

    /// The packets that arrive by `now`: numbers and microseconds.
    fn arrivals(conveyor: &mut Conveyor, now: Time) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| conveyor.arrival(now))
            .map(|(time, packet)| (packet.sequence(), time.as_nanos() / 1000))
            .collect()
    }

    #[test]
    fn lateness_of_the_clock_does_not_move_packets() {
        let mut conveyor = Conveyor::new(link());
        for sequence in 0..4 {
            conveyor.offer(packet(sequence), at(0));
        }
        // Two have been sent meanwhile, so that there is room for one more.
        conveyor.offer(packet(4), at(250));
        assert_eq!(conveyor.next_event(), Some(at(300)));
        assert_eq!(arrivals(&mut conveyor, at(5199)), [(0, 5100)]);
        let rest = [(1, 5200), (2, 5300), (4, 5400)];
        assert_eq!(arrivals(&mut conveyor, at(60_000)), rest);
        assert_eq!(conveyor.next_event(), None);
        assert_eq!(conveyor.link().meter().drops(), 1);
    }

    #[test]
    fn measuring_starts_when_it_is_asked_for() {
        let mut conveyor = Conveyor::new(link());
        for sequence in 0..2 {
            conveyor.offer(packet(sequence), at(0));
        }
        // The first has been sent by then, though nobody has asked for it yet.
        conveyor.start_measuring(at(150));
        assert_eq!(arrivals(&mut conveyor, at(60_000)).len(), 2);
        let meter = conveyor.link().meter();
        assert_eq!(meter.forwarded_packets(), 1);
        assert_eq!(meter.mean_packets(at(250)), 0.5);
    }

    #[test]
    fn held_packets_go_on_later_and_copies_follow() {
        let always = |part| random::stream(1, part);
        let hold = Reordering::new(1.0, Duration::from_micros(300), always(1));
        let double = Duplication::new(1.0, always(2));
        let link = link()
            .with_impairment(Box::new(hold.expect("a probability")))
            .with_impairment(Box::new(double.expect("a probability")));
        let mut conveyor = Conveyor::new(link);
        conveyor.offer(packet(0), at(0));
        assert_eq!(conveyor.next_event(), Some(at(300)));
        let both = [(0, 5400), (0, 5500)];
        assert_eq!(arrivals(&mut conveyor, at(6000)), both);
    }
}
