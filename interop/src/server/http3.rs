//! HTTP/3 requests of one connection.

use std::collections::BTreeMap;

use quiche::h3;
use quiche::{Connection, Shutdown};

use crate::fields;
use crate::server::Service;
use crate::server::delivery::{self, Delivery};
use crate::server::request::Request;
use crate::server::respond::{Response, respond};
use crate::server::upload::Upload;

/// Error codes of HTTP/3 (RFC 9114 §8.1).
const NO_ERROR: u64 = 0x100;
const INTERNAL_ERROR: u64 = 0x102;
const FRAME_UNEXPECTED: u64 = 0x105;
const REQUEST_REJECTED: u64 = 0x10b;
const REQUEST_INCOMPLETE: u64 = 0x10d;
const MESSAGE_ERROR: u64 = 0x10e;

/// The largest header section that is read, as RFC 9114 §4.2.2 counts.
const MAX_FIELDS_BYTES: u64 = 16 << 10;

/// An HTTP/3 connection of a client. Its streams are as many as the client may have open, and no
/// more than that is kept for them.
pub(super) struct Http3 {
    h3: h3::Connection,
    /// Requests whose end has not come.
    incoming: BTreeMap<u64, Incoming>,
    /// Requests to be answered in this turn.
    asked: Vec<(u64, Request)>,
    responses: BTreeMap<u64, Outgoing>,
    delivery: Delivery,
    /// The first stream ID that is no longer served.
    end: u64,
    leaving: bool,
}

/// A request whose end has not come.
struct Incoming {
    /// The length of its content, if its header section says so.
    promised_bytes: Option<u64>,
    received_bytes: u64,
    has_trailers: bool,
    /// The upload that its content belongs to, until that is answered.
    upload: Option<(Request, Upload)>,
}

/// A response that is being sent.
struct Outgoing {
    request: Request,
    response: Response,
    head_sent: bool,
}

impl Http3 {
    pub(super) fn new(connection: &mut Connection) -> h3::Result<Self> {
        let mut config = h3::Config::new()?;
        config.set_max_field_section_size(MAX_FIELDS_BYTES);
        Ok(Http3 {
            h3: h3::Connection::with_transport(connection, &config)?,
            incoming: BTreeMap::new(),
            asked: Vec::new(),
            responses: BTreeMap::new(),
            delivery: Delivery::default(),
            end: 0,
            leaving: false,
        })
    }

    /// True if every response that was asked for has arrived.
    pub(super) fn is_idle(&mut self, connection: &mut Connection) -> bool {
        let uploads = self
            .incoming
            .values()
            .any(|incoming| incoming.upload.is_some());
        !uploads && self.responses.is_empty() && self.delivery.is_complete(connection)
    }

    /// Tells the client that new requests are no longer served.
    pub(super) fn leave(&mut self, connection: &mut Connection) {
        if !self.leaving {
            self.leaving = true;
            // An error says that the client has not set up HTTP/3 yet, or is gone.
            let _ = self.h3.send_goaway(connection, self.end);
        }
    }

    /// Reads received data and begins responses.
    pub(super) fn read(&mut self, connection: &mut Connection, service: &Service) {
        loop {
            match self.h3.poll(connection) {
                Ok((stream, h3::Event::Headers { list, more_frames })) => {
                    self.begin(connection, service, stream, &list, more_frames);
                }
                Ok((stream, h3::Event::Data)) => self.receive(connection, stream),
                Ok((stream, h3::Event::Finished)) => self.finish(connection, stream),
                Ok((stream, h3::Event::Reset(_))) => self.abandon(connection, stream, NO_ERROR),
                Ok((_, h3::Event::PriorityUpdate | h3::Event::GoAway)) => {}
                Err(h3::Error::Done) => break,
                Err(error) => {
                    // quiche has closed the connection with the right code.
                    tracing::debug!(%error, "HTTP/3 error");
                    break;
                }
            }
        }
        self.forget_unwanted(connection);
        for (stream, request) in std::mem::take(&mut self.asked) {
            let response = respond(&service.files, &request);
            self.answer(stream, request, response);
        }
    }

