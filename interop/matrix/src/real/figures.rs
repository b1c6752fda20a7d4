//! The figures of a run, simulated or real.

use serde::{Deserialize, Serialize};

/// The measurements of a run, under the simulator's names. All is of the time from `measure-from`
/// to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Figures {
    /// Stream bytes that the client has read, per second.
    pub throughput_bps: f64,
    /// Bytes that the neighbour's receiver has read, per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour_bps: Option<f64>,
    /// Mean over time of the bottleneck's queue, with the packet that is being sent.
    pub queue_mean_packets: f64,
    /// The length that it did not exceed for 95 % of the time.
    pub queue_p95_packets: f64,
    /// Mean time of packets in it.
    pub queue_mean_delay_s: f64,
    /// Packets that it dropped.
    pub drops: f64,
    /// Mean over time of the server's smoothed RTT.
    pub rtt_mean_s: f64,
    /// The smoothed RTT that was not exceeded for 95 % of the time.
    pub rtt_p95_s: f64,
    /// Packets that the server declared lost.
    pub lost_packets: f64,
}

impl Figures {
    /// The tested flow's part of what both flows received, if there is a neighbour.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let both = self.throughput_bps + self.neighbour_bps?;
        Some(if both > 0.0 {
            self.throughput_bps / both
        } else {
            0.0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_needs_a_neighbour() {
        let alone = Figures {
            throughput_bps: 3.0,
            ..Figures::default()
        };
        assert_eq!(alone.share(), None);
        let beside = Figures {
            neighbour_bps: Some(1.0),
            ..alone
        };
        assert_eq!(beside.share(), Some(0.75));
        let dead = Figures {
            neighbour_bps: Some(0.0),
            ..Figures::default()
        };
        assert_eq!(dead.share(), Some(0.0));
    }
}
