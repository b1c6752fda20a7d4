//! The adapter between quiche's plug point and [`Controller`].

use std::sync::Arc;
use std::time::Instant;

use ::quiche::{
    AckEvent, AckedPacket, CongestionController, CongestionControllerFactory, ControllerConfig,
    LossEvent, LostPacket, StartupExitReason,
};

use crate::algorithm::Algorithm;
use crate::controller::{Ack, Controller, PacketInfo, Phase, RttEstimate, SentPacket};
use crate::gallop::GallopVegas;
use crate::vegas::{Doubling, PathConfig, Vegas};

/// Makes `vegas` and `gallop-vegas` known to quiche by name, in the whole process.
///
/// From then on `Config::set_cc_algorithm_name("gallop-vegas:alpha=1,beta=3")`, its variant for use
/// in the handshake, tokio-quiche's `cc_algorithm` and the C API select them. quiche logs why it
/// refuses a name or an option; parse an [`Algorithm`] to show a user the reason.
///
/// # Errors
///
/// [`quiche::Error::CongestionControl`](::quiche::Error::CongestionControl) if quiche has a
/// built-in algorithm of that name.
pub fn register() -> ::quiche::Result<()> {
    for algorithm in Algorithm::ALL {
        ::quiche::register_cc_algorithm(algorithm.name(), move |options| {
            Ok(Arc::new(algorithm.with(options)?))
        })?;
    }
    Ok(())
}

impl CongestionControllerFactory for Algorithm {
    fn build(&self, config: &ControllerConfig) -> Box<dyn CongestionController> {
        let path = PathConfig {
            max_datagram_size_bytes: config.max_datagram_size,
            initial_window_packets: config.initial_congestion_window_packets as u64,
            pacing: config.pacing,
        };
        match *self {
            Algorithm::Vegas(options) => Box::new(Adapter(Vegas::<Doubling>::new(options, &path))),
            Algorithm::GallopVegas(options) => Box::new(Adapter(GallopVegas::new(options, &path))),
        }
    }
}

/// A controller behind quiche's plug point.
#[derive(Debug)]
struct Adapter<C>(C);

impl From<&AckedPacket> for PacketInfo {
    fn from(packet: &AckedPacket) -> Self {
        PacketInfo {
            packet_number: packet.pkt_num,
            time_sent: packet.time_sent,
            size_bytes: packet.size,
        }
    }
}

impl From<&LostPacket> for PacketInfo {
    fn from(packet: &LostPacket) -> Self {
        PacketInfo {
            packet_number: packet.pkt_num,
            time_sent: packet.time_sent,
            size_bytes: packet.size,
        }
    }
}

impl From<&AckEvent<'_>> for Ack {
    fn from(event: &AckEvent<'_>) -> Self {
        Ack {
            now: event.now,
            measures_rtt: event.rtt_updated,
            ack_delay: event.ack_delay,
            rtt: RttEstimate {
                smoothed: event.rtt.rtt(),
                variation: event.rtt.rttvar(),
                max_ack_delay: event.rtt.max_ack_delay(),
            },
        }
    }
}

impl<C: Controller + 'static> CongestionController for Adapter<C> {
    fn congestion_window(&self) -> usize {
        self.0.window_bytes()
    }

    fn on_packet_sent(&mut self, packet: &::quiche::SentPacket) {
        self.0.on_packet_sent(&SentPacket {
            packet_number: packet.pkt_num,
            time_sent: packet.time_sent,
            size_bytes: packet.size,
            bytes_in_flight: packet.bytes_in_flight,
        });
    }

    fn on_packets_acked(&mut self, event: &AckEvent<'_>) {
        self.0
            .on_packets_acked(&event.into(), event.packets.iter().map(PacketInfo::from));
    }

    fn on_packets_lost(&mut self, event: &LossEvent<'_>) {
        self.0
            .on_packets_lost(event.packets.iter().map(PacketInfo::from));
    }

    fn on_spurious_loss(&mut self, _now: Instant, packets: &[LostPacket]) {
        self.0
            .on_spurious_loss(packets.iter().map(PacketInfo::from));
    }

    fn on_mtu_update(&mut self, max_datagram_size: usize) {
        self.0.on_mtu_update(max_datagram_size);
    }

    fn ssthresh(&self) -> Option<usize> {
        self.0.ssthresh_bytes()
    }

    fn startup_exit_reason(&self) -> StartupExitReason {
        match self.0.phase() {
            Phase::Recovery => StartupExitReason::Loss,
            _ => StartupExitReason::PersistentQueue,
        }
    }

    /// While datagrams are spaced, a batch is what may leave at one time.
    fn send_quantum(&self) -> Option<usize> {
        self.0.burst_bytes()
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.0.state().pacing_rate_bps.map(|bps| (bps / 8.0) as u64)
    }

    fn next_release_time(&self) -> Option<Instant> {
        self.0.next_release_time()
    }

    /// The papers' packets are of one size, and the window is counted in them.
    fn whole_datagrams(&self) -> bool {
        true
    }

    fn state_str(&self, _now: Instant) -> &'static str {
        self.0.phase().as_str()
    }

    fn metrics(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        let state = self.0.state();
        let ms = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
        let (alpha, beta) = state.thresholds_packets;
        sink("vegas_alpha_packets", alpha);
        sink("vegas_beta_packets", beta);
        if let Some(base_rtt) = state.base_rtt {
            sink("vegas_base_rtt_ms", ms(base_rtt));
        }
        if let Some(round) = state.last_round {
            sink("vegas_round_rtt_ms", ms(round.rtt));
            sink("vegas_expected_bps", round.expected_bps);
            sink("vegas_actual_bps", round.actual_bps);
            sink("vegas_backlog_packets", round.backlog_packets);
        }
        if let Some(incr) = state.incr_packets {
            sink("vegas_incr_packets", incr as f64);
        }
        if let Some(status) = state.status {
            sink("vegas_status", f64::from(status));
        }
    }
}
