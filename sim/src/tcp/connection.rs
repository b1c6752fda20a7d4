//! A TCP connection's end, and the messages on it.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use gallop_network::packet::Side;
use gallop_network::time::Time;

use super::clock::{Clock, INITIAL_TIMEOUT};
use super::flavour::Flavour;
use super::receiver::Receiver;
use super::segment::Segment;
use super::sender::Sender;

/// A part of a direction's bytes that belongs to one message.
#[derive(Clone, Copy, Debug)]
struct Record {
    end: u64,
    stream: u64,
    last: bool,
}

/// The places of messages in the bytes of each direction, which both ends know: the bytes that
/// travel are zeros.
#[derive(Debug, Default)]
pub(crate) struct Records {
    to_client: RefCell<VecDeque<Record>>,
    to_server: RefCell<VecDeque<Record>>,
}

impl Records {
    fn towards(&self, side: Side) -> &RefCell<VecDeque<Record>> {
        match side {
            Side::Client => &self.to_client,
            Side::Server => &self.to_server,
        }
    }
}

/// The opening of a connection.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// A server that has heard nothing.
    Listens,
    /// The opening segment has left, or is to leave again.
    Opens {
        /// The time at which it left last.
        at: Option<Time>,
        /// The times that it left.
        times: u32,
    },
    Open,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    side: Side,
    stage: Stage,
    clock: Clock,
    pub(crate) sender: Sender,
    receiver: Receiver,
    records: Rc<Records>,
    /// Bytes that have come and that belong to no message any more.
    read: u64,
    /// The bytes of each message that have come and were not read, and true if it is whole.
    readable: BTreeMap<u64, (u64, bool)>,
    acknowledges: bool,
    pub(crate) sent_segments: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
}

/// The most opening segments before they leave no later any more: 2^6 times 3 s is long enough.
const MOST_DOUBLINGS: u32 = 6;

impl Connection {
    /// An end; a client opens at once. `phases` are those of the two clocks, from 0 to 1.
    pub(crate) fn new(
        side: Side,
        flavour: Flavour,
        segment_bytes: u64,
        buffer_bytes: Option<u64>,
        phases: [f64; 2],
        records: Rc<Records>,
    ) -> Connection {
        let clock = Clock::new(flavour.tick, phases[0]);
        let ack_clock = flavour.ack_tick.map(|tick| Clock::new(tick, phases[1]));
        Connection {
            side,
            stage: match side {
                Side::Client => Stage::Opens { at: None, times: 0 },
                Side::Server => Stage::Listens,
            },
            clock,
            sender: Sender::new(flavour, clock, segment_bytes, buffer_bytes),
            receiver: Receiver::new(ack_clock),
            records,
            read: 0,
            readable: BTreeMap::new(),
            acknowledges: false,
            sent_segments: 0,
            sent_bytes: 0,
            received_bytes: 0,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// Takes bytes of a message; returns how many.
    pub(crate) fn write(&mut self, stream: u64, bytes: u64, last: bool) -> u64 {
        let taken = self.sender.write(bytes);
        let ends = last && taken == bytes;
        if taken > 0 || ends {
            let record = Record {
                end: self.sender.end(),
                stream,
                last: ends,
            };
            let mut records = self.records.towards(self.side.peer()).borrow_mut();
            records.push_back(record);
        }
        taken
    }

    /// Reads a message: the bytes, and true at its end.
    pub(crate) fn read(&mut self, stream: u64) -> Option<(u64, bool)> {
        self.readable.remove(&stream)
    }

    /// A message that has something to read.
    pub(crate) fn next_readable(&self) -> Option<u64> {
        self.readable.keys().next().copied()
    }

    /// Takes a segment in.
    pub(crate) fn receive(&mut self, segment: &Segment, now: Time) {
        self.received_bytes += segment.length() as u64;
        match self.stage {
            Stage::Listens if segment.opens => {
                self.stage = Stage::Opens { at: None, times: 0 };
                return;
            }
            Stage::Listens => return,
            Stage::Opens { at, times } if segment.opens == (self.side == Side::Client) => {
                self.stage = Stage::Open;
                if let Some(at) = at.filter(|_| times == 1) {
                    let ticks = self.clock.ticks(now) - self.clock.ticks(at);
                    self.sender.opened(ticks, now);
                }
                // The server learns by this that the connection is open.
                self.acknowledges |= self.side == Side::Client;
            }
            // The answer was lost.
            Stage::Opens { .. } => {
                self.stage = Stage::Opens { at: None, times: 1 };
                return;
            }
            Stage::Open => {}
        }
        if segment.opens {
            self.acknowledges = true;
            return;
        }
        if let Some(ack) = segment.ack {
            let has_data = segment.bytes > 0;
            self.sender.acknowledge(ack, &segment.ranges, has_data, now);
        }
        if segment.bytes > 0 {
            self.acknowledges |= self.receiver.receive(segment.sequence, segment.bytes, now);
            self.sort();
        }
    }

    /// Gives the bytes that have come without a gap to their messages.
    fn sort(&mut self) {
        let mut records = self.records.towards(self.side).borrow_mut();
        let next = self.receiver.next();
        while let Some(record) = records.front().filter(|record| record.end <= next).copied() {
            let (bytes, whole) = self.readable.entry(record.stream).or_default();
            *bytes += record.end - self.read;
            *whole |= record.last;
            self.read = record.end;
            records.pop_front();
        }
        if let Some(record) = records.front()
            && next > self.read
        {
            self.readable.entry(record.stream).or_default().0 += next - self.read;
            self.read = next;
        }
    }

    /// The time at which the opening segment is to leave again.
    fn opens_again(&self) -> Option<Time> {
        let Stage::Opens { at, times } = self.stage else {
            return None;
        };
        Some(at? + INITIAL_TIMEOUT * (1 << times.saturating_sub(1).min(MOST_DOUBLINGS)))
    }

    /// The time at which [`wake`](Self::wake) is to be called.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let all = [
            self.sender.deadline(),
            self.receiver.deadline(),
            self.opens_again(),
        ];
        all.into_iter().flatten().min()
    }

    /// Handles the timers that have expired.
    pub(crate) fn wake(&mut self, now: Time) {
        self.sender.wake(now);
        let is_due = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= now);
        self.acknowledges |= is_due(self.receiver.deadline());
        if is_due(self.opens_again())
            && let Stage::Opens { at, .. } = &mut self.stage
        {
            *at = None;
        }
    }

    /// The next segment that leaves now.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Segment> {
        let segment = match &mut self.stage {
            Stage::Listens => None,
            Stage::Opens { at, times } => {
                if at.is_some() {
                    return None;
                }
                *at = Some(now);
                *times += 1;
                Some(Segment {
                    opens: true,
                    ack: (self.side == Side::Server).then_some(0),
                    ..Segment::default()
                })
            }
            Stage::Open => {
                let data = self.sender.poll(now);
                let (sequence, bytes) = data.unwrap_or((self.sender.end(), 0));
                (data.is_some() || self.acknowledges).then(|| Segment {
                    opens: false,
                    ack: Some(self.receiver.next()),
                    sequence,
                    bytes,
                    ranges: match bytes {
                        0 => self.receiver.ranges(),
                        _ => Vec::new(),
                    },
                })
            }
        }?;
        if !segment.opens {
            self.acknowledges = false;
            self.receiver.sent();
        }
        self.sent_segments += 1;
        self.sent_bytes += segment.length() as u64;
        Some(segment)
    }
}
