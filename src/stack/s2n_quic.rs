//! The adapter to s2n-quic, by its feature `unstable-congestion-controller`: an [`Algorithm`] is a
//! provider of congestion controllers.
//!
//! ```text
//! let algorithm: gallop::Algorithm = "gallop-vegas:alpha=1,beta=3".parse()?;
//! let server = s2n_quic::Server::builder().with_congestion_controller(algorithm)?;
//! ```
//!
//! `docs/stacks.md` says what s2n-quic tells a controller and what it does not.

use std::time::{Duration, Instant};

use s2n_quic_core::random::Generator;
use s2n_quic_core::recovery::RttEstimator;
use s2n_quic_core::recovery::congestion_controller::{
    CongestionController, Endpoint, PathInfo, Publisher,
};
use s2n_quic_core::time::Timestamp;

use super::numbers::Numbers;
use super::{Factory, INITIAL_WINDOW_PACKETS};
use crate::catalog::Algorithm;
use crate::controller::{
    Ack, CongestionMarks, Controller, Loss, PacketInfo, PathConfig, RttEstimate, SentPacket,
};

impl Endpoint for Algorithm {
    type CongestionController = Adapter;

    fn new_congestion_controller(&mut self, path: PathInfo<'_>) -> Adapter {
        Adapter::new(|config| self.build(config), path.max_datagram_size)
    }
}

impl Endpoint for Factory {
    type CongestionController = Adapter;

    fn new_congestion_controller(&mut self, path: PathInfo<'_>) -> Adapter {
        Adapter::new(self.0, path.max_datagram_size)
    }
}

/// A controller behind s2n-quic's interface.
#[derive(Clone, Debug)]
pub struct Adapter {
    controller: Box<dyn Controller>,
    datagram_bytes: usize,
    bytes_in_flight: usize,
    clock: Clock,
    numbers: Numbers,
    /// The packet that the RTT was last measured by, until its ACK has been told.
    measured: Option<u64>,
    /// False if the last packet left nothing to send, and room in the window.
    window_is_used: bool,
    /// True from a reduction on until a packet is sent: one may be, whatever the window says (RFC
    /// 9002 §7.3.2).
    may_retransmit: bool,
    /// The packets of one event. Kept, so that no event allocates memory.
    packets: Vec<PacketInfo>,
}

/// The number and the size of a sent packet.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    number: u64,
    bytes: usize,
}

/// Translates s2n-quic's times, whose origin is hidden.
#[derive(Clone, Copy, Debug)]
struct Clock {
    epoch: Instant,
    first: Option<Timestamp>,
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "an origin for the stack's times; nothing depends on which it is"
    )]
    fn new() -> Clock {
        Clock {
            epoch: Instant::now(),
            first: None,
        }
    }

    /// A time before the first one that was asked for counts as that.
    fn instant(&mut self, time: Timestamp) -> Instant {
        let first = *self.first.get_or_insert(time);
        let since = time.saturating_duration_since(first);
        self.epoch.checked_add(since).unwrap_or(self.epoch)
    }

    /// Rounded up: s2n-quic counts microseconds.
    fn timestamp(&self, instant: Instant) -> Option<Timestamp> {
        let since = instant.saturating_duration_since(self.epoch);
        let micros = since.as_nanos().div_ceil(1000).try_into().ok()?;
        self.first?.checked_add(Duration::from_micros(micros))
    }
}

impl Adapter {
    fn new(
        build: impl FnOnce(&PathConfig) -> Box<dyn Controller>,
        max_datagram_size: u16,
    ) -> Adapter {
        let datagram_bytes = usize::from(max_datagram_size).max(1);
        let clock = Clock::new();
        Adapter {
            controller: build(&PathConfig {
                max_datagram_size_bytes: datagram_bytes,
                initial_window_packets: INITIAL_WINDOW_PACKETS,
                pacing: true,
            }),
            datagram_bytes,
            bytes_in_flight: 0,
            numbers: Numbers::since(clock.epoch),
            clock,
            measured: None,
            window_is_used: false,
            may_retransmit: false,
            packets: Vec::new(),
        }
    }

    /// The controller, for its phase and figures.
    pub fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    fn estimate(rtt: &RttEstimator) -> RttEstimate {
        RttEstimate {
            smoothed: rtt.smoothed_rtt(),
            variation: rtt.rttvar(),
            max_ack_delay: rtt.max_ack_delay(),
        }
    }
}

impl CongestionController for Adapter {
    type PacketInfo = Sent;

    fn congestion_window(&self) -> u32 {
        self.controller
            .window_bytes()
            .try_into()
            .unwrap_or(u32::MAX)
    }

    fn bytes_in_flight(&self) -> u32 {
        self.bytes_in_flight.try_into().unwrap_or(u32::MAX)
    }

    fn is_congestion_limited(&self) -> bool {
        let window_bytes = self.controller.window_bytes();
        window_bytes.saturating_sub(self.bytes_in_flight) < self.datagram_bytes
    }

    fn requires_fast_retransmission(&self) -> bool {
        self.may_retransmit
    }

