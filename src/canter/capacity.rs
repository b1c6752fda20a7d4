//! The bottleneck's rate, read from the dispersion of the flow's own trains.
//!
//! Packets that are sent faster than the bottleneck forwards them leave it at its rate, and their
//! acknowledgments come back so (Keshav 1991 §3; Hoe 1996 §3.2). One train tells the rate, where
//! slow start needs a round trip for each doubling.

use std::time::{Duration, Instant};

/// A train of fewer packets tells no rate.
const LEAST_PACKETS: f64 = 6.0;

/// A pause in sending so many times as long as the mean gap ends a train.
const PAUSE_GAPS: f64 = 4.0;

/// A train that the bottleneck did not stretch is trusted to be below its rate by this many packets'
/// part: short trains may have been lucky.
const DOUBT_PACKETS: f64 = 30.0;

/// The packets of one round, from the first acknowledgment to a pause in sending.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Train {
    first: Option<Passage>,
    last: Option<Passage>,
    /// Packets acknowledged after the first acknowledgment.
    packets: f64,
    is_over: bool,
}

/// The largest packet of an ACK.
#[derive(Clone, Copy, Debug)]
struct Passage {
    sent: Instant,
    /// The time of the ACK less the peer's delay.
    delivered: Instant,
}

/// The lengths of a train when it was sent and when it was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dispersion {
    pub(super) packets: f64,
    sent_s: f64,
    delivered_s: f64,
}

impl Train {
    /// An ACK for `acked` packets, the largest of them sent at `sent`, was sent at `delivered`.
    pub(super) fn on_acked(&mut self, sent: Instant, delivered: Instant, acked: f64) {
        let passage = Passage { sent, delivered };
        let (Some(_), Some(last)) = (self.first, self.last) else {
            self.first = Some(passage);
            self.last = Some(passage);
            return;
        };
        if self.is_over {
            return;
        }
        if let Some(train) = self.dispersion() {
            let gap_s = sent.saturating_duration_since(last.sent).as_secs_f64() / acked.max(1.0);
            let mean_gap_s = train.sent_s.max(train.delivered_s) / train.packets;
            if gap_s > PAUSE_GAPS * mean_gap_s {
                self.is_over = true;
                return;
            }
        }
        self.last = Some(passage);
        self.packets += acked;
    }

    /// The train's dispersion, once it is long enough to tell a rate.
    pub(super) fn dispersion(&self) -> Option<Dispersion> {
        let (first, last) = (self.first?, self.last?);
        let dispersion = Dispersion {
            packets: self.packets,
            sent_s: seconds(first.sent, last.sent),
            delivered_s: seconds(first.delivered, last.delivered),
        };
        let took_time = dispersion.sent_s.max(dispersion.delivered_s) > 0.0;
        (self.packets >= LEAST_PACKETS && took_time).then_some(dispersion)
    }
}

fn seconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64()
}

impl Dispersion {
    /// The rate, in packets per second. ACKs that come faster than their packets were sent were
    /// bunched on the way back and tell nothing.
    fn pps(&self) -> f64 {
        self.packets / self.delivered_s.max(self.sent_s)
    }

    /// True if the bottleneck took at least half of the pacing's excess away.
    fn is_stretched(&self, pacing_gain: f64) -> bool {
        self.delivered_s > self.sent_s * (1.0 + (pacing_gain - 1.0) / 2.0)
    }
}

/// The bottleneck's rate as far as trains have shown it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Capacity {
    rate: Option<Rate>,
    /// The length of the train that showed it.
    train_packets: f64,
}

#[derive(Clone, Copy, Debug)]
struct Rate {
    pps: f64,
    /// True if the bottleneck stretched a train; otherwise it may be faster.
    is_exact: bool,
}

impl Capacity {
    /// The rate, in packets per second, once there was a train.
    pub(super) fn pps(&self) -> Option<f64> {
        self.rate.map(|rate| rate.pps)
    }

    /// The rate, if the bottleneck stretched a train.
    pub(super) fn exact_pps(&self) -> Option<f64> {
        self.rate.filter(|rate| rate.is_exact).map(|rate| rate.pps)
    }

    /// Takes a train in whose round goes on. `pacing_gain` is how much faster than the rate it was
    /// sent.
    pub(super) fn on_train(&mut self, train: &Dispersion, pacing_gain: f64, delivered_pps: f64) {
        if train.packets >= self.train_packets && train.is_stretched(pacing_gain) {
            self.train_packets = train.packets;
            self.rate = Some(Rate {
                pps: train.pps().max(delivered_pps),
                is_exact: true,
            });
        }
    }

