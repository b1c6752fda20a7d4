//! The part that the adapters to quinn and to noq share: both stacks tell a controller of one packet
//! at a time, and at the end of the ACK frame that there are no more.

use std::time::{Duration, Instant};

use super::INITIAL_WINDOW_PACKETS;
use super::numbers::Numbers;
use crate::controller::{
    Ack, CongestionMarks, Controller, Loss, PacketInfo, PathConfig, RttEstimate, SentPacket,
};

/// A controller, and what the stacks leave to be found out.
///
/// NOTE: packets are [numbered](Numbers) by time. quinn tells the number of no acknowledged packet, and
/// the numbers of noq begin anew in each packet number space.
#[derive(Clone, Debug)]
pub(crate) struct PerPacket {
    controller: Box<dyn Controller>,
    datagram_bytes: usize,
    initial_window_bytes: u64,
    numbers: Numbers,
    /// The time of the last event.
    now: Instant,
    bytes_in_flight: usize,
    /// The packets of the ACK frame that is being told.
    acked: Vec<PacketInfo>,
    acked_bytes: usize,
    /// Of all acknowledged packets the last one's time of sending, and the largest packet number of
    /// its space.
    newest_acked: Option<(Instant, Option<u64>)>,
    has_rtt: bool,
    /// Losses that may still prove spurious, and the time of the first of them.
    lost: Vec<PacketInfo>,
    lost_since: Instant,
}

/// One acknowledged packet.
pub(crate) struct Acked {
    pub(crate) now: Instant,
    pub(crate) time_sent: Instant,
    pub(crate) bytes: u64,
}

/// The end of an ACK frame.
pub(crate) struct AckEnd {
    pub(crate) now: Instant,
    /// Bytes in flight, the acknowledged packets not included.
    pub(crate) bytes_in_flight: u64,
    /// True if all that the application gave has been sent.
    pub(crate) app_limited: bool,
    /// The largest acknowledged packet number of the space.
    pub(crate) largest_acked: Option<u64>,
    /// False if the stack knows that the RTT cannot be measured.
    pub(crate) measures_rtt: bool,
    /// The smoothed RTT, without this ACK.
    pub(crate) smoothed_rtt: Duration,
}

/// A detection of losses.
pub(crate) struct Lost {
    pub(crate) now: Instant,
    /// The time at which the last of the lost packets was sent.
    pub(crate) time_sent: Instant,
    pub(crate) is_persistent: bool,
    pub(crate) bytes: u64,
}

impl PerPacket {
    /// A controller for a path that is used from `now` on.
    pub(crate) fn new(
        build: impl FnOnce(&PathConfig) -> Box<dyn Controller>,
        now: Instant,
        mtu: u16,
        pacing: bool,
    ) -> Self {
        let datagram_bytes = usize::from(mtu).max(1);
        let controller = build(&PathConfig {
            max_datagram_size_bytes: datagram_bytes,
            initial_window_packets: INITIAL_WINDOW_PACKETS,
            pacing,
        });
        PerPacket {
            initial_window_bytes: controller.window_bytes() as u64,
            controller,
            datagram_bytes,
            numbers: Numbers::since(now),
            now,
            bytes_in_flight: 0,
            acked: Vec::new(),
            acked_bytes: 0,
            newest_acked: None,
            has_rtt: false,
            lost: Vec::new(),
            lost_since: now,
        }
    }

    pub(crate) fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    /// Never zero, by which the stacks' pacers divide.
    pub(crate) fn window_bytes(&self) -> u64 {
        (self.controller.window_bytes() as u64).max(1)
    }

    pub(crate) fn initial_window_bytes(&self) -> u64 {
        self.initial_window_bytes
    }

