//! Spike suppression: the spacing of transmissions (Brakmo et al. 1994 §3.4).

use std::time::{Duration, Instant};

/// Allows two datagrams per spacing interval, `RTT · MSS / cwnd`.
///
/// Twice the ideal rate, so that the bytes in flight can catch up with the window; the window alone
/// bounds what is sent per RTT.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpikeSuppression {
    /// The end of the interval in progress and the bytes sent in it.
    interval: Option<(Instant, usize)>,
}

/// Datagrams per spacing interval (Brakmo et al. 1994 §3.4).
pub(crate) const DATAGRAMS_PER_INTERVAL: usize = 2;

impl SpikeSuppression {
    /// The ideal time between two datagrams when `window_packets` leave per `rtt`.
    #[inline]
    pub(crate) fn spacing(rtt: Duration, window_packets: u64) -> Duration {
        let window_packets = window_packets.max(1);
        // 64 bits hold 584 years, and are divided by far faster than 128.
        Duration::from_nanos(match u64::try_from(rtt.as_nanos()) {
            Ok(rtt) => rtt / window_packets,
            Err(_) => (rtt.as_nanos() / u128::from(window_packets))
                .try_into()
                .unwrap_or(u64::MAX),
        })
    }

    /// The rate that is allowed at most, in bits per second.
    pub(crate) fn max_rate_bps(rtt: Duration, window_bytes: usize) -> Option<f64> {
        (!rtt.is_zero())
            .then(|| DATAGRAMS_PER_INTERVAL as f64 * window_bytes as f64 * 8.0 / rtt.as_secs_f64())
    }

    /// A packet leaves at `time_sent`; `spacing` is asked when that begins an interval.
    ///
    /// An interval keeps the length that it began with, so that release times never go back.
    #[inline]
    pub(crate) fn on_packet_sent(
        &mut self,
        time_sent: Instant,
        size_bytes: usize,
        spacing: impl FnOnce() -> Duration,
    ) {
        let (end, sent_bytes) = match self.interval {
            Some((end, sent_bytes)) if time_sent < end => (Some(end), sent_bytes),
            _ => (time_sent.checked_add(spacing()), 0),
        };
        self.interval = end.map(|end| (end, sent_bytes.saturating_add(size_bytes)));
    }

    /// The time at which the next datagram may leave; `None` if it may leave at once.
    #[inline]
    pub(crate) fn next_release_time(&self, max_datagram_size_bytes: usize) -> Option<Instant> {
        let (end, sent_bytes) = self.interval?;
        let room_bytes = DATAGRAMS_PER_INTERVAL * max_datagram_size_bytes;
        let another_fits = sent_bytes.saturating_add(max_datagram_size_bytes) <= room_bytes;
        (!another_fits).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MDS: usize = 1200;

    #[test]
    fn two_datagrams_per_interval() {
        let start = Instant::now();
        let spacing = SpikeSuppression::spacing(Duration::from_millis(100), 10);
        assert_eq!(spacing, Duration::from_millis(10));
        let mut pacer = SpikeSuppression::default();
        assert_eq!(pacer.next_release_time(MDS), None);
        pacer.on_packet_sent(start, MDS, || spacing);
        assert_eq!(pacer.next_release_time(MDS), None);
        pacer.on_packet_sent(start, MDS, || spacing);
        assert_eq!(pacer.next_release_time(MDS), Some(start + spacing));
        pacer.on_packet_sent(start + spacing, MDS, || spacing);
        assert_eq!(pacer.next_release_time(MDS), None);
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
        let mut pacer = SpikeSuppression::default();
        for _ in 0..12 {
            assert_eq!(pacer.next_release_time(MDS), None);
            pacer.on_packet_sent(start, MDS / 12, || Duration::from_millis(1));
        }
        pacer.on_packet_sent(start, MDS / 12, || Duration::from_millis(1));
        assert_eq!(
            pacer.next_release_time(MDS),
            Some(start + Duration::from_millis(1))
        );
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        let mut pacer = SpikeSuppression::default();
        pacer.on_packet_sent(Instant::now(), usize::MAX / 4, || {
            SpikeSuppression::spacing(Duration::MAX, 1)
        });
        pacer.next_release_time(MDS);
        assert_eq!(
            SpikeSuppression::spacing(Duration::MAX, u64::MAX),
            Duration::from_secs(1)
        );
        assert_eq!(SpikeSuppression::spacing(Duration::ZERO, 0), Duration::ZERO);
        assert_eq!(SpikeSuppression::max_rate_bps(Duration::ZERO, 1), None);
    }

    proptest! {
        #[test]
        fn release_times_never_go_back_and_wait_one_interval_at_most(
            sends in proptest::collection::vec((0u64..5_000, 1usize..1500, 0u64..2_000), 1..200)
        ) {
            let mut now = Instant::now();
            let mut pacer = SpikeSuppression::default();
            let mut last = None;
            let mut longest = Duration::ZERO;
            for (gap_us, size, spacing_us) in sends {
                now += Duration::from_micros(gap_us);
                let spacing = Duration::from_micros(spacing_us);
                longest = longest.max(spacing);
                let time_sent = pacer.next_release_time(MDS).unwrap_or(now).max(now);
                prop_assert!(time_sent - now <= longest);
                pacer.on_packet_sent(time_sent, size, || spacing);
                if let Some(next) = pacer.next_release_time(MDS) {
                    prop_assert!(last.is_none_or(|last| next >= last));
                    last = Some(next);
                }
                now = time_sent;
            }
        }
    }
}
