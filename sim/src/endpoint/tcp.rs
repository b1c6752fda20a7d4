//! One end of a TCP connection, and the application on it.

use std::time::Duration;

use gallop_network::packet::Packet;
use gallop_network::time::Time;

use crate::endpoint::application::Application;
use crate::endpoint::buffers::StreamData;
use crate::endpoint::connection::{Connection as Quic, ConnectionError};
use crate::endpoint::pool::Pool;
use crate::endpoint::streams::Streams;
use crate::endpoint::{Packets, Place};
use crate::tcp::{Connection, HEADER_BYTES, Segment};

/// The time for which a closed connection is kept, so that the peer's last segments find it.
const CLOSING: Duration = Duration::from_secs(1);

/// One end of a TCP connection, and the application on it.
pub(crate) struct Tcp {
    pub(crate) connection: Connection,
    pub(crate) application: Application,
    place: Place,
    packets: Packets,
    /// The last time at which the application was woken up.
    woken_at: Option<Time>,
    /// The earliest event under way that will wake this end.
    pub(crate) armed: Option<Time>,
    /// The end of the time for which a closed connection is kept.
    closes_at: Option<Time>,
    /// True once it is over.
    pub(crate) has_closed: bool,
}

/// A connection as applications see it. Messages take the place of streams, one after the other.
struct Messages<'a> {
    connection: &'a mut Connection,
    closes: bool,
}

impl Streams for Messages<'_> {
    fn is_established(&self) -> bool {
        self.connection.is_open()
    }

    fn open_request(&mut self) -> bool {
        self.connection.is_open()
    }

    fn send(
        &mut self,
        stream: u64,
        data: StreamData,
        last: bool,
        _operation: &'static str,
    ) -> Result<Option<usize>, ConnectionError> {
        let wanted = data.length() as u64;
        let taken = self.connection.write(stream, wanted, last);
        Ok((taken > 0 || wanted == 0).then_some(taken as usize))
    }

    fn discard(
        &mut self,
        stream: u64,
        _operation: &'static str,
    ) -> Result<Option<(u64, bool)>, ConnectionError> {
        Ok(self.connection.read(stream))
    }

    fn next_readable(&mut self) -> Option<u64> {
        self.connection.next_readable()
    }

    fn window_bytes(&self) -> u64 {
        self.connection.sender.window_bytes() as u64
    }

    /// It has a socket buffer of its own.
    fn hold_at_most(&mut self, _bytes: u64) {}

    /// Live media are refused when a file is read.
    fn open_frame(&mut self, _stream: u64) -> Result<bool, ConnectionError> {
        Ok(false)
    }

    fn close(&mut self, _code: u64) -> bool {
        self.closes = true;
        true
    }

    fn quiche(&mut self) -> Option<&mut Quic> {
        None
    }
}

impl Tcp {
    pub(crate) fn new(
        connection: Connection,
        application: Application,
        place: Place,
        packets: Packets,
    ) -> Tcp {
        Tcp {
            connection,
            application,
            place,
            packets,
            woken_at: None,
            armed: None,
            closes_at: None,
            has_closed: false,
        }
    }

    /// True if the application has closed the connection.
    pub(crate) fn is_closing(&self) -> bool {
        self.closes_at.is_some()
    }

    /// Takes `packet` in; it may always answer. A changed one is dropped, as by the checksum.
    pub(crate) fn receive(&mut self, packet: &Packet, now: Time) -> Result<bool, ConnectionError> {
        if packet.is_corrupted() {
            return Ok(false);
        }
        if let Some(segment) = Segment::read(packet.payload()) {
            self.connection.receive(&segment, now);
        }
        let (mut messages, application) = self.messages();
        application.read(&mut messages, now)?;
        Ok(true)
    }

    fn messages(&mut self) -> (Messages<'_>, &mut Application) {
        let messages = Messages {
            connection: &mut self.connection,
            closes: false,
        };
        (messages, &mut self.application)
    }

    /// Does all work that is due at `now`: returns true if it is to send, and true if a timer has
    /// expired.
    pub(crate) fn wake(&mut self, now: Time) -> (bool, bool) {
        let is_due = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= now);
        let timed_out = is_due(self.timeout());
        self.has_closed |= is_due(self.closes_at);
        if timed_out {
            self.connection.wake(now);
        }
        let has_more = is_due(self.application.more_at(self.woken_at));
        if has_more {
            self.woken_at = Some(now);
            self.application.wake(now);
        }
        (timed_out || has_more, timed_out)
    }

    fn timeout(&self) -> Option<Time> {
        match self.closes_at {
            Some(closes_at) => Some(closes_at),
            None => self.connection.deadline(),
        }
    }

    /// Time at which [`wake`](Self::wake) is to be called.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let more_at = self.application.more_at(self.woken_at);
        self.timeout().into_iter().chain(more_at).min()
    }

    /// Sends all segments that may leave now, into `out`; `pool` holds packets for reuse.
    pub(crate) fn transmit(
        &mut self,
        now: Time,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) -> Result<(), ConnectionError> {
        let (mut messages, application) = self.messages();
        application.write(&mut messages, now)?;
        if self.closes_at.is_none() && self.application.wants_to_close() {
            let (mut messages, application) = self.messages();
            application.close(&mut messages);
            if messages.closes {
                self.closes_at = Some(now + CLOSING);
            }
        }
        while let Some(segment) = self.connection.poll(now) {
            let mut packet = pool.take();
            let room = packet.room_for(segment.length().max(self.packets.datagram_bytes));
            segment.write(&mut room[..HEADER_BYTES]);
            packet.truncate(segment.length());
            let sequence = self.connection.sent_segments - 1;
            packet.readdress(self.place.flow, self.place.side.peer(), 0, sequence);
            if self.packets.ecn {
                packet.allow_marks();
            }
            out.push(packet);
        }
        Ok(())
    }
}
