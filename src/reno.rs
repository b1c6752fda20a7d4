//! The window of NewReno (RFC 9002 §7.3.3 and Appendix B).

use std::time::{Duration, Instant};

use crate::loss_based::Avoidance;
use crate::options::OptionSpec;

/// NewReno: one datagram more per round trip.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reno;

impl Avoidance for Reno {
    const CONTROLLER: &'static str = "reno-rfc9002";
    const SUMMARY: &'static str = "NewReno as RFC 9002 §7 and Appendix B have it";
    const OPTIONS: &'static [OptionSpec] = &[];
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
