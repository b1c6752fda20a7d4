//! Responses that are written but may not have arrived yet.

use quiche::Connection;

/// The number of remembered streams at which those that have ended are removed. A client has far
/// fewer open.
const TIDY_AT: usize = 4_096;

/// The streams whose last byte quiche has been given.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    streams: Vec<u64>,
}

impl Delivery {
    /// The response on `stream` is written to its end.
    pub(super) fn written(&mut self, connection: &mut Connection, stream: u64) {
        self.streams.push(stream);
        if self.streams.len() >= TIDY_AT {
            self.tidy(connection);
        }
    }

    /// True if the client has acknowledged all of it.
    pub(super) fn is_complete(&mut self, connection: &mut Connection) -> bool {
        self.tidy(connection);
        self.streams.is_empty()
    }

    /// quiche forgets a stream when its last byte is acknowledged, or nobody wants it any more.
    fn tidy(&mut self, connection: &mut Connection) {
        self.streams.retain(|stream| is_wanted(connection, *stream));
    }
}

/// True if a stream's response can still be sent or acknowledged: the client has not said that it
/// wants no more, and quiche has not forgotten the stream.
pub(super) fn is_wanted(connection: &mut Connection, stream: u64) -> bool {
    connection.stream_capacity(stream).is_ok()
}
