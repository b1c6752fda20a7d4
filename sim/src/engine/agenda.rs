//! The events to come, in order of time.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

use gallop_network::packet::{Packet, Side};
use gallop_network::time::Time;
use slab::Slab;

use crate::engine::topology::LinkId;

/// Something that happens at a point in time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A flow begins.
    Start(usize),
    /// A packet is at its next link, or at its end.
    Arrive(Packet),
    /// A packet passes the entrance of its next link after it was held there.
    Enter(LinkId, Packet),
    /// The packet in service of a link has been sent.
    Served(LinkId),
    /// An endpoint's timer, unless superseded.
    Wake(usize, Side),
    /// The server's host of a route goes on after a stall.
    Resume(usize),
}

/// The time of an event. Of events at the same time, the first scheduled comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    time: Time,
    sequence: u64,
}

/// An entry of the heap: a moment and the number of its event, packed into one number. A heap moves
/// its entries at every step, which takes half as long with such a number as with a structure.
///
/// The upper half is the time; then come the sequence and, in the lowest bits, the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(Reverse<u128>);

/// The bits of the place: room for 16 million events at a time, each of which takes more than 100
/// bytes.
const PLACE_BITS: u32 = 24;

/// The bits of the sequence: room for 10^12 events in all, which take weeks.
const SEQUENCE_BITS: u32 = u64::BITS - PLACE_BITS;

impl Entry {
    fn new(moment: Moment, place: usize) -> Entry {
        assert!(
            moment.sequence >> SEQUENCE_BITS == 0 && place >> PLACE_BITS == 0,
            "a simulation has fewer events"
        );
        let low = moment.sequence << PLACE_BITS | place as u64;
        let high = u128::from(moment.time.as_nanos()) << u64::BITS;
        Entry(Reverse(high | u128::from(low)))
    }

    fn time(self) -> Time {
        Time::from_nanos((self.0.0 >> u64::BITS) as u64)
    }

    fn place(self) -> usize {
        (self.0.0 & ((1 << PLACE_BITS) - 1)) as usize
    }
}

/// A heap of events. Packets on a link arrive in the order in which they left, so only the first of
/// each link is in the heap: a path of high rate and long delay holds thousands.
#[derive(Debug)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Entry>,
    /// Packets on each link. The place of an entry for the first of them is the link's number.
    under_way: Vec<VecDeque<(Moment, Packet)>>,
    /// All other events; their places come after the links'.
    others: Slab<Event>,
    sequence: u64,
}

impl Agenda {
    /// An empty agenda for so many links.
    pub(crate) fn new(links: usize) -> Agenda {
        Agenda {
            heap: BinaryHeap::new(),
            under_way: (0..links).map(|_| VecDeque::new()).collect(),
            others: Slab::new(),
            sequence: 0,
        }
    }

    /// Events to come, arrivals of packets included.
    pub(crate) fn pending(&self) -> usize {
        let under_way: usize = self.under_way.iter().map(VecDeque::len).sum();
        self.others.len() + under_way
    }

    /// Time of the next event.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|entry| entry.time())
    }

    /// Schedules `event` at `time`.
    pub(crate) fn at(&mut self, time: Time, event: Event) {
        let moment = self.moment(time);
        let place = self.under_way.len() + self.others.insert(event);
        self.heap.push(Entry::new(moment, place));
    }

    /// Schedules the arrival of `packet`, which has left `link`, at its end at `time`.
    pub(crate) fn arrival(&mut self, link: LinkId, time: Time, mut packet: Packet) {
        packet.next_hop();
        let lane = &mut self.under_way[link.index()];
        match lane.back() {
            Some((last, _)) if last.time > time => self.at(time, Event::Arrive(packet)),
            Some(_) => {
                let moment = self.moment(time);
                self.under_way[link.index()].push_back((moment, packet));
            }
            None => {
                let moment = self.moment(time);
                self.under_way[link.index()].push_back((moment, packet));
                self.heap.push(Entry::new(moment, link.index()));
            }
        }
    }

    /// Takes the next event out.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let mut first = self.heap.peek_mut()?;
        let place = first.place();
        let Some(lane) = self.under_way.get_mut(place) else {
            PeekMut::pop(first);
            return self.others.try_remove(place - self.under_way.len());
        };
        let (_, packet) = lane.pop_front()?;
        match lane.front() {
            Some(&(moment, _)) => *first = Entry::new(moment, place),
            None => {
                PeekMut::pop(first);
            }
        }
        Some(Event::Arrive(packet))
    }

    fn moment(&mut self, time: Time) -> Moment {
        self.sequence += 1;
        Moment {
            time,
            sequence: self.sequence,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gallop_network::link::Link;
    use gallop_network::units::Rate;

    use super::*;
    use crate::engine::topology::Topology;

    #[test]
    fn events_come_by_time_and_then_as_scheduled() {
        let mut topology = Topology::new();
        let links = [0, 1].map(|_| topology.add_link(Link::line(Rate::GIGABIT, Duration::ZERO)));
        let mut agenda = Agenda::new(2);
        // The second arrival on link 0 is before the first, as after overtaking.
        let schedule = [
            (Some(links[0]), 5),
            (Some(links[1]), 3),
            (None, 5),
            (Some(links[0]), 4),
            (Some(links[1]), 5),
            (Some(links[0]), 5),
            (None, 3),
        ];
        for (number, (link, time)) in schedule.into_iter().enumerate() {
            let time = Time::from_nanos(time);
            match link {
                Some(link) => {
                    let packet = Packet::new(number, Side::Client, 0, Vec::new());
                    agenda.arrival(link, time, packet);
                }
                None => agenda.at(time, Event::Start(number)),
            }
        }
        let mut order = Vec::new();
        while let Some(time) = agenda.next_time() {
            let number = match agenda.next() {
                Some(Event::Start(number)) => number,
                Some(Event::Arrive(packet)) => packet.flow(),
                other => panic!("{other:?}"),
            };
            order.push((time.as_nanos(), number));
        }
        assert_eq!(
            order,
            [(3, 1), (3, 6), (4, 3), (5, 0), (5, 2), (5, 4), (5, 5)]
        );
    }
}
