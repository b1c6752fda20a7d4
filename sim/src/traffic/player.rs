//! The receiver of a media stream: fills its buffer, then plays (Boyden et al. 2007 §4.2).

use std::time::Duration;

use crate::measure::Measure;
use crate::time::Time;

/// The largest share of late packets in a viable stream (Boyden et al. 2007 §4.4).
const VIABLE_LATE_RATIO: f64 = 0.1;

/// A player of a stream. It waits until its buffer is full and then plays at the rate of the media,
/// without end and without waiting again. Data that have not come by the time at which they would
/// be played are late and of no use (Boyden et al. 2007 §4.4).
#[derive(Clone, Debug)]
pub struct Player {
    /// Stream bytes that play in one second.
    pub bytes_per_s: f64,
    /// Stream bytes in a full buffer.
    pub buffer_bytes: u64,
    /// Stream bytes of the whole media, if it ends.
    pub total_bytes: Option<u64>,
    received: u64,
    late: f64,
    playing_since: Option<Time>,
    /// True if the last bytes to come were late.
    behind: bool,
    stalls: u64,
}

impl Player {
    /// A player that has not yet received any data.
    #[must_use]
    pub fn new(bytes_per_s: f64, buffer_bytes: u64, total_bytes: Option<u64>) -> Player {
        Player {
            bytes_per_s,
            buffer_bytes,
            total_bytes,
            received: 0,
            late: 0.0,
            playing_since: None,
            behind: false,
            stalls: 0,
        }
    }

    /// Bytes that have been due by `now`.
    fn due(&self, now: Time) -> f64 {
        let Some(since) = self.playing_since else {
            return 0.0;
        };
        let due = (now - since).as_secs_f64() * self.bytes_per_s;
        due.min(self.total_bytes.map_or(f64::INFINITY, |total| total as f64))
    }

    /// Notes that the stream has been read up to `received` bytes.
    pub(crate) fn read(&mut self, now: Time, received: u64) {
        let due = self.due(now);
        let late = due.min(received as f64) - self.received as f64;
        self.received = received;
        let was_behind = self.behind;
        self.behind = late > 0.0;
        self.late += late.max(0.0);
        if self.behind && !was_behind {
            self.stalls += 1;
        }
        let full = self.buffer_bytes.min(self.total_bytes.unwrap_or(u64::MAX));
        if self.playing_since.is_none() && received >= full {
            self.playing_since = Some(now);
        }
    }

    /// The metrics until `now` of a stream that began at `start`.
    ///
    /// | metric | meaning |
    /// |---|---|
    /// | `buffer_fill_s` | from the start of the flow until the buffer was full; absent if it never was |
    /// | `late_packets_ratio` | bytes that came after they were due, or were due and have not come, over those that were due; absent if none was, and 1 if the buffer never filled |
    /// | `viable` | 1 if at most a tenth is late (Boyden et al. 2007 §4.4), else 0 |
    /// | `stalls` | the times that the received data fell behind the played data |
    pub(crate) fn measures(&self, start: Time, now: Time) -> Vec<Measure> {
        let due = self.due(now);
        let missing = (due - self.received as f64).max(0.0);
        let late = match self.playing_since {
            Some(_) if due > 0.0 => Some((self.late + missing) / due),
            Some(_) => None,
            None => Some(1.0),
        };
        let fill = self.playing_since.map(|since: Time| since - start);
        let stalls = self.stalls + u64::from(missing > 0.0 && !self.behind);
        [
            fill.map(|fill: Duration| Measure::new("buffer_fill_s", "s", fill.as_secs_f64())),
            late.map(|late| Measure::new("late_packets_ratio", "", late)),
            late.map(|late| {
                Measure::new("viable", "", f64::from(u8::from(late <= VIABLE_LATE_RATIO)))
            }),
            Some(Measure::new("stalls", "", stalls as f64)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Duration::from_secs_f64(seconds).into()
    }

    fn values(player: &Player, now: f64) -> Vec<(&'static str, f64)> {
        let measures = player.measures(at(1.0), at(now));
        measures.iter().map(|m| (m.metric, m.value)).collect()
    }

    #[test]
    fn what_comes_after_it_was_due_is_late() {
        // 1000 bytes per second, two seconds of buffer.
        let mut player = Player::new(1000.0, 2000, None);
        player.read(at(2.0), 1500);
        assert_eq!(
            values(&player, 3.0),
            [
                ("late_packets_ratio", 1.0),
                ("viable", 0.0),
                ("stalls", 0.0)
            ]
        );
        player.read(at(4.0), 2000);
        // It plays since 4 s. At 6.5 s 2500 bytes were due, 500 of which had not come.
        player.read(at(6.5), 3000);
        // At 7 s, 3000 had been due and had come.
        player.read(at(7.0), 9000);
        assert_eq!(
            values(&player, 9.0),
            [
                ("buffer_fill_s", 3.0),
                ("late_packets_ratio", 0.1),
                ("viable", 1.0),
                ("stalls", 1.0)
            ]
        );
    }

    #[test]
    fn what_never_comes_is_late_too() {
        let mut player = Player::new(1000.0, 1000, None);
        player.read(at(1.0), 1000);
        assert_eq!(
            values(&player, 5.0)[1..],
            [
                ("late_packets_ratio", 0.75),
                ("viable", 0.0),
                ("stalls", 1.0)
            ]
        );
    }

    #[test]
    fn nothing_is_due_after_the_end() {
        let mut player = Player::new(1000.0, 5000, Some(3000));
        player.read(at(2.0), 3000);
        assert_eq!(
            values(&player, 100.0),
            [
                ("buffer_fill_s", 1.0),
                ("late_packets_ratio", 0.0),
                ("viable", 1.0),
                ("stalls", 0.0)
            ]
        );
    }
}
