//! Live media: frames that a clock makes, each on a stream of its own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

use gallop_network::random::Random;
use rand::RngExt;

use super::{Offer, Source};
use crate::measure::{self, Measure};
use crate::time::Time;

/// The longest time without a frame that is no stall.
const STALL: Duration = Duration::from_millis(200);

/// The stream of the first frame, and the distance to that of the next: streams of the server that
/// go one way (RFC 9000 §2.1).
const STREAMS: (u64, u64) = (3, 4);

/// The frames that a live source makes.
#[derive(Clone, Debug)]
pub struct Media {
    /// Stream bytes per second, in the mean.
    pub bytes_per_s: f64,
    /// Frames per second.
    pub frames_per_s: NonZeroU32,
    /// The number of frames from one key frame to the next; the first is one.
    pub key_every: NonZeroU32,
    /// The size of a key frame over that of another.
    pub key_factor: f64,
    /// Sizes are uniform between 1 − this and 1 + this of what they would be.
    pub variation: f64,
    /// The longest time that a frame waits for its first byte to be sent; then it is skipped.
    pub deadline: Duration,
    /// The source of the variation.
    pub random: Random,
}

impl Media {
    /// The time of a frame, counted from that of the first.
    fn time(&self, number: usize) -> Duration {
        let nanoseconds = number as u128 * 1_000_000_000 / u128::from(self.frames_per_s.get());
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// The size of the next frame, which has this number, in stream bytes.
    fn draw_bytes(&mut self, number: usize) -> u64 {
        let key_every = f64::from(self.key_every.get());
        let mean = self.bytes_per_s / f64::from(self.frames_per_s.get());
        let other = mean * key_every / (key_every - 1.0 + self.key_factor);
        let is_key = (number as u64).is_multiple_of(u64::from(self.key_every.get()));
        let bytes = if is_key {
            other * self.key_factor
        } else {
            other
        };
        let factor = 1.0 + self.variation * (2.0 * self.random.random::<f64>() - 1.0);
        ((bytes * factor).round() as u64).max(1)
    }
}

/// The fate of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// No byte of it has been handed to the transport.
    Waiting,
    /// Some of it has been handed to the transport.
    UnderWay,
    /// It waited for too long.
    Skipped,
    /// Its last byte was read at that time.
    Complete(Time),
}

#[derive(Clone, Debug)]
struct Frame {
    generated: Time,
    bytes: u64,
    fate: Fate,
}

/// A live stream. Sender, receiver and meter share it.
#[derive(Clone, Debug)]
pub struct Live(Rc<RefCell<State>>);

#[derive(Debug)]
struct State {
    media: Media,
    /// Time of the first frame.
    start: Option<Time>,
    /// Time from which no more frames are made.
    stop: Option<Time>,
    frames: Vec<Frame>,
    /// The first frame that is neither skipped nor wholly written.
    next: usize,
    /// Bytes of it that have been written.
    written: u64,
    /// The stream that it has, or will have.
    stream: u64,
    /// Frames under way, by stream.
    under_way: BTreeMap<u64, usize>,
}

/// The rest of a frame, which is still to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) stream: u64,
    /// True if nothing of it has been sent.
    pub(crate) first: bool,
    pub(crate) bytes: u64,
}

impl Live {
    /// A stream of `media` that has not begun.
    #[must_use]
    pub fn new(media: Media) -> Live {
        Live(Rc::new(RefCell::new(State {
            media,
            start: None,
            stop: None,
            frames: Vec::new(),
            next: 0,
            written: 0,
            stream: STREAMS.0,
            under_way: BTreeMap::new(),
        })))
    }

    /// Makes the first frame now, and none from `stop` on.
    pub(crate) fn begin(&self, now: Time, stop: Option<Time>) {
        let mut state = self.0.borrow_mut();
        if state.start.is_none() {
            state.start = Some(now);
            state.stop = stop;
            state.generate(now);
        }
    }

    /// Makes the frames that are due.
    pub(crate) fn generate(&self, now: Time) {
        self.0.borrow_mut().generate(now);
    }

