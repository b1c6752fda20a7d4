//! The adapter to quinn: an [`Algorithm`] is a factory of its congestion controllers.
//!
//! ```
//! use std::sync::Arc;
//!
//! let mut transport = quinn_proto::TransportConfig::default(); // quinn::TransportConfig
//! let algorithm: gallop::Algorithm = "gallop-vegas:alpha=1,beta=3".parse()?;
//! transport.congestion_controller_factory(Arc::new(algorithm));
//! # Ok::<(), gallop::AlgorithmError>(())
//! ```
//!
//! `docs/stacks.md` says what quinn tells a controller and what it does not.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{
    Controller as QuinnController, ControllerFactory, ControllerMetrics,
};

use super::Factory;
use super::per_packet::{AckEnd, Acked, Lost, PerPacket};
use crate::catalog::Algorithm;
use crate::controller::{Controller, PathConfig};

impl ControllerFactory for Algorithm {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn QuinnController> {
        Box::new(Adapter::new(
            |path| Algorithm::build(&self, path),
            now,
            current_mtu,
        ))
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn QuinnController> {
        Box::new(Adapter::new(self.0, now, current_mtu))
    }
}

/// A controller behind quinn's interface. A copy of a connection's is what
/// `Connection::congestion_state` gives, by [`QuinnController::into_any`].
#[derive(Clone, Debug)]
pub struct Adapter {
    inner: PerPacket,
    smoothed_rtt: Duration,
}

impl Adapter {
    /// A controller for a path that is used from `now` on, as a factory makes it.
    pub fn new(
        build: impl FnOnce(&PathConfig) -> Box<dyn Controller>,
        now: Instant,
        current_mtu: u16,
    ) -> Adapter {
        Adapter {
            // quinn's pacer takes no orders: 1.25 windows per RTT, in bursts of ten datagrams and more.
            inner: PerPacket::new(build, now, current_mtu, false),
            smoothed_rtt: Duration::ZERO,
        }
    }

    /// The controller, for its phase and figures.
    pub fn controller(&self) -> &dyn Controller {
        self.inner.controller()
    }
}

impl QuinnController for Adapter {
    /// quinn tells of several datagrams at once, and of packets that elicit no acknowledgment too.
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        self.inner.on_sent(now, bytes);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        _app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.smoothed_rtt = rtt.get();
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
            measures_rtt: true,
            smoothed_rtt: self.smoothed_rtt,
        });
    }

    /// Without lost bytes it was a mark.
    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        if lost_bytes == 0 {
            self.inner.on_marks(now, sent);
        } else {
            self.inner.on_lost(&Lost {
                now,
                time_sent: sent,
                is_persistent: is_persistent_congestion,
                bytes: lost_bytes,
            });
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    /// NOTE: quinn sends no datagram that would fill the window to its last byte, so it is told one
    /// byte more: otherwise a datagram of the window would always stay unused.
    fn window(&self) -> u64 {
        self.inner.window_bytes().saturating_add(1)
    }

    fn metrics(&self) -> ControllerMetrics {
        let controller = self.controller();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.inner.window_bytes();
        metrics.ssthresh = controller.ssthresh_bytes().map(|bytes| bytes as u64);
        metrics
    }

    fn clone_box(&self) -> Box<dyn QuinnController> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window_bytes()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
