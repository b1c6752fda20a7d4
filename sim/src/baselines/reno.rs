//! The window of NewReno (RFC 9002 §7.3.3 and Appendix B).

use super::loss_based::Avoidance;
use std::time::{Duration, Instant};

/// NewReno: one datagram more per round trip.
#[derive(Clone, Debug, Default)]
pub(super) struct Reno;

impl Avoidance for Reno {
    /// `kLossReductionFactor` (RFC 9002 §B.1).
    const DECREASE: f64 = 0.5;
    /// RFC 9002 does not go back on a reduction.
    const UNDOES: bool = false;

    fn on_congestion(&mut self, _window_packets: f64) {}

    fn on_persistent_congestion(&mut self) {}

    fn on_app_limited(&mut self, _now: Instant) {}

    fn on_acked(&mut self, window_packets: f64, acked: f64, _now: Instant, _rtt: Duration) -> f64 {
        window_packets + acked / window_packets
    }
}
