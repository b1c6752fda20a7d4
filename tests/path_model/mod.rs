//! A bottleneck with a first-in-first-out queue and a sender with endless data, for controllers
//! alone: no QUIC, no clock. One ACK per packet, as Ho et al. 2006 §V.A has it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gallop::controller::{Ack, Controller, Loss, PacketInfo, RttEstimate, SentPacket};

/// Size of every datagram.
pub const MDS: usize = 1200;

/// The path.
pub struct Path {
    /// Rate of the bottleneck, in packets per second.
    pub rate_pps: u64,
    /// Round-trip propagation delay.
    pub propagation: Duration,
    /// Packets that may wait at the bottleneck, the one in service not counted.
    pub buffer_packets: usize,
}

/// A packet in flight, and the time at which its ACK arrives (`None`: it was dropped).
struct InFlight {
    packet: PacketInfo,
    ack_at: Option<Instant>,
}

/// A flow under one controller.
pub struct Flow<C> {
    /// The controller.
    pub controller: C,
    /// Packets declared lost.
    pub lost: u64,
    start: Instant,
    now: Instant,
    sent: u64,
    path: Path,
    in_flight: VecDeque<InFlight>,
    departures: VecDeque<Instant>,
    smoothed: Duration,
}

impl<C: Controller> Flow<C> {
    /// A flow that starts now.
    pub fn new(path: Path, controller: C) -> Self {
        let start = Instant::now();
        Flow {
            controller,
            start,
            now: start,
            sent: 0,
            lost: 0,
            smoothed: path.propagation,
            path,
            in_flight: VecDeque::new(),
            departures: VecDeque::new(),
        }
    }

    /// Seconds since the start.
    pub fn elapsed(&self) -> f64 {
        (self.now - self.start).as_secs_f64()
    }

    /// Runs until so many seconds have passed since the start.
    pub fn run_until(&mut self, seconds: f64) {
        self.run_while(|_| true, seconds);
    }

    /// Runs while `condition` holds, but no longer than so many seconds since the start.
    pub fn run_while(&mut self, mut condition: impl FnMut(&Self) -> bool, seconds: f64) {
        while self.elapsed() < seconds && condition(self) {
            self.step();
        }
    }

    /// Sends what may be sent, then takes the next ACK in.
    fn step(&mut self) {
        self.send();
        let index = self
            .in_flight
            .iter()
            .position(|packet| packet.ack_at.is_some());
        let index = index.expect("a packet that will be acknowledged");
        let ack_at = self.in_flight[index].ack_at.expect("checked above");
        if let Some(release) = self.controller.next_release_time()
            && release < ack_at
            && self.has_room()
        {
            self.now = self.now.max(release);
            return;
        }
        self.now = ack_at;
        let acked = self.in_flight.remove(index).expect("found above").packet;
        // ACKs come in order, so what is left before the acknowledged packet was dropped; lost
        // when three packets later than it were acknowledged (RFC 9002 §6.1.1).
        let lost = self
            .in_flight
            .iter()
            .take_while(|older| older.packet.packet_number + 3 <= acked.packet_number)
            .count();
        if lost > 0 {
            let lost: Vec<PacketInfo> = self
                .in_flight
                .drain(..lost)
                .map(|dropped| dropped.packet)
                .collect();
            self.lost += lost.len() as u64;
            let loss = Loss {
                now: self.now,
                persistent_congestion: None,
            };
            self.controller.on_packets_lost(&loss, &lost);
        }
        self.smoothed = (self.smoothed * 7 + (self.now - acked.time_sent)) / 8;
        let rtt = RttEstimate {
            smoothed: self.smoothed,
            variation: Duration::ZERO,
            max_ack_delay: Duration::ZERO,
        };
        let ack = Ack {
            now: self.now,
            measures_rtt: true,
            ack_delay: None,
            rtt,
            bytes_in_flight: (self.in_flight.len() + 1) * MDS,
        };
        self.controller.on_packets_acked(&ack, &[acked]);
    }

    fn has_room(&self) -> bool {
        (self.in_flight.len() + 1) * MDS <= self.controller.window_bytes()
    }

    fn send(&mut self) {
        while self.has_room()
            && self
                .controller
                .next_release_time()
                .is_none_or(|at| at <= self.now)
        {
            let packet = PacketInfo {
                packet_number: self.sent,
                time_sent: self.now,
                size_bytes: MDS,
            };
            self.controller.on_packet_sent(&SentPacket {
                packet_number: packet.packet_number,
                time_sent: packet.time_sent,
                size_bytes: packet.size_bytes,
                bytes_in_flight: self.in_flight.len() * MDS,
            });
            self.sent += 1;
            let ack_at = self.enqueue();
            self.in_flight.push_back(InFlight { packet, ack_at });
        }
    }

    fn enqueue(&mut self) -> Option<Instant> {
        while self
            .departures
            .front()
            .is_some_and(|&departure| departure <= self.now)
        {
            self.departures.pop_front();
        }
        if self.departures.len() > self.path.buffer_packets {
            return None;
        }
        let service = Duration::from_nanos(1_000_000_000 / self.path.rate_pps);
        let begins = self.departures.back().copied().unwrap_or(self.now);
        self.departures.push_back(begins + service);
        Some(begins + service + self.path.propagation)
    }
}
