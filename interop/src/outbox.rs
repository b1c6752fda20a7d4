//! The packets of a connection: sent at their release times, as many per system call as may leave
//! together.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use quiche::SendInfo;

use crate::socket::Socket;

/// The method of keeping a controller's release times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Pacing {
    /// Wait for the release time before a packet is made. Works everywhere.
    #[default]
    Wait,
    /// Give the kernel packets up to some milliseconds early (SO_TXTIME). Only right where the
    /// interface has the queueing discipline `fq`; others send at once, and RTTs read too short.
    Txtime,
    /// No release times: all packets that the window allows leave at once.
    Off,
}

/// The number of batches that one connection sends before others get their turn.
const BATCHES_PER_TURN: usize = 16;

/// A packet of one of quiche's own controllers may leave so much early, about as much as a timer is late.
/// BBRv2 measures rates of delivery, to which this is nothing; quiche spaces its packets two by two, and to
/// wait for each pair would cost most of the rate of a fast path. Delay-based controllers get the
/// send times that they count on.
const LEAD: Duration = Duration::from_micros(100);

/// The room for one packet; quiche makes no larger ones here.
const PACKET_BYTES: usize = 1_500;

/// Packets that leave together.
#[derive(Debug)]
struct Batch {
    bytes: Vec<u8>,
    segment_bytes: usize,
    info: SendInfo,
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There is nothing more to send.
    Done,
    /// The next packet is to be made at this time.
    Until(Instant),
    /// The kernel takes no more; the socket will become writable.
    Blocked,
    /// There is more to send.
    More,
}

/// The sending half of one connection.
#[derive(Debug)]
pub struct Outbox {
    pacing: Pacing,
    blocked: Option<Batch>,
    calls: u64,
}

impl Outbox {
    /// An empty one.
    pub fn new(pacing: Pacing) -> Self {
        Outbox {
            pacing,
            blocked: None,
            calls: 0,
        }
    }

    /// The number of times that packets were handed to the system.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Sends what may leave now.
    ///
    /// # Errors
    ///
    /// quiche's, which end the connection.
    pub fn send(
        &mut self,
        connection: &mut quiche::Connection,
        sockets: &[Socket],
        scratch: &mut [u8],
    ) -> quiche::Result<Turn> {
        if let Some(batch) = self.blocked.take()
            && !self.transmit(sockets, batch.info, &batch.bytes, batch.segment_bytes)
        {
            return Ok(Turn::Blocked);
        }
        for _ in 0..BATCHES_PER_TURN {
            let now = Instant::now();
            if let Some(release) = self.release(connection, now) {
                let make_at = release.checked_sub(self.horizon(connection)).unwrap_or(now);
                if make_at > now {
                    return Ok(Turn::Until(make_at));
                }
            }
            if let Some(turn) = self.batch(connection, sockets, scratch, now)? {
                return Ok(turn);
            }
        }
        Ok(Turn::More)
    }

    /// The time at which the next packet may leave, if not at once.
    fn release(&self, connection: &quiche::Connection, now: Instant) -> Option<Instant> {
        // The last packet of a closed connection leaves at once.
        if self.pacing == Pacing::Off || connection.local_error().is_some() {
            return None;
        }
        let lead = match connection.congestion_controller() {
            Some(_) => Duration::ZERO,
            None => LEAD,
        };
        let release = connection.get_next_release_time()?.time(now)?;
        (release.saturating_duration_since(now) > lead).then_some(release)
    }

    /// The time by which a packet is made before it leaves.
    fn horizon(&self, connection: &quiche::Connection) -> Duration {
        match self.pacing {
            Pacing::Txtime => connection.max_release_into_future(),
            Pacing::Wait | Pacing::Off => Duration::ZERO,
        }
    }

    /// The time at which the kernel is to let a packet leave. One without a release time has the time
    /// at which it was made, which differs from packet to packet.
    fn departure(&self, info: &SendInfo) -> Option<Instant> {
        let is_kept = self.pacing == Pacing::Txtime;
        is_kept.then_some(info.at).filter(|at| *at > Instant::now())
    }

    /// Makes and sends packets that leave at the same time, to the same place.
    fn batch(
        &mut self,
        connection: &mut quiche::Connection,
        sockets: &[Socket],
        scratch: &mut [u8],
        now: Instant,
    ) -> quiche::Result<Option<Turn>> {
        let release = self.release(connection, now);
        let room = connection
            .send_quantum()
            .clamp(PACKET_BYTES, scratch.len())
            .max(2 * PACKET_BYTES);
        let mut used = 0;
        let mut first: Option<(SendInfo, usize, Option<Instant>)> = None;
        let mut turn = None;
        while used + PACKET_BYTES <= room {
            if used > 0 && self.release(connection, now) != release {
                break;
            }
            let (bytes, info) = match connection.send(&mut scratch[used..][..PACKET_BYTES]) {
                Ok(made) => made,
                Err(quiche::Error::Done) => {
                    turn = Some(Turn::Done);
                    break;
                }
                Err(error) => return Err(error),
            };
            let leaves = self.departure(&info);
            let (head, segment_bytes, head_leaves) = *first.get_or_insert((info, bytes, leaves));
            let is_same_way = (head.from, head.to, head_leaves) == (info.from, info.to, leaves);
            if !is_same_way || bytes > segment_bytes {
                // It has to leave on its own, after what was made before it.
                let before = self.transmit(sockets, head, &scratch[..used], segment_bytes);
                let alone = self.transmit(sockets, info, &scratch[used..][..bytes], bytes);
                return Ok((!(before && alone)).then_some(Turn::Blocked));
            }
            used += bytes;
            let segments = used.div_ceil(segment_bytes);
            if bytes < segment_bytes || segments >= max_segments(sockets, head.from) {
                break;
            }
        }
        if let Some((info, segment_bytes, _)) = first
            && !self.transmit(sockets, info, &scratch[..used], segment_bytes)
        {
            return Ok(Some(Turn::Blocked));
        }
        Ok(turn)
    }

    /// Hands packets to the socket; keeps them and says false if it takes none now.
    fn transmit(
        &mut self,
        sockets: &[Socket],
        info: SendInfo,
        bytes: &[u8],
        segment_bytes: usize,
    ) -> bool {
        let Some(socket) = find(sockets, info.from) else {
            tracing::debug!(from = %info.from, "no socket has this address");
            return true;
        };
        self.calls += 1;
        match socket.send(bytes, segment_bytes, &info) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // Only one batch waits; a second one is lost, as in a full queue.
                self.blocked.get_or_insert_with(|| Batch {
                    bytes: bytes.to_vec(),
                    segment_bytes,
                    info,
                });
                false
            }
            Err(error) => {
                tracing::debug!(to = %info.to, %error, "a packet could not be sent");
                true
            }
            Ok(()) => true,
        }
    }
}

fn max_segments(sockets: &[Socket], from: SocketAddr) -> usize {
    find(sockets, from).map_or(1, Socket::max_segments)
}

/// The socket that packets from `address` leave by: the one bound to it, or to its port and all
/// addresses.
pub fn find(sockets: &[Socket], address: SocketAddr) -> Option<&Socket> {
    let bound_to = |ip: IpAddr| {
        sockets
            .iter()
            .find(|socket| socket.local_address() == SocketAddr::new(ip, address.port()))
    };
    let any = match address.ip() {
        IpAddr::V4(_) => IpAddr::from([0u8; 4]),
        IpAddr::V6(_) => IpAddr::from([0u8; 16]),
    };
    bound_to(address.ip()).or_else(|| bound_to(any))
}