    /// `app_limited` is unknown in the handshake.
    fn on_packet_sent<P: Publisher>(
        &mut self,
        time_sent: Timestamp,
        sent_bytes: usize,
        app_limited: Option<bool>,
        _rtt: &RttEstimator,
        _publisher: &mut P,
    ) -> Sent {
        let time_sent = self.clock.instant(time_sent);
        let sent = Sent {
            number: self.numbers.next(time_sent),
            bytes: sent_bytes,
        };
        // A packet that is not congestion-controlled.
        if sent_bytes == 0 {
            return sent;
        }
        self.controller.on_packet_sent(&SentPacket {
            packet_number: sent.number,
            time_sent,
            size_bytes: sent_bytes,
            bytes_in_flight: self.bytes_in_flight,
        });
        self.bytes_in_flight = self.bytes_in_flight.saturating_add(sent_bytes);
        self.window_is_used = app_limited == Some(false);
        self.may_retransmit = false;
        sent
    }

    fn on_rtt_update<P: Publisher>(
        &mut self,
        time_sent: Timestamp,
        _now: Timestamp,
        _rtt: &RttEstimator,
        _publisher: &mut P,
    ) {
        let time_sent = self.clock.instant(time_sent);
        self.measured = Some(self.numbers.of(time_sent));
    }

    /// s2n-quic tells the sum of the ACK frame's packets and the newest of them. Controllers count
    /// packets: as many as the bytes fill.
    fn on_ack<P: Publisher>(
        &mut self,
        newest_time_sent: Timestamp,
        bytes: usize,
        newest: Sent,
        rtt: &RttEstimator,
        _random: &mut dyn Generator,
        now: Timestamp,
        _publisher: &mut P,
    ) {
        let (now, time_sent) = (
            self.clock.instant(now),
            self.clock.instant(newest_time_sent),
        );
        let older_bytes = bytes.saturating_sub(newest.bytes);
        let older = older_bytes.div_ceil(self.datagram_bytes);
        self.packets.clear();
        for place in 0..older {
            let size_bytes = (older_bytes - place * self.datagram_bytes).min(self.datagram_bytes);
            self.packets.push(PacketInfo {
                packet_number: newest.number.saturating_sub((older - place) as u64),
                time_sent,
                size_bytes,
            });
        }
        self.packets.push(PacketInfo {
            packet_number: newest.number,
            time_sent,
            size_bytes: newest.bytes.min(bytes),
        });
        if self.window_is_used {
            self.controller.on_cwnd_limited(now);
        }
        let ack = Ack {
            now,
            // Of an ACK that the RTT was measured by, the newest packet is the one that it was
            // measured by, unless that was of another path.
            measures_rtt: self.measured.take() == Some(self.numbers.of(time_sent)),
            ack_delay: None,
            rtt: Adapter::estimate(rtt),
            bytes_in_flight: self.bytes_in_flight,
        };
        self.controller.on_packets_acked(&ack, &self.packets);
        self.bytes_in_flight = self.bytes_in_flight.saturating_sub(bytes);
    }

    fn on_packet_lost<P: Publisher>(
        &mut self,
        lost_bytes: u32,
        packet: Sent,
        persistent_congestion: bool,
        _new_loss_burst: bool,
        _random: &mut dyn Generator,
        now: Timestamp,
        _publisher: &mut P,
    ) {
        let loss = Loss {
            now: self.clock.instant(now),
            persistent_congestion: Some(persistent_congestion),
        };
        let before = self.controller.window_bytes();
        let lost = PacketInfo {
            packet_number: packet.number,
            // The number is the time.
            time_sent: self
                .clock
                .epoch
                .checked_add(Duration::from_nanos(packet.number))
                .unwrap_or(loss.now)
                .min(loss.now),
            size_bytes: lost_bytes as usize,
        };
        self.controller.on_packets_lost(&loss, &[lost]);
        self.may_retransmit |= self.controller.window_bytes() < before;
        self.bytes_in_flight = self.bytes_in_flight.saturating_sub(lost_bytes as usize);
    }

    /// s2n-quic tells of marks after the RTT, and before the ACK itself.
    fn on_explicit_congestion<P: Publisher>(
        &mut self,
        ce_count: u64,
        now: Timestamp,
        _publisher: &mut P,
    ) {
        let now = self.clock.instant(now);
        let largest_acked = self.measured.unwrap_or_default();
        self.controller.on_congestion_marks(&CongestionMarks {
            now,
            packets: ce_count,
            largest_acked,
        });
    }

    fn on_mtu_update<P: Publisher>(&mut self, max_data_size: u16, _publisher: &mut P) {
        if max_data_size > 0 {
            self.datagram_bytes = max_data_size.into();
            self.controller.on_mtu_update(max_data_size.into());
        }
    }

    fn on_packet_discarded<P: Publisher>(&mut self, bytes: usize, _publisher: &mut P) {
        self.controller.on_packets_discarded(bytes);
        self.bytes_in_flight = self.bytes_in_flight.saturating_sub(bytes);
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        self.clock.timestamp(self.controller.next_release_time()?)
    }

    fn send_quantum(&self) -> Option<usize> {
        self.controller.burst_bytes()
    }
}
