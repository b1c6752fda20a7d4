//! A connection's sender as meters see it, whatever its stack.

use std::time::{Duration, Instant};

use crate::endpoint::connection::{Connection, base_rtt};
use crate::endpoint::foreign::Foreign;
use crate::endpoint::tcp::Tcp;

/// The state of a path in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// The smoothed RTT, once there was a sample.
    pub(crate) rtt: Option<Duration>,
    pub(crate) window_bytes: f64,
    /// True if slow start has ended.
    pub(crate) left_slow_start: bool,
}

/// A connection's sender.
pub(crate) trait Sender {
    /// The window, if it can be asked for at every event.
    fn window_bytes(&self) -> Option<f64>;

    /// The controller's phase, as traces name it.
    fn phase_name(&self) -> Option<&'static str>;

    /// The path's state, which takes a while to compute.
    fn path(&self) -> Option<Path>;

    /// Packets that were declared lost.
    fn lost_packets(&self) -> u64;

    /// The estimate of the RTT without queues: the controller's BaseRTT, or the least RTT.
    fn base_rtt(&self) -> Option<Duration>;
}

impl Sender for Connection {
    fn window_bytes(&self) -> Option<f64> {
        Some(self.congestion_controller()?.congestion_window() as f64)
    }

    fn phase_name(&self) -> Option<&'static str> {
        Some(self.congestion_controller()?.state_str(Instant::now()))
    }

    fn path(&self) -> Option<Path> {
        let stats = self.path_stats().find(|path| path.active)?;
        Some(Path {
            // Before the first sample the RTT is only a guess.
            rtt: stats.min_rtt.map(|_| stats.rtt),
            window_bytes: stats.cwnd as f64,
            left_slow_start: stats.startup_exit.is_some(),
        })
    }

    fn lost_packets(&self) -> u64 {
        self.stats().lost as u64
    }

    fn base_rtt(&self) -> Option<Duration> {
        base_rtt(self)
    }
}

impl Sender for Foreign {
    fn window_bytes(&self) -> Option<f64> {
        Some(self.peer.window_bytes()? as f64)
    }

    fn phase_name(&self) -> Option<&'static str> {
        self.peer.phase_name()
    }

    fn path(&self) -> Option<Path> {
        Some(Path {
            rtt: self.known.rtt,
            window_bytes: self.peer.window_bytes()? as f64,
            left_slow_start: false,
        })
    }

    fn lost_packets(&self) -> u64 {
        self.known.lost_packets
    }

    fn base_rtt(&self) -> Option<Duration> {
        match self.peer.figure("vegas_base_rtt_ms") {
            Some(milliseconds) => Duration::try_from_secs_f64(milliseconds / 1e3).ok(),
            None => self.known.min_rtt,
        }
    }
}

impl Sender for Tcp {
    fn window_bytes(&self) -> Option<f64> {
        Some(self.connection.sender.window_bytes())
    }

    fn phase_name(&self) -> Option<&'static str> {
        Some(match self.connection.sender.in_slow_start() {
            true => "slow_start",
            false => "congestion_avoidance",
        })
    }

    fn path(&self) -> Option<Path> {
        let sender = &self.connection.sender;
        Some(Path {
            rtt: sender.rtt(),
            window_bytes: sender.window_bytes(),
            left_slow_start: !sender.in_slow_start(),
        })
    }

    fn lost_packets(&self) -> u64 {
        self.connection.sender.counters.resent_segments
    }

    fn base_rtt(&self) -> Option<Duration> {
        self.connection.sender.base_rtt()
    }
}
