//! HTTP/3 requests of one connection.

use std::collections::BTreeMap;

use quiche::h3;
use quiche::{Connection, Shutdown};

use crate::server::Service;
use crate::server::delivery::Delivery;
use crate::server::request::Request;
use crate::server::respond::{Response, respond};
use crate::server::responses::Responses;
use crate::server::upload::Upload;

/// Error codes of HTTP/3 (RFC 9114 §8.1).
const NO_ERROR: u64 = 0x100;
const INTERNAL_ERROR: u64 = 0x102;
const MESSAGE_ERROR: u64 = 0x10e;

/// The largest header section that is read.
const MAX_FIELDS_BYTES: u64 = 32 << 10;

/// Uploads of one connection at a time: each may have a file open.
const MAX_UPLOADS: usize = 100;

/// An HTTP/3 connection of a client.
pub(super) struct Http3 {
    h3: h3::Connection,
    responses: Responses<Outgoing>,
    uploads: BTreeMap<u64, (Request, Upload)>,
    delivery: Delivery,
    /// The first stream ID that is no longer served.
    end: u64,
    leaving: bool,
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
            responses: Responses::default(),
            uploads: BTreeMap::new(),
            delivery: Delivery::default(),
            end: 0,
            leaving: false,
        })
    }

    /// True if every response that was asked for has arrived.
    pub(super) fn is_idle(&mut self, connection: &mut Connection) -> bool {
        self.responses.is_empty()
            && self.uploads.is_empty()
            && self.delivery.is_complete(connection)
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
                Ok((stream, h3::Event::Finished)) => {
                    if let Some((request, upload)) = self.uploads.remove(&stream) {
                        self.answer(stream, request, upload.finish());
                    }
                }
                Ok((stream, h3::Event::Reset(_))) => {
                    self.uploads.remove(&stream);
                    self.abandon(connection, stream, NO_ERROR);
                }
                Ok((_, h3::Event::PriorityUpdate | h3::Event::GoAway)) => {}
                Err(h3::Error::Done) => break,
                Err(error) => {
                    // quiche has closed the connection with the right code.
                    tracing::debug!(%error, "HTTP/3 error");
                    break;
                }
            }
        }
        self.begin_responses(service);
    }

    /// Begins the responses whose turn it is.
    fn begin_responses(&mut self, service: &Service) {
        while let Some((stream, request)) = self.responses.next() {
            let response = respond(&service.files, &request);
            self.answer(stream, request, response);
        }
    }

    fn begin(
        &mut self,
        connection: &mut Connection,
        service: &Service,
        stream: u64,
        list: &[h3::Header],
        more_frames: bool,
    ) {
        if self.uploads.contains_key(&stream) {
            return; // Trailers, which nothing here needs.
        }
        if self.leaving && stream >= self.end {
            self.abandon(connection, stream, 0x10b); // H3_REQUEST_REJECTED
            return;
        }
        self.end = self.end.max(stream + 4);
        let Some(request) = Request::from_fields(list) else {
            self.abandon(connection, stream, MESSAGE_ERROR);
            return;
        };
        let response = match request.method.as_str() {
            "GET" | "HEAD" => {
                self.responses.ask(stream, request);
                return;
            }
            // Early data may be a replay (RFC 8470).
            "POST" | "PUT" if connection.is_in_early_data() => {
                Response::text(425, "not in early data\n")
            }
            "POST" | "PUT" if self.uploads.len() >= MAX_UPLOADS => {
                Response::text(503, "too many uploads at a time\n")
            }
            "POST" | "PUT" => match service.uploads.begin(&request.path) {
                Ok(upload) if more_frames => {
                    self.uploads.insert(stream, (request, upload));
                    return;
                }
                Ok(upload) => upload.finish(),
                Err(refusal) => refusal,
            },
            _ => Response::text(405, "GET, HEAD, POST and PUT are served\n")
                .with("allow", "GET, HEAD, POST, PUT"),
        };
        self.answer(stream, request, response);
    }

    fn receive(&mut self, connection: &mut Connection, stream: u64) {
        let mut buffer = [0; 16 << 10];
        while let Ok(bytes) = self.h3.recv_body(connection, stream, &mut buffer) {
            let Some((_, upload)) = self.uploads.get_mut(&stream) else {
                continue; // The body of a request that is answered already.
            };
            if let Err(refusal) = upload.write(&buffer[..bytes]) {
                if let Some((request, _)) = self.uploads.remove(&stream) {
                    self.answer(stream, request, refusal);
                }
                // The rest is not needed (RFC 9114 §4.1.1).
                let _ = connection.stream_shutdown(stream, Shutdown::Read, NO_ERROR);
                return;
            }
        }
    }

    fn answer(&mut self, stream: u64, request: Request, response: Response) {
        let outgoing = Outgoing {
            request,
            response,
            head_sent: false,
        };
        self.responses.send(stream, outgoing);
    }

    fn abandon(&mut self, connection: &mut Connection, stream: u64, error: u64) {
        self.responses.remove(stream);
        // The stream may be gone already.
        let _ = connection.stream_shutdown(stream, Shutdown::Read, error);
        let _ = connection.stream_shutdown(stream, Shutdown::Write, error);
    }

    /// Writes as much of the responses as the connection takes; true if that was anything.
    pub(super) fn write(&mut self, connection: &mut Connection, service: &Service) -> bool {
        let mut any = false;
        for stream in connection.writable() {
            let Some(outgoing) = self.responses.sending(stream) else {
                continue;
            };
            match outgoing.write(&mut self.h3, connection, stream) {
                Ok(progress) => {
                    any |= progress.any;
                    if progress.finished {
                        outgoing.log();
                        self.responses.remove(stream);
                        self.delivery.written(connection, stream);
                    }
                }
                Err(code) => self.abandon(connection, stream, code),
            }
        }
        self.begin_responses(service);
        any
    }
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
