//! One end of a connection of a stack that is not quiche: quinn or noq. They decide about
//! acknowledgements and pace by themselves.

use bytes::Bytes;
use gallop_network::packet::Packet;
use gallop_stacks::{Settings, noq, quinn};

use crate::endpoint::application::Application;
use crate::endpoint::buffers::{StreamData, ZEROS};
use crate::endpoint::connection::{Connection, ConnectionError, failed_elsewhere};
use crate::endpoint::pool::Pool;
use crate::endpoint::settings::ConfigError;
use crate::endpoint::streams::Streams;
use crate::endpoint::{Packets, Place};
use crate::isolation::clock::{Epoch, Time};
use crate::packet::Side;
use crate::stack::Stack;

/// A connection, or what becomes one when the first packet comes.
pub(crate) enum Peer {
    Quinn(Box<quinn::Peer>),
    Noq(Box<noq::Peer>),
}

/// Calls the same function of either stack's peer.
macro_rules! of_either {
    ($peer:expr, $bound:ident => $call:expr) => {
        match $peer {
            Peer::Quinn($bound) => $call,
            Peer::Noq($bound) => $call,
        }
    };
}

/// The settings of an end.
pub(crate) struct Plan<'a> {
    pub(crate) cc: &'a str,
    pub(crate) datagram_bytes: u16,
    pub(crate) initial_window_packets: u64,
    /// The request to the peer.
    pub(crate) acks: Option<(u32, std::time::Duration)>,
    pub(crate) seed: u64,
}

/// Makes the end of a connection; a client connects at once. `None` if the stack is another.
pub(crate) fn peer(
    stack: Stack,
    side: Side,
    plan: &Plan<'_>,
    now: std::time::Instant,
) -> Result<Option<Peer>, ConfigError> {
    macro_rules! of {
        ($stack:ident, $variant:ident) => {{
            let settings = Settings {
                factory: $stack::factory_with_window(plan.cc, plan.initial_window_packets)
                    .map_err(|error| ConfigError::Other(error.to_string()))?,
                datagram_bytes: plan.datagram_bytes,
                acks: plan.acks,
                seed: plan.seed,
            };
            let peer = match side {
                Side::Client => $stack::Peer::client(&settings, now),
                Side::Server => $stack::Peer::server(&settings),
            };
            let peer = peer.map_err(|error| ConfigError::Other(error.to_string()))?;
            Peer::$variant(Box::new(peer))
        }};
    }
    Ok(match stack {
        Stack::Quiche | Stack::Tcp => None,
        Stack::Quinn => Some(of!(quinn, Quinn)),
        Stack::Noq => Some(of!(noq, Noq)),
    })
}

/// The facts about a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// The smoothed RTT, once the handshake is done.
    pub(crate) rtt: Option<std::time::Duration>,
    pub(crate) min_rtt: Option<std::time::Duration>,
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) lost_packets: u64,
    pub(crate) lost_bytes: u64,
}

impl Peer {
    pub(crate) fn lost(&self) -> Option<&str> {
        of_either!(self, peer => peer.lost())
    }

    pub(crate) fn is_drained(&self) -> bool {
        of_either!(self, peer => peer.is_drained())
    }

    pub(crate) fn window_bytes(&self) -> Option<u64> {
        of_either!(self, peer => peer.window_bytes())
    }

    pub(crate) fn phase_name(&self) -> Option<&'static str> {
        of_either!(self, peer => peer.phase_name())
    }

    pub(crate) fn figure(&self, name: &str) -> Option<f64> {
        of_either!(self, peer => peer.figure(name))
    }

    pub(crate) fn known(&mut self) -> Known {
        of_either!(self, peer => {
            let is_established = peer.is_established();
            peer.path().map_or(Known::default(), |path| Known {
                rtt: is_established.then_some(path.rtt),
                min_rtt: path.min_rtt.filter(|_| is_established),
                sent_packets: path.sent_packets,
                sent_bytes: path.sent_bytes,
                received_bytes: path.received_bytes,
                lost_packets: path.lost_packets,
                lost_bytes: path.lost_bytes,
            })
        })
    }
}

/// A peer as applications see it, at one time.
struct Open<'a> {
    foreign: &'a mut Peer,
    next_frame: &'a mut Option<u64>,
    now: std::time::Instant,
}

