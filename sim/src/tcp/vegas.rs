//! The techniques of Vegas (Brakmo et al. 1994 §3).

use std::time::Duration;

use gallop_network::time::Time;

/// The thresholds of the backlog (§3.5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Thresholds {
    pub(crate) alpha_packets: f64,
    pub(crate) beta_packets: f64,
    pub(crate) gamma_packets: f64,
}

/// A distinguished segment: the backlog is computed once in each of its round trips.
#[derive(Clone, Copy, Debug)]
struct Mark {
    sequence: u64,
    end: u64,
    at: Time,
}

/// The decision at the end of a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Grow,
    Keep,
    Shrink,
    LeaveSlowStart,
}

/// Segments that may leave in an interval of their ideal spacing (§3.4).
const BURST: u32 = 2;

/// The number of new acknowledgements after a retransmission that are looked at (§3.2).
const LOOKS: u8 = 2;

/// The state that Vegas adds to a sender.
#[derive(Clone, Debug)]
pub(crate) struct Vegas {
    thresholds: Thresholds,
    base_rtt: Option<Duration>,
    /// The smoothed RTT and its mean deviation, in seconds of a fine clock (§3.1).
    estimate: Option<(f64, f64)>,
    mark: Option<Mark>,
    /// True in the round trips of slow start in which the window grows (§3.5.3).
    pub(crate) grows: bool,
    /// The time of the last decrease of the window.
    pub(crate) decreased: Option<Time>,
    looks_left: u8,
    /// The start of the interval of spacing, and the segments that have left in it.
    interval: (Time, u32),
}

impl Vegas {
    pub(crate) fn new(thresholds: Thresholds) -> Vegas {
        Vegas {
            thresholds,
            base_rtt: None,
            estimate: None,
            mark: None,
            grows: true,
            decreased: None,
            looks_left: 0,
            interval: (Time::ZERO, 0),
        }
    }

    pub(crate) fn base_rtt(&self) -> Option<Duration> {
        self.base_rtt
    }

    pub(crate) fn smoothed_rtt(&self) -> Option<Duration> {
        let (smoothed, _) = self.estimate?;
        Duration::try_from_secs_f64(smoothed).ok()
    }

    /// Takes the RTT of a segment that was sent once.
    pub(crate) fn sample(&mut self, rtt: Duration) {
        self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
        let rtt = rtt.as_secs_f64();
        self.estimate = Some(match self.estimate {
            None => (rtt, rtt / 2.0),
            Some((smoothed, deviation)) => {
                let error = rtt - smoothed;
                (
                    smoothed + error / 8.0,
                    deviation + (error.abs() - deviation) / 4.0,
                )
            }
        });
    }

    /// True if a segment that was sent then has waited longer than the timeout (§3.2).
    pub(crate) fn is_overdue(&self, sent: Time, now: Time) -> bool {
        self.estimate.is_some_and(|(smoothed, deviation)| {
            (now - sent).as_secs_f64() > smoothed + 4.0 * deviation
        })
    }

    /// Notes that a segment is sent again: no sample comes of this round trip, and the next two new
    /// acknowledgements are looked at.
    pub(crate) fn resent(&mut self) {
        self.mark = None;
        self.looks_left = LOOKS;
    }

    /// True if this new acknowledgement is the first or second after a retransmission.
    pub(crate) fn looks(&mut self) -> bool {
        let looks = self.looks_left > 0;
        self.looks_left = self.looks_left.saturating_sub(1);
        looks
    }

    /// Notes a segment of new bytes.
    pub(crate) fn sent(&mut self, sequence: u64, end: u64, now: Time) {
        self.mark.get_or_insert(Mark {
            sequence,
            end,
            at: now,
        });
    }

    /// Decides at the end of a round trip: the bytes until `sent` have left since its start.
    ///
    /// Expected less actual throughput, over the BaseRTT, is the number of bytes that would not
    /// have been sent at the throughput that there was (§3.5.2).
    pub(crate) fn decide(
        &mut self,
        ack: u64,
        sent: u64,
        segment_bytes: u64,
        in_slow_start: bool,
        now: Time,
    ) -> Decision {
        let Some(mark) = self.mark.filter(|mark| ack >= mark.end) else {
            return Decision::Keep;
        };
        self.mark = None;
        let rtt = (now - mark.at).as_secs_f64();
        let base = self
            .base_rtt
            .map_or(rtt, |base| base.as_secs_f64().min(rtt));
        if rtt <= 0.0 {
            return Decision::Keep;
        }
        let bytes = sent.saturating_sub(mark.sequence) as f64;
        let backlog = bytes / segment_bytes as f64 * (rtt - base) / rtt;
        if in_slow_start {
            let compares = !self.grows;
            self.grows = !self.grows;
            return match compares && backlog > self.thresholds.gamma_packets {
                true => Decision::LeaveSlowStart,
                false => Decision::Keep,
            };
        }
        match backlog {
            _ if backlog < self.thresholds.alpha_packets => Decision::Grow,
            _ if backlog > self.thresholds.beta_packets => Decision::Shrink,
            _ => Decision::Keep,
        }
    }

    /// The time until which the next segment waits, if it does: two may leave in each interval of
    /// RTT · segment / window (§3.4).
    pub(crate) fn waits_until(&self, window_packets: f64, now: Time) -> Option<Time> {
        let (start, sent) = self.interval;
        let spacing = self.smoothed_rtt()?.mul_f64(1.0 / window_packets.max(1.0));
        let end = start + spacing;
        (sent >= BURST && end > now).then_some(end)
    }

    /// Counts a segment in its interval of spacing.
    pub(crate) fn count(&mut self, window_packets: f64, now: Time) {
        let spacing = self.smoothed_rtt().unwrap_or_default();
        let spacing = spacing.mul_f64(1.0 / window_packets.max(1.0));
        let (start, sent) = self.interval;
        self.interval = match start + spacing <= now {
            true => (now, 1),
            false => (start, sent + 1),
        };
    }
}
