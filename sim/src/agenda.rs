//! What will happen next.

use crate::packet::{Packet, Side};
use crate::time::Time;
use crate::topology::LinkId;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

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
}

/// When something happens: of what happens at the same time, the first scheduled
/// comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    time: Time,
    sequence: u64,
}

/// An entry of the heap.
#[derive(Debug)]
struct Entry {
    moment: Moment,
    what: What,
}

#[derive(Debug)]
enum What {
    Event(Event),
    /// The first packet under way on that link arrives.
    FirstOf(LinkId),
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.moment == other.moment
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// Earlier is greater: the standard heap pops the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.moment.cmp(&self.moment)
    }
}

/// A heap of events. Packets on a link arrive in the order in which they left,
/// so only the first of each link is in the heap: a path of high rate and long
/// delay holds thousands.
#[derive(Debug)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Entry>,
    under_way: Vec<VecDeque<(Moment, Packet)>>,
    sequence: u64,
}

impl Agenda {
    /// An empty agenda for so many links.
    pub(crate) fn new(links: usize) -> Agenda {
        Agenda {
            heap: BinaryHeap::new(),
            under_way: (0..links).map(|_| VecDeque::new()).collect(),
            sequence: 0,
        }
    }

    /// Events to come, arrivals of packets included.
    pub(crate) fn pending(&self) -> usize {
        let waiting = |lane: &VecDeque<_>| lane.len().saturating_sub(1);
        self.heap.len() + self.under_way.iter().map(waiting).sum::<usize>()
    }

    /// When the next event is.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|entry| entry.moment.time)
    }

    /// `event` happens at `time`.
    pub(crate) fn at(&mut self, time: Time, event: Event) {
        let moment = self.moment(time);
        let what = What::Event(event);
        self.heap.push(Entry { moment, what });
    }

    /// `packet` has left `link` and is at the end of it at `time`.
    pub(crate) fn arrival(&mut self, link: LinkId, time: Time, mut packet: Packet) {
        packet.next_hop();
        let moment = self.moment(time);
        let lane = &mut self.under_way[link.index()];
        match lane.back() {
            Some((last, _)) if *last > moment => {
                let what = What::Event(Event::Arrive(packet));
                self.heap.push(Entry { moment, what });
            }
            Some(_) => lane.push_back((moment, packet)),
            None => {
                lane.push_back((moment, packet));
                let what = What::FirstOf(link);
                self.heap.push(Entry { moment, what });
            }
        }
    }

    /// Takes the next event out.
    pub(crate) fn next(&mut self) -> Option<Event> {
        match self.heap.pop()?.what {
            What::Event(event) => Some(event),
            What::FirstOf(link) => {
                let lane = &mut self.under_way[link.index()];
                let (_, packet) = lane.pop_front()?;
                if let Some((moment, _)) = lane.front() {
                    self.heap.push(Entry {
                        moment: *moment,
                        what: What::FirstOf(link),
                    });
                }
                Some(Event::Arrive(packet))
            }
        }
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
    use super::*;
    use crate::link::Link;
    use crate::topology::Topology;
    use crate::units::Rate;
    use std::time::Duration;

    #[test]
    fn events_come_by_time_and_then_as_scheduled() {
        let mut topology = Topology::new();
        let links = [0, 1].map(|_| topology.add_link(Link::line(Rate::GIGABIT, Duration::ZERO)));
        let mut agenda = Agenda::new(2);
        // The second arrival on link 0 is before the first: it overtook.
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
