//! The reference RTT: the path's RTT without the flow's own queue.
//!
//! It is BaseRTT as long as nothing speaks against it. A path that became longer, and jitter that
//! holds most packets, show as delay that half of the window does not shorten; then the reference is
//! raised. The smallest RTT over a sliding time would follow the flow's own queue instead.

use std::time::{Duration, Instant};

use crate::base_rtt::BaseRtt;

/// Part of the way that the reference goes down per round with a lower RTT.
const SINK: u32 = 4;

/// A sample that is above BaseRTT by no more than this part of it, or by a packet's time and at most
/// the larger part, confirms it.
const NEAR: f64 = 1.0 / 256.0;
const NEAR_PACKET: f64 = 1.0 / 64.0;

/// The reference RTT of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reference {
    base: BaseRtt,
    /// The time for which packets are held above BaseRTT on the way, whatever the window is.
    held: Duration,
    /// The time of the last sample at BaseRTT, or of the last check.
    pub(super) confirmed_at: Option<Instant>,
    /// The time of the last check.
    pub(super) checked_at: Option<Instant>,
}

impl Reference {
    /// The smallest RTT seen on the path as it is now.
    pub(super) fn base_rtt(&self) -> Option<Duration> {
        self.base.get()
    }

    /// The reference; zero before the first sample.
    pub(super) fn get(&self) -> Duration {
        self.base.get().unwrap_or_default() + self.held
    }

    /// The reference in seconds, above zero.
    pub(super) fn seconds(&self) -> f64 {
        self.get().as_secs_f64().max(1e-6)
    }

    /// Takes a measured RTT in and returns it without the peer's delay.
    pub(super) fn on_sample(
        &mut self,
        now: Instant,
        measured: Duration,
        ack_delay: Duration,
        is_full: bool,
        pps: f64,
    ) -> Duration {
        let before = self.base.get();
        let rtt = self.base.on_sample(measured, ack_delay, is_full);
        let is_near = before.is_none_or(|base| {
            let base_s = base.as_secs_f64();
            let packet_s = (1.0 / pps.max(1.0)).min(base_s * NEAR_PACKET);
            rtt.as_secs_f64() <= base_s * (1.0 + NEAR) + packet_s
        });
        if is_near {
            self.confirmed_at = Some(now);
        }
        rtt
    }

    /// A round had this mean RTT.
    pub(super) fn on_round(&mut self, mean: Duration) {
        self.held -= self.held.min(self.get().saturating_sub(mean) / SINK);
    }

    /// The path became longer: nothing that was seen before counts. `least` is the smallest RTT of
    /// the path as it is now.
    pub(super) fn move_to(&mut self, level: Duration, least: Duration) {
        self.base = BaseRtt::default();
        self.base.on_sample(least, Duration::ZERO, true);
        self.held = level.saturating_sub(least);
    }

    /// The path is what it was, but packets are held on the way.
    pub(super) fn raise(&mut self, level: Duration) {
        let base = self.base.get().unwrap_or_default();
        self.held = level.saturating_sub(base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn what_the_path_holds_stands_on_base_rtt() {
        let (mut reference, now) = (Reference::default(), Instant::now());
        assert_eq!(reference.get(), Duration::ZERO);
        reference.on_sample(now, ms(40), Duration::ZERO, true, 1000.0);
        reference.raise(ms(50));
        assert_eq!(reference.get(), ms(50));
        // Lower BaseRTT, lower reference: the path became shorter.
        reference.on_sample(now, ms(30), Duration::ZERO, true, 1000.0);
        assert_eq!(reference.get(), ms(40));
        // A round below it takes a quarter of the difference away, and never more than was held.
        reference.on_round(ms(32));
        assert_eq!(reference.get(), ms(38));
        (0..100).for_each(|_| reference.on_round(ms(10)));
        assert_eq!(reference.get(), ms(30));
    }

    #[test]
    fn a_longer_path_forgets_the_shorter_one() {
        let mut reference = Reference::default();
        reference.on_sample(Instant::now(), ms(40), Duration::ZERO, true, 1000.0);
        reference.move_to(ms(145), ms(140));
        assert_eq!(reference.base_rtt(), Some(ms(140)));
        assert_eq!(reference.get(), ms(145));
    }

    #[test]
    fn samples_near_base_rtt_confirm_it() {
        let (mut reference, start) = (Reference::default(), Instant::now());
        let mut confirms = |at_ms, rtt_us| {
            let now = start + ms(at_ms);
            let rtt = Duration::from_micros(rtt_us);
            reference.on_sample(now, rtt, Duration::ZERO, true, 10_000.0);
            reference.confirmed_at == Some(now)
        };
        assert!(confirms(1, 40_000));
        // A 256th of 40 ms, and a packet's 0.1 ms.
        assert!(confirms(2, 40_250));
        assert!(!confirms(3, 40_260));
    }
}
