//! The release times of packets.

use std::time::{Duration, Instant};

/// A host times and schedules no more finely than this: a timer is late by 50 µs where nothing else
/// runs (Linux' timer slack, prctl(2)), and by several times that on a busy machine. Packets of less time may leave
/// at once, and a queue of less time may be the host's.
const HOST_TIME_S: f64 = 0.000_25;
/// The least burst, as in Brakmo et al. 1994 §3.4.
const LEAST_BURST_PACKETS: f64 = 2.0;
/// A burst of so many packets needs no further reason; a larger one is at most this part of the
/// window, so that a buffer of a BDP holds it.
const PLAIN_BURST_PACKETS: f64 = 16.0;
const HOST_PART_OF_WINDOW: f64 = 0.5;

/// The packets that may wait in the host at this rate: a backlog of as many says nothing about the
/// network.
pub(super) fn host_packets(pps: f64, window_packets: f64) -> f64 {
    (pps * HOST_TIME_S).min(window_packets * HOST_PART_OF_WINDOW)
}

/// The packets that may leave at once at this rate.
fn burst_packets(pps: f64, window_packets: f64) -> f64 {
    let plain = (pps * HOST_TIME_S).clamp(LEAST_BURST_PACKETS, PLAIN_BURST_PACKETS);
    plain.max(host_packets(pps, window_packets))
}

/// The rate at which packets leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    pub(super) pps: f64,
    /// The packets that may leave at once.
    pub(super) burst_packets: f64,
    /// The time from one packet to the next.
    gap: Duration,
    /// The time by which a burst goes ahead of the packets that it starts with two of.
    lead: Duration,
}

impl Pace {
    /// The pace of this rate, under this window.
    pub(super) fn new(pps: f64, window_packets: f64) -> Pace {
        let gap_ns = 1e9 / pps.max(1.0);
        let burst_packets = burst_packets(pps, window_packets);
        let gap = Duration::from_nanos(gap_ns as u64);
        let ahead = Duration::from_nanos((gap_ns * (burst_packets - 1.0)) as u64);
        Pace {
            pps,
            burst_packets,
            gap,
            lead: ahead.saturating_sub(gap),
        }
    }
}

/// Spaces packets evenly, and lets a late timer catch up by one burst.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    /// The time at which the next packet is due by the rate.
    due: Option<Instant>,
    /// The time at which the next packet may leave: a burst before it is due, and never earlier than
    /// was said before.
    release: Option<Instant>,
}

impl Pacer {
    /// A packet left. True if it kept to the rate's schedule, with no pause before it.
    #[inline]
    pub(super) fn on_packet_sent(&mut self, time_sent: Instant, pace: &Pace) -> bool {
        let (from, kept_pace) = match self.due {
            Some(due) if due >= time_sent => (due, true),
            Some(due) => (time_sent, due + pace.gap >= time_sent),
            None => (time_sent, false),
        };
        self.due = from.checked_add(pace.gap);
        let release = if pace.lead.is_zero() {
            Some(from)
        } else {
            from.checked_sub(pace.lead)
        };
        self.release = self.release.max(release);
        kept_pace
    }

    /// The time at which the next packet may leave.
    #[inline]
    pub(super) fn next_release_time(&self) -> Option<Instant> {
        self.release
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_packets_leave_at_once_and_then_one_per_gap() {
        let start = Instant::now();
        let mut pacer = Pacer::default();
        assert_eq!(pacer.next_release_time(), None);
        pacer.on_packet_sent(start, &Pace::new(1000.0, 10.0));
        assert_eq!(pacer.next_release_time(), Some(start));
        pacer.on_packet_sent(start, &Pace::new(1000.0, 10.0));
        let millisecond = Duration::from_millis(1);
        assert_eq!(pacer.next_release_time(), Some(start + millisecond));
    }

    #[test]
    fn a_burst_has_two_packets_or_those_of_a_quarter_of_a_millisecond_if_the_window_is_large() {
        assert_eq!(burst_packets(1.0, 10.0), 2.0);
        assert_eq!(burst_packets(40_000.0, 10.0), 10.0);
        assert_eq!(burst_packets(1e6, 10.0), 16.0);
        assert_eq!(burst_packets(1e6, 100.0), 50.0);
        assert_eq!(burst_packets(1e6, 1000.0), 250.0);
        assert_eq!(host_packets(1e6, 10.0), 5.0);
    }

    proptest! {
        #[test]
        fn release_times_never_go_back_and_the_rate_is_kept(
            sends in proptest::collection::vec((0u64..3_000, 100f64..1_000_000.0, 2f64..2000.0), 1..200)
        ) {
            let mut now = Instant::now();
            let mut pacer = Pacer::default();
            let mut last = None;
            for (late_us, pps, window) in sends {
                now = pacer.next_release_time().map_or(now, |release| release.max(now))
                    + Duration::from_micros(late_us);
                pacer.on_packet_sent(now, &Pace::new(pps, window));
                let next = pacer.next_release_time();
                prop_assert!(next >= last);
                prop_assert!(next.is_some_and(|next| next <= now + Duration::from_secs_f64(1.0 / 100.0)));
                last = next;
            }
        }
    }
}
