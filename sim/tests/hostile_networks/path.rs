//! The capabilities of a path, from which the bounds on transfers are derived.

use std::time::Duration;

/// UDP payload of a full datagram, in bytes.
pub const DATAGRAM_BYTES: usize = 1350;

/// Bytes of a full datagram on the wire.
const PACKET_BYTES: u64 = 1350 + 28;

/// Stream bytes that a full datagram carries at least.
const STREAM_BYTES: u64 = 1300;

/// β of gallop-vegas, in datagrams: the longest queue that a controller here keeps for long.
const BETA: u64 = 6;

/// The share of the rate that a flow is asked to get in the end, if it has the path for itself.
pub const SHARE: f64 = 0.8;

/// A path without impairments.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Rate of the bottleneck, in bits per second on the wire.
    pub rate_bps: u64,
    /// Propagation delay there and back.
    pub rtt: Duration,
    /// Packets that may wait at the bottleneck.
    pub buffer_packets: u64,
    /// The receiver's max_ack_delay, the longest that it holds an acknowledgment; QUIC's default is
    /// 25 ms (RFC 9000 §18.2).
    pub max_ack_delay: Duration,
}

/// 10 Mbit/s, 40 ms, 50 packets.
pub const TYPICAL: Path = Path {
    rate_bps: 10_000_000,
    rtt: Duration::from_millis(40),
    buffer_packets: 50,
    max_ack_delay: Duration::from_millis(25),
};

impl Path {
    /// The path as an experiment's file has it.
    pub fn toml(&self) -> String {
        format!(
            "[dumbbell]\nrate = \"{}bit\"\nrtt = \"{}us\"\nqueue = \"{}p\"\n",
            self.rate_bps,
            self.rtt.as_micros(),
            self.buffer_packets
        )
    }

    fn serialisation(&self, packets: u64) -> Duration {
        Duration::from_secs_f64((8 * PACKET_BYTES * packets) as f64 / self.rate_bps as f64)
    }

    /// The longest RTT that there can be, with a full queue and an acknowledgment that is held.
    pub fn longest_rtt(&self) -> Duration {
        // A full packet or an acknowledgment passes four links.
        self.rtt + self.serialisation(self.buffer_packets + 4) + self.max_ack_delay
    }

    /// The longest probe timeout before it is doubled (RFC 9002 §6.2.1): the smoothed RTT, four
    /// times a variation of half of it, as after the first sample, and max_ack_delay.
    pub fn probe_timeout(&self) -> Duration {
        3 * self.longest_rtt() + self.max_ack_delay
    }

    /// The longest time until the client reads more after an impairment of `hurt` has ended.
    ///
    /// Without an acknowledgment a sender probes at intervals that double (RFC 9002 §6.2.1), so the
    /// time from the last probe that was lost to the next is at most that since the first, and one
    /// timeout. The probe has the oldest data and so fills the gap that the reader waits for. A
    /// probe may have been in the queue that overflows, and its answer may be held, which is one
    /// more RTT each.
    pub fn progress(&self, hurt: Duration) -> Duration {
        hurt + 2 * self.probe_timeout() + 2 * self.longest_rtt()
    }

    /// The time to grow from the minimum window to the whole of the path, or to the end of a
    /// transfer of `bytes`, one datagram per RTT: the slowest that Vegas ever grows, when losses
    /// have ended its slow start (RFC 9002 §7.3.1). In n rounds n²/2 datagrams are sent.
    fn ramp(&self, bytes: u64) -> Duration {
        let in_flight = self.rtt.as_secs_f64() / self.serialisation(1).as_secs_f64();
        let rounds_to_end = (2.0 * bytes.div_ceil(STREAM_BYTES) as f64).sqrt();
        let rtt = self.rtt + self.serialisation(BETA) + self.max_ack_delay;
        rtt.mul_f64(rounds_to_end.min(in_flight + BETA as f64))
    }

    /// The time to carry `bytes` at that share of the rate.
    pub fn carriage(&self, bytes: u64, share: f64) -> Duration {
        let packets = bytes.div_ceil(STREAM_BYTES);
        self.serialisation(packets).div_f64(share)
    }

    /// The latest end of a transfer of `bytes` over a path that is never hurt, if the flow gets
    /// `share` of the rate in the end: a handshake of two RTTs, with a probe or two for packets
    /// that a small buffer drops, and growth that never doubles.
    pub fn completion(&self, bytes: u64, share: f64) -> Duration {
        let handshake = 2 * self.longest_rtt() + 3 * self.probe_timeout();
        handshake + self.ramp(bytes) + self.carriage(bytes, share)
    }

    /// The same over a path that has healed at `healed` after having been hurt for `hurt`, as if
    /// all bytes were still to be carried by a sender that begins anew with the minimum window.
    pub fn completion_after(&self, healed: Duration, hurt: Duration, bytes: u64) -> Duration {
        healed + self.progress(hurt) + self.ramp(bytes) + self.carriage(bytes, SHARE)
    }

    /// The same over a path that loses every packet with `probability`, at most 1/2, on the way
    /// there, from the first to the last.
    ///
    /// A round with the minimum window carries two datagrams, which find no queue. It takes an RTT
    /// unless both are lost; then probes follow after 1, 3, 7 … timeouts, of which the first is one
    /// datagram and the others are two (as quiche has it), so that it takes less than one timeout
    /// more in the mean. Three times the mean leaves room for bad luck.
    pub fn completion_with_loss(&self, probability: f64, bytes: u64) -> Duration {
        let rounds = bytes.div_ceil(STREAM_BYTES) as f64 / (2.0 * (1.0 - probability));
        let alone = Path {
            buffer_packets: 0,
            ..*self
        };
        (alone.longest_rtt() + alone.probe_timeout()).mul_f64(3.0 * rounds)
    }
}