impl Streams for Open<'_> {
    fn is_established(&self) -> bool {
        of_either!(&*self.foreign, peer => peer.is_established())
    }

    fn open_request(&mut self) -> bool {
        of_either!(&mut *self.foreign, peer => peer.open()).is_some()
    }

    fn send(
        &mut self,
        stream: u64,
        data: StreamData,
        last: bool,
        operation: &'static str,
    ) -> Result<Option<usize>, ConnectionError> {
        let bytes = match data.is_zeros() {
            true => Bytes::from_static(&ZEROS[..data.length()]),
            false => Bytes::copy_from_slice(data.as_ref()),
        };
        let wanted = bytes.len();
        let written = of_either!(&mut *self.foreign, peer => peer.write(stream, bytes, last));
        let written = written.map_err(failed_elsewhere(operation))?;
        // Of a frame of which nothing was taken the stream is still unused.
        if written > 0 && *self.next_frame == Some(stream) {
            *self.next_frame = None;
        }
        Ok((written > 0 || wanted == 0).then_some(written))
    }

    fn discard(
        &mut self,
        stream: u64,
        operation: &'static str,
    ) -> Result<Option<(u64, bool)>, ConnectionError> {
        let read = of_either!(&mut *self.foreign, peer => peer.discard(stream));
        let read = read.map_err(failed_elsewhere(operation))?;
        Ok(Some(read).filter(|&(bytes, end)| bytes > 0 || end))
    }

    fn next_readable(&mut self) -> Option<u64> {
        of_either!(&mut *self.foreign, peer => peer.next_readable())
    }

    fn window_bytes(&self) -> u64 {
        self.foreign.window_bytes().unwrap_or_default()
    }

    fn hold_at_most(&mut self, bytes: u64) {
        of_either!(&mut *self.foreign, peer => peer.hold_at_most(bytes));
    }

    fn open_frame(&mut self, stream: u64) -> Result<bool, ConnectionError> {
        if self.next_frame.is_none() {
            let opened = of_either!(&mut *self.foreign, peer => peer.open_in_turn());
            *self.next_frame = opened.map_err(failed_elsewhere("opening a stream"))?;
        }
        Ok(*self.next_frame == Some(stream))
    }

    fn close(&mut self, code: u64) -> bool {
        let code = u32::try_from(code).unwrap_or(u32::MAX);
        of_either!(&mut *self.foreign, peer => peer.close(self.now, code))
    }

    fn quiche(&mut self) -> Option<&mut Connection> {
        None
    }
}

/// One end of a connection, and the application on it.
pub(crate) struct Foreign {
    pub(crate) peer: Peer,
    pub(crate) application: Application,
    /// The stream that is open for the next frame.
    next_frame: Option<u64>,
    place: Place,
    packets: Packets,
    /// Datagrams sent.
    sent: u64,
    /// The last time at which the application was woken up.
    woken_at: Option<Time>,
    /// The earliest event under way that will wake this end.
    pub(crate) armed: Option<Time>,
    /// True if the application has closed the connection.
    pub(crate) is_closing: bool,
    /// The path's state after the last packet or timeout.
    pub(crate) known: Known,
}

impl Foreign {
    pub(crate) fn new(
        peer: Peer,
        application: Application,
        place: Place,
        packets: Packets,
    ) -> Foreign {
        Foreign {
            peer,
            application,
            next_frame: None,
            place,
            packets,
            sent: 0,
            woken_at: None,
            armed: None,
            is_closing: false,
            known: Known::default(),
        }
    }

    fn open(&mut self, now: Time, epoch: Epoch) -> (Open<'_>, &mut Application) {
        let open = Open {
            foreign: &mut self.peer,
            next_frame: &mut self.next_frame,
            now: epoch.instant(now),
        };
        (open, &mut self.application)
    }

    /// Takes `packet` in; it may always answer.
    pub(crate) fn receive(
        &mut self,
        packet: &mut Packet,
        now: Time,
        epoch: Epoch,
    ) -> Result<bool, ConnectionError> {
        let at = epoch.instant(now);
        of_either!(&mut self.peer, peer => peer.receive(packet.payload(), packet.ecn(), at));
        let (mut open, application) = self.open(now, epoch);
        application.read(&mut open, now)?;
        self.known = self.peer.known();
        Ok(true)
    }

    /// Does all work that is due at `now`; returns true if it is to send.
    pub(crate) fn wake(&mut self, now: Time, epoch: Epoch) -> (bool, bool) {
        let timed_out = self.timeout(epoch).is_some_and(|timeout| timeout <= now);
        if timed_out {
            let at = epoch.instant(now);
            of_either!(&mut self.peer, peer => peer.on_timeout(at));
            self.known = self.peer.known();
        }
        let more_at = self.application.more_at(self.woken_at);
        let has_more = more_at.is_some_and(|more_at| more_at <= now);
        if has_more {
            self.woken_at = Some(now);
            self.application.wake(now);
        }
        (timed_out || has_more, timed_out)
    }

    fn timeout(&mut self, epoch: Epoch) -> Option<Time> {
        let timeout = of_either!(&mut self.peer, peer => peer.timeout())?;
        Some(epoch.time(timeout))
    }

    /// Time at which [`wake`](Self::wake) is to be called.
    pub(crate) fn deadline(&mut self, epoch: Epoch) -> Option<Time> {
        let more_at = self.application.more_at(self.woken_at);
        self.timeout(epoch).into_iter().chain(more_at).min()
    }

    /// Sends all packets that may leave now, into `out`; `pool` holds packets for reuse.
    pub(crate) fn transmit(
        &mut self,
        now: Time,
        epoch: Epoch,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) -> Result<(), ConnectionError> {
        let (mut open, application) = self.open(now, epoch);
        application.write(&mut open, now)?;
        if application.wants_to_close() && !self.is_closing {
            let (mut open, application) = self.open(now, epoch);
            let closed = application.close(&mut open);
            self.is_closing = closed;
        }
        let (flow, to) = (self.place.flow, self.place.side.peer());
        let (sent, packets) = (&mut self.sent, self.packets);
        of_either!(&mut self.peer, peer => peer.transmit(epoch.instant(now), |datagram| {
            let mut packet = pool.take();
            packet.room_for(datagram.len().max(packets.datagram_bytes))[..datagram.len()].copy_from_slice(datagram);
            packet.truncate(datagram.len());
            packet.readdress(flow, to, 0, *sent);
            if packets.ecn {
                packet.allow_marks();
            }
            *sent += 1;
            out.push(packet);
        }));
        Ok(())
    }
}
