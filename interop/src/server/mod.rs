//! The server: files and uploads over HTTP/3 and hq-interop, each connection with the congestion
//! controller that the operator's rules give it.
//!
//! It drives quiche itself. tokio-quiche spaces packets only for quiche's BBR, and only with
//! SO_TXTIME; and tokio's timers have a resolution of 1 ms, in which a connection at 100 Mbit/s
//! sends nine datagrams. Vegas needs each packet to leave at the time that is recorded for it.

mod acceptance;
mod arguments;
pub mod certificate;
mod chooser;
mod delivery;
pub mod files;
mod hq;
mod http3;
mod memory;
pub mod metrics;
pub mod request;
mod reset;
pub mod respond;
mod retry;
pub mod rules;
mod session;
mod sessions;
mod start;
pub mod upload;

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};

use crate::socket::{ReceiveBuffers, Socket};
use crate::stop::Stop;
use crate::timer::Timer;
use crate::trace::{KeyLog, Traces};
pub use arguments::Arguments;
use certificate::Certificate;
use files::Files;
use metrics::Metrics;
use sessions::Sessions;
pub use start::StartError;
use upload::Uploads;

/// Files, uploads, traces and metrics that all connections share.
struct Service {
    files: Files,
    uploads: Uploads,
    traces: Option<Traces>,
    keylog: Option<KeyLog>,
    metrics: Metrics,
}

/// The tokens of the poll; sockets have their index.
const TIMER: Token = Token(usize::MAX);
const STOP: Token = Token(usize::MAX - 1);

/// Reads from one socket before connections get their turn.
const READS_PER_TURN: usize = 16;

/// A server that listens.
pub struct Server {
    poll: Poll,
    timer: Timer,
    stop: Stop,
    sockets: Vec<Socket>,
    sessions: Sessions,
    shutdown_timeout: Duration,
    certificate: Certificate,
    metrics_address: Option<SocketAddr>,
}

impl Server {
    /// The addresses on which it listens.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.sockets.iter().map(Socket::local_address)
    }

    /// Its metrics, which go on while it runs.
    pub fn metrics(&self) -> Metrics {
        self.sessions.metrics()
    }

    /// The address at which it serves metrics.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Its certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// A handle that asks it to end.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Serves until it is asked to end; then finishes open responses within the timeout.
    ///
    /// # Errors
    ///
    /// The system cannot wait for events.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        let mut buffers = ReceiveBuffers::default();
        let mut readable = vec![false; self.sockets.len()];
        let mut leave_until: Option<Instant> = None;
        loop {
            let is_busy = self.sessions.is_busy() || readable.contains(&true);
            let wake = self
                .sessions
                .next_wake()
                .into_iter()
                .chain(leave_until)
                .min();
            let timeout = match is_busy {
                true => Some(Duration::ZERO),
                false => self.timer.timeout(wake)?,
            };
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            for event in &events {
                if let Some(readable) = readable.get_mut(event.token().0) {
                    *readable |= event.is_readable();
                    if event.is_writable() {
                        self.sessions.unblock();
                    }
                }
            }
            for (socket, readable) in self.sockets.iter().zip(&mut readable) {
                if *readable {
                    *readable = receive(socket, &self.sockets, &mut self.sessions, &mut buffers);
                }
            }
            self.sessions.turns(&self.sockets);
            if self.stop.requests() > 0 && leave_until.is_none() {
                tracing::info!("ending");
                leave_until = Some(Instant::now() + self.shutdown_timeout);
                self.sessions.leave();
            }
            if let Some(until) = leave_until {
                let is_enough =
                    self.sessions.is_over() || self.stop.requests() > 1 || until <= Instant::now();
                if is_enough {
                    self.sessions.end(&self.sockets);
                    return Ok(());
                }
            }
        }
    }
}

/// Reads some datagrams; true if there may be more.
fn receive(
    socket: &Socket,
    sockets: &[Socket],
    sessions: &mut Sessions,
    buffers: &mut ReceiveBuffers,
) -> bool {
    for _ in 0..READS_PER_TURN {
        let received = socket.receive(buffers, |datagram, info| {
            sessions.receive(sockets, datagram, info);
        });
        if let Err(error) = received {
            if error.kind() == io::ErrorKind::WouldBlock {
                return false;
            }
            // Such as an ICMP message for an earlier datagram.
            tracing::debug!(%error, "receive");
        }
    }
    true
}
