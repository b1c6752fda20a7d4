//! Loss recovery and the congestion controller of one path, without a connection around them. It is
//! for benchmarks that count the cost of a controller, and is not part of quiche's interface.

use std::ops::Range;
use std::time::Instant;

use crate::packet::Epoch;
use crate::ranges::RangeSet;
use crate::recovery::{HandshakeStatus, Recovery, RecoveryConfig, RecoveryOps, Sent};
use crate::{Config, Result};

/// One path of an established connection that sends full datagrams.
#[derive(Debug)]
pub struct Path {
    recovery: Recovery,
}

const ESTABLISHED: HandshakeStatus = HandshakeStatus {
    has_handshake_keys: true,
    peer_verified_address: true,
    completed: true,
};

impl Path {
    /// A new path; datagram size, initial window and controller are those of `config`.
    pub fn new(config: &Config) -> Path {
        let recovery = Recovery::new_with_config(&RecoveryConfig::from_config(config));
        Path { recovery }
    }

    /// True if the window has room for a full datagram. As in a connection that has data, a window
    /// without room is in use.
    pub fn has_room(&mut self) -> bool {
        let has_room = self.recovery.cwnd_available() >= self.recovery.max_datagram_size();
        if !has_room {
            self.recovery.update_app_limited(false);
        }
        has_room
    }

    /// The time at which the next packet may leave.
    pub fn release_time(&self, now: Instant) -> Instant {
        let decision = self.recovery.get_next_release_time();
        decision.time(now).unwrap_or(now)
    }

    /// Sends a full datagram.
    pub fn on_packet_sent(&mut self, packet_number: u64, now: Instant) {
        let packet = Sent {
            pkt_num: packet_number,
            frames: Default::default(),
            time_sent: now,
            time_acked: None,
            time_lost: None,
            size: self.recovery.max_datagram_size(),
            ack_eliciting: true,
            in_flight: true,
            delivered: 0,
            delivered_time: now,
            first_sent_time: now,
            is_app_limited: false,
            tx_in_flight: 0,
            lost: 0,
            has_data: true,
            is_pmtud_probe: false,
        };
        self.recovery
            .on_packet_sent(packet, Epoch::Application, ESTABLISHED, now, "");
    }

    /// Receives an ACK frame of these packets, without ACK delay.
    ///
    /// # Errors
    ///
    /// Those of a connection, which would then be closed.
    pub fn on_ack_received(&mut self, packets: Range<u64>, now: Instant) -> Result<()> {
        let mut ranges = RangeSet::default();
        ranges.insert(packets);
        self.recovery.on_ack_received(
            &ranges,
            0,
            Epoch::Application,
            ESTABLISHED,
            now,
            None,
            "",
        )?;
        Ok(())
    }
}