    /// Takes the train of a whole round in. With `in_doubt` a short train that was not stretched
    /// leaves room for a far higher rate.
    pub(super) fn on_round(
        &mut self,
        train: &Dispersion,
        pacing_gain: f64,
        delivered_pps: f64,
        in_doubt: bool,
    ) {
        if train.packets < self.train_packets / 2.0 {
            return;
        }
        self.train_packets = train.packets;
        let pps = train
            .pps()
            .max(delivered_pps.min(train.packets / train.sent_s.max(1e-6)));
        let doubt = if in_doubt {
            (DOUBT_PACKETS / train.packets).min(1.0)
        } else {
            0.0
        };
        let at_least = pps * (1.0 + doubt);
        self.rate = Some(match self.rate {
            _ if train.is_stretched(pacing_gain) => Rate {
                pps,
                is_exact: true,
            },
            Some(rate) if rate.pps >= at_least => rate,
            _ => Rate {
                pps: at_least,
                is_exact: false,
            },
        });
    }

    /// The whole path is the flow's, and this is the rate.
    pub(super) fn set_exact(&mut self, pps: f64) {
        self.rate = Some(Rate {
            pps,
            is_exact: true,
        });
    }

    /// The rate is at most this.
    pub(super) fn limit(&mut self, pps: f64) {
        if let Some(rate) = &mut self.rate {
            rate.pps = rate.pps.min(pps);
            rate.is_exact = false;
        }
    }

    /// The path may have become another one: the next train decides, however short.
    pub(super) fn doubt(&mut self) {
        self.train_packets = 0.0;
        if let Some(rate) = &mut self.rate {
            rate.is_exact = false;
        }
    }

    /// The window that the rate fills at this RTT, in packets.
    pub(super) fn bdp_packets(&self, rtt: Duration) -> Option<f64> {
        self.pps().map(|pps| pps * rtt.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten packets sent every `sent_us`, delivered every `delivered_us`.
    fn train(sent_us: u64, delivered_us: u64) -> Train {
        let start = Instant::now();
        let mut train = Train::default();
        for packet in 0..11 {
            let at = |us: u64| start + Duration::from_micros(us * packet);
            train.on_acked(
                at(sent_us),
                at(delivered_us) + Duration::from_millis(40),
                1.0,
            );
        }
        train
    }

    #[test]
    fn a_stretched_train_tells_the_bottlenecks_rate() {
        let mut capacity = Capacity::default();
        let dispersion = train(0, 1000).dispersion().unwrap();
        capacity.on_train(&dispersion, 1.25, 0.0);
        assert_eq!(capacity.exact_pps(), Some(1000.0));
        assert_eq!(capacity.bdp_packets(Duration::from_millis(40)), Some(40.0));
    }

    #[test]
    fn a_train_that_was_not_stretched_leaves_room_for_more() {
        let mut capacity = Capacity::default();
        let dispersion = train(1000, 1000).dispersion().unwrap();
        capacity.on_train(&dispersion, 1.25, 0.0);
        assert_eq!(capacity.pps(), None, "the round goes on");
        capacity.on_round(&dispersion, 1.25, 0.0, true);
        assert_eq!((capacity.pps(), capacity.exact_pps()), (Some(2000.0), None));
        let mut gentle = Capacity::default();
        gentle.on_round(&dispersion, 1.25, 0.0, false);
        assert_eq!(gentle.pps(), Some(1000.0));
    }

    #[test]
    fn acks_that_were_bunched_on_the_way_back_tell_the_rate_of_sending() {
        let dispersion = train(1000, 10).dispersion().unwrap();
        assert!((dispersion.pps() - 1000.0).abs() < 1e-6);
    }

    #[test]
    fn few_packets_tell_nothing_and_a_pause_ends_a_train() {
        let start = Instant::now();
        let mut train = Train::default();
        for packet in 0..6 {
            let at = start + Duration::from_millis(packet);
            train.on_acked(at, at, 1.0);
        }
        assert_eq!(train.dispersion(), None);
        let at = start + Duration::from_millis(6);
        train.on_acked(at, at, 1.0);
        let before = train.dispersion();
        let late = start + Duration::from_millis(50);
        train.on_acked(late, late, 1.0);
        assert!(before.is_some());
        assert_eq!(train.dispersion(), before);
    }

    #[test]
    fn a_clock_that_stands_still_tells_no_rate() {
        assert_eq!(train(0, 0).dispersion(), None);
    }
}
