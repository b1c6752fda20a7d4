//! The interop runner's HTTP/0.9: a request is `GET /path` and the end of the stream, the answer
//! the bytes of the file.

use std::collections::BTreeMap;

use quiche::{Connection, Shutdown};

use crate::body::Body;
use crate::server::Service;
use crate::server::delivery::{self, Delivery};
use crate::server::request::Request;
use crate::server::respond::respond;

/// The longest request line.
const MAX_REQUEST_BYTES: usize = 8 << 10;

/// A stream that gets no file is reset with this code; the protocol has none of its own.
const NO_FILE: u64 = 1;

/// A connection of raw requests.
#[derive(Default)]
pub(super) struct Hq {
    /// Requests whose line has not come to its end.
    requests: BTreeMap<u64, Vec<u8>>,
    /// Requests to be answered in this turn.
    asked: Vec<(u64, Request)>,
    responses: BTreeMap<u64, (Request, Body)>,
    delivery: Delivery,
}

impl Hq {
    /// True if every response that was asked for has arrived.
    pub(super) fn is_idle(&mut self, connection: &mut Connection) -> bool {
        self.requests.is_empty()
            && self.responses.is_empty()
            && self.delivery.is_complete(connection)
    }

    /// Reads received data and begins responses.
    pub(super) fn read(&mut self, connection: &mut Connection, service: &Service) {
        let streams: Vec<u64> = connection.readable().collect();
        for stream in streams {
            let mut buffer = [0; 4 << 10];
            loop {
                match connection.stream_recv(stream, &mut buffer) {
                    Ok((bytes, end)) => {
                        self.receive(connection, stream, &buffer[..bytes], end);
                    }
                    Err(quiche::Error::Done) => break,
                    Err(_) => {
                        self.requests.remove(&stream);
                        self.asked.retain(|(asked, _)| *asked != stream);
                        self.responses.remove(&stream);
                        let _ = connection.stream_shutdown(stream, Shutdown::Write, NO_FILE);
                        break;
                    }
                }
            }
        }
        // quiche tells of a response only as long as it keeps the stream.
        self.responses
            .retain(|stream, _| delivery::is_wanted(connection, *stream));
        self.begin(connection, service);
    }

    fn receive(&mut self, connection: &mut Connection, stream: u64, bytes: &[u8], end: bool) {
        // Bidirectional streams of the client (RFC 9000 §2.1).
        let is_known = self.responses.contains_key(&stream)
            || self.asked.iter().any(|(asked, _)| *asked == stream);
        if !stream.is_multiple_of(4) || is_known {
            return;
        }
        let request = self.requests.entry(stream).or_default();
        request.extend_from_slice(bytes);
        let is_too_long = request.len() > MAX_REQUEST_BYTES;
        if !end && !request.contains(&b'\n') && !is_too_long {
            return;
        }
        let request = self.requests.remove(&stream).unwrap_or_default();
        match Request::from_line(&request).filter(|_| !is_too_long) {
            Some(request) => self.asked.push((stream, request)),
            None => refuse(connection, stream),
        }
    }

    /// Begins the responses that were asked for.
    fn begin(&mut self, connection: &mut Connection, service: &Service) {
        for (stream, request) in std::mem::take(&mut self.asked) {
            if !delivery::is_wanted(connection, stream) {
                continue;
            }
            let response = respond(&service.files, &request);
            match response.status {
                200 => {
                    self.responses.insert(stream, (request, response.body));
                }
                _ => refuse(connection, stream),
            }
        }
    }

    /// Writes as much of the responses as the connection takes; true if that was anything.
    pub(super) fn write(&mut self, connection: &mut Connection) -> bool {
        let mut any = false;
        for stream in connection.writable() {
            let Some((request, body)) = self.responses.get_mut(&stream) else {
                continue;
            };
            let finished = loop {
                let Ok((bytes, last)) = body.peek() else {
                    let _ = connection.stream_shutdown(stream, Shutdown::Write, NO_FILE);
                    break true;
                };
                let offered = bytes.len();
                match connection.stream_send(stream, bytes, last) {
                    Ok(sent) => {
                        body.advance(sent);
                        any = true;
                        if last && sent == offered {
                            tracing::info!(method = "GET", path = request.path, "request");
                            break true;
                        }
                        if sent < offered {
                            break false;
                        }
                    }
                    Err(quiche::Error::Done) => break false,
                    Err(_) => break true,
                }
            };
            if finished {
                self.responses.remove(&stream);
                self.delivery.written(connection, stream);
            }
        }
        any
    }
}

/// Ends a stream that gets no file.
fn refuse(connection: &mut Connection, stream: u64) {
    // The stream may be gone already.
    let _ = connection.stream_shutdown(stream, Shutdown::Read, NO_FILE);
    let _ = connection.stream_shutdown(stream, Shutdown::Write, NO_FILE);
}
