//! Verdicts on real runs beside simulated ones.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::figures::Figures;

/// The part by which throughput may differ from the nearest simulated one, of a flow alone.
pub const THROUGHPUT_PART: f64 = 0.05;

/// The difference that the share beside TCP may have from the nearest simulated one.
pub const SHARE: f64 = 0.15;

/// The part by which the mean queue may differ from the nearest simulated one, or so many packets
/// if that is more.
pub const QUEUE_PART: f64 = 0.15;
/// See [`QUEUE_PART`].
pub const QUEUE_PACKETS: f64 = 3.0;

/// A path is late if its packets were so late in the mean: a tenth of the time that a packet takes
/// on the bottleneck, or this, if that is more.
pub const LATE: Duration = Duration::from_micros(50);

/// The verdict on a real run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All figures are within their bounds.
    Agrees,
    /// A figure is not.
    Differs,
    /// The path was late, so that figures do not count.
    Late,
    /// There are no figures.
    Failed,
}

/// A figure of a real run beside those of the simulated ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The figure: throughput, share or mean queue.
    pub figure: &'static str,
    /// The real value.
    pub real: f64,
    /// The least simulated value.
    pub low: f64,
    /// The greatest simulated value.
    pub high: f64,
    /// The distance by which the real value may lie outside.
    pub bound: f64,
}

impl Compared {
    /// `bound` is given the simulated value that is nearest to the real one.
    fn new(
        figure: &'static str,
        real: f64,
        simulated: impl Iterator<Item = f64>,
        bound: impl Fn(f64) -> f64,
    ) -> Option<Compared> {
        let (low, high) = simulated.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| {
            (low.min(one), high.max(one))
        });
        (low <= high).then(|| Compared {
            figure,
            real,
            low,
            high,
            bound: bound(real.clamp(low, high)),
        })
    }

    /// True if the real value lies within the simulated ones, or near enough.
    #[must_use]
    pub fn agrees(&self) -> bool {
        let nearest = self.real.clamp(self.low, self.high);
        (self.real - nearest).abs() <= self.bound
    }
}

/// Compares what has bounds: the throughput alone, or the share beside TCP, and the mean queue.
#[must_use]
pub fn compare(real: &Figures, simulated: &[Figures]) -> Vec<Compared> {
    let rate = match real.share() {
        None => {
            let simulated = simulated.iter().map(|one| one.throughput_bps);
            let bound = |nearest: f64| THROUGHPUT_PART * nearest;
            Compared::new("throughput", real.throughput_bps, simulated, bound)
        }
        Some(share) => {
            let simulated = simulated.iter().filter_map(Figures::share);
            Compared::new("share", share, simulated, |_| SHARE)
        }
    };
    let queue = Compared::new(
        "mean queue",
        real.queue_mean_packets,
        simulated.iter().map(|one| one.queue_mean_packets),
        |nearest| QUEUE_PACKETS.max(QUEUE_PART * nearest),
    );
    rate.into_iter().chain(queue).collect()
}

/// True if a path whose packets were so late in the mean was too late, on a bottleneck on which a
/// packet takes that time.
#[must_use]
pub fn is_late(lateness_s: f64, packet_time: Duration) -> bool {
    lateness_s > LATE.max(packet_time / 10).as_secs_f64()
}

/// The verdict on a run.
#[must_use]
pub fn verdict(is_late: bool, compared: &[Compared]) -> Verdict {
    match is_late {
        true => Verdict::Late,
        false if compared.iter().all(Compared::agrees) => Verdict::Agrees,
        false => Verdict::Differs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(throughput_bps: f64, queue_mean_packets: f64) -> Figures {
        Figures {
            throughput_bps,
            queue_mean_packets,
            ..Figures::default()
        }
    }

    fn verdict_on(real: Figures, simulated: &[Figures]) -> Verdict {
        verdict(false, &compare(&real, simulated))
    }

    #[test]
    fn throughput_alone_has_five_percent() {
        let simulated = [alone(1e6, 5.0), alone(2e6, 5.0)];
        for (real, expected) in [
            (0.949e6, Verdict::Differs),
            (0.951e6, Verdict::Agrees),
            (1.5e6, Verdict::Agrees),
            (2.099e6, Verdict::Agrees),
            (2.101e6, Verdict::Differs),
        ] {
            assert_eq!(verdict_on(alone(real, 5.0), &simulated), expected, "{real}");
        }
    }

    #[test]
    fn queues_have_three_packets_or_a_part() {
        for (simulated, real, expected) in [
            (5.0, 7.9, Verdict::Agrees),
            (5.0, 8.1, Verdict::Differs),
            (5.0, 1.9, Verdict::Differs),
            (100.0, 114.0, Verdict::Agrees),
            (100.0, 116.0, Verdict::Differs),
            (100.0, 84.0, Verdict::Differs),
        ] {
            let found = verdict_on(alone(1e6, real), &[alone(1e6, simulated)]);
            assert_eq!(found, expected, "{simulated} {real}");
        }
    }

    #[test]
    fn beside_tcp_the_share_counts_and_not_the_throughput() {
        let beside = |tested: f64, neighbour: f64| Figures {
            neighbour_bps: Some(neighbour),
            ..alone(tested, 5.0)
        };
        let simulated = [beside(5e6, 5e6)];
        assert_eq!(
            verdict_on(beside(3.2e6, 4.8e6), &simulated),
            Verdict::Agrees
        );
        assert_eq!(verdict_on(beside(3e6, 7e6), &simulated), Verdict::Differs);
        let names: Vec<&str> = compare(&beside(1.0, 1.0), &simulated)
            .iter()
            .map(|one| one.figure)
            .collect();
        assert_eq!(names, ["share", "mean queue"]);
    }

    #[test]
    fn a_late_path_is_late_whatever_its_figures() {
        let same = compare(&alone(1e6, 5.0), &[alone(1e6, 5.0)]);
        assert_eq!(verdict(true, &same), Verdict::Late);
        assert_eq!(verdict(false, &same), Verdict::Agrees);
        let millisecond = Duration::from_millis(1);
        assert!(is_late(101e-6, millisecond));
        assert!(!is_late(99e-6, millisecond));
        let short = Duration::from_micros(100);
        assert!(is_late(51e-6, short));
        assert!(!is_late(49e-6, short));
    }
}
