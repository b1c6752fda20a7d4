//! A path that became longer, seen at once.

use std::time::Duration;

/// The rise is so many packets at least: more than another flow sends at once (RFC 9002 §7.2 has
/// ten, and some have three times as many).
const STEP_PACKETS: f64 = 32.0;

/// The rise is this part of the reference at least, and so many typical spreads.
const STEP_OF_REFERENCE: f64 = 0.125;
const STEP_SPREADS: f64 = 4.0;

/// RTTs stay above this part of the rise …
const STEP_KEPT: f64 = 0.75;
/// … and vary by no more than this part of it.
const STEP_FLAT: f64 = 0.25;

/// A rise of the RTT from one ACK to the next, which a queue cannot make: it builds up over many.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepDetector {
    last: Option<Duration>,
    step: Option<Step>,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    before: Duration,
    rise: Duration,
    /// Packets up to this one were sent before the step was seen.
    mark: u64,
    least: Duration,
    most: Duration,
}

impl StepDetector {
    /// True while a step waits to be confirmed.
    pub(super) fn is_pending(&self) -> bool {
        self.step.is_some()
    }

    /// Takes an RTT in. Returns the smallest RTT since the step, once a whole round trip has gone
    /// by with it.
    pub(super) fn on_sample(
        &mut self,
        rtt: Duration,
        packet_number: u64,
        largest_sent: u64,
        pps: f64,
        reference_s: f64,
        spread_s: f64,
    ) -> Option<Duration> {
        let last = self.last.replace(rtt)?;
        if rtt <= last && self.step.is_none() {
            return None;
        }
        let least_s = (STEP_PACKETS / pps.max(1.0))
            .max(reference_s * STEP_OF_REFERENCE)
            .max(spread_s * STEP_SPREADS);
        if rtt.saturating_sub(last).as_secs_f64() >= least_s {
            // The way there and the way back become longer one after the other.
            let before = self.step.map_or(last, |step| step.before);
            self.step = Some(Step {
                before,
                rise: rtt.saturating_sub(before),
                mark: largest_sent,
                least: rtt,
                most: rtt,
            });
            return None;
        }
        let step = self.step.as_mut()?;
        step.least = step.least.min(rtt);
        step.most = step.most.max(rtt);
        let risen = step.least.saturating_sub(step.before);
        let is_kept = risen >= step.rise.mul_f64(STEP_KEPT);
        let is_flat = step.most - step.least <= step.rise.mul_f64(STEP_FLAT);
        if !is_kept || !is_flat {
            self.step = None;
            return None;
        }
        if packet_number <= step.mark {
            return None;
        }
        let least = step.least;
        self.step = None;
        Some(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// RTTs of 40 ms, and then these, one packet each; 1000 packets a second, 40 in flight.
    fn found(rtts: impl IntoIterator<Item = u64>) -> Option<Duration> {
        let mut steps = StepDetector::default();
        let before = std::iter::repeat_n(40, 10);
        let mut found = None;
        for (packet, rtt) in (0u64..).zip(before.chain(rtts)) {
            let seen = steps.on_sample(ms(rtt), packet, packet + 40, 1000.0, 0.04, 0.0);
            found = found.or(seen);
        }
        found
    }

    #[test]
    fn a_rise_that_stays_for_a_round_trip_is_a_longer_path() {
        assert_eq!(found([90; 45]), Some(ms(90)));
        assert_eq!(found([90; 40]), None, "not yet a round trip");
    }

    #[test]
    fn both_directions_may_become_longer_one_after_the_other() {
        assert_eq!(found([80; 10].into_iter().chain([120; 45])), Some(ms(120)));
    }

    #[test]
    fn a_queue_that_builds_up_or_drains_is_no_step() {
        assert_eq!(found((1..60).map(|packet| 40 + packet)), None);
        assert_eq!(found((0..60).map(|packet| 120 - packet)), None);
    }

    #[test]
    fn thirty_one_packets_may_be_a_burst_of_others() {
        assert_eq!(found([71; 60]), None);
        assert_eq!(found([72; 60]), Some(ms(72)));
    }
}
