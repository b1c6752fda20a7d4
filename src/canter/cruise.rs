//! The steady state: Vegas' backlog between α and β, with steps that grow while nothing is queued.

/// Growth in the first rounds below α: one packet, then twice the last step.
const PATIENT_ROUNDS: u32 = 3;
/// Growth does not leap over the window that last had a queue, and close to it is patient for longer.
const PATIENT_ROUNDS_NEAR_FULL: u32 = 10;
const NEAR_FULL: f64 = 1.0 / 16.0;
/// With jitter of so many packets one packet more is nothing.
const PATIENT_JITTER_PACKETS: f64 = 8.0;

/// Around the window at which packets were lost growth is slow.
const NEAR_WALL: f64 = 0.125;
const STEP_NEAR_WALL: f64 = 1.0 / 128.0;

/// The largest step: a part of the window that doubles after eight and after twelve rounds.
const STEP: f64 = 1.0 / 16.0;
const STEP_ROUNDS: [u32; 2] = [8, 12];
/// Jitter of so many packets hides half of them.
const STEP_OF_JITTER: f64 = 0.5;

/// The part of the surplus that one round takes off.
const CUT: f64 = 0.5;

/// A queue that went down to this part of what it was answers to the window.
const ANSWERED: f64 = 0.75;

/// Rounds below β that end a time with a queue.
const CALM_ROUNDS: u32 = 3;

/// A window that shrank to this part, and the RTT with it, while the rate stayed, was queue above the
/// path's BDP, and the path is all the flow's.
const SHRUNK: f64 = 0.75;
const RTT_SHRUNK: f64 = 0.85;
const RATE_STAYED: f64 = 0.95;

/// A round, as the steady state sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// The window when the round began, and when it ended.
    pub(super) began_packets: f64,
    pub(super) window_packets: f64,
    pub(super) rtt_s: f64,
    /// The queueing delay, and the packets of the flow in it.
    pub(super) queue_s: f64,
    pub(super) backlog_packets: f64,
    pub(super) alpha_packets: f64,
    pub(super) beta_packets: f64,
    /// The rate, and the jitter at it.
    pub(super) pps: f64,
    pub(super) jitter_packets: f64,
}

/// The decision at the end of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Decision {
    /// Grow by so many packets over the next round.
    Grow(f64),
    /// Leave the window as it is.
    Hold,
    /// Shrink to this window at once.
    Shrink(f64),
}

/// The memory of the steady state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cruise {
    /// Rounds in a row below α, and the last step.
    low_rounds: u32,
    step_packets: f64,
    /// Rounds at or above α, less two for each below.
    full_rounds: u32,
    /// The window at which a queue was last seen, without that queue.
    full_packets: f64,
    was_near_full: bool,
    /// The window at which a full queue dropped packets, if no delay told of it.
    wall_packets: Option<f64>,
    /// Rounds above β whose queue did not answer, the queue at their beginning, and the window.
    high_rounds: u32,
    high_queue_s: f64,
    before_cuts_packets: f64,
    /// Rounds of the present time with a queue, and the second of them.
    queue_rounds: u32,
    calm_rounds: u32,
    second_round: Option<SecondRound>,
}

/// The second round with a queue: the first in which all of the RTT is of that queue.
#[derive(Clone, Copy, Debug)]
struct SecondRound {
    window_packets: f64,
    rtt_s: f64,
    pps: f64,
}

impl Cruise {
    /// The steady state after startup. `is_full` if startup ended at the window that fills the path.
    pub(super) fn after_startup(window_packets: f64, is_full: bool) -> Cruise {
        Cruise {
            low_rounds: if is_full { 0 } else { 2 },
            step_packets: if is_full {
                1.0
            } else {
                (window_packets / 32.0).max(1.0)
            },
            full_packets: if is_full { window_packets } else { 0.0 },
            was_near_full: is_full,
            calm_rounds: CALM_ROUNDS,
            ..Cruise::default()
        }
    }

    pub(super) fn low_rounds(&self) -> u32 {
        self.low_rounds
    }

    pub(super) fn high_rounds(&self) -> u32 {
        self.high_rounds
    }

    pub(super) fn full_rounds(&self) -> u32 {
        self.full_rounds
    }

