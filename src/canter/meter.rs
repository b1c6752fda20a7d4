//! The measurements of a round, and the last RTTs.

use std::time::{Duration, Instant};

use super::capacity::Train;

/// The measurements of the round in progress.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    pub(super) began: Option<Instant>,
    pub(super) window_packets: f64,
    pub(super) samples: u32,
    pub(super) sum: Duration,
    pub(super) least: Option<Duration>,
    pub(super) most: Duration,
    pub(super) acked: f64,
    pub(super) lost: f64,
    pub(super) train: Train,
    /// Packets that kept to the pacer's schedule.
    pub(super) paced: u32,
}

impl Meter {
    pub(super) fn on_sample(&mut self, rtt: Duration) {
        self.samples += 1;
        self.sum = self.sum.saturating_add(rtt);
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        self.most = self.most.max(rtt);
    }
}

/// The last RTTs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    samples: [Duration; 8],
    count: usize,
}

impl Recent {
    pub(super) fn add(&mut self, rtt: Duration) {
        self.samples[self.count % self.samples.len()] = rtt;
        self.count = self.count.wrapping_add(1);
    }

    /// The least of them, once there are enough.
    pub(super) fn least(&self) -> Option<Duration> {
        (self.count >= self.samples.len())
            .then(|| self.samples.iter().min().copied())
            .flatten()
    }
}
