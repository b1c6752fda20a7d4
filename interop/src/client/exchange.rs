//! Requests and responses over one connection, in either protocol.

use std::collections::BTreeMap;
use std::time::Instant;

use quiche::h3;
use quiche::{Connection, Shutdown};

use crate::body::Body;
use crate::client::response::Head;
use crate::client::transfer::{Job, Outcome, Transfer};
use crate::fields;

/// RFC 9114 §8.1.
const FRAME_UNEXPECTED: u64 = 0x105;
const REQUEST_CANCELLED: u64 = 0x10c;
const MESSAGE_ERROR: u64 = 0x10e;

/// The largest header section that is read, as RFC 9114 §4.2.2 counts.
const MAX_FIELDS_BYTES: u64 = 64 << 10;

/// The transfers of a connection.
pub(super) struct Exchange {
    protocol: Protocol,
    transfers: BTreeMap<u64, Transfer>,
    finished: Vec<Outcome>,
    received_bytes: u64,
    uploaded_bytes: u64,
}

enum Protocol {
    Http3(Box<h3::Connection>),
    Hq { next_stream: u64 },
}

impl Exchange {
    pub(super) fn http3(connection: &mut Connection) -> h3::Result<Self> {
        let mut config = h3::Config::new()?;
        config.set_max_field_section_size(MAX_FIELDS_BYTES);
        let h3 = h3::Connection::with_transport(connection, &config)?;
        Ok(Exchange::new(Protocol::Http3(Box::new(h3))))
    }

    pub(super) fn hq() -> Self {
        Exchange::new(Protocol::Hq { next_stream: 0 })
    }

    fn new(protocol: Protocol) -> Self {
        Exchange {
            protocol,
            transfers: BTreeMap::new(),
            finished: Vec::new(),
            received_bytes: 0,
            uploaded_bytes: 0,
        }
    }

    /// The number of transfers in progress.
    pub(super) fn active(&self) -> usize {
        self.transfers.len()
    }

    /// Transfers that have ended since the last call.
    pub(super) fn take_finished(&mut self) -> Vec<Outcome> {
        std::mem::take(&mut self.finished)
    }

    /// Body bytes received and sent so far.
    pub(super) fn moved_bytes(&self) -> u64 {
        self.received_bytes + self.uploaded_bytes
    }

    /// Sends a request; gives the job back if the connection takes none now.
    pub(super) fn request(&mut self, connection: &mut Connection, job: Job) -> Option<Job> {
        if connection.peer_streams_left_bidi() == 0 {
            return Some(job);
        }
        let mut transfer = match Transfer::begin(job, Instant::now()) {
            Ok(transfer) => transfer,
            Err(refusal) => {
                let (job, error) = *refusal;
                self.finished.push(job.failed(error, true));
                return None;
            }
        };
        let sent = match &mut self.protocol {
            Protocol::Http3(h3) => {
                let has_body = transfer.job.upload.is_some();
                match h3.send_request(connection, &head(&transfer), !has_body) {
                    Ok(stream) => Ok(Some(stream)),
                    Err(h3::Error::StreamBlocked | h3::Error::Done) => Ok(None),
                    Err(h3::Error::TransportError(quiche::Error::StreamLimit)) => Ok(None),
                    Err(error) => Err(error.to_string()),
                }
            }
            Protocol::Hq { next_stream } => {
                let line = format!("GET {}\r\n", transfer.job.path());
                match connection.stream_send(*next_stream, line.as_bytes(), true) {
                    Ok(sent) => {
                        // The window may have had room for a part; `write` sends the rest.
                        transfer.body = Body::text(&line);
                        transfer.body.advance(sent);
                        *next_stream += 4;
                        Ok(Some(*next_stream - 4))
                    }
                    Err(quiche::Error::Done | quiche::Error::StreamLimit) => Ok(None),
                    Err(error) => Err(error.to_string()),
                }
            }
        };
        match sent {
            Ok(Some(stream)) => {
                self.transfers.insert(stream, transfer);
                None
            }
            Ok(None) => Some(transfer.job),
            Err(error) => {
                self.finished.push(transfer.end(Some(error), false));
                None
            }
        }
    }

