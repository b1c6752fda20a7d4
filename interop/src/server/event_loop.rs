//! One thread of a server: it waits for packets and for points in time, and gives connections their
//! turns.

use std::io;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};

use crate::server::sessions::Sessions;
use crate::socket::{ReceiveBuffers, Socket};
use crate::stop::Stop;
use crate::timer::Timer;

/// The tokens of the poll; sockets have their index.
pub(super) const TIMER: Token = Token(usize::MAX);
pub(super) const WAKER: Token = Token(usize::MAX - 1);

/// Reads from one socket before connections get their turn.
const READS_PER_TURN: usize = 16;

/// A loop that serves its connections.
pub(super) struct EventLoop {
    pub(super) poll: Poll,
    pub(super) timer: Timer,
    pub(super) stop: Stop,
    pub(super) sockets: Vec<Socket>,
    pub(super) sessions: Sessions,
    pub(super) shutdown_timeout: Duration,
}

impl EventLoop {
    /// Serves until it is asked to end; then finishes open responses within the timeout.
    ///
    /// # Errors
    ///
    /// The system cannot wait for events.
    pub(super) fn run(mut self) -> io::Result<()> {
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
            self.sessions.receive_handed_over(&self.sockets);
            self.sessions.turns(&self.sockets);
            if self.stop.requests() > 0 && leave_until.is_none() {
                if self.sessions.is_first_thread() {
                    tracing::info!("ending");
                }
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
        let received = socket.receive(buffers, |datagram, info, at| {
            sessions.receive(sockets, datagram, info, at);
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
