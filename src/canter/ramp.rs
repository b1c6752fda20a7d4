//! A queue that others let grow without end.

use std::time::{Duration, Instant};

/// A rise of the RTT over so many rounds …
const RAMP_ROUNDS: u32 = 12;

/// … by this part of the reference, and by so many packets' time beyond what the flow added itself, is
/// another one's that grows without end, …
const RAMP: f64 = 0.125;

const RAMP_PACKETS: f64 = 4.0;

/// … unless it came in fewer rounds than these, or this part of it in one: that is another path.
const RISING_ROUNDS: u32 = 6;

const JUMP: f64 = 0.34;

/// Looking for others again takes this long after others were not found, and then ever longer.
const LEAST_WAIT: Duration = Duration::from_secs(2);

const MOST_WAIT: Duration = Duration::from_secs(64);

/// A queue that grows although the flow does not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ramp {
    start: Option<RampStart>,
    rounds: u32,
    rising_rounds: u32,
    last: Duration,
    jump: Duration,
    wait: Duration,
    not_before: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct RampStart {
    least: Duration,
    window_packets: f64,
}

impl Ramp {
    /// A round with this smallest RTT ended. True if others fill the queue, as far as can be seen.
    pub(super) fn on_round(
        &mut self,
        now: Instant,
        least: Duration,
        window: f64,
        pps: f64,
        reference_s: f64,
    ) -> bool {
        let start = match self.start {
            Some(start) if least > start.least => start,
            _ => {
                self.begin(least, window);
                return false;
            }
        };
        self.rounds += 1;
        self.jump = self.jump.max(least.saturating_sub(self.last));
        self.rising_rounds += u32::from(least > self.last);
        self.last = least;
        let rise = least - start.least;
        let own_s = (window - start.window_packets).max(0.0) / pps.max(1.0);
        let rise_s = rise.as_secs_f64() - own_s;
        let enough_s = (reference_s * RAMP).max(RAMP_PACKETS / pps.max(1.0));
        self.rounds >= RAMP_ROUNDS
            && self.rising_rounds >= RISING_ROUNDS
            && rise_s > enough_s
            && self.jump <= rise.mul_f64(JUMP)
            && self.not_before.is_none_or(|at| now >= at)
    }

    fn begin(&mut self, least: Duration, window_packets: f64) {
        self.start = Some(RampStart {
            least,
            window_packets,
        });
        self.rounds = 0;
        self.rising_rounds = 0;
        self.last = least;
        self.jump = Duration::ZERO;
    }

    /// The largest window of the ramp.
    pub(super) fn window_packets(&self) -> f64 {
        self.start.map_or(0.0, |start| start.window_packets)
    }

    /// Whatever rose, it was not others.
    pub(super) fn on_mistake(&mut self, now: Instant) {
        self.start = None;
        self.wait = (self.wait * 2).clamp(LEAST_WAIT, MOST_WAIT);
        self.not_before = now.checked_add(self.wait);
    }

    /// Others were there.
    pub(super) fn on_others(&mut self) {
        self.start = None;
        self.wait = Duration::ZERO;
        self.not_before = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds whose smallest RTT grows by `per_round_ms`, and the window by `growth`.
    fn rounds_until_seen(per_round_ms: u64, growth: f64) -> Option<u64> {
        let (mut ramp, start) = (Ramp::default(), Instant::now());
        (0..40).find(|round| {
            let least = Duration::from_millis(40 + per_round_ms * round);
            let now = start + least * u32::try_from(*round).unwrap();
            ramp.on_round(now, least, 20.0 + growth * *round as f64, 1000.0, 0.04)
        })
    }

    #[test]
    fn a_queue_that_grows_though_the_flow_does_not_is_of_others() {
        assert_eq!(rounds_until_seen(1, 0.0), Some(12));
        assert_eq!(rounds_until_seen(0, 0.0), None);
    }

    #[test]
    fn a_queue_of_the_flows_own_growth_is_not() {
        assert_eq!(rounds_until_seen(1, 1.0), None);
    }

    #[test]
    fn a_jump_is_another_path() {
        let (mut ramp, now) = (Ramp::default(), Instant::now());
        let seen = (0..40).any(|round| {
            let least = Duration::from_millis(if round < 20 { 40 } else { 80 + round });
            ramp.on_round(now, least, 20.0, 1000.0, 0.04)
        });
        assert!(!seen);
    }

    #[test]
    fn after_a_mistake_the_next_look_is_later_and_later() {
        let (mut ramp, now) = (Ramp::default(), Instant::now());
        for seconds in [2, 4, 8, 16, 32, 64, 64] {
            ramp.on_mistake(now);
            assert_eq!(ramp.not_before, Some(now + Duration::from_secs(seconds)));
        }
    }
}
