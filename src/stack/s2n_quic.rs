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

/// The unit of ACK frames' delays, in microseconds: `ack_delay_exponent` is 3 if a peer does not say
/// otherwise (RFC 9000 §18.2).
const ACK_DELAY_UNIT: u32 = 8;

/// The packets that s2n-quic's receiver acknowledges at once. It keeps the ACK of fewer for
/// `max_ack_delay`.
const PACKETS_PER_ACK: usize = 10;

/// A controller behind s2n-quic's interface.
#[derive(Clone, Debug)]
pub struct Adapter {
    controller: Box<dyn Controller>,
    datagram_bytes: usize,
    bytes_in_flight: usize,
    clock: Clock,
    numbers: Numbers,
    /// The packet that the RTT was last measured by, and the peer's acknowledgment delay, until its
    /// ACK has been told.
    measured: Option<(u64, Option<Duration>)>,
    /// The smoothed RTT after the last sample.
    smoothed: Duration,
    /// False if the last packet left nothing to send, and room in the window.
    window_is_used: bool,
    patience: Patience,
    /// True from a reduction on until a packet is sent: one may be, whatever the window says (RFC
    /// 9002 §7.3.2).
    may_retransmit: bool,
    /// The packets of one event. Kept, so that no event allocates memory.
    packets: Vec<PacketInfo>,
}

/// If the peer keeps its ACKs for longer than the path takes, since the window holds fewer packets
/// than it waits for.
///
/// NOTE: such a window is sent once in `max_ack_delay`, whatever the path permits: 2 Mbit/s over an
/// RTT of 0.1 ms. It is lifted to [`PACKETS_PER_ACK`]. They cannot build a queue, as the path is empty
/// while the peer waits; if one of them is lost or marked nevertheless, no window is lifted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    Unknown,
    KeepsAcks,
    MustNotLift,
}

impl Patience {
    /// An ACK measured this RTT, the peer's delay included, of a window that was used.
    fn on_sample(&mut self, measured: Duration, ack_delay: Duration, max_ack_delay: Duration) {
        let rtt = measured.saturating_sub(ack_delay);
        *self = match *self {
            Patience::Unknown if ack_delay > rtt => Patience::KeepsAcks,
            Patience::KeepsAcks if rtt > max_ack_delay => Patience::Unknown,
            unchanged => unchanged,
        };
    }
}

/// The number and the size of a sent packet.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    number: u64,
    bytes: usize,
    /// True if the controller's own window had no room for it.
    is_lifted: bool,
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
            smoothed: Duration::ZERO,
            window_is_used: false,
            patience: Patience::Unknown,
            may_retransmit: false,
            packets: Vec::new(),
        }
    }

    /// The controller, for its phase and figures.
    pub fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    fn window_bytes(&self) -> usize {
        let window_bytes = self.controller.window_bytes();
        match self.patience {
            Patience::KeepsAcks => window_bytes.max(PACKETS_PER_ACK * self.datagram_bytes),
            Patience::Unknown | Patience::MustNotLift => window_bytes,
        }
    }

    /// The peer's acknowledgment delay of the last sample, to 64 ns. s2n-quic does not tell it, but
    /// what it took off the sample is what is missing from the smoothed RTT (RFC 9002 §5.3).
    ///
    /// NOTE: s2n-quic takes the field of the ACK frame for microseconds, and so an eighth of the
    /// delay if the peer counts as most do ([`ACK_DELAY_UNIT`]).
    fn ack_delay(&self, rtt: &RttEstimator, now: Timestamp) -> Option<Duration> {
        // The first sample is the smoothed RTT.
        if rtt.first_rtt_sample() == Some(now) {
            return None;
        }
        let old = self.smoothed / 8 * 7;
        let adjusted = rtt.smoothed_rtt().saturating_sub(old).saturating_mul(8);
        let taken = rtt.latest_rtt().saturating_sub(adjusted);
        Some(taken.saturating_mul(ACK_DELAY_UNIT))
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
        self.window_bytes().try_into().unwrap_or(u32::MAX)
    }

    fn bytes_in_flight(&self) -> u32 {
        self.bytes_in_flight.try_into().unwrap_or(u32::MAX)
    }

    fn is_congestion_limited(&self) -> bool {
        self.window_bytes().saturating_sub(self.bytes_in_flight) < self.datagram_bytes
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
            is_lifted: self.patience == Patience::KeepsAcks
                && self.bytes_in_flight.saturating_add(sent_bytes) > self.controller.window_bytes(),
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
        now: Timestamp,
        rtt: &RttEstimator,
        _publisher: &mut P,
    ) {
        let time_sent = self.clock.instant(time_sent);
        self.measured = Some((self.numbers.of(time_sent), self.ack_delay(rtt, now)));
        self.smoothed = rtt.smoothed_rtt();
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
        // Of an ACK that the RTT was measured by, the newest packet is the one that it was measured
        // by, unless that was of another path.
        let measured = self.measured.take();
        let measured = measured.filter(|(packet, _)| *packet == self.numbers.of(time_sent));
        let ack_delay = measured.and_then(|(_, ack_delay)| ack_delay);
        if self.window_is_used {
            self.controller.on_cwnd_limited(now);
            if let Some(ack_delay) = ack_delay {
                let measured = now.saturating_duration_since(time_sent);
                self.patience
                    .on_sample(measured, ack_delay, rtt.max_ack_delay());
            }
        }
        let ack = Ack {
            now,
            measures_rtt: measured.is_some(),
            ack_delay,
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
        if packet.is_lifted {
            self.patience = Patience::MustNotLift;
        }
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
        if self.window_bytes() > self.controller.window_bytes() {
            self.patience = Patience::MustNotLift;
        }
        let largest_acked = self.measured.map_or(0, |(packet, _)| packet);
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
