//! Controlled delay: RFC 8289.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Queue, fits};
use crate::packet::Packet;
use crate::time::Time;
use crate::units::Buffer;

/// Parameters of a [`Codel`] queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelParameters {
    /// The limit of waiting packets or bytes.
    pub limit: Buffer,
    /// The delay that is acceptable (RFC 8289 §4.3: 5 ms).
    pub target: Duration,
    /// The time for which the delay may exceed it (RFC 8289 §4.3: 100 ms).
    pub interval: Duration,
    /// Marks packets that allow it instead of dropping them.
    pub ecn: bool,
}

/// Drops from the front while packets have waited too long for too long.
#[derive(Debug)]
pub struct Codel {
    limit: Buffer,
    law: Law,
    state: State,
    waiting: Timed,
    marks: u64,
}

/// Packets in order of arrival, their times of arrival, and their size.
#[derive(Debug, Default)]
pub(super) struct Timed {
    packets: VecDeque<(Time, Packet)>,
    pub(super) bytes: u64,
}

impl Timed {
    pub(super) fn push(&mut self, packet: Packet, now: Time) {
        self.bytes += packet.wire_bytes();
        self.packets.push_back((now, packet));
    }

    /// The first packet and its time of arrival.
    pub(super) fn pop(&mut self) -> Option<(Time, Packet)> {
        let first = self.packets.pop_front()?;
        self.bytes -= first.1.wire_bytes();
        Some(first)
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }
}

/// Parameters of the control law.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    pub(super) target: Duration,
    pub(super) interval: Duration,
    pub(super) ecn: bool,
    /// The largest packet yet, in bytes: with no more than that waiting, nothing is dropped.
    pub(super) largest_bytes: u64,
}

/// The variables of RFC 8289 §5.3.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// The time at which the delay will have exceeded the target for an interval.
    first_above: Option<Time>,
    drop_next: Time,
    /// Drops since dropping began, which set the distance to the next.
    count: u32,
    last_count: u32,
    dropping: bool,
}

/// The packets that dequeuing has dropped, and the number of those marked.
#[derive(Debug)]
pub(super) struct Toll<'a> {
    pub(super) dropped: &'a mut Vec<Packet>,
    pub(super) marks: &'a mut u64,
}

impl Law {
    /// RFC 8289 §5.6: after so many drops the next one follows `interval` / √count later.
    fn next_drop(&self, after: Time, count: u32) -> Time {
        after + self.interval.div_f64(f64::from(count.max(1)).sqrt())
    }

    /// Marks `packet` if the queue marks and the packet allows it.
    fn mark(&self, packet: &mut Packet, toll: &mut Toll) -> bool {
        let marked = self.ecn && packet.mark();
        *toll.marks += u64::from(marked);
        marked
    }
}

impl State {
    /// The packet to send next (RFC 8289 §5.5).
    pub(super) fn dequeue(
        &mut self,
        law: &Law,
        waiting: &mut Timed,
        now: Time,
        toll: &mut Toll,
    ) -> Option<Packet> {
        let (mut packet, mut may_drop) = self.next(law, waiting, now)?;
        if self.dropping {
            self.dropping = may_drop;
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if law.mark(&mut packet, toll) {
                    self.drop_next = law.next_drop(self.drop_next, self.count);
                    break;
                }
                toll.dropped.push(packet);
                self.dropping = false;
                (packet, may_drop) = self.next(law, waiting, now)?;
                if may_drop {
                    self.dropping = true;
                    self.drop_next = law.next_drop(self.drop_next, self.count);
                }
            }
        } else if may_drop {
            self.start_dropping(law, now);
            if !law.mark(&mut packet, toll) {
                toll.dropped.push(packet);
                (packet, _) = self.next(law, waiting, now)?;
            }
        }
        Some(packet)
    }

    /// Begins to drop, at the former rate if that was not long ago.
    fn start_dropping(&mut self, law: &Law, now: Time) {
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now < self.drop_next + law.interval * 16;
        self.count = match delta > 1 && recent {
            true => delta,
            false => 1,
        };
        self.drop_next = law.next_drop(now, self.count);
        self.last_count = self.count;
    }

    /// The first packet, and true if it may be dropped for its delay.
    fn next(&mut self, law: &Law, waiting: &mut Timed, now: Time) -> Option<(Packet, bool)> {
        let Some((came, packet)) = waiting.pop() else {
            self.first_above = None;
            self.dropping = false;
            return None;
        };
        if now - came < law.target || waiting.bytes <= law.largest_bytes {
            self.first_above = None;
            return Some((packet, false));
        }
        let may_drop = match self.first_above {
            Some(time) => now >= time,
            None => {
                self.first_above = Some(now + law.interval);
                false
            }
        };
        Some((packet, may_drop))
    }
}

impl Codel {
    /// An empty queue.
    #[must_use]
    pub fn new(parameters: CodelParameters) -> Codel {
        Codel {
            limit: parameters.limit,
            law: Law {
                target: parameters.target,
                interval: parameters.interval,
                ecn: parameters.ecn,
                largest_bytes: 0,
            },
            state: State::default(),
            waiting: Timed::default(),
            marks: 0,
        }
    }
}

