//! A bottleneck with a first-in-first-out queue, and the delay of the way back.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The path.
#[derive(Clone, Debug)]
pub struct Path {
    /// Rate of the bottleneck, in bits per second of UDP payload.
    pub rate_bps: u64,
    /// Round-trip propagation delay, half of it each way.
    pub propagation: Duration,
    /// Datagrams that may wait, the one in service not counted.
    pub buffer_packets: usize,
    /// Datagrams that are dropped, by their number.
    pub drops: Vec<u64>,
    /// Datagrams that are marked, by their number.
    pub marks: Vec<u64>,
    /// A datagram that comes later than the others, and by how much.
    pub late: Option<(u64, Duration)>,
}

impl Path {
    /// 10 Mbit/s, 40 ms, and 50 datagrams.
    pub fn usual() -> Path {
        Path {
            rate_bps: 10_000_000,
            propagation: Duration::from_millis(40),
            buffer_packets: 50,
            drops: Vec::new(),
            marks: Vec::new(),
            late: None,
        }
    }
}

/// A datagram that the server sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub at: Instant,
    pub bytes: usize,
    /// The time at which it reaches the client; `None` if it was dropped.
    pub arrives: Option<Instant>,
}

/// The way to the client, and the truth about each datagram on it.
#[derive(Debug)]
pub struct Bottleneck {
    pub path: Path,
    pub sent: Vec<Sent>,
    departures: VecDeque<Instant>,
}

impl Bottleneck {
    pub fn new(path: Path) -> Bottleneck {
        Bottleneck {
            path,
            sent: Vec::new(),
            departures: VecDeque::new(),
        }
    }

    /// Takes a datagram in; returns the time at which it arrives, if it does.
    pub fn take(&mut self, bytes: usize, now: Instant) -> Option<Instant> {
        while self
            .departures
            .front()
            .is_some_and(|&departure| departure <= now)
        {
            self.departures.pop_front();
        }
        let number = self.sent.len() as u64;
        let is_full = self.departures.len() > self.path.buffer_packets;
        let arrives = (!is_full && !self.path.drops.contains(&number)).then(|| {
            let service = Duration::from_nanos(bytes as u64 * 8_000_000_000 / self.path.rate_bps);
            let begins = self.departures.back().copied().unwrap_or(now).max(now);
            self.departures.push_back(begins + service);
            let late = self.path.late.filter(|(late, _)| *late == number);
            let late = late.map_or(Duration::ZERO, |(_, by)| by);
            begins + service + self.path.propagation / 2 + late
        });
        self.sent.push(Sent {
            at: now,
            bytes,
            arrives,
        });
        arrives
    }

    /// Datagrams that were dropped.
    pub fn dropped(&self) -> usize {
        self.sent
            .iter()
            .filter(|sent| sent.arrives.is_none())
            .count()
    }
}