    /// Forgets what the client wants no more. quiche tells of a response only as long as it keeps
    /// the stream, and of a request until its end has been read.
    fn forget_unwanted(&mut self, connection: &mut Connection) {
        let responses = self.responses.keys();
        let asked = self.asked.iter().map(|(stream, _)| stream);
        let unwanted: Vec<u64> = responses
            .chain(asked)
            .copied()
            .filter(|stream| !delivery::is_wanted(connection, *stream))
            .collect();
        for stream in unwanted {
            self.responses.remove(&stream);
            self.asked.retain(|(asked, _)| *asked != stream);
            release(&mut self.h3, connection, stream);
        }
        self.incoming
            .retain(|stream, _| !connection.stream_finished(*stream));
    }

    fn begin(
        &mut self,
        connection: &mut Connection,
        service: &Service,
        stream: u64,
        list: &[h3::Header],
        more_frames: bool,
    ) {
        if let Some(incoming) = self.incoming.get_mut(&stream) {
            incoming.has_trailers = true;
            if let Err(error) = fields::check_trailers(list) {
                tracing::debug!(%error, "malformed trailers");
                self.abandon(connection, stream, MESSAGE_ERROR);
            }
            return;
        }
        if self.leaving && stream >= self.end {
            self.abandon(connection, stream, REQUEST_REJECTED);
            return;
        }
        self.end = self.end.max(stream + 4);
        let request = match Request::from_fields(list) {
            Ok(request) => request,
            Err(error) => {
                tracing::debug!(%error, "malformed request");
                self.abandon(connection, stream, MESSAGE_ERROR);
                return;
            }
        };
        let mut incoming = Incoming {
            promised_bytes: request.content_length,
            received_bytes: 0,
            has_trailers: false,
            upload: None,
        };
        if !more_frames && incoming.is_short() {
            self.abandon(connection, stream, MESSAGE_ERROR);
            return;
        }
        match request.method.as_str() {
            "GET" | "HEAD" => self.asked.push((stream, request)),
            // Early data may be a replay (RFC 8470).
            "POST" | "PUT" if connection.is_in_early_data() => {
                self.answer(stream, request, Response::text(425, "not in early data\n"));
            }
            "POST" | "PUT" => match service.uploads.begin(&request.path) {
                Ok(upload) => incoming.upload = Some((request, upload)),
                Err(refusal) => self.answer(stream, request, refusal),
            },
            _ => {
                let response = Response::text(405, "GET, HEAD, POST and PUT are served\n")
                    .with("allow", "GET, HEAD, POST, PUT");
                self.answer(stream, request, response);
            }
        }
        self.incoming.insert(stream, incoming);
    }

    fn receive(&mut self, connection: &mut Connection, stream: u64) {
        let mut buffer = [0; 16 << 10];
        loop {
            let bytes = match self.h3.recv_body(connection, stream, &mut buffer) {
                Ok(bytes) => bytes,
                // No event tells of this reset any more.
                Err(h3::Error::TransportError(quiche::Error::StreamReset(_))) => {
                    self.abandon(connection, stream, NO_ERROR);
                    return;
                }
                Err(_) => return, // Done, or closed by quiche.
            };
            let Some(incoming) = self.incoming.get_mut(&stream) else {
                continue; // Of a request that is given up.
            };
            if incoming.has_trailers {
                // RFC 9114 §4.1. `Done` says that it is closed already.
                let _ = connection.close(true, FRAME_UNEXPECTED, b"DATA after trailers");
                return;
            }
            incoming.received_bytes += bytes as u64;
            if incoming.is_long() {
                self.abandon(connection, stream, MESSAGE_ERROR);
                return;
            }
            let Some((request, mut upload)) = incoming.upload.take() else {
                continue; // Of a request that is answered already.
            };
            match upload.write(&buffer[..bytes]) {
                Ok(()) => incoming.upload = Some((request, upload)),
                Err(refusal) => {
                    self.answer(stream, request, refusal);
                    // The rest is not needed (RFC 9114 §4.1.1).
                    let _ = connection.stream_shutdown(stream, Shutdown::Read, NO_ERROR);
                    return;
                }
            }
        }
    }

    /// The client's half of a stream has ended.
    fn finish(&mut self, connection: &mut Connection, stream: u64) {
        let Some(incoming) = self.incoming.remove(&stream) else {
            // No request came, or it is given up already, and this changes nothing.
            self.abandon(connection, stream, REQUEST_INCOMPLETE);
            return;
        };
        if incoming.is_short() {
            self.abandon(connection, stream, MESSAGE_ERROR);
        } else if let Some((request, upload)) = incoming.upload {
            self.answer(stream, request, upload.finish());
        }
    }

