//! HyStart++: slow start that ends when the RTT rises (RFC 9406 §4).

use std::time::Duration;

/// `MIN_RTT_THRESH` and `MAX_RTT_THRESH`.
const RTT_THRESHOLD: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));

/// `MIN_RTT_DIVISOR`.
const MIN_RTT_DIVISOR: u32 = 8;

/// `N_RTT_SAMPLE`: a round with fewer samples decides nothing.
const RTT_SAMPLES: u32 = 8;

/// `CSS_GROWTH_DIVISOR`.
const CONSERVATIVE_GROWTH_DIVISOR: f64 = 4.0;

/// `CSS_ROUNDS`.
const CONSERVATIVE_ROUNDS: u32 = 5;

/// `L`: an ACK grows the window by at most so many packets, where a sender does not pace.
const MAX_GROWTH_PACKETS: f64 = 8.0;

/// The first slow start of a path.
#[derive(Clone, Debug, Default)]
pub(crate) struct HyStart {
    /// `windowEnd`: the acknowledgment of this packet or a later one ends the round.
    round_end: Option<u64>,
    last_round_min: Option<Duration>,
    current_round_min: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
}

/// Conservative slow start: the RTT has risen, and may fall again.
#[derive(Clone, Debug)]
struct Conservative {
    baseline: Duration,
    rounds: u32,
}

impl HyStart {
    /// The window's growth when so many packets are acknowledged, in packets.
    pub(crate) fn growth(&self, acked_packets: f64) -> f64 {
        let growth = acked_packets.min(MAX_GROWTH_PACKETS);
        if self.conservative.is_some() {
            growth / CONSERVATIVE_GROWTH_DIVISOR
        } else {
            growth
        }
    }

    /// Takes in an ACK and its RTT sample; returns true if slow start is over.
    pub(crate) fn on_ack(
        &mut self,
        largest_acked: u64,
        largest_sent: u64,
        rtt: Option<Duration>,
    ) -> bool {
        if let Some(rtt) = rtt {
            let min = self.current_round_min.map_or(rtt, |min| min.min(rtt));
            self.current_round_min = Some(min);
            self.samples += 1;
            if self.samples >= RTT_SAMPLES {
                self.compare(min);
            }
        }
        if self.round_end.is_some_and(|end| largest_acked < end) {
            return false;
        }
        // The next round begins with what is sent from now on.
        self.round_end = Some(largest_sent);
        self.last_round_min = self.current_round_min.take();
        self.samples = 0;
        self.conservative.as_mut().is_some_and(|conservative| {
            conservative.rounds += 1;
            conservative.rounds >= CONSERVATIVE_ROUNDS
        })
    }

    fn compare(&mut self, current: Duration) {
        match &self.conservative {
            None => {
                let Some(last) = self.last_round_min else {
                    return;
                };
                let (min, max) = RTT_THRESHOLD;
                if current >= last + (last / MIN_RTT_DIVISOR).clamp(min, max) {
                    self.conservative = Some(Conservative {
                        baseline: current,
                        rounds: 0,
                    });
                }
            }
            // The rise was a passing one.
            Some(conservative) if current < conservative.baseline => self.conservative = None,
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Rounds of ten packets with one ACK each.
    #[derive(Default)]
    struct Rounds {
        hystart: HyStart,
        acked: u64,
    }

    impl Rounds {
        fn round(&mut self, rtt: Duration) -> bool {
            (0..10).fold(false, |over, _| {
                self.acked += 1;
                over | self.hystart.on_ack(self.acked, self.acked + 10, Some(rtt))
            })
        }

        fn growth(&self) -> f64 {
            self.hystart.growth(2.0)
        }
    }

    #[test]
    fn slow_start_ends_five_rounds_after_the_rtt_has_risen() {
        let mut rounds = Rounds::default();
        for rtt in [100, 100, 112] {
            assert!(!rounds.round(ms(rtt)));
            assert_eq!(
                rounds.growth(),
                2.0,
                "an eighth of 100 ms is more than 12 ms"
            );
        }
        assert!(!rounds.round(ms(127)));
        assert_eq!(rounds.growth(), 0.5, "growth is a quarter");
        let over: Vec<bool> = (0..5).map(|_| rounds.round(ms(130))).collect();
        assert_eq!(over.iter().position(|over| *over), Some(4));
    }

    #[test]
    fn a_passing_rise_is_forgiven() {
        let mut rounds = Rounds::default();
        rounds.round(ms(100));
        rounds.round(ms(100));
        rounds.round(ms(120));
        assert_eq!(rounds.growth(), 0.5);
        rounds.round(ms(110));
        assert_eq!(rounds.growth(), 2.0);
    }

    #[test]
    fn a_round_with_few_samples_decides_nothing() {
        let mut hystart = HyStart::default();
        for acked in 0..50 {
            let rtt = ms(100 + 20 * acked);
            assert!(!hystart.on_ack(acked, acked + 3, Some(rtt)));
        }
        assert_eq!(hystart.growth(1.0), 1.0);
        assert_eq!(hystart.growth(100.0), 8.0, "an ACK of a hundred packets");
    }
}
