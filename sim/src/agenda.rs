//! What will happen next.

use crate::clock::Time;
use crate::packet::{Packet, Side};
use crate::topology::LinkId;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// Something that happens at a point in time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A flow begins.
    Start(usize),
    /// A packet is at its next link, or at its end.
    Arrive(Box<Packet>),
    /// A packet passes the entrance of its next link after it was held there.
    Enter(LinkId, Box<Packet>),
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
    under_way: Vec<VecDeque<(Moment, Box<Packet>)>>,
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
    pub(crate) fn arrival(&mut self, link: LinkId, time: Time, mut packet: Box<Packet>) {
        packet.hop += 1;
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