    fn answer(&mut self, stream: u64, request: Request, response: Response) {
        let outgoing = Outgoing {
            request,
            response,
            head_sent: false,
        };
        self.responses.insert(stream, outgoing);
    }

    fn abandon(&mut self, connection: &mut Connection, stream: u64, error: u64) {
        self.incoming.remove(&stream);
        self.asked.retain(|(asked, _)| *asked != stream);
        self.responses.remove(&stream);
        // Its response is reset before it is sent.
        release(&mut self.h3, connection, stream);
        // The stream may be gone already.
        let _ = connection.stream_shutdown(stream, Shutdown::Read, error);
        let _ = connection.stream_shutdown(stream, Shutdown::Write, error);
    }

    /// Writes as much of the responses as the connection takes; true if that was anything.
    pub(super) fn write(&mut self, connection: &mut Connection) -> bool {
        let mut any = false;
        for stream in connection.writable() {
            let Some(outgoing) = self.responses.get_mut(&stream) else {
                continue;
            };
            match outgoing.write(&mut self.h3, connection, stream) {
                Ok(progress) => {
                    any |= progress.any;
                    if progress.finished {
                        outgoing.log();
                        self.responses.remove(&stream);
                        self.delivery.written(connection, stream);
                    }
                }
                Err(code) => self.abandon(connection, stream, code),
            }
        }
        any
    }
}

impl Incoming {
    /// True if less came than was promised.
    fn is_short(&self) -> bool {
        self.promised_bytes
            .is_some_and(|promised| self.received_bytes < promised)
    }

    /// True if more came than was promised.
    fn is_long(&self) -> bool {
        self.promised_bytes
            .is_some_and(|promised| self.received_bytes > promised)
    }
}

/// Has quiche forget a stream that is gone, and the buffer of its header section: it does when
/// nothing more can be sent on it.
fn release(h3: &mut h3::Connection, connection: &mut Connection, stream: u64) {
    let head = [h3::Header::new(b":status", b"500")];
    let _ = h3.send_response(connection, stream, &head, true);
    let _ = h3.send_body(connection, stream, b"", true);
}

struct Progress {
    any: bool,
    finished: bool,
}

impl Outgoing {
    /// The error is the code with which to reset the stream.
    fn write(
        &mut self,
        h3: &mut h3::Connection,
        connection: &mut Connection,
        stream: u64,
    ) -> Result<Progress, u64> {
        let mut progress = Progress {
            any: false,
            finished: false,
        };
        if !self.head_sent {
            let head = head(&self.response);
            let finished = self.response.body.left_bytes() == 0;
            match h3.send_response(connection, stream, &head, finished) {
                Ok(()) => {}
                Err(h3::Error::StreamBlocked | h3::Error::Done) => return Ok(progress),
                Err(_) => return Err(INTERNAL_ERROR),
            }
            self.head_sent = true;
            progress.any = true;
            progress.finished = finished;
        }
        let body = &mut self.response.body;
        while !progress.finished {
            let (bytes, last) = body.peek().map_err(|error| {
                tracing::warn!(path = self.request.path, %error, "cannot be read");
                INTERNAL_ERROR
            })?;
            let offered = bytes.len();
            match h3.send_body(connection, stream, bytes, last) {
                Ok(sent) => {
                    body.advance(sent);
                    progress.any = true;
                    progress.finished = last && sent == offered;
                    if sent < offered {
                        break;
                    }
                }
                Err(h3::Error::StreamBlocked | h3::Error::Done) => break,
                Err(_) => return Err(INTERNAL_ERROR),
            }
        }
        Ok(progress)
    }

    fn log(&self) {
        tracing::info!(
            method = self.request.method,
            path = self.request.path,
            status = self.response.status,
            "request"
        );
    }
}

fn head(response: &Response) -> Vec<h3::Header> {
    let status = response.status.to_string();
    std::iter::once((":status", status.as_str()))
        .chain(
            response
                .fields
                .iter()
                .map(|(name, value)| (*name, value.as_str())),
        )
        .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()))
        .collect()
}