    /// Reads received data.
    pub(super) fn read(&mut self, connection: &mut Connection) {
        match self.protocol {
            Protocol::Http3(_) => self.read_http3(connection),
            Protocol::Hq { .. } => self.read_hq(connection),
        }
    }

    fn read_http3(&mut self, connection: &mut Connection) {
        loop {
            let Protocol::Http3(h3) = &mut self.protocol else {
                return;
            };
            match h3.poll(connection) {
                Ok((stream, h3::Event::Headers { list, .. })) => {
                    if let Err(error) = self.receive_fields(stream, &list) {
                        self.give_up(connection, stream, MESSAGE_ERROR, error, false);
                    }
                }
                // Not even an empty frame may be out of place.
                Ok((stream, h3::Event::Data)) if self.is_out_of_place(stream) => {
                    // RFC 9114 §4.1. `Done` says that it is closed already.
                    let _ = connection.close(true, FRAME_UNEXPECTED, b"DATA out of place");
                    let error = "a body before the header or after the trailers".to_owned();
                    self.end(stream, Some(error), false);
                }
                Ok((stream, h3::Event::Data)) => self.receive_data(connection, stream),
                Ok((stream, h3::Event::Finished)) => {
                    let error = self.transfers.get(&stream).and_then(|transfer| {
                        match transfer.has_head() {
                            true => transfer.shortage(),
                            false => Some("a response without a status".to_owned()),
                        }
                    });
                    self.end(stream, error, false);
                }
                Ok((stream, h3::Event::Reset(code))) => self.end(stream, Some(reset(code)), false),
                Ok((_, h3::Event::PriorityUpdate | h3::Event::GoAway)) => {}
                Err(_) => return, // Done, or the connection is closed by quiche.
            }
        }
    }

    /// Reads a header or trailer section; the error says why it is malformed.
    fn receive_fields(&mut self, stream: u64, list: &[h3::Header]) -> Result<(), String> {
        let Some(transfer) = self.transfers.get_mut(&stream) else {
            return Ok(());
        };
        let malformed = |error| format!("a malformed response: {error}");
        if transfer.has_head() {
            if std::mem::replace(&mut transfer.has_trailers, true) {
                return Err("a response with trailers twice".to_owned());
            }
            return fields::check_trailers(list).map_err(malformed);
        }
        // 1xx are interim (RFC 9110 §15.2).
        let head = Head::from_fields(list, transfer.job.method).map_err(malformed)?;
        transfer.status = Some(head.status);
        transfer.promised_bytes = head.content_length;
        Ok(())
    }

    /// True if no DATA frame may come now.
    fn is_out_of_place(&self, stream: u64) -> bool {
        self.transfers
            .get(&stream)
            .is_some_and(|transfer| !transfer.has_head() || transfer.has_trailers)
    }

    fn receive_data(&mut self, connection: &mut Connection, stream: u64) {
        let mut buffer = [0; 64 << 10];
        loop {
            let Protocol::Http3(h3) = &mut self.protocol else {
                return;
            };
            let bytes = match h3.recv_body(connection, stream, &mut buffer) {
                Ok(bytes) => bytes,
                // No event tells of this reset any more.
                Err(h3::Error::TransportError(quiche::Error::StreamReset(code))) => {
                    self.end(stream, Some(reset(code)), false);
                    return;
                }
                Err(_) => return, // Done, or the connection is closed by quiche.
            };
            self.received_bytes += bytes as u64;
            let Some(transfer) = self.transfers.get_mut(&stream) else {
                continue;
            };
            let (code, error, is_local) = if transfer.is_excess(bytes) {
                let error = "more bytes came than the response's length".to_owned();
                (MESSAGE_ERROR, error, false)
            } else if let Err(error) = transfer.receive(&buffer[..bytes]) {
                (REQUEST_CANCELLED, error, true)
            } else {
                continue;
            };
            self.give_up(connection, stream, code, error, is_local);
            return;
        }
    }

    /// Ends a transfer, and its stream.
    fn give_up(
        &mut self,
        connection: &mut Connection,
        stream: u64,
        code: u64,
        error: String,
        is_local: bool,
    ) {
        // The stream may be gone already.
        let _ = connection.stream_shutdown(stream, Shutdown::Read, code);
        let _ = connection.stream_shutdown(stream, Shutdown::Write, code);
        self.end(stream, Some(error), is_local);
    }