    /// The time of the next frame, if one comes.
    pub(crate) fn more_at(&self) -> Option<Time> {
        self.0.borrow().more_at()
    }

    /// The rest of the oldest frame that is to be sent; skips those before it that have waited for
    /// too long.
    pub(crate) fn piece(&self, now: Time) -> Option<Piece> {
        let mut state = self.0.borrow_mut();
        let deadline = state.media.deadline;
        let (mut next, written) = (state.next, state.written);
        while let Some(frame) = state.frames.get_mut(next)
            && written == 0
            && now - frame.generated > deadline
        {
            frame.fate = Fate::Skipped;
            next += 1;
        }
        state.next = next;
        Some(Piece {
            stream: state.stream,
            first: written == 0,
            bytes: state.frames.get(next)?.bytes - written,
        })
    }

    /// Notes that the transport took some bytes of the last [`piece`](Self::piece).
    pub(crate) fn wrote(&self, bytes: u64) {
        let mut guard = self.0.borrow_mut();
        let state = &mut *guard;
        let Some(frame) = state.frames.get_mut(state.next).filter(|_| bytes > 0) else {
            return;
        };
        if state.written == 0 {
            frame.fate = Fate::UnderWay;
            state.under_way.insert(state.stream, state.next);
        }
        state.written += bytes;
        if state.written >= frame.bytes {
            state.next += 1;
            state.written = 0;
            state.stream += STREAMS.1;
        }
    }

    /// Notes that the last byte on `stream` was read.
    pub(crate) fn complete(&self, stream: u64, now: Time) {
        let mut state = self.0.borrow_mut();
        if let Some(number) = state.under_way.remove(&stream) {
            state.frames[number].fate = Fate::Complete(now);
        }
    }

    /// True if every frame that will ever be made has been written or skipped.
    pub(crate) fn is_written(&self, now: Time) -> bool {
        let state = self.0.borrow();
        let stopped = state.start.is_none() || state.stop.is_some_and(|stop| stop <= now);
        stopped && state.more_at().is_none() && state.next == state.frames.len()
    }

    /// True if every frame that was written has been read.
    pub(crate) fn is_read(&self) -> bool {
        self.0.borrow().under_way.is_empty()
    }

    /// The metrics of the frames that were made from `since` until `now`.
    pub(crate) fn measures(&self, since: Time, now: Time) -> Vec<Measure> {
        self.0.borrow().measures(since, now)
    }
}

impl State {
    fn more_at(&self) -> Option<Time> {
        let next = self.start? + self.media.time(self.frames.len());
        Some(next).filter(|&next| self.stop.is_none_or(|stop| next < stop))
    }

    fn generate(&mut self, now: Time) {
        while let Some(generated) = self.more_at().filter(|&next| next <= now) {
            let bytes = self.media.draw_bytes(self.frames.len());
            self.frames.push(Frame {
                generated,
                bytes,
                fate: Fate::Waiting,
            });
        }
    }

    fn measures(&self, since: Time, now: Time) -> Vec<Measure> {
        let deadline = self.media.deadline;
        let measured = || self.frames.iter().filter(|frame| frame.generated >= since);
        let mut delays_s = Vec::new();
        let (mut late, mut decided) = (0_u64, 0_u64);
        for frame in measured() {
            let is_late = match frame.fate {
                Fate::Complete(at) => {
                    let delay = at - frame.generated;
                    delays_s.push(delay.as_secs_f64());
                    delay > deadline
                }
                Fate::Skipped => true,
                Fate::Waiting | Fate::UnderWay if now - frame.generated > deadline => true,
                // It may still be in time.
                Fate::Waiting | Fate::UnderWay => continue,
            };
            decided += 1;
            late += u64::from(is_late);
        }
        let mut measures = measure::times(
            delays_s,
            [
                "frames",
                "frame_delay_mean_s",
                "frame_delay_p95_s",
                "frame_delay_p99_s",
            ],
        );
        if decided > 0 {
            let ratio = late as f64 / decided as f64;
            measures.push(Measure::new("late_frames_ratio", "", ratio));
        }
        let stalls = self.stalls(since, now);
        measures.extend(stalls.map(|stalls| Measure::new("frame_stalls", "", stalls as f64)));
        measures
    }

