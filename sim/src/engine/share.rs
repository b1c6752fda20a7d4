//! The first window of time in which a flow had its share of the capacity.

use std::collections::VecDeque;
use std::time::Duration;

use crate::measure::Measure;
use crate::time::Time;

/// Looks for the first window of time in which enough bytes of QUIC packets came to the client. It
/// is exact, and keeps the packets of one window until it has found it.
#[derive(Clone, Debug)]
pub struct ShareWindow {
    metric: &'static str,
    length: Duration,
    bytes: f64,
    start: Option<Time>,
    /// Bytes that had come at the last look.
    before: u64,
    /// Times of arrival and bytes of the packets in the window that ends now.
    inside: VecDeque<(Time, u64)>,
    inside_bytes: u64,
    found: Option<Duration>,
}

impl ShareWindow {
    /// Looks for windows of `length` with at least `bytes`. `metric`, in seconds, is the time from
    /// `start`, or else from the time at which the client read the first stream data, to the start
    /// of the first such window. Windows that begin earlier do not count.
    #[must_use]
    pub fn new(
        metric: &'static str,
        length: Duration,
        bytes: f64,
        start: Option<Duration>,
    ) -> ShareWindow {
        ShareWindow {
            metric,
            length,
            bytes,
            start: start.map(Time::from),
            before: 0,
            inside: VecDeque::new(),
            inside_bytes: 0,
            found: None,
        }
    }

    /// True until the window has been found.
    pub(crate) fn is_open(&self) -> bool {
        self.found.is_none()
    }

    /// Notes that `received` bytes of QUIC packets have come until `now`, since a packet came;
    /// `has_read` says that the client has read stream data.
    pub(crate) fn note(&mut self, now: Time, received: u64, has_read: bool) {
        let bytes = received - self.before;
        self.before = received;
        if self.found.is_some() {
            return;
        }
        if self.start.is_none() && has_read {
            self.start = Some(now);
        }
        let Some(start) = self.start.filter(|&start| start <= now) else {
            return;
        };
        self.inside.push_back((now, bytes));
        self.inside_bytes += bytes;
        while let Some(&(time, bytes)) = self.inside.front()
            && time + self.length <= now
        {
            self.inside.pop_front();
            self.inside_bytes -= bytes;
        }
        if self.inside_bytes as f64 >= self.bytes {
            self.found = Some((now - start).saturating_sub(self.length));
            self.inside = VecDeque::new();
        }
    }

    pub(crate) fn measure(&self) -> Option<Measure> {
        let found = self.found?.as_secs_f64();
        Some(Measure::new(self.metric, "s", found))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(milliseconds: u64) -> Time {
        Duration::from_millis(milliseconds).into()
    }

    /// The seconds that are found for packets of some bytes at some milliseconds.
    fn found(window: ShareWindow, packets: &[(u64, u64)]) -> Option<f64> {
        let mut window = window;
        let mut received = 0;
        for &(time, bytes) in packets {
            received += bytes;
            window.note(at(time), received, time >= 50);
        }
        window.measure().map(|measure| measure.value)
    }

    fn window(bytes: f64, start: Option<u64>) -> ShareWindow {
        let length = Duration::from_millis(100);
        ShareWindow::new("x_s", length, bytes, start.map(Duration::from_millis))
    }

    #[test]
    fn the_window_begins_when_the_rate_rises() {
        // A byte a millisecond from 60 ms, and two from 200 ms on; the handshake does not count.
        let packets: Vec<(u64, u64)> = (40..50)
            .map(|time| (time, 9000))
            .chain((60..200).map(|time| (time, 1)))
            .chain((200..600).map(|time| (time, 2)))
            .collect();
        assert_eq!(found(window(100.0, None), &packets), Some(0.0));
        // The window of 100 ms that ends with the 50th packet of the second rate.
        assert_eq!(found(window(150.0, None), &packets), Some(0.089));
        assert_eq!(found(window(200.0, None), &packets), Some(0.139));
        assert_eq!(found(window(201.0, None), &packets), None);
        assert_eq!(found(window(100.0, Some(30)), &packets), Some(0.0));
        assert_eq!(found(window(150.0, Some(70)), &packets), Some(0.079));
        assert_eq!(found(window(150.0, Some(300)), &packets), Some(0.0));
        assert_eq!(found(window(150.0, Some(900)), &packets), None);
    }

    #[test]
    fn a_burst_that_is_enough_begins_the_window() {
        assert_eq!(found(window(10.0, None), &[(60, 4), (61, 6)]), Some(0.0));
        let late = [(60, 1), (400, 4), (450, 6)];
        assert_eq!(found(window(10.0, None), &late), Some(0.290));
    }

    proptest! {
        #[test]
        fn it_is_the_first_of_all_windows(
            packets in prop::collection::vec((0_u64..40, 1_u64..20), 1..60),
            bytes in 1_u64..100,
        ) {
            let mut now = 60;
            let packets: Vec<(u64, u64)> = packets
                .into_iter()
                .map(|(after, bytes)| {
                    now += after;
                    (now, bytes)
                })
                .collect();
            let start = packets[0].0;
            let sum = |inside: &dyn Fn(u64) -> bool| -> u64 {
                let packets = packets.iter().filter(|&&(time, _)| inside(time));
                packets.map(|&(_, bytes)| bytes).sum()
            };
            let first = (start..=now).find(|&from| {
                let at_first = from == start && sum(&|time| time < start + 100) >= bytes;
                at_first || sum(&|time| from < time && time <= from + 100) >= bytes
            });
            let expected = first.map(|from| (from - start) as f64 / 1e3);
            prop_assert_eq!(found(window(bytes as f64, None), &packets), expected);
        }
    }
}
