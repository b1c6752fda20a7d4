//! The work of applications on a connection, whatever its stack.

use crate::endpoint::buffers::StreamData;
use crate::endpoint::connection::{Connection, ConnectionError, failed};

/// The streams of a connection.
pub(crate) trait Streams {
    /// True once the handshake is done.
    fn is_established(&self) -> bool;

    /// True if another stream for a request can be opened now. Streams are opened in the order of
    /// their numbers, by the first send.
    fn may_open(&mut self) -> bool;

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

    /// Closes the connection; returns false if it was closed before.
    fn close(&mut self, code: u64) -> bool;

    /// quiche's connection, for what no other stack has here: HTTP/3, live media, and content that
    /// is checked.
    fn quiche(&mut self) -> Option<&mut Connection>;
}

impl Streams for Connection {
    fn is_established(&self) -> bool {
        self.is_established()
    }

    fn may_open(&mut self) -> bool {
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

    fn close(&mut self, code: u64) -> bool {
        quiche::Connection::close(self, true, code, b"").is_ok()
    }

    fn quiche(&mut self) -> Option<&mut Connection> {
        Some(self)
    }
}
