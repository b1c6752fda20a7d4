//! The sending half of an end: windows, timers and repair.

use std::collections::BTreeMap;
use std::time::Duration;

use gallop_network::time::Time;

use super::clock::{Clock, Timeout};
use super::flavour::{Flavour, Repair};
use super::vegas::{Decision, Vegas};

/// The duplicate acknowledgements that stand for a loss (RFC 2001 §3).
const MOST_DUPLICATES: u32 = 3;

/// The least threshold and the least window of Vegas, in segments (RFC 2001 §1).
const LEAST_PACKETS: f64 = 2.0;

/// The part of the window that Vegas keeps after a loss.
///
/// NOTE: Brakmo et al. 1994 do not give it; Boyden et al. 2007 §III have three quarters.
const VEGAS_KEEPS: f64 = 0.75;

/// The part of the window by which Vegas leaves slow start.
///
/// NOTE: Brakmo et al. 1994 do not give it; Ho et al. 2006 §II have an eighth.
const VEGAS_LEAVES: f64 = 0.125;

/// The largest window, in bytes: RFC 1323 §2.2.
const MOST_WINDOW_BYTES: f64 = (1_u64 << 30) as f64;

/// Unsent segments that a sender without a limited buffer holds beyond its window.
const AHEAD_PACKETS: u64 = 16;

/// A segment under way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    end: u64,
    /// The time at which it was sent last.
    at: Time,
    again: bool,
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Segments that were sent again.
    pub(crate) resent_segments: u64,
    pub(crate) resent_bytes: u64,
    /// Expiries of the coarse timer.
    pub(crate) timeouts: u64,
}

/// Sends bytes over one connection.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    flavour: Flavour,
    clock: Clock,
    segment_bytes: u64,
    buffer_bytes: Option<u64>,
    /// The first byte that is not acknowledged, the next to send, the end of what was ever sent, and
    /// of what is to be sent.
    unacknowledged: u64,
    next: u64,
    sent: u64,
    end: u64,
    window_bytes: f64,
    threshold_bytes: f64,
    duplicates: u32,
    /// The window after fast recovery, during it.
    recovering: Option<f64>,
    /// The end of what had been sent when a loss was found last.
    recover: u64,
    /// True if the first segment is to be sent again now.
    resend: bool,
    timer: Option<Time>,
    timeout: Timeout,
    /// The end of a segment whose RTT is measured, and the tick at which it left.
    timed: Option<(u64, u64)>,
    segments: BTreeMap<u64, Sent>,
    /// Ranges that the receiver has beyond a gap, by first byte.
    sacked: BTreeMap<u64, u64>,
    /// The end of the last gap that was filled in this recovery.
    filled: u64,
    vegas: Option<Vegas>,
    /// The end of a wait for spacing.
    spaced: Option<Time>,
    heard: Time,
    pub(crate) counters: Counters,
    min_rtt: Option<Duration>,
}

impl Sender {
    /// A sender of segments of that size; `buffer_bytes` limits what is not acknowledged or not sent.
    pub(crate) fn new(
        flavour: Flavour,
        clock: Clock,
        segment_bytes: u64,
        buffer_bytes: Option<u64>,
    ) -> Sender {
        let own = flavour
            .buffer_packets
            .map(|packets| packets * segment_bytes);
        Sender {
            flavour,
            clock,
            segment_bytes,
            buffer_bytes: buffer_bytes.or(own),
            unacknowledged: 0,
            next: 0,
            sent: 0,
            end: 0,
            window_bytes: segment_bytes as f64,
            threshold_bytes: MOST_WINDOW_BYTES,
            duplicates: 0,
            recovering: None,
            recover: 0,
            resend: false,
            timer: None,
            timeout: Timeout::new(clock),
            timed: None,
            segments: BTreeMap::new(),
            sacked: BTreeMap::new(),
            filled: 0,
            vegas: flavour.vegas.map(Vegas::new),
            spaced: None,
            heard: Time::ZERO,
            counters: Counters::default(),
            min_rtt: None,
        }
    }

    /// Takes bytes from the application, at most `bytes`; returns how many. A buffer that has not
    /// room for all of them takes whole segments.
    pub(crate) fn write(&mut self, bytes: u64) -> u64 {
        let held = self.end - self.unacknowledged;
        let limit = self
            .buffer_bytes
            .unwrap_or_else(|| 2 * self.window_bytes as u64 + AHEAD_PACKETS * self.segment_bytes);
        let room = limit.saturating_sub(held);
        let taken = match bytes <= room {
            true => bytes,
            false => {
                let most = self.end + room;
                (most - most % self.segment_bytes).saturating_sub(self.end)
            }
        };
        self.end += taken;
        taken
    }