    /// So many bytes left in datagrams that are full but for the last one.
    #[cfg(any(feature = "quinn", test))]
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64) {
        let mut rest = usize::try_from(bytes).unwrap_or(usize::MAX);
        while rest > 0 {
            let size_bytes = rest.min(self.datagram_bytes);
            self.on_packet_sent(now, size_bytes);
            rest -= size_bytes;
        }
    }

    pub(crate) fn on_packet_sent(&mut self, now: Instant, size_bytes: usize) {
        self.now = now;
        self.controller.on_packet_sent(&SentPacket {
            packet_number: self.numbers.next(now),
            time_sent: now,
            size_bytes,
            bytes_in_flight: self.bytes_in_flight,
        });
        self.bytes_in_flight = self.bytes_in_flight.saturating_add(size_bytes);
    }

    /// Packets come by increasing time of sending.
    pub(crate) fn on_ack(&mut self, acked: &Acked) {
        self.now = acked.now;
        // A packet of the path before this one has that path's RTT.
        if self.numbers.is_earlier(acked.time_sent) {
            return;
        }
        let next = self
            .acked
            .last()
            .map_or(0, |last| last.packet_number.saturating_add(1));
        let size_bytes = usize::try_from(acked.bytes).unwrap_or(usize::MAX);
        self.acked.push(PacketInfo {
            packet_number: self.numbers.of(acked.time_sent).max(next),
            time_sent: acked.time_sent,
            size_bytes,
        });
        self.acked_bytes = self.acked_bytes.saturating_add(size_bytes);
    }

    pub(crate) fn on_end_acks(&mut self, end: &AckEnd) {
        self.now = end.now;
        let bytes_in_flight = usize::try_from(end.bytes_in_flight).unwrap_or(usize::MAX);
        self.bytes_in_flight = bytes_in_flight;
        let Some(largest) = self.acked.last() else {
            return;
        };
        // RFC 9002 §5.1. An ACK that came late, or filled a gap, brings no packet that was sent after
        // those that were acknowledged before.
        let newest = (largest.time_sent, end.largest_acked);
        let is_newest = self.newest_acked.is_none_or(|(time_sent, largest_acked)| {
            newest.0 > time_sent || newest.0 == time_sent && newest.1 != largest_acked
        });
        if is_newest {
            self.newest_acked = Some(newest);
        }
        let measures_rtt = end.measures_rtt && is_newest;
        // Before its first sample a stack has an RTT that it was configured with.
        let smoothed = match self.has_rtt {
            true => end.smoothed_rtt,
            false => end.now.saturating_duration_since(largest.time_sent),
        };
        self.has_rtt |= measures_rtt;
        if !end.app_limited {
            self.controller.on_cwnd_limited(end.now);
        }
        let ack = Ack {
            now: end.now,
            measures_rtt,
            ack_delay: None,
            rtt: RttEstimate {
                smoothed,
                // For persistent congestion, which the stacks find themselves.
                variation: Duration::ZERO,
                max_ack_delay: Duration::ZERO,
            },
            bytes_in_flight: bytes_in_flight.saturating_add(self.acked_bytes),
        };
        self.controller.on_packets_acked(&ack, &self.acked);
        self.acked.clear();
        self.acked_bytes = 0;
    }

    /// The stacks tell the bytes and the last one's time. Controllers count packets: as many as the
    /// bytes fill.
    pub(crate) fn on_lost(&mut self, lost: &Lost) {
        self.now = lost.now;
        let bytes = usize::try_from(lost.bytes).unwrap_or(usize::MAX);
        self.bytes_in_flight = self.bytes_in_flight.saturating_sub(bytes);
        if self.numbers.is_earlier(lost.time_sent) {
            return;
        }
        let round_trip = self.newest_acked.map_or(Duration::ZERO, |(time_sent, _)| {
            lost.now.saturating_duration_since(time_sent)
        });
        if lost.now.saturating_duration_since(self.lost_since) > round_trip * 2 {
            self.lost.clear();
        }
        if self.lost.is_empty() {
            self.lost_since = lost.now;
        }
        let first = self.lost.len();
        let last_number = self.numbers.of(lost.time_sent);
        let packets = bytes.div_ceil(self.datagram_bytes).max(1);
        for place in (0..packets).rev() {
            let size_bytes = match place {
                0 => bytes - (packets - 1) * self.datagram_bytes,
                _ => self.datagram_bytes,
            };
            self.lost.push(PacketInfo {
                packet_number: last_number.saturating_sub(place as u64),
                time_sent: lost.time_sent,
                size_bytes,
            });
        }
        let loss = Loss {
            now: lost.now,
            persistent_congestion: Some(lost.is_persistent),
        };
        self.controller.on_packets_lost(&loss, &self.lost[first..]);
    }

    /// All that was declared lost of late has been acknowledged after all.
    #[cfg(any(feature = "noq", test))]
    pub(crate) fn on_spurious_loss(&mut self) {
        if !self.lost.is_empty() {
            self.controller.on_spurious_loss(self.now, &self.lost);
            self.lost.clear();
        }
    }

    /// The count of marks went up, by the ACK of a packet that was sent at that time.
    pub(crate) fn on_marks(&mut self, now: Instant, time_sent: Instant) {
        self.now = now;
        if !self.numbers.is_earlier(time_sent) {
            self.controller.on_congestion_marks(&CongestionMarks {
                now,
                packets: 1,
                largest_acked: self.numbers.of(time_sent),
            });
        }
    }

    pub(crate) fn on_mtu_update(&mut self, mtu: u16) {
        if mtu > 0 {
            self.datagram_bytes = mtu.into();
            self.controller.on_mtu_update(mtu.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::CATALOG;
    use crate::controller::{MAXIMUM_WINDOW_PACKETS, MINIMUM_WINDOW_PACKETS};

    /// A call of a stack, at a time that may go back. Times of sending are before it, or after.
    #[derive(Clone, Copy, Debug)]
    enum Call {
        Sent(u64),
        Acked {
            ago_us: u64,
            bytes: u64,
        },
        AckEnd {
            in_flight: u64,
            app_limited: bool,
            largest: Option<u64>,
            rtt_us: u64,
        },
        Lost {
            ago_us: u64,
            bytes: u64,
            is_persistent: bool,
        },
        Spurious,
        Marks {
            ago_us: u64,
        },
        Mtu(u16),
        Clone,
    }

    fn call() -> impl Strategy<Value = Call> {
        let ago = || prop_oneof![Just(0), 0..300_000u64, 0..u64::from(u32::MAX)];
        prop_oneof![
            4 => (0..20_000u64).prop_map(Call::Sent),
            6 => (ago(), 0..65_536u64).prop_map(|(ago_us, bytes)| Call::Acked { ago_us, bytes }),
            4 => (0..1_000_000u64, any::<bool>(), proptest::option::of(0..9u64), ago()).prop_map(
                |(in_flight, app_limited, largest, rtt_us)| {
                    Call::AckEnd { in_flight, app_limited, largest, rtt_us }
                }
            ),
            2 => (ago(), 0..100_000u64, any::<bool>())
                .prop_map(|(ago_us, bytes, is_persistent)| Call::Lost { ago_us, bytes, is_persistent }),
            1 => Just(Call::Spurious),
            1 => ago().prop_map(|ago_us| Call::Marks { ago_us }),
            1 => any::<u16>().prop_map(Call::Mtu),
            1 => Just(Call::Clone),
        ]
    }

    fn make(stack: &mut PerPacket, now: Instant, call: Call) {
        let before = |us| now.checked_sub(Duration::from_micros(us)).unwrap_or(now);
        match call {
            Call::Sent(bytes) => stack.on_sent(now, bytes),
            Call::Acked { ago_us, bytes } => stack.on_ack(&Acked {
                now,
                time_sent: before(ago_us),
                bytes,
            }),
            Call::AckEnd {
                in_flight,
                app_limited,
                largest,
                rtt_us,
            } => {
                stack.on_end_acks(&AckEnd {
                    now,
                    bytes_in_flight: in_flight,
                    app_limited,
                    largest_acked: largest,
                    measures_rtt: true,
                    smoothed_rtt: Duration::from_micros(rtt_us),
                });
            }
            Call::Lost {
                ago_us,
                bytes,
                is_persistent,
            } => stack.on_lost(&Lost {
                now,
                time_sent: before(ago_us),
                is_persistent,
                bytes,
            }),
            Call::Spurious => stack.on_spurious_loss(),
            Call::Marks { ago_us } => stack.on_marks(now, before(ago_us)),
            Call::Mtu(mtu) => stack.on_mtu_update(mtu),
            Call::Clone => *stack = stack.clone(),
        }
    }

    proptest! {
        #[test]
        fn any_calls_in_any_order_leave_a_window_within_its_limits(
            mtu: u16,
            pacing: bool,
            calls in proptest::collection::vec((0..200_000u64, call()), 0..80),
        ) {
            let start = Instant::now() + Duration::from_secs(1_000_000);
            for entry in CATALOG {
                let algorithm = entry.algorithm("").unwrap();
                let mut stack = PerPacket::new(|path| algorithm.build(path), start, mtu, pacing);
                for &(at_us, call) in &calls {
                    // Half of the times lie before the controller was made.
                    let now = start + Duration::from_micros(at_us) - Duration::from_millis(100);
                    make(&mut stack, now, call);
                    let window = stack.window_bytes() / stack.datagram_bytes as u64;
                    prop_assert!(window >= MINIMUM_WINDOW_PACKETS, "{}: {stack:?}", entry.name);
                    prop_assert!(window <= MAXIMUM_WINDOW_PACKETS, "{}: {stack:?}", entry.name);
                }
            }
        }
    }

    #[derive(Clone, Debug)]
    struct Shut;

    impl Controller for Shut {
        fn on_packet_sent(&mut self, _packet: &SentPacket) {}
        fn on_packets_acked(&mut self, _ack: &Ack, _packets: &[PacketInfo]) {}
        fn on_packets_lost(&mut self, _loss: &Loss, _packets: &[PacketInfo]) {}
        fn on_congestion_marks(&mut self, _marks: &CongestionMarks) {}
        fn on_mtu_update(&mut self, _max_datagram_size_bytes: usize) {}
        fn window_bytes(&self) -> usize {
            0
        }
    }

    #[test]
    fn no_stack_is_told_a_window_of_zero_bytes() {
        let stack = PerPacket::new(|_| Box::new(Shut), Instant::now(), 1200, false);
        assert_eq!(stack.window_bytes(), 1);
    }

    #[test]
    fn packets_of_an_earlier_path_measure_nothing() {
        let algorithm = CATALOG[0].algorithm("").unwrap();
        let start = Instant::now() + Duration::from_secs(10);
        let mut stack = PerPacket::new(|path| algorithm.build(path), start, 1200, false);
        let now = start + Duration::from_millis(10);
        make(
            &mut stack,
            now,
            Call::Acked {
                ago_us: 20_000,
                bytes: 1200,
            },
        );
        make(
            &mut stack,
            now,
            Call::Lost {
                ago_us: 20_000,
                bytes: 1200,
                is_persistent: true,
            },
        );
        assert!(stack.acked.is_empty());
        assert_eq!(stack.window_bytes(), 12_000);
    }
}
