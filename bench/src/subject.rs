//! The measured subjects: a controller alone, behind quiche's plug point, or built into quiche.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::Result;
use gallop::controller::{Ack, Controller, Loss, PacketInfo, RttEstimate, SentPacket};
use quiche::harness::Path;

/// UDP payload of every packet, in bytes: quiche's default.
pub const DATAGRAM_BYTES: usize = 1350;

/// A sender of full datagrams.
pub trait Subject {
    /// The time at which the next packet may leave; `None` while the window is full.
    fn may_send(&mut self, now: Instant) -> Option<Instant>;

    /// Packet `number` leaves.
    fn send(&mut self, number: u64, now: Instant);

    /// An ACK frame of these packets comes in; packets before them that are not acknowledged yet
    /// are lost.
    ///
    /// # Errors
    ///
    /// quiche refuses the ACK.
    fn acknowledge(&mut self, packets: Range<u64>, now: Instant) -> Result<()>;
}

/// quiche's loss recovery with a controller, called as a connection calls it.
impl Subject for Path {
    fn may_send(&mut self, now: Instant) -> Option<Instant> {
        self.has_room().then(|| self.release_time(now))
    }

    fn send(&mut self, number: u64, now: Instant) {
        self.on_packet_sent(number, now);
    }

    fn acknowledge(&mut self, packets: Range<u64>, now: Instant) -> Result<()> {
        Ok(self.on_ack_received(packets, now)?)
    }
}

/// A controller of this repository with the list of packets in flight, and nothing else.
#[derive(Debug)]
pub struct Alone<C> {
    controller: C,
    in_flight: VecDeque<PacketInfo>,
    rtt: RttEstimate,
}

impl<C: Controller> Alone<C> {
    /// A controller on a path of that RTT.
    pub fn new(controller: C, rtt: Duration) -> Alone<C> {
        Alone {
            controller,
            in_flight: VecDeque::new(),
            rtt: RttEstimate {
                smoothed: rtt,
                variation: Duration::ZERO,
                max_ack_delay: Duration::ZERO,
            },
        }
    }

    fn bytes_in_flight(&self) -> usize {
        self.in_flight.len() * DATAGRAM_BYTES
    }
}

impl<C: Controller> Subject for Alone<C> {
    fn may_send(&mut self, now: Instant) -> Option<Instant> {
        let room = self.bytes_in_flight() + DATAGRAM_BYTES <= self.controller.window_bytes();
        room.then(|| self.controller.next_release_time().unwrap_or(now).max(now))
    }

    fn send(&mut self, number: u64, now: Instant) {
        self.controller.on_packet_sent(&SentPacket {
            packet_number: number,
            time_sent: now,
            size_bytes: DATAGRAM_BYTES,
            bytes_in_flight: self.bytes_in_flight(),
        });
        self.in_flight.push_back(PacketInfo {
            packet_number: number,
            time_sent: now,
            size_bytes: DATAGRAM_BYTES,
        });
    }

    fn acknowledge(&mut self, packets: Range<u64>, now: Instant) -> Result<()> {
        let oldest = self
            .in_flight
            .front()
            .map_or(0, |first| first.packet_number);
        let lost = packets.start.saturating_sub(oldest) as usize;
        if lost > 0 {
            let loss = Loss {
                now,
                persistent_congestion: None,
            };
            let packets = &self.in_flight.make_contiguous()[..lost];
            self.controller.on_packets_lost(&loss, packets);
            self.in_flight.drain(..lost);
        }
        let ack = Ack {
            now,
            measures_rtt: true,
            ack_delay: None,
            rtt: self.rtt,
            bytes_in_flight: self.bytes_in_flight(),
        };
        let acked = (packets.end - packets.start) as usize;
        let packets = &self.in_flight.make_contiguous()[..acked];
        self.controller.on_packets_acked(&ack, packets);
        self.in_flight.drain(..acked);
        Ok(())
    }
}
