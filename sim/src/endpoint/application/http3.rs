//! Requests and answers over HTTP/3 (RFC 9114), with quiche's own implementation.

use std::fmt;

use quiche::h3::{self, Event, Header};

use crate::endpoint::buffers::StreamData;
use crate::endpoint::connection::{Connection, ConnectionError, failed_http3};

/// The most bytes of a body that are read at once.
const READ_BYTES: usize = 1 << 16;

/// One end of HTTP/3, set up when it is first used.
#[derive(Default)]
pub(super) struct Http3 {
    connection: Option<h3::Connection>,
    /// Buffer into which bodies are read.
    scratch: Vec<u8>,
}

impl fmt::Debug for Http3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http3").finish_non_exhaustive()
    }
}

impl Http3 {
    fn connection<'a>(
        &'a mut self,
        connection: &mut Connection,
    ) -> Result<&'a mut h3::Connection, ConnectionError> {
        if self.connection.is_none() {
            let made = h3::Config::new()
                .and_then(|config| h3::Connection::with_transport(connection, &config));
            self.connection = Some(made.map_err(failed_http3("setting up HTTP/3"))?);
        }
        self.connection
            .as_mut()
            .ok_or_else(|| failed_http3("setting up HTTP/3")(h3::Error::InternalError))
    }

    /// Sends a request; returns its stream, or `None` if there is no stream now.
    pub(super) fn ask(
        &mut self,
        connection: &mut Connection,
    ) -> Result<Option<u64>, ConnectionError> {
        let headers = [
            Header::new(b":method", b"GET"),
            Header::new(b":scheme", b"https"),
            Header::new(b":authority", b"server.example"),
            Header::new(b":path", b"/"),
        ];
        let http3 = self.connection(connection)?;
        match http3.send_request(connection, &headers, true) {
            Ok(stream) => Ok(Some(stream)),
            Err(
                h3::Error::StreamBlocked
                | h3::Error::TransportError(quiche::Error::StreamLimit | quiche::Error::Done),
            ) => Ok(None),
            Err(error) => Err(failed_http3("sending a request")(error)),
        }
    }

    /// Sends the headers of an answer; returns true if they were taken.
    pub(super) fn answer(
        &mut self,
        connection: &mut Connection,
        stream: u64,
    ) -> Result<bool, ConnectionError> {
        let headers = [
            Header::new(b":status", b"200"),
            Header::new(b"content-type", b"application/octet-stream"),
        ];
        let http3 = self.connection(connection)?;
        match http3.send_response(connection, stream, &headers, false) {
            Ok(()) => Ok(true),
            Err(h3::Error::StreamBlocked | h3::Error::Done) => Ok(false),
            Err(error) => Err(failed_http3("sending headers")(error)),
        }
    }

    /// Sends a piece of a body; returns the number of bytes that were taken, if any could be.
    pub(super) fn send(
        &mut self,
        connection: &mut Connection,
        stream: u64,
        mut piece: StreamData,
        last: bool,
    ) -> Result<Option<usize>, ConnectionError> {
        let http3 = self.connection(connection)?;
        match http3.send_body_zc(connection, stream, &mut piece, last) {
            Ok(written) => Ok(Some(written)),
            Err(h3::Error::Done | h3::Error::StreamBlocked) => Ok(None),
            Err(error) => Err(failed_http3("sending a body")(error)),
        }
    }

    /// Tells `serve` the streams of new requests.
    pub(super) fn read_requests(
        &mut self,
        connection: &mut Connection,
        mut serve: impl FnMut(u64),
    ) -> Result<(), ConnectionError> {
        if !connection.is_established() {
            return Ok(());
        }
        let http3 = self.connection(connection)?;
        loop {
            match http3.poll(connection) {
                Ok((stream, Event::Headers { .. })) => serve(stream),
                Ok(_) => {}
                Err(h3::Error::Done) => return Ok(()),
                Err(error) => return Err(failed_http3("reading requests")(error)),
            }
        }
    }

    /// Tells `take` the bytes of bodies that have come, by stream, and the end of each.
    pub(super) fn read_answers(
        &mut self,
        connection: &mut Connection,
        mut take: impl FnMut(u64, u64, bool),
    ) -> Result<(), ConnectionError> {
        if !connection.is_established() {
            return Ok(());
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(READ_BYTES, 0);
        let http3 = self.connection(connection)?;
        loop {
            match http3.poll(connection) {
                Ok((stream, Event::Data)) => loop {
                    match http3.recv_body(connection, stream, &mut scratch) {
                        Ok(bytes) => take(stream, bytes as u64, false),
                        Err(h3::Error::Done) => break,
                        Err(error) => return Err(failed_http3("reading a body")(error)),
                    }
                },
                Ok((stream, Event::Finished)) => take(stream, 0, true),
                Ok(_) => {}
                Err(h3::Error::Done) => break,
                Err(error) => return Err(failed_http3("reading answers")(error)),
            }
        }
        self.scratch = scratch;
        Ok(())
    }
}