    fn end(&mut self, stream: u64, error: Option<String>, is_local: bool) {
        end(
            &mut self.transfers,
            &mut self.finished,
            stream,
            error,
            is_local,
        );
    }

    fn read_hq(&mut self, connection: &mut Connection) {
        let mut buffer = [0; 64 << 10];
        for stream in connection.readable() {
            loop {
                let Some(transfer) = self.transfers.get_mut(&stream) else {
                    // Not asked for, or given up.
                    let _ = connection.stream_shutdown(stream, Shutdown::Read, 0);
                    break;
                };
                match connection.stream_recv(stream, &mut buffer) {
                    Ok((bytes, is_end)) => {
                        self.received_bytes += bytes as u64;
                        let written = transfer.receive(&buffer[..bytes]);
                        if written.is_err() || is_end {
                            let is_local = written.is_err();
                            let error = written.err();
                            end(
                                &mut self.transfers,
                                &mut self.finished,
                                stream,
                                error,
                                is_local,
                            );
                        }
                    }
                    Err(quiche::Error::Done) => break,
                    Err(error) => {
                        let error = match error {
                            quiche::Error::StreamReset(code) => reset(code),
                            error => error.to_string(),
                        };
                        end(
                            &mut self.transfers,
                            &mut self.finished,
                            stream,
                            Some(error),
                            false,
                        );
                        break;
                    }
                }
            }
        }
    }

    /// Sends as much of the requests as the connection takes; true if that was anything.
    pub(super) fn write(&mut self, connection: &mut Connection) -> bool {
        let mut any = false;
        for stream in connection.writable() {
            let Some(transfer) = self.transfers.get_mut(&stream) else {
                continue;
            };
            let is_complete = match self.protocol {
                Protocol::Http3(_) => transfer.job.upload.is_none(),
                Protocol::Hq { .. } => transfer.body.left_bytes() == 0,
            };
            if is_complete {
                continue;
            }
            loop {
                let (bytes, is_last) = match transfer.body.peek() {
                    Ok(next) => next,
                    Err(error) => {
                        let _ =
                            connection.stream_shutdown(stream, Shutdown::Write, REQUEST_CANCELLED);
                        let error = Some(format!("the upload cannot be read: {error}"));
                        end(&mut self.transfers, &mut self.finished, stream, error, true);
                        break;
                    }
                };
                let offered = bytes.len();
                let sent = match &mut self.protocol {
                    Protocol::Http3(h3) => h3.send_body(connection, stream, bytes, is_last).ok(),
                    Protocol::Hq { .. } => connection.stream_send(stream, bytes, is_last).ok(),
                };
                // Done is the usual end; other errors show when the response is read.
                let Some(sent) = sent else {
                    break;
                };
                transfer.body.advance(sent);
                any = true;
                if transfer.job.upload.is_some() {
                    self.uploaded_bytes += sent as u64;
                }
                if sent < offered || is_last {
                    break;
                }
            }
        }
        any
    }

    /// Fails all transfers in progress: the connection is gone.
    pub(super) fn fail(&mut self, error: &str) {
        for (_, transfer) in std::mem::take(&mut self.transfers) {
            self.finished
                .push(transfer.end(Some(error.to_owned()), false));
        }
    }
}

fn end(
    transfers: &mut BTreeMap<u64, Transfer>,
    finished: &mut Vec<Outcome>,
    stream: u64,
    error: Option<String>,
    is_local: bool,
) {
    if let Some(transfer) = transfers.remove(&stream) {
        finished.push(transfer.end(error, is_local));
    }
}

fn head(transfer: &Transfer) -> Vec<h3::Header> {
    let job = &transfer.job;
    let authority = match (job.url.host_str(), job.url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or_default().to_owned(),
    };
    let path = job.path();
    let length = transfer.body.left_bytes().to_string();
    let mut fields = vec![
        (":method", job.method),
        (":scheme", "https"),
        (":authority", &authority),
        (":path", &path),
        ("user-agent", "gallop-client"),
    ];
    if job.upload.is_some() {
        fields.push(("content-length", &length));
    }
    let others = job
        .fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    fields
        .into_iter()
        .chain(others)
        .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()))
        .collect()
}

/// The error of a transfer that the server has reset.
fn reset(code: u64) -> String {
    format!("reset by the server (code {code:#x})")
}
