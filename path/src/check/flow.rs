//! A flow of UDP datagrams and what its receiver sees.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Path, PathError, client_address, server_address};

/// The longest that a receiver waits for the next datagram: longer than any black hole or full
/// buffer of the checks.
const PATIENCE: Duration = Duration::from_secs(1);

/// Datagrams at an even pace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) ipv6: bool,
    /// From server to client, not the other way.
    pub(super) to_client: bool,
    pub(super) spacing: Duration,
    pub(super) count: u32,
    /// The IP packet of IPv4; that of IPv6 carries less.
    pub(super) packet_bytes: usize,
}

impl Default for Flow {
    /// Full packets.
    fn default() -> Flow {
        Flow {
            ipv6: false,
            to_client: false,
            spacing: Duration::ZERO,
            count: 0,
            packet_bytes: super::FULL_PACKET_BYTES as usize,
        }
    }
}

/// A datagram that has arrived whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) from: SocketAddr,
    /// Both since the start of the flow.
    pub(super) sent: Duration,
    pub(super) received: Duration,
}

/// The measurements of a flow.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) arrivals: Vec<Arrival>,
    /// Datagrams that arrived changed.
    pub(super) damaged: usize,
    /// The time of the last datagram that was sent, since the start of the flow.
    last_sent: Duration,
}

/// A payload has its sending time twice, so that damage shows; its other bytes are all the same.
const STAMP_BYTES: usize = 8;
const FILLER: u8 = 0x55;

fn stamp(payload: &mut [u8], sent: Duration) {
    let nanoseconds = u64::try_from(sent.as_nanos()).unwrap_or(u64::MAX);
    for copy in payload[..2 * STAMP_BYTES].chunks_mut(STAMP_BYTES) {
        copy.copy_from_slice(&nanoseconds.to_be_bytes());
    }
}

/// The time at which a payload was sent; `None` if it is damaged.
fn stamped(payload: &[u8]) -> Option<Duration> {
    let (first, rest) = payload.split_first_chunk::<STAMP_BYTES>()?;
    let (second, rest) = rest.split_first_chunk::<STAMP_BYTES>()?;
    let whole = first == second && rest.iter().all(|&byte| byte == FILLER);
    whole.then(|| Duration::from_nanos(u64::from_be_bytes(*first)))
}

impl Flow {
    /// 3000 packets that a default link is far from being filled with.
    pub(super) fn small() -> Flow {
        Flow {
            spacing: Duration::from_micros(300),
            count: 3000,
            packet_bytes: 128,
            ..Flow::default()
        }
    }

    /// The size of its IP packets.
    pub(super) fn wire_bytes(&self) -> u64 {
        self.packet_bytes as u64
    }

    /// Sends it over `path` and waits until no more arrives.
    pub(super) fn run(&self, path: &Path) -> Result<Observed, PathError> {
        let ends = [
            (path.client(), client_address(self.ipv6)),
            (path.server(), server_address(self.ipv6)),
        ];
        let [(sender, from), (receiver, to)] = match self.to_client {
            true => [ends[1], ends[0]],
            false => ends,
        };
        let failed = |error| PathError::Failed { error };
        let receiver = receiver.run(|| UdpSocket::bind((to, 0)))?.map_err(failed)?;
        let sender = sender.run(|| UdpSocket::bind((from, 0)))?.map_err(failed)?;
        let to = receiver.local_addr().map_err(failed)?;
        let start = Instant::now();
        let (sent, received) = thread::scope(|scope| {
            let receiving = scope.spawn(|| self.receive(&receiver, start));
            let sent = self.send(&sender, to, start);
            (sent, receiving.join())
        });
        let last_sent = sent.map_err(failed)?;
        let observed = received.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(Observed {
            last_sent,
            ..observed.map_err(failed)?
        })
    }

    fn payload_bytes(&self) -> usize {
        let headers = if self.ipv6 { 48 } else { 28 };
        self.packet_bytes - headers
    }

    /// Returns when the last one was sent.
    fn send(&self, socket: &UdpSocket, to: SocketAddr, start: Instant) -> io::Result<Duration> {
        let mut payload = vec![FILLER; self.payload_bytes()];
        for number in 0..self.count {
            let due = self.spacing * number;
            thread::sleep(due.saturating_sub(start.elapsed()));
            stamp(&mut payload, start.elapsed());
            socket.send_to(&payload, to)?;
        }
        Ok(start.elapsed())
    }

    fn receive(&self, socket: &UdpSocket, start: Instant) -> io::Result<Observed> {
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut observed = Observed::default();
        let mut payload = vec![0; self.payload_bytes() + 1];
        loop {
            let (length, from) = match socket.recv_from(&mut payload) {
                Ok(datagram) => datagram,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(observed),
                Err(error) => return Err(error),
            };
            let received = start.elapsed();
            match stamped(&payload[..length]) {
                Some(sent) => observed.arrivals.push(Arrival {
                    from,
                    sent,
                    received,
                }),
                None => observed.damaged += 1,
            }
        }
    }
}

impl Observed {
    /// The time of the last datagram that was sent, since the start of the flow.
    pub(super) fn sending_time(&self) -> Duration {
        self.last_sent
    }

    /// The median of the time from sending to arrival, without the first `skipped` datagrams.
    pub(super) fn median_delay(&self, skipped: usize) -> Duration {
        let arrivals = self.arrivals.iter().skip(skipped);
        let mut delays: Vec<_> = arrivals
            .map(|arrival| arrival.received.saturating_sub(arrival.sent))
            .collect();
        delays.sort_unstable();
        delays.get(delays.len() / 2).copied().unwrap_or_default()
    }

    /// The rate at which packets of `packet_bytes` arrived.
    pub(super) fn rate_bps(&self, packet_bytes: u64) -> f64 {
        match (self.arrivals.first(), self.arrivals.last()) {
            (Some(first), Some(last)) if last.received > first.received => {
                let packets = (self.arrivals.len() - 1) as f64;
                let seconds = (last.received - first.received).as_secs_f64();
                8.0 * packet_bytes as f64 * packets / seconds
            }
            _ => 0.0,
        }
    }

    /// Times longer than `least` in which nothing arrived, by start and end since the first
    /// arrival.
    pub(super) fn gaps(&self, least: Duration) -> Vec<(Duration, Duration)> {
        let first = self.arrivals.first().map(|arrival| arrival.received);
        let since_first = |arrival: &Arrival| arrival.received - first.unwrap_or_default();
        let pairs = self.arrivals.windows(2);
        pairs
            .map(|pair| (since_first(&pair[0]), since_first(&pair[1])))
            .filter(|&(start, end)| end - start > least)
            .collect()
    }
}
