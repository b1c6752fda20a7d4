//! Rounds: the unit of time in which Vegas measures and decides.

use std::time::Duration;

/// The one RTT of a round that the backlog is computed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RttMeasure {
    /// The mean of the round's samples, as the papers have it (Ho et al. 2006 §IV.A).
    #[default]
    Mean,
    /// The smallest sample, as Linux has it. It hides the queue that the round itself builds.
    Min,
    /// The last sample.
    Last,
}

/// The round in progress.
///
/// A round lasts from the sending of a distinguished packet to its acknowledgment (Brakmo et al.
/// 1994 §3.5.2). It ends when that packet *or a later one* is acknowledged, since packet numbers
/// have gaps and the distinguished packet may be lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    /// The packet whose acknowledgment ends the round, once one was sent.
    mark: Option<u64>,
    samples: u32,
    /// The sum of the samples, the smallest or the last, as the measure needs it.
    rtts: Duration,
    sent_packets: u64,
    window_used: bool,
}

/// The measurements of a complete round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompleteRound {
    /// The round's RTT, if there was a sample.
    pub(crate) rtt: Option<Duration>,
    /// Packets sent; as many are acknowledged in the next round.
    pub(crate) sent_packets: u64,
    /// True if the flow filled its window at least once.
    pub(crate) window_used: bool,
}

impl Round {
    /// A packet was sent; `fills_window` if no further datagram fits into the window.
    #[inline]
    pub(crate) fn on_packet_sent(&mut self, packet_number: u64, fills_window: bool) {
        self.mark.get_or_insert(packet_number);
        self.sent_packets += 1;
        self.window_used |= fills_window;
    }

    /// The flow filled its window.
    pub(crate) fn on_window_used(&mut self) {
        self.window_used = true;
    }

    #[inline]
    fn add(&mut self, sample: Option<Duration>, measure: RttMeasure) {
        let Some(rtt) = sample else { return };
        self.rtts = match measure {
            RttMeasure::Mean => self.rtts.saturating_add(rtt),
            RttMeasure::Min if self.samples > 0 => self.rtts.min(rtt),
            RttMeasure::Min | RttMeasure::Last => rtt,
        };
        self.samples = self.samples.saturating_add(1);
    }

    /// True if the acknowledgment of this packet ends the round.
    #[inline]
    pub(crate) fn ends_at(&self, packet_number: u64) -> bool {
        self.mark.is_some_and(|mark| packet_number >= mark)
    }

    /// Takes an ACK in; returns the round if that ACK ends it, and begins the next one.
    ///
    /// A round's samples are of the packets sent in the round before, so the sample of the ACK that
    /// ends it belongs to the next one, unless it is the only one.
    #[inline]
    pub(crate) fn on_acked(
        &mut self,
        largest_acked: u64,
        sample: Option<Duration>,
        measure: RttMeasure,
    ) -> Option<CompleteRound> {
        if !self.ends_at(largest_acked) {
            self.add(sample, measure);
            return None;
        }
        let mut next = Round::default();
        if self.samples == 0 {
            self.add(sample, measure);
        } else {
            next.add(sample, measure);
        }
        let rtt = (self.samples > 0).then(|| match measure {
            RttMeasure::Mean => self.rtts / self.samples,
            RttMeasure::Min | RttMeasure::Last => self.rtts,
        });
        let complete = CompleteRound {
            rtt,
            sent_packets: self.sent_packets,
            window_used: self.window_used,
        };
        *self = next;
        Some(complete)
    }

    /// Drops the measurements; the next packet sent begins a new round.
    pub(crate) fn restart(&mut self) {
        *self = Round::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn complete(rtt: Option<u64>, sent_packets: u64, window_used: bool) -> Option<CompleteRound> {
        Some(CompleteRound {
            rtt: rtt.map(ms),
            sent_packets,
            window_used,
        })
    }

    #[test]
    fn each_measure_of_the_rtt() {
        for (measure, rtt) in [
            (RttMeasure::Mean, 120),
            (RttMeasure::Min, 100),
            (RttMeasure::Last, 140),
        ] {
            let mut round = Round::default();
            round.on_packet_sent(7, false);
            round.on_packet_sent(8, true);
            for rtt in [120, 100, 140] {
                assert_eq!(round.on_acked(6, Some(ms(rtt)), measure), None);
            }
            assert_eq!(
                round.on_acked(8, None, measure),
                complete(Some(rtt), 2, true),
                "{measure:?}"
            );
        }
    }

    #[test]
    fn ends_at_the_first_packet_or_any_later_one() {
        let mut round = Round::default();
        let acked = |round: &mut Round, number| round.on_acked(number, None, RttMeasure::Mean);
        assert_eq!(acked(&mut round, 3), None, "nothing was sent");
        round.on_packet_sent(5, false);
        assert_eq!(acked(&mut round, 4), None);
        assert_eq!(acked(&mut round, 5), complete(None, 1, false));
        round.on_packet_sent(9, false);
        assert_eq!(acked(&mut round, 8), None, "of the round before");
        assert_eq!(
            acked(&mut round, 12),
            complete(None, 1, false),
            "a gap in the numbers"
        );
    }

    #[test]
    fn the_sample_that_ends_a_round_counts_for_the_next_unless_it_is_the_only_one() {
        let mut round = Round::default();
        let acked = |round: &mut Round, number, rtt| {
            round.on_acked(number, Some(ms(rtt)), RttMeasure::Mean)
        };
        round.on_packet_sent(1, true);
        assert_eq!(acked(&mut round, 1, 100), complete(Some(100), 1, true));
        round.on_packet_sent(3, true);
        assert_eq!(acked(&mut round, 2, 110), None);
        assert_eq!(acked(&mut round, 3, 200), complete(Some(110), 1, true));
        round.on_packet_sent(5, true);
        assert_eq!(acked(&mut round, 4, 100), None);
        assert_eq!(acked(&mut round, 5, 900), complete(Some(150), 1, true));
    }

    #[test]
    fn a_restart_forgets() {
        let mut round = Round::default();
        round.on_packet_sent(1, true);
        assert_eq!(round.on_acked(0, Some(ms(500)), RttMeasure::Mean), None);
        round.restart();
        round.on_packet_sent(4, false);
        assert_eq!(round.on_acked(3, None, RttMeasure::Mean), None);
        assert_eq!(
            round.on_acked(4, Some(ms(100)), RttMeasure::Mean),
            complete(Some(100), 1, false)
        );
    }
}
