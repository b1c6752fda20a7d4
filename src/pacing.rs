//! Spike suppression: the spacing of transmissions (Brakmo et al. 1994 §3.4).

use std::time::{Duration, Instant};

/// A host times and schedules no more finely than this: a timer is late by 50 µs where nothing else
/// runs (Linux' timer slack, prctl(2)), and the thread that it wakes by as much again.
const HOST_TIME: Duration = Duration::from_micros(100);

/// The most that one system call carries, as datagrams of one size that the kernel or the interface
/// cuts (generic segmentation offload).
pub(crate) const MOST_BYTES_PER_CALL: usize = 65_535;

/// Datagrams per spacing interval (Brakmo et al. 1994 §3.4).
const DATAGRAMS_PER_INTERVAL: u64 = 2;

/// The part of the window that may leave at once, or wait in the host, above two datagrams.
const HOST_PART_OF_WINDOW: u64 = 2;

/// A time in which some datagrams may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    length_ns: u64,
    datagrams: u64,
}

impl Interval {
    /// Two datagrams in `RTT · MSS / cwnd`, the ideal time between two.
    ///
    /// Twice the ideal rate, so that the bytes in flight can catch up with the window; the window
    /// alone bounds what is sent per RTT.
    #[inline]
    pub(crate) fn of_paper(rtt: Duration, window_packets: u64) -> Interval {
        // 64 bits hold 584 years, and are divided by far faster than 128.
        let rtt_ns = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
        Interval {
            length_ns: rtt_ns / window_packets.max(1),
            datagrams: DATAGRAMS_PER_INTERVAL,
        }
    }

    /// The paper's interval, or several of them at once where a timer cannot keep one.
    ///
    /// NOTE: Brakmo et al. 1994 §3.4 have two datagrams at any rate. From 0.24 Gbit/s on
    /// timers are late by more than the interval: the host and not the interval would set the rate.
    #[inline]
    pub(crate) fn of_host(rtt: Duration, window_packets: u64) -> Interval {
        let one = Interval::of_paper(rtt, window_packets);
        let host_ns = u64::from(HOST_TIME.subsec_nanos());
        if one.length_ns > host_ns / 2 {
            return one;
        }
        let in_time = host_ns.checked_div(one.length_ns).unwrap_or(u64::MAX);
        let in_window = window_packets / (HOST_PART_OF_WINDOW * DATAGRAMS_PER_INTERVAL);
        let count = in_time.min(in_window).max(1);
        Interval {
            length_ns: count.saturating_mul(one.length_ns),
            datagrams: count.saturating_mul(one.datagrams),
        }
    }

    /// The bytes that may leave together, at most those of one system call.
    #[inline]
    pub(crate) fn burst_bytes(self, max_datagram_size_bytes: usize) -> usize {
        let datagrams = usize::try_from(self.datagrams).unwrap_or(usize::MAX);
        let least = DATAGRAMS_PER_INTERVAL as usize * max_datagram_size_bytes;
        let all = datagrams.saturating_mul(max_datagram_size_bytes);
        all.min(MOST_BYTES_PER_CALL).max(least)
    }
}

/// The datagrams that may wait in the host at any time, if they are more than leave together in
/// the paper: a backlog of as many says nothing about the network.
pub(crate) fn host_packets(rtt: Duration, window_packets: u64) -> f64 {
    let window = window_packets as f64;
    let waiting = window * (HOST_TIME.as_secs_f64() / rtt.as_secs_f64());
    if waiting < DATAGRAMS_PER_INTERVAL as f64 {
        return 0.0;
    }
    waiting.min(window / HOST_PART_OF_WINDOW as f64)
}

/// Lets so many datagrams leave in each interval.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpikeSuppression {
    /// The end of the interval in progress.
    end: Option<Instant>,
    /// The bytes that may still leave in it.
    room_bytes: usize,
}

impl SpikeSuppression {
    /// The rate that is allowed at most, in bits per second.
    pub(crate) fn max_rate_bps(rtt: Duration, window_bytes: usize) -> Option<f64> {
        (!rtt.is_zero())
            .then(|| DATAGRAMS_PER_INTERVAL as f64 * window_bytes as f64 * 8.0 / rtt.as_secs_f64())
    }

    /// A packet leaves at `time_sent`; `interval` is asked for if that begins one.
    ///
    /// An interval keeps the length that it began with, so that release times never go back. Where
    /// timers are late by more than the paper's, it begins at the end of the one before, if the timer was
    /// late by no more than its length.
    #[inline]
    pub(crate) fn on_packet_sent(
        &mut self,
        time_sent: Instant,
        size_bytes: usize,
        max_datagram_size_bytes: usize,
        interval: impl FnOnce() -> Interval,
    ) {
        match self.end {
            Some(end) if time_sent < end => {}
            last => {
                let Interval {
                    length_ns,
                    datagrams,
                } = interval();
                let length = Duration::from_nanos(length_ns);
                let begin = last
                    .filter(|_| datagrams > DATAGRAMS_PER_INTERVAL)
                    .filter(|last| time_sent.saturating_duration_since(*last) <= length);
                self.end = begin.unwrap_or(time_sent).checked_add(length);
                self.room_bytes = usize::try_from(datagrams)
                    .unwrap_or(usize::MAX)
                    .saturating_mul(max_datagram_size_bytes);
            }
        }
        self.room_bytes = self.room_bytes.saturating_sub(size_bytes);
    }

