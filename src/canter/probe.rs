//! The question whether delay is a queue's, where jitter hides the answer: a larger window adds to a
//! queue, and to nothing else.

/// Rounds over which the RTT at the old window is taken.
const BEFORE_ROUNDS: u32 = 4;

/// Rounds at the larger window, the first of which do not count.
const AFTER_ROUNDS: u32 = 5;
const SKIPPED_ROUNDS: u32 = 2;

/// A queue takes the whole step in. With less than this part of it the RTT did not answer, …
const NO_ANSWER: f64 = 0.2;
/// … and with this much in one round the probe ends early.
const CLEAR_ANSWER: f64 = 0.6;

/// The step, in typical spreads, within these parts of the window.
const STEP_SPREADS: f64 = 2.0;
const LEAST_STEP: f64 = 1.0 / 16.0;
const MOST_STEP: f64 = 0.25;

/// After a probe that found no queue the next step is larger by this factor, up to this part of the
/// window.
const NEXT_STEP: f64 = 1.5;
const MOST_NEXT_STEP: f64 = 0.5;

/// Rounds without growth before the first probe, doubled after each that found a queue.
const LEAST_WAIT: u32 = 6;
const MOST_WAIT: u32 = 256;

/// A probe under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    window_packets: f64,
    step_packets: f64,
    is_larger: bool,
    rounds: u32,
    /// Mean RTTs at the old and at the larger window.
    before_s: f64,
    after_s: f64,
}

/// The step after a round of a probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Answer {
    /// Keep this window, and go on.
    Window(f64),
    /// There is no queue at this mean RTT.
    NoQueue { rtt_s: f64 },
    /// There is a queue: go back to this window.
    Queue { window_packets: f64 },
}

impl Probe {
    pub(super) fn new(window_packets: f64, spread_packets: f64) -> Probe {
        let step = STEP_SPREADS * spread_packets;
        Probe {
            window_packets,
            step_packets: step.clamp(window_packets * LEAST_STEP, window_packets * MOST_STEP),
            is_larger: false,
            rounds: 0,
            before_s: 0.0,
            after_s: 0.0,
        }
    }

    /// The probe that follows one which found no queue.
    pub(super) fn next(&self, window_packets: f64) -> Probe {
        let step = self.step_packets * NEXT_STEP;
        Probe {
            window_packets,
            step_packets: step.clamp(window_packets * LEAST_STEP, window_packets * MOST_NEXT_STEP),
            is_larger: true,
            rounds: 0,
            before_s: self.after_s,
            after_s: 0.0,
        }
    }

    pub(super) fn window_packets(&self) -> f64 {
        let step = if self.is_larger {
            self.step_packets
        } else {
            0.0
        };
        self.window_packets + step
    }

    /// A round ended with this mean RTT.
    pub(super) fn on_round(&mut self, rtt_s: f64) -> Answer {
        self.rounds += 1;
        if !self.is_larger {
            self.before_s += rtt_s / f64::from(BEFORE_ROUNDS);
            if self.rounds >= BEFORE_ROUNDS {
                self.is_larger = true;
                self.rounds = 0;
            }
            return Answer::Window(self.window_packets());
        }
        // The RTT that the step adds if all of it is queued.
        let queued_s = self.before_s * self.step_packets / self.window_packets;
        let is_clear = rtt_s - self.before_s > CLEAR_ANSWER * queued_s;
        if self.rounds > SKIPPED_ROUNDS {
            self.after_s += rtt_s / f64::from(AFTER_ROUNDS - SKIPPED_ROUNDS);
        }
        if is_clear {
            return Answer::Queue {
                window_packets: self.window_packets,
            };
        }
        if self.rounds < AFTER_ROUNDS {
            return Answer::Window(self.window_packets());
        }
        if self.after_s - self.before_s < NO_ANSWER * queued_s {
            Answer::NoQueue {
                rtt_s: self.after_s,
            }
        } else {
            Answer::Queue {
                window_packets: self.window_packets,
            }
        }
    }
}

/// The time until the next probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait(u32);

impl Default for Wait {
    fn default() -> Self {
        Wait(LEAST_WAIT)
    }
}

impl Wait {
    pub(super) fn is_over(self, rounds: u32) -> bool {
        rounds >= self.0
    }

    pub(super) fn on_queue(&mut self) {
        self.0 = (self.0 * 2).min(MOST_WAIT);
    }

    pub(super) fn on_no_queue(&mut self) {
        self.0 = LEAST_WAIT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of a probe of 100 packets, by 25, at a mean RTT of 40 ms and then of `larger_ms`.
    fn answer(larger_ms: f64) -> Answer {
        let mut probe = Probe::new(100.0, 20.0);
        loop {
            let is_larger = probe.window_packets() > 100.0;
            let rtt_s = if is_larger { larger_ms / 1e3 } else { 0.040 };
            match probe.on_round(rtt_s) {
                Answer::Window(packets) => assert!([100.0, 125.0].contains(&packets)),
                answer => return answer,
            }
        }
    }

    #[test]
    fn an_rtt_that_follows_the_window_shows_a_queue() {
        let queue = Answer::Queue {
            window_packets: 100.0,
        };
        // All of the step queued is 10 ms.
        assert_eq!(answer(50.0), queue);
        assert_eq!(answer(42.1), queue);
        assert!(matches!(answer(41.9), Answer::NoQueue { rtt_s } if (rtt_s - 0.0419).abs() < 1e-9));
    }

    #[test]
    fn steps_are_within_a_sixteenth_and_a_quarter_and_the_next_one_is_larger() {
        assert_eq!(Probe::new(160.0, 0.1).step_packets, 10.0);
        assert_eq!(Probe::new(160.0, 1000.0).step_packets, 40.0);
        assert_eq!(Probe::new(160.0, 10.0).next(180.0).step_packets, 30.0);
    }

    #[test]
    fn waits_double_up_to_a_bound() {
        let mut wait = Wait::default();
        assert!(wait.is_over(6) && !wait.is_over(5));
        (0..10).for_each(|_| wait.on_queue());
        assert!(wait.is_over(256) && !wait.is_over(255));
        wait.on_no_queue();
        assert!(wait.is_over(6));
    }
}