    pub(super) fn full_packets(&self) -> f64 {
        self.full_packets
    }

    /// The window before the cuts to which the queue did not answer.
    pub(super) fn before_cuts_packets(&self) -> f64 {
        self.before_cuts_packets
    }

    /// The growth of this round is more than Vegas'.
    pub(super) fn is_fast(&self) -> bool {
        self.step_packets > 2.0
    }

    /// Packets were lost at this window without a delay, or that was a mistake.
    pub(super) fn set_wall(&mut self, window_packets: Option<f64>) {
        self.wall_packets = window_packets;
    }

    /// A check, a probe or a loss ended what the rounds before said.
    pub(super) fn begin_again(&mut self) {
        self.low_rounds = 0;
        self.step_packets = 1.0;
        self.high_rounds = 0;
        self.full_rounds = 0;
    }

    /// A round ended in which the window was used. The second value is the path's rate, if the flow
    /// showed that it has all of it.
    pub(super) fn on_round(&mut self, round: &Round, may_shrink: bool) -> (Decision, Option<f64>) {
        if round.backlog_packets < round.alpha_packets {
            return (Decision::Grow(self.grow(round)), None);
        }
        self.low_rounds = 0;
        self.step_packets = 1.0;
        self.full_rounds += 1;
        self.full_packets = round.began_packets - round.backlog_packets;
        if round.backlog_packets <= round.beta_packets {
            self.high_rounds = 0;
            self.calm_rounds += 1;
            return (Decision::Hold, None);
        }
        let all = self.on_high_round(round);
        // A change since the round's packets left has not shown yet.
        let surplus = round.backlog_packets + round.window_packets
            - round.began_packets
            - (round.alpha_packets + round.beta_packets) / 2.0;
        let excess = surplus - (round.beta_packets - round.alpha_packets) / 2.0;
        if excess <= 0.0 || !may_shrink {
            return (Decision::Hold, all);
        }
        let window = round.window_packets - (surplus * CUT).max(1.0);
        (
            Decision::Shrink(window.max(round.window_packets / 2.0)),
            all,
        )
    }

    fn grow(&mut self, round: &Round) -> f64 {
        self.high_rounds = 0;
        self.calm_rounds += 1;
        self.full_rounds = self.full_rounds.saturating_sub(2);
        self.low_rounds += 1;
        let gap_packets = self.full_packets - round.window_packets;
        let is_near_full = gap_packets.abs() < self.full_packets * NEAR_FULL;
        if is_near_full && !self.was_near_full {
            self.low_rounds = 1;
            self.step_packets = 1.0;
        }
        self.was_near_full = is_near_full;
        let patient_rounds = if round.jitter_packets > PATIENT_JITTER_PACKETS {
            1
        } else if is_near_full {
            PATIENT_ROUNDS_NEAR_FULL
        } else {
            PATIENT_ROUNDS
        };
        let step = if self.low_rounds <= patient_rounds {
            self.step_packets.max(1.0)
        } else {
            self.step_packets * 2.0
        };
        let doublings = STEP_ROUNDS
            .iter()
            .filter(|rounds| self.low_rounds > **rounds);
        let part = doublings.fold(STEP, |part, _| part * 2.0);
        let most = (round.window_packets * part)
            .max(round.jitter_packets * STEP_OF_JITTER)
            .max(1.0);
        self.step_packets = step.min(most);
        if let Some(wall) = self.wall_packets {
            let window = round.window_packets;
            if window > wall * (1.0 + NEAR_WALL) {
                self.wall_packets = None;
            } else if window >= wall * (1.0 - NEAR_WALL) {
                self.step_packets = (window * STEP_NEAR_WALL).max(1.0);
            } else {
                let gap_packets = wall * (1.0 - NEAR_WALL) - window;
                self.step_packets = self.step_packets.min(gap_packets.max(1.0));
            }
        }
        if gap_packets > 0.0 {
            self.step_packets.min(gap_packets.max(1.0))
        } else {
            self.step_packets
        }
    }