    /// The time at which the next datagram may leave; `None` if it may leave at once.
    #[inline]
    pub(crate) fn next_release_time(&self, max_datagram_size_bytes: usize) -> Option<Instant> {
        self.end
            .filter(|_| self.room_bytes < max_datagram_size_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MDS: usize = 1200;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn interval(length: Duration, datagrams: u64) -> Interval {
        Interval {
            length_ns: u64::try_from(length.as_nanos()).unwrap_or(u64::MAX),
            datagrams,
        }
    }

    #[test]
    fn two_datagrams_per_interval() {
        let start = Instant::now();
        let spacing = Duration::from_millis(10);
        let two = Interval::of_paper(Duration::from_millis(100), 10);
        assert_eq!(two, interval(spacing, 2));
        let mut pacer = SpikeSuppression::default();
        assert_eq!(pacer.next_release_time(MDS), None);
        pacer.on_packet_sent(start, MDS, MDS, || two);
        assert_eq!(pacer.next_release_time(MDS), None);
        pacer.on_packet_sent(start, MDS, MDS, || two);
        assert_eq!(pacer.next_release_time(MDS), Some(start + spacing));
        pacer.on_packet_sent(start + spacing, MDS, MDS, || two);
        assert_eq!(pacer.next_release_time(MDS), None);
    }

    #[test]
    fn intervals_are_the_papers_until_timers_are_late_by_more() {
        let of_host = |rtt_us, window| Interval::of_host(us(rtt_us), window);
        assert_eq!(of_host(5100, 100), interval(us(51), 2));
        assert_eq!(of_host(2000, 100), interval(us(100), 10));
        // Half of the window.
        assert_eq!(of_host(100, 100), interval(us(25), 50));
        assert_eq!(of_host(1, 3), interval(Duration::from_nanos(333), 2));
        assert_eq!(of_host(0, 0), interval(Duration::ZERO, 2));
        assert_eq!(of_host(0, 8), interval(Duration::ZERO, 4));
        assert_eq!(host_packets(us(2000), 100), 5.0);
        assert_eq!(host_packets(us(5100), 100), 0.0);
        assert_eq!(host_packets(us(10), 100), 50.0);
    }

    #[test]
    fn a_burst_is_no_larger_than_a_system_call() {
        assert_eq!(interval(us(50), 2).burst_bytes(MDS), 2 * MDS);
        assert_eq!(interval(us(50), 10).burst_bytes(MDS), 12_000);
        assert_eq!(interval(us(50), 100).burst_bytes(MDS), MOST_BYTES_PER_CALL);
        assert_eq!(interval(us(50), u64::MAX).burst_bytes(100_000), 200_000);
    }

    #[test]
    fn a_burst_uses_the_credit_of_a_late_timer_but_not_that_of_a_pause() {
        let start = Instant::now();
        let mut pacer = SpikeSuppression::default();
        let mut send_at = |late_us| {
            for _ in 0..4 {
                pacer.on_packet_sent(start + us(late_us), MDS, MDS, || interval(us(50), 4));
            }
            pacer.next_release_time(MDS).map(|next| next - start)
        };
        assert_eq!(send_at(0), Some(us(50)));
        assert_eq!(send_at(80), Some(us(100)));
        assert_eq!(send_at(300), Some(us(350)));
    }

    #[test]
    fn the_rate_is_two_windows_per_rtt() {
        // Twenty datagrams of 1200 bytes per 100 ms.
        let rate = SpikeSuppression::max_rate_bps(Duration::from_millis(100), 10 * MDS);
        assert_eq!(rate, Some(1_920_000.0));
    }

    #[test]
    fn small_packets_share_an_interval() {
        let start = Instant::now();
        let two = interval(us(1000), 2);
        let mut pacer = SpikeSuppression::default();
        for _ in 0..12 {
            assert_eq!(pacer.next_release_time(MDS), None);
            pacer.on_packet_sent(start, MDS / 12, MDS, || two);
        }
        pacer.on_packet_sent(start, MDS / 12, MDS, || two);
        assert_eq!(pacer.next_release_time(MDS), Some(start + us(1000)));
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        let mut pacer = SpikeSuppression::default();
        pacer.on_packet_sent(Instant::now(), usize::MAX / 4, usize::MAX, || {
            interval(Duration::MAX, u64::MAX)
        });
        pacer.next_release_time(MDS);
        assert_eq!(Interval::of_paper(Duration::MAX, u64::MAX).length_ns, 1);
        Interval::of_host(Duration::MAX, u64::MAX);
        Interval::of_host(us(1), u64::MAX);
        assert_eq!(SpikeSuppression::max_rate_bps(Duration::ZERO, 1), None);
    }

    proptest! {
        #[test]
        fn release_times_never_go_back_and_wait_one_interval_at_most(
            sends in proptest::collection::vec(
                (0u64..5_000, 1usize..1500, 0u64..2_000, 1u64..30),
                1..200
            )
        ) {
            let mut now = Instant::now();
            let mut pacer = SpikeSuppression::default();
            let mut last = None;
            let mut longest = Duration::ZERO;
            for (gap_us, size, spacing_us, pairs) in sends {
                now += us(gap_us);
                let next = interval(us(spacing_us * pairs), 2 * pairs);
                longest = longest.max(Duration::from_nanos(next.length_ns));
                let time_sent = pacer.next_release_time(MDS).unwrap_or(now).max(now);
                prop_assert!(time_sent - now <= longest);
                pacer.on_packet_sent(time_sent, size, MDS, || next);
                if let Some(next) = pacer.next_release_time(MDS) {
                    prop_assert!(last.is_none_or(|last| next >= last));
                    last = Some(next);
                }
                now = time_sent;
            }
        }
    }
}
