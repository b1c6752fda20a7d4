//! The work of applications on a connection, whatever its stack.

use crate::endpoint::buffers::StreamData;
use crate::endpoint::connection::{Connection, ConnectionError, failed};
use crate::endpoint::sender::Sender;

/// quiche's default of a stream's urgency.
const URGENCY: u8 = 127;

/// The streams of a connection.
pub(crate) trait Streams {
    /// True once the handshake is done.
    fn is_established(&self) -> bool;

    /// Prepares the client's next stream for a request; returns false if there is none now.
    fn open_request(&mut self) -> bool;

    /// Hands `data` over, and the end of the stream if it is the `last`; returns the number of bytes
    /// that were taken, if any could be.
    fn send(
        &mut self,
        stream: u64,
        data: StreamData,
        last: bool,
        operation: &'static str,
    ) -> Result<Option<usize>, ConnectionError>;

    /// Reads what is there and forgets it; returns the number of bytes, and true at the end of the
    /// stream. `None` if nothing is there.
    fn discard(
        &mut self,
        stream: u64,
        operation: &'static str,
    ) -> Result<Option<(u64, bool)>, ConnectionError>;

    /// A stream that has something to read.
    fn next_readable(&mut self) -> Option<u64>;

    /// The congestion window.
    fn window_bytes(&self) -> u64;

    /// Takes no data from now on while so many bytes are not acknowledged. Only for a stack that does
    /// not drop the buffers of [`StreamData`] when they have been acknowledged.
    fn hold_at_most(&mut self, bytes: u64);

    /// Prepares the server's next stream that goes one way, which has this number; returns false if
    /// there is none now. Of several, the one that was opened first is sent first.
    fn open_frame(&mut self, stream: u64) -> Result<bool, ConnectionError>;

    /// Closes the connection; returns false if it was closed before.
    fn close(&mut self, code: u64) -> bool;

    /// quiche's connection, for what no other stack has here: HTTP/3, and content that is checked.
    fn quiche(&mut self) -> Option<&mut Connection>;
}

impl Streams for Connection {
    fn is_established(&self) -> bool {
        self.is_established()
    }

    fn open_request(&mut self) -> bool {
        self.peer_streams_left_bidi() > 0
    }

    fn send(
        &mut self,
        stream: u64,
        data: StreamData,
        last: bool,
        operation: &'static str,
    ) -> Result<Option<usize>, ConnectionError> {
        match self.stream_send_zc(stream, data, last) {
            Ok((written, _)) => Ok(Some(written)),
            Err(quiche::Error::Done) => Ok(None),
            Err(error) => Err(failed(operation)(error)),
        }
    }

    fn discard(
        &mut self,
        stream: u64,
        operation: &'static str,
    ) -> Result<Option<(u64, bool)>, ConnectionError> {
        match self.stream_discard(stream, usize::MAX) {
            Ok((bytes, end)) => Ok(Some((bytes as u64, end))),
            Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => Ok(None),
            Err(error) => Err(failed(operation)(error)),
        }
    }

    fn next_readable(&mut self) -> Option<u64> {
        self.stream_readable_next()
    }

    fn window_bytes(&self) -> u64 {
        Sender::path(self).map_or(0, |path| path.window_bytes as u64)
    }

    fn hold_at_most(&mut self, _bytes: u64) {}

    fn open_frame(&mut self, stream: u64) -> Result<bool, ConnectionError> {
        if self.peer_streams_left_uni() == 0 {
            return Ok(false);
        }
        // quiche sends streams that are not incremental one after the other (RFC 9218 §4.2).
        self.stream_priority(stream, URGENCY, false)
            .map_err(failed("stream_priority()"))?;
        Ok(true)
    }

    fn close(&mut self, code: u64) -> bool {
        quiche::Connection::close(self, true, code, b"").is_ok()
    }

    fn quiche(&mut self) -> Option<&mut Connection> {
        Some(self)
    }
}