    /// The end of what the application has written.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn window_bytes(&self) -> f64 {
        self.window_bytes
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.window_bytes < self.threshold_bytes
    }

    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    /// The smoothed RTT of the fine clock, if there is one.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.vegas.as_ref().and_then(Vegas::smoothed_rtt)
    }

    /// The estimate of the RTT without queues.
    pub(crate) fn base_rtt(&self) -> Option<Duration> {
        let base = self.vegas.as_ref().map(Vegas::base_rtt);
        base.unwrap_or(self.min_rtt)
    }

    /// Takes the RTT of the opening of the connection.
    pub(crate) fn opened(&mut self, ticks: u64, now: Time) {
        self.timeout.sample(ticks);
        self.heard = now;
    }

    fn packets(&self, bytes: f64) -> f64 {
        bytes / self.segment_bytes as f64
    }

    fn least_bytes(&self) -> f64 {
        LEAST_PACKETS * self.segment_bytes as f64
    }

    /// The window that is in use: the congestion window, or the buffer.
    fn used_bytes(&self) -> f64 {
        let buffer = self.buffer_bytes.unwrap_or(u64::MAX) as f64;
        self.window_bytes.min(buffer)
    }

    fn set_window(&mut self, bytes: f64) {
        self.window_bytes = bytes.clamp(self.segment_bytes as f64, MOST_WINDOW_BYTES);
    }

    fn start_timer(&mut self, now: Time) {
        self.timer = Some(self.clock.after(now, self.timeout.ticks()));
    }

    /// Takes an acknowledgement of all bytes before `ack`, with the ranges beyond it. One that comes
    /// with data is no duplicate (RFC 2581 §2).
    pub(crate) fn acknowledge(
        &mut self,
        ack: u64,
        ranges: &[(u64, u64)],
        has_data: bool,
        now: Time,
    ) {
        if ack > self.sent || ack < self.unacknowledged {
            return;
        }
        self.heard = now;
        if self.flavour.repair == Repair::Sack {
            for &(first, end) in ranges {
                if first >= ack && end <= self.sent && first < end {
                    self.sacked.insert(first, end);
                }
            }
        }
        match ack > self.unacknowledged {
            true => self.acknowledge_new(ack, now),
            false if self.sent > ack && !has_data => self.acknowledge_again(now),
            false => {}
        }
    }

    fn acknowledge_again(&mut self, now: Time) {
        self.duplicates += 1;
        let segment_bytes = self.segment_bytes as f64;
        if self.recovering.is_some() && self.flavour.repair != Repair::Sack {
            // A segment has left the network.
            self.set_window(self.window_bytes + segment_bytes);
        }
        let first = self.segments.get(&self.unacknowledged).copied();
        let was_repaired = self.recovering.is_some();
        if let (Some(vegas), Some(first)) = (&self.vegas, first) {
            let is_third = self.duplicates == MOST_DUPLICATES && !was_repaired;
            if vegas.is_overdue(first.at, now) || is_third {
                self.repair_for_vegas(first, now);
            }
            return;
        }
        if self.duplicates != MOST_DUPLICATES || was_repaired && self.flavour.is_careful {
            return;
        }
        if self.flavour.is_careful && self.unacknowledged < self.recover {
            return;
        }
        self.recover = self.sent;
        self.threshold_bytes = (self.used_bytes() / 2.0).max(self.least_bytes());
        self.recovering = Some(self.threshold_bytes);
        let inflation = match self.flavour.repair {
            Repair::Sack => 0.0,
            Repair::Reno | Repair::NewReno => f64::from(self.duplicates) * segment_bytes,
        };
        self.set_window(self.threshold_bytes + inflation);
        self.filled = self.unacknowledged;
        self.resend_first(now);
    }

    /// Sends the first segment again, and decreases the window if that segment was sent after the
    /// last decrease (Brakmo et al. 1994 §3.3).
    fn repair_for_vegas(&mut self, first: Sent, now: Time) {
        let usual = self.recovering.unwrap_or(self.window_bytes);
        let used = usual.min(self.used_bytes());
        let least = self.least_bytes();
        let Some(vegas) = &mut self.vegas else { return };
        let after = match vegas.decreased.is_none_or(|decreased| first.at > decreased) {
            true => {
                vegas.decreased = Some(now);
                let kept = (VEGAS_KEEPS * used).max(least);
                self.threshold_bytes = kept;
                kept
            }
            false => usual,
        };
        self.recovering = Some(after);
        let inflation = f64::from(self.duplicates) * self.segment_bytes as f64;
        self.set_window(after + inflation);
        self.resend_first(now);
    }

    fn resend_first(&mut self, now: Time) {
        self.resend = true;
        self.timed = None;
        if let Some(vegas) = &mut self.vegas {
            vegas.resent();
        }
        self.start_timer(now);
    }

    fn acknowledge_new(&mut self, ack: u64, now: Time) {
        let acknowledged = (ack - self.unacknowledged) as f64;
        self.take_samples(ack, now);
        self.unacknowledged = ack;
        self.next = self.next.max(ack);
        let rest = self.segments.range(..ack).next_back();
        let rest = rest.map(|(_, sent)| *sent).filter(|sent| sent.end > ack);
        self.segments = self.segments.split_off(&ack);
        self.segments.extend(rest.map(|sent| (ack, sent)));
        self.sacked = self.sacked.split_off(&ack);
        self.duplicates = 0;
        self.resend = false;
        match self.sent > ack {
            true => self.start_timer(now),
            false => self.timer = None,
        }
        match self.recovering {
            Some(_) if self.flavour.repair != Repair::Reno && ack < self.recover => {
                if self.flavour.repair == Repair::NewReno {
                    let segment_bytes = self.segment_bytes as f64;
                    self.set_window(self.window_bytes - acknowledged + segment_bytes);
                    self.resend_first(now);
                }
            }
            Some(window_bytes) => {
                self.recovering = None;
                self.set_window(window_bytes);
            }
            None => self.grow(ack, now),
        }
        self.look_for_vegas(now);
    }

    fn take_samples(&mut self, ack: u64, now: Time) {
        if let Some((end, tick)) = self.timed
            && ack >= end
        {
            self.timed = None;
            self.timeout.sample(self.clock.ticks(now) - tick);
        }
        let newly = self.segments.range(..ack).next_back();
        if let Some((_, sent)) = newly.filter(|(_, sent)| !sent.again) {
            let rtt = now - sent.at;
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
            if let Some(vegas) = &mut self.vegas {
                vegas.sample(rtt);
            }
        }
    }

    fn grow(&mut self, ack: u64, now: Time) {
        let segment_bytes = self.segment_bytes as f64;
        let in_slow_start = self.in_slow_start();
        let least = self.least_bytes();
        let Some(vegas) = &mut self.vegas else {
            let more = match in_slow_start {
                true => segment_bytes,
                false => segment_bytes * segment_bytes / self.window_bytes,
            };
            self.set_window(self.window_bytes + more);
            return;
        };
        if in_slow_start && vegas.grows {
            self.window_bytes += segment_bytes;
        }
        let decision = vegas.decide(ack, self.sent, self.segment_bytes, in_slow_start, now);
        match decision {
            Decision::Grow => self.set_window(self.window_bytes + segment_bytes),
            Decision::Shrink => self.set_window((self.window_bytes - segment_bytes).max(least)),
            Decision::LeaveSlowStart => {
                let kept = (self.window_bytes * (1.0 - VEGAS_LEAVES)).max(least);
                self.set_window(kept);
                self.threshold_bytes = kept;
            }
            Decision::Keep => {}
        }
    }

    /// Looks at the first segment after a retransmission, without a duplicate acknowledgement
    /// (Brakmo et al. 1994 §3.2).
    fn look_for_vegas(&mut self, now: Time) {
        let first = self.segments.get(&self.unacknowledged).copied();
        if let Some(vegas) = &mut self.vegas
            && vegas.looks()
            && let Some(first) = first
            && vegas.is_overdue(first.at, now)
        {
            self.repair_for_vegas(first, now);
        }
    }

    /// Handles the coarse timer if it has expired; returns true if it has.
    pub(crate) fn wake(&mut self, now: Time) -> bool {
        self.spaced = self.spaced.filter(|&spaced| spaced > now);
        if self.timer.is_none_or(|timer| timer > now) {
            return false;
        }
        self.counters.timeouts += 1;
        self.threshold_bytes = (self.used_bytes() / 2.0).max(self.least_bytes());
        self.window_bytes = self.segment_bytes as f64;
        self.recover = self.sent;
        self.next = self.unacknowledged;
        self.duplicates = 0;
        self.recovering = None;
        self.resend = false;
        self.timed = None;
        self.sacked.clear();
        self.timeout.back_off();
        if let Some(vegas) = &mut self.vegas {
            vegas.resent();
            vegas.grows = true;
            vegas.decreased = Some(now);
        }
        self.start_timer(now);
        true
    }

    /// The time at which [`wake`](Self::wake) is to be called.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.timer.into_iter().chain(self.spaced).min()
    }

    /// The next segment that may leave now: its first byte and its length.
    pub(crate) fn poll(&mut self, now: Time) -> Option<(u64, u64)> {
        if self.resend {
            self.resend = false;
            let first = self.unacknowledged;
            let bytes = self.segment_bytes.min(self.sent - first);
            return Some(self.send(first, bytes, now));
        }
        if self.flavour.repair == Repair::Sack && self.recovering.is_some() {
            return self.poll_by_ranges(now);
        }
        let is_idle = self.sent == self.unacknowledged;
        if is_idle && self.flavour.restarts_idle && self.next < self.end {
            let idle_since = self.clock.ticks(now) - self.clock.ticks(self.heard);
            if idle_since >= self.timeout.ticks() {
                self.window_bytes = self.segment_bytes as f64;
            }
        }
        let in_flight = self.next - self.unacknowledged;
        let usable = (self.used_bytes() as u64).saturating_sub(in_flight);
        let bytes = (self.end - self.next).min(usable).min(self.segment_bytes);
        let is_rest = self.next + bytes == self.end;
        // A segment that is not full waits until all others are acknowledged (RFC 1122 §4.2.3.4).
        let leaves = bytes == self.segment_bytes || is_rest && (is_idle || self.next < self.sent);
        if bytes == 0 || !leaves {
            return None;
        }
        let window_packets = self.packets(self.window_bytes);
        if !self.in_slow_start()
            && let Some(vegas) = &self.vegas
        {
            self.spaced = vegas.waits_until(window_packets, now);
            if self.spaced.is_some() {
                return None;
            }
        }
        let first = self.next;
        self.next += bytes;
        Some(self.send(first, bytes, now))
    }

    /// The next segment of a recovery by ranges: as many are in the pipe as the window has, gaps are
    /// filled first (RFC 6675 §5).
    fn poll_by_ranges(&mut self, now: Time) -> Option<(u64, u64)> {
        let highest = self.sacked.values().copied().max().unwrap_or(0);
        let is_lost = |first: u64, sent: &Sent| {
            sent.end + u64::from(MOST_DUPLICATES - 1) * self.segment_bytes < highest
                || first == self.unacknowledged
        };
        let has_come = |first: u64| {
            let before = self.sacked.range(..=first).next_back();
            before.is_some_and(|(_, &end)| end > first)
        };
        let (mut pipe, mut gap) = (0, None);
        for (&first, sent) in &self.segments {
            if has_come(first) {
                continue;
            }
            if first >= self.filled && is_lost(first, sent) {
                gap = gap.or(Some((first, sent.end - first)));
            } else {
                pipe += sent.end - first;
            }
        }
        if (pipe + self.segment_bytes) as f64 > self.used_bytes() {
            return None;
        }
        if let Some((first, bytes)) = gap {
            self.filled = first + bytes;
            return Some(self.send(first, bytes, now));
        }
        self.next = self.next.max(self.sent);
        let buffer = self.buffer_bytes.unwrap_or(u64::MAX);
        let room = buffer.saturating_sub(self.next - self.unacknowledged);
        let bytes = (self.end - self.next).min(self.segment_bytes);
        if bytes < self.segment_bytes || room < bytes {
            return None;
        }
        let first = self.next;
        self.next += bytes;
        Some(self.send(first, bytes, now))
    }

    fn send(&mut self, first: u64, bytes: u64, now: Time) -> (u64, u64) {
        let end = first + bytes;
        let again = first < self.sent;
        if again {
            self.counters.resent_segments += 1;
            self.counters.resent_bytes += bytes.min(self.sent - first);
            if self.timed.is_some_and(|(timed, _)| timed > first) {
                self.timed = None;
            }
        } else if self.timed.is_none() {
            self.timed = Some((end, self.clock.ticks(now)));
        }
        if again && first == self.unacknowledged {
            self.filled = self.filled.max(end);
        }
        self.sent = self.sent.max(end);
        let covered: Vec<u64> = self.segments.range(first..end).map(|(&at, _)| at).collect();
        for at in covered {
            self.segments.remove(&at);
        }
        let sent = Sent {
            end,
            at: now,
            again,
        };
        self.segments.insert(first, sent);
        if self.timer.is_none() {
            self.start_timer(now);
        }
        let window_packets = self.packets(self.window_bytes);
        if let Some(vegas) = &mut self.vegas {
            if !again {
                vegas.sent(first, end, now);
            }
            vegas.count(window_packets, now);
        }
        (first, bytes)
    }

    /// The coarse timeouts since the last sample of an RTT, as a power of two.
    #[cfg(test)]
    pub(crate) fn backoff(&self) -> u32 {
        self.timeout.backoff()
    }
}
