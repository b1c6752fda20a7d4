//! The adapter to noq, n0's quinn, which iroh uses: an [`Algorithm`] is a factory of its congestion
//! controllers.
//!
//! ```
//! use std::sync::Arc;
//!
//! let mut transport = noq_proto::TransportConfig::default(); // noq::TransportConfig
//! let algorithm: gallop::Algorithm = "gallop-vegas:alpha=1,beta=3".parse()?;
//! transport.congestion_controller_factory(Arc::new(algorithm));
//! # Ok::<(), gallop::AlgorithmError>(())
//! ```
//!
//! In iroh the same value goes into `QuicTransportConfigBuilder::congestion_controller_factory`.
//! `docs/stacks.md` says what noq tells a controller and what it does not.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller as NoqController, ControllerFactory, ControllerMetrics};

use super::Factory;
use super::per_packet::{AckEnd, Acked, Lost, PerPacket};
use crate::catalog::Algorithm;
use crate::controller::{Controller, PathConfig};

impl ControllerFactory for Algorithm {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn NoqController> {
        Box::new(Adapter::new(
            |path| Algorithm::build(&self, path),
            now,
            current_mtu,
        ))
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn NoqController> {
        Box::new(Adapter::new(self.0, now, current_mtu))
    }
}

/// A pacing rate, in bytes per second, at which any window leaves at once.
const AT_ONCE: u64 = 1 << 40;

/// A controller behind noq's interface. A copy of a connection's is what
/// `Connection::congestion_state` gives, by [`NoqController::into_any`].
#[derive(Clone, Debug)]
pub struct Adapter {
    inner: PerPacket,
    smoothed_rtt: Duration,
    /// The number of the last packet that was acknowledged.
    last_acked: Option<u64>,
    /// True until the window is another than the first.
    has_first_window: bool,
}

impl Adapter {
    /// A controller for a path that is used from `now` on, as a factory makes it.
    pub fn new(
        build: impl FnOnce(&PathConfig) -> Box<dyn Controller>,
        now: Instant,
        current_mtu: u16,
    ) -> Adapter {
        Adapter {
            inner: PerPacket::new(build, now, current_mtu, true),
            smoothed_rtt: Duration::ZERO,
            last_acked: None,
            has_first_window: true,
        }
    }

    /// The controller, for its phase and figures.
    pub fn controller(&self) -> &dyn Controller {
        self.inner.controller()
    }

    fn note_window(&mut self) {
        self.has_first_window &= self.inner.window_bytes() == self.inner.initial_window_bytes();
    }
}

impl NoqController for Adapter {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, _pn: u64) {
        self.inner.on_packet_sent(now, bytes.into());
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        _app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.smoothed_rtt = rtt.get();
        self.last_acked = Some(pn);
        self.inner.on_ack(&Acked {
            now,
            time_sent: sent,
            bytes,
        });
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.inner.on_end_acks(&AckEnd {
            now,
            bytes_in_flight: in_flight,
            app_limited,
            largest_acked: largest_packet_num_acked,
            measures_rtt: self.last_acked == largest_packet_num_acked,
            smoothed_rtt: self.smoothed_rtt,
        });
        self.note_window();
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        if is_ecn {
            self.inner.on_marks(now, sent);
        } else {
            self.inner.on_lost(&Lost {
                now,
                time_sent: sent,
                is_persistent: is_persistent_congestion,
                bytes: lost_bytes,
            });
        }
        self.note_window();
    }

    fn on_spurious_congestion_event(&mut self) {
        self.inner.on_spurious_loss();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window_bytes()
    }

    /// The rate and the burst drive noq's pacer. A controller that gives no rate leaves pacing to
    /// noq: 1.25 windows per RTT.
    ///
    /// NOTE: the first window leaves at once, as RFC 9002 §7.7 allows: noq would send it packet by
    /// packet over most of an RTT, and a controller that reads the path's rate from its dispersion
    /// would read noq's.
    fn metrics(&self) -> ControllerMetrics {
        let controller = self.controller();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.inner.window_bytes();
        metrics.ssthresh = controller.ssthresh_bytes().map(|bytes| bytes as u64);
        let rate = controller.pacing_rate_bps().map(|bps| (bps / 8.0) as u64);
        metrics.pacing_rate = rate.or(self.has_first_window.then_some(AT_ONCE));
        metrics.send_quantum = controller.burst_bytes().map(|bytes| bytes as u64);
        metrics
    }

    fn clone_box(&self) -> Box<dyn NoqController> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window_bytes()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