impl Queue for Codel {
    fn enqueue(&mut self, packet: Packet, now: Time, link_idle: bool, dropped: &mut Vec<Packet>) {
        let waiting = &self.waiting;
        if link_idle || fits(self.limit, waiting.len(), waiting.bytes, &packet) {
            self.law.largest_bytes = self.law.largest_bytes.max(packet.wire_bytes());
            self.waiting.push(packet, now);
        } else {
            dropped.push(packet);
        }
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Packet>) -> Option<Packet> {
        let marks = &mut self.marks;
        let mut toll = Toll { dropped, marks };
        self.state
            .dequeue(&self.law, &mut self.waiting, now, &mut toll)
    }

    fn packets(&self) -> usize {
        self.waiting.len()
    }

    fn bytes(&self) -> u64 {
        self.waiting.bytes
    }

    fn marks(&self) -> u64 {
        self.marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Side;
    use crate::units::WIRE_OVERHEAD_BYTES;

    fn codel(ecn: bool) -> Codel {
        Codel::new(CodelParameters {
            limit: "1000p".parse().expect("a buffer"),
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn,
        })
    }

    fn at(milliseconds: u64) -> Time {
        Duration::from_millis(milliseconds).into()
    }

    fn packet(sequence: u64, ecn: bool) -> Packet {
        let mut packet = Packet::new(
            0,
            Side::Client,
            sequence,
            vec![0; 1000 - WIRE_OVERHEAD_BYTES],
        );
        if ecn {
            packet.allow_marks();
        }
        packet
    }

    /// Packets that came at `0` leave once per millisecond. Returns the times of drops with the
    /// packets dropped, or the number of marks at that time.
    fn drain(queue: &mut Codel, packets: u64, ecn: bool) -> Vec<(u64, u64)> {
        let mut dropped = Vec::new();
        for sequence in 0..packets {
            queue.enqueue(packet(sequence, ecn), at(0), false, &mut dropped);
        }
        let mut log = Vec::new();
        for now in 1.. {
            let marks = queue.marks();
            if queue.dequeue(at(now), &mut dropped).is_none() {
                break;
            }
            log.extend(dropped.drain(..).map(|packet| (now, packet.sequence())));
            if queue.marks() > marks {
                log.push((now, queue.marks()));
            }
        }
        log
    }

    #[test]
    fn drops_come_closer_by_the_square_root() {
        // Above the target from 5 ms on, so the first drop is at 105 ms; the next follow 100 ms,
        // 100/√2 = 70.7 ms, 100/√3 = 57.7 ms, 50 ms after one another, each at the next packet.
        let log = drain(&mut codel(false), 400, false);
        let times: Vec<u64> = log.iter().map(|&(time, _)| time).collect();
        assert_eq!(times, [105, 205, 276, 334, 384]);
        // One packet leaves per millisecond, and the dropped ones besides.
        let sequences: Vec<u64> = log.iter().map(|&(_, sequence)| sequence).collect();
        assert_eq!(sequences, [104, 205, 277, 336, 387]);
    }

    #[test]
    fn packets_that_allow_it_are_marked_instead() {
        let log = drain(&mut codel(true), 390, true);
        assert_eq!(log, [(105, 1), (205, 2), (276, 3), (334, 4), (384, 5)]);
        // Packets that do not allow marks are dropped.
        let log = drain(&mut codel(true), 200, false);
        assert_eq!(log, [(105, 104)]);
    }

    #[test]
    fn a_short_delay_and_a_last_packet_are_left_alone() {
        let mut queue = codel(false);
        let mut dropped = Vec::new();
        for now in 0..1000 {
            queue.enqueue(packet(now, false), at(now), false, &mut dropped);
            if now >= 4 {
                assert!(queue.dequeue(at(now), &mut dropped).is_some());
            }
        }
        // From here on one packet waits, for however long.
        for now in 1000..1004 {
            assert!(queue.dequeue(at(now), &mut dropped).is_some());
        }
        for now in 0..1000 {
            queue.enqueue(packet(now, false), at(2000 + now), false, &mut dropped);
            let next = queue.dequeue(at(2050 + now), &mut dropped);
            assert_eq!(next.map(|packet| packet.sequence()), Some(now));
        }
        assert!(dropped.is_empty());
    }

    #[test]
    fn dropping_resumes_at_the_rate_it_had() {
        let mut queue = codel(false);
        let first = drain(&mut queue, 400, false);
        assert_eq!(
            (queue.state.count, queue.state.last_count),
            (first.len() as u32, 1)
        );
        // Soon after, it goes on at that rate: the distance is 100/√4.
        let mut dropped = Vec::new();
        for sequence in 0..400 {
            queue.enqueue(packet(sequence, false), at(500), false, &mut dropped);
        }
        let times: Vec<u64> = (501..800)
            .filter(|&now| {
                dropped.clear();
                queue.dequeue(at(now), &mut dropped);
                !dropped.is_empty()
            })
            .collect();
        assert_eq!(times[..3], [605, 655, 700]);
    }
}