    /// The intervals of more than [`STALL`] without a complete frame, as long as frames were made;
    /// `None` if frames are as far apart as that.
    fn stalls(&self, since: Time, now: Time) -> Option<usize> {
        let start = self.start.filter(|_| self.media.time(1) < STALL)?;
        let until = self.stop.map_or(now, |stop| stop.min(now));
        let from = start.max(since);
        let complete = self.frames.iter().filter_map(|frame| match frame.fate {
            Fate::Complete(at) => Some(at),
            _ => None,
        });
        let inside = complete.filter(|at| (from..until).contains(at));
        let mut ends: Vec<Time> = [from, until.max(from)].into_iter().chain(inside).collect();
        ends.sort_unstable();
        Some(
            ends.windows(2)
                .filter(|pair| pair[1] - pair[0] > STALL)
                .count(),
        )
    }
}

/// An answer without data: what is sent instead goes over other streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence;

impl Source for Silence {
    fn offer(&mut self, _since_request: Duration, _written: u64) -> Offer {
        Offer {
            bytes: 0,
            last: false,
            more_at: None,
        }
    }

    fn length(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use gallop_network::random;
    use proptest::prelude::*;

    use super::*;

    fn at(milliseconds: u64) -> Time {
        Duration::from_millis(milliseconds).into()
    }

    /// 10 frames of 1000 bytes in the mean a second, every fourth three times as large.
    fn media(variation: f64) -> Media {
        let number = |number| NonZeroU32::new(number).expect("not zero");
        Media {
            bytes_per_s: 10_000.0,
            frames_per_s: number(10),
            key_every: number(4),
            key_factor: 3.0,
            variation,
            deadline: Duration::from_millis(250),
            random: random::stream(1, 1),
        }
    }

    fn values(live: &Live, since: u64, now: u64) -> BTreeMap<&'static str, f64> {
        let measures = live.measures(at(since), at(now));
        measures.iter().map(|one| (one.metric, one.value)).collect()
    }

    /// Writes all of the next frame; returns its stream and its size.
    fn write(live: &Live, now: u64) -> Option<(u64, u64)> {
        let piece = live.piece(at(now))?;
        live.wrote(piece.bytes);
        Some((piece.stream, piece.bytes))
    }

    #[test]
    fn frames_have_their_rate_and_key_frames_their_size() {
        let live = Live::new(media(0.0));
        assert_eq!((live.more_at(), live.piece(at(0))), (None, None));
        live.begin(at(1000), Some(at(1800)));
        assert_eq!(live.more_at(), Some(at(1100)));
        live.generate(at(9000));
        assert_eq!(live.more_at(), None);
        // 8 frames have 8000 bytes: 3 + 1 + 1 + 1 parts, twice.
        let sizes: Vec<_> = (0..).map_while(|_| write(&live, 1100)).collect();
        let expected = [2000, 667, 667, 667, 2000, 667, 667, 667];
        let expected: Vec<_> = (0..8)
            .map(|number| (3 + 4 * number, expected[number as usize]))
            .collect();
        assert_eq!(sizes, expected);
        assert!(live.is_written(at(1800)) && !live.is_written(at(1799)));
        assert!(!live.is_read());
        for (stream, _) in sizes {
            live.complete(stream, at(1900));
        }
        assert!(live.is_read());
    }