    fn on_high_round(&mut self, round: &Round) -> Option<f64> {
        if self.calm_rounds >= CALM_ROUNDS {
            self.queue_rounds = 0;
            self.second_round = None;
        }
        self.calm_rounds = 0;
        self.queue_rounds += 1;
        if self.queue_rounds == 2 {
            self.second_round = Some(SecondRound {
                window_packets: round.began_packets,
                rtt_s: round.rtt_s,
                pps: round.pps,
            });
        }
        if self.high_rounds == 0 || round.queue_s < self.high_queue_s * ANSWERED {
            self.high_rounds = 0;
            self.high_queue_s = round.queue_s;
            self.before_cuts_packets = round.began_packets;
        }
        self.high_rounds += 1;
        let second = self.second_round?;
        let has_all = round.began_packets < second.window_packets * SHRUNK
            && round.rtt_s < second.rtt_s * RTT_SHRUNK
            && round.pps > second.pps * RATE_STAYED;
        has_all.then_some(round.pps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(window_packets: f64, backlog_packets: f64) -> Round {
        Round {
            began_packets: window_packets,
            window_packets,
            rtt_s: 0.04,
            queue_s: backlog_packets / 1000.0,
            backlog_packets,
            alpha_packets: 2.0,
            beta_packets: 4.0,
            pps: 1000.0,
            jitter_packets: 0.0,
        }
    }

    #[test]
    fn the_step_doubles_after_three_rounds_up_to_a_part_of_the_window() {
        let mut cruise = Cruise::default();
        let steps: Vec<f64> = (0..13)
            .map(|_| match cruise.on_round(&round(320.0, 1.0), true).0 {
                Decision::Grow(packets) => packets,
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = [
            1.0, 1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 20.0, 40.0, 40.0, 40.0, 40.0, 80.0,
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn the_window_stands_between_the_thresholds_and_half_of_the_surplus_goes_above() {
        let mut cruise = Cruise::default();
        assert_eq!(cruise.on_round(&round(40.0, 2.0), true).0, Decision::Hold);
        assert_eq!(cruise.on_round(&round(40.0, 4.0), true).0, Decision::Hold);
        let shrunk = cruise.on_round(&round(40.0, 9.0), true).0;
        assert_eq!(shrunk, Decision::Shrink(37.0));
        let held = cruise.on_round(&round(40.0, 9.0), false).0;
        assert_eq!(held, Decision::Hold);
    }

    #[test]
    fn a_cut_leaves_half_at_least() {
        let mut cruise = Cruise::default();
        let shrunk = cruise.on_round(&round(40.0, 400.0), true).0;
        assert_eq!(shrunk, Decision::Shrink(20.0));
    }

    #[test]
    fn growth_does_not_leap_over_the_window_that_had_a_queue() {
        let mut cruise = Cruise::default();
        cruise.on_round(&round(110.0, 3.0), true);
        let mut window = 60.0;
        for _ in 0..40 {
            let Decision::Grow(packets) = cruise.on_round(&round(window, 0.0), true).0 else {
                panic!("below alpha");
            };
            let was_below = window < 107.0;
            window += packets;
            assert!(!was_below || window <= 108.0, "{window}");
            if window >= 107.0 {
                return;
            }
        }
        panic!("{window}");
    }

    #[test]
    fn around_a_wall_growth_is_slow_and_beyond_it_free() {
        let mut cruise = Cruise::default();
        cruise.set_wall(Some(100.0));
        let mut step = |window| match cruise.on_round(&round(window, 0.0), true).0 {
            Decision::Grow(packets) => packets,
            other => panic!("{other:?}"),
        };
        (0..20).for_each(|_| assert_eq!(step(90.0), 1.0));
        assert!((0..3).map(|_| step(113.0)).sum::<f64>() > 3.0);
    }

    #[test]
    fn a_window_that_shrinks_with_the_rtt_at_the_same_rate_shows_the_paths_rate() {
        let mut cruise = Cruise::default();
        let at = |window: f64, rtt_s: f64| Round {
            rtt_s,
            ..round(window, 10.0)
        };
        assert_eq!(cruise.on_round(&at(80.0, 0.08), true).1, None);
        assert_eq!(cruise.on_round(&at(80.0, 0.08), true).1, None);
        assert_eq!(
            cruise.on_round(&at(50.0, 0.08), true).1,
            None,
            "the RTT stayed"
        );
        assert_eq!(cruise.on_round(&at(50.0, 0.05), true).1, Some(1000.0));
    }
}