    #[test]
    fn a_frame_that_waits_for_too_long_is_skipped_unless_it_has_begun() {
        let live = Live::new(media(0.0));
        live.begin(at(0), None);
        live.generate(at(400));
        // The first has begun in time.
        live.wrote(500);
        live.piece(at(200)).expect("the first frame");
        // At 360 ms the second, of 100 ms, has waited for 260 ms, the third for 160 ms.
        let rest = live.piece(at(360)).expect("the rest of the first frame");
        assert_eq!(
            rest,
            Piece {
                stream: 3,
                first: false,
                bytes: 1500
            }
        );
        live.wrote(1500);
        let third = live.piece(at(360)).expect("the third frame");
        assert_eq!(
            third,
            Piece {
                stream: 7,
                first: true,
                bytes: 667
            }
        );
        live.wrote(667);
        live.complete(3, at(380));
        live.complete(7, at(420));
        // 380 ms is late and 220 ms is not; the fourth and the fifth are still in time.
        let after = values(&live, 0, 500);
        assert_eq!(after["frames"], 2.0);
        assert!((after["frame_delay_mean_s"] - 0.3).abs() < 1e-12);
        assert_eq!(after["frame_delay_p95_s"], 0.38);
        assert_eq!(after["frame_delay_p99_s"], 0.38);
        assert_eq!(after["late_frames_ratio"], 2.0 / 3.0);
        // 380 ms without a frame, 40 ms, 80 ms.
        assert_eq!(after["frame_stalls"], 1.0);
        // Later they are late, even though nobody has skipped them, and there is a second stall.
        let later = values(&live, 0, 700);
        assert_eq!(later["late_frames_ratio"], 0.8);
        assert_eq!(later["frame_stalls"], 2.0);
        // Of the third frame and those after it.
        let part = values(&live, 150, 700);
        assert_eq!(
            (part["frames"], part["late_frames_ratio"]),
            (1.0, 2.0 / 3.0)
        );
    }

    #[test]
    fn frames_that_are_far_apart_do_not_stall() {
        let mut slow = media(0.0);
        slow.frames_per_s = NonZeroU32::MIN;
        let live = Live::new(slow);
        live.begin(at(0), None);
        assert!(!values(&live, 0, 5000).contains_key("frame_stalls"));
    }

    proptest! {
        #[test]
        fn every_frame_has_one_fate_and_streams_carry_what_was_made(
            steps in prop::collection::vec((1_u64..300, 0_u64..5000, 0_usize..4), 1..200),
        ) {
            let live = Live::new(media(0.3));
            live.begin(at(0), None);
            let mut now = 0;
            // Bytes on each stream.
            let mut streams: BTreeMap<u64, u64> = BTreeMap::new();
            let mut read = 0;
            for (after, mut room, reads) in steps {
                now += after;
                live.generate(at(now));
                while room > 0 && let Some(piece) = live.piece(at(now)) {
                    let bytes = piece.bytes.min(room);
                    let on_stream = streams.entry(piece.stream).or_default();
                    prop_assert_eq!(piece.first, *on_stream == 0);
                    *on_stream += bytes;
                    live.wrote(bytes);
                    room -= bytes;
                }
                for _ in 0..reads {
                    // The last stream may not have ended.
                    if streams.len() > read + 1 {
                        live.complete(3 + 4 * read as u64, at(now));
                        read += 1;
                    }
                }
            }
            let state = live.0.borrow();
            let of = |wanted: fn(&Fate) -> bool| {
                state.frames.iter().filter(|frame| wanted(&frame.fate)).count()
            };
            let skipped = of(|fate| matches!(fate, Fate::Skipped));
            let complete = of(|fate| matches!(fate, Fate::Complete(_)));
            let under_way = of(|fate| matches!(fate, Fate::UnderWay));
            let waiting = of(|fate| matches!(fate, Fate::Waiting));
            prop_assert_eq!(state.frames.len() as u64, now / 100 + 1);
            prop_assert_eq!(complete, read);
            prop_assert_eq!(complete + under_way, streams.len());
            prop_assert_eq!(skipped + complete + under_way + waiting, state.frames.len());
            // A stream that is not the last carries a whole frame, in order.
            let sent = state.frames.iter().filter(|frame| {
                matches!(frame.fate, Fate::UnderWay | Fate::Complete(_))
            });
            let whole = streams.len().saturating_sub(1);
            for (frame, bytes) in sent.zip(streams.values()).take(whole) {
                prop_assert_eq!(frame.bytes, *bytes);
            }
            // Sizes vary around the rate.
            for (number, frame) in state.frames.iter().enumerate() {
                let mean = if number % 4 == 0 { 2000.0 } else { 2000.0 / 3.0 };
                prop_assert!((frame.bytes as f64 / mean - 1.0).abs() < 0.301);
            }
        }
    }
}
