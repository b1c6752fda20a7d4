//! The server's application, which answers.

use gallop_network::time::Time;

use super::Requests;
use super::http3::Http3;
use crate::endpoint::buffers::{Content, SendBuffer, StreamData};
use crate::endpoint::connection::{ConnectionError, NO_HTTP3};
use crate::endpoint::streams::Streams;
use crate::traffic::Source;
use crate::traffic::conversation::Protocol;
use crate::traffic::live::Live;

/// The server's application.
#[derive(Debug)]
pub(crate) struct Server {
    requests: Requests,
    protocol: Protocol,
    http3: Option<Http3>,
    /// Time at which all answers are cut off.
    stop: Option<Time>,
    buffer: Option<Buffer>,
    content: Content,
    /// The live stream that it sends from the first request on.
    frames: Option<Frames>,
    /// Answers under way. The first of them writes first.
    services: Vec<Service>,
}

/// A live stream, and the part of it that has been handed over and not acknowledged.
#[derive(Debug)]
struct Frames {
    live: Live,
    buffer: SendBuffer,
    /// The size of the pieces in which frames are handed over.
    piece_bytes: u64,
}

/// The limit on the data that is handed over.
#[derive(Debug)]
struct Buffer {
    buffer: SendBuffer,
    /// The size of the pieces in which data is handed over, so that packets are full.
    piece_bytes: u64,
}

/// An answer under way.
#[derive(Debug)]
struct Service {
    stream: u64,
    source: Box<dyn Source>,
    requested: Time,
    written: u64,
    /// True if the end of the stream has been written.
    ended: bool,
    /// The time at which the source has more data.
    more_at: Option<Time>,
    /// True if the headers of HTTP/3 are still to be sent.
    headers_due: bool,
}

impl Server {
    /// A server that hands over `limit` bytes ahead of the acknowledgements, if there is a limit,
    /// in pieces of `piece_bytes`.
    pub(crate) fn new(
        requests: Requests,
        protocol: Protocol,
        stop: Option<Time>,
        limit: Option<u64>,
        piece_bytes: u64,
        content: Content,
        live: Option<Live>,
    ) -> Server {
        Server {
            requests,
            protocol,
            http3: (protocol == Protocol::Http3).then(Http3::default),
            stop,
            buffer: limit.map(|limit| Buffer {
                buffer: SendBuffer::new(limit),
                piece_bytes: piece_bytes.min(limit),
            }),
            content,
            frames: live.map(|live| Frames {
                live,
                buffer: SendBuffer::new(u64::MAX),
                piece_bytes,
            }),
            services: Vec::new(),
        }
    }

    pub(super) fn more_at(&self, after: Option<Time>) -> Option<Time> {
        // All answers under way end when the server stops.
        let stop = self
            .stop
            .filter(|&stop| Some(stop) > after && !self.services.is_empty());
        let more_at = self.services.iter().filter_map(|service| service.more_at);
        let frame_at = self
            .frames
            .as_ref()
            .and_then(|frames| frames.live.more_at());
        more_at.chain(stop).chain(frame_at).min()
    }

    pub(super) fn wake(&mut self, now: Time) {
        for service in &mut self.services {
            service.more_at = service.more_at.filter(|&more_at| more_at > now);
        }
        if let Some(frames) = &self.frames {
            frames.live.generate(now);
        }
    }

    pub(super) fn read(
        &mut self,
        connection: &mut impl Streams,
        now: Time,
    ) -> Result<bool, ConnectionError> {
        let before = self.services.len();
        if let Some(mut http3) = self.http3.take() {
            let connection = connection.quiche().ok_or(NO_HTTP3)?;
            http3.read_requests(connection, |stream| self.serve(stream, now))?;
            self.http3 = Some(http3);
        } else {
            while let Some(stream) = connection.next_readable() {
                while let Some((_, end)) = connection.discard(stream, "stream_discard()")? {
                    if end {
                        self.serve(stream, now);
                        break;
                    }
                }
            }
        }
        Ok(self.services.len() > before)
    }

    /// Begins the answer to the request on `stream`.
    fn serve(&mut self, stream: u64, now: Time) {
        if let Some(source) = self.requests.borrow_mut().remove(&stream) {
            if let Some(frames) = &self.frames {
                frames.live.begin(now, self.stop);
            }
            self.services.push(Service {
                stream,
                source,
                requested: now,
                written: 0,
                ended: false,
                more_at: None,
                headers_due: self.protocol == Protocol::Http3,
            });
        }
    }

    pub(super) fn write(
        &mut self,
        connection: &mut impl Streams,
        now: Time,
    ) -> Result<(), ConnectionError> {
        let mut stopped = self.stop.is_some_and(|stop| stop <= now);
        if let Some(frames) = &self.frames {
            frames.write(connection, now)?;
            // Its answer ends after the last frame.
            stopped &= frames.live.is_written(now);
        }
        for service in &mut self.services {
            service.write(
                connection,
                self.http3.as_mut(),
                self.buffer.as_ref(),
                self.content,
                stopped,
                now,
            )?;
        }
        self.services.retain(|service| !service.ended);
        // Another answer goes first the next time.
        if self.services.len() > 1 {
            self.services.rotate_left(1);
        }
        Ok(())
    }
}

impl Frames {
    /// Hands frames over, the oldest first, as far as the connection takes them. They are a window
    /// ahead of what can be sent at most, since what has been handed over cannot be skipped.
    ///
    /// NOTE: quiche takes a whole free window whenever it is asked, whatever it has not sent yet.
    fn write(&self, connection: &mut impl Streams, now: Time) -> Result<(), ConnectionError> {
        self.live.generate(now);
        let most = connection.window_bytes().saturating_mul(2);
        connection.hold_at_most(most);
        while self.buffer.held() < most
            && let Some(piece) = self.live.piece(now)
        {
            if piece.first && !connection.open_frame(piece.stream)? {
                break;
            }
            let bytes = piece.bytes.min(self.piece_bytes);
            let data = self.buffer.hold(StreamData::zeros(bytes));
            let last = bytes == piece.bytes;
            let written = connection.send(piece.stream, data, last, "sending a frame")?;
            let Some(written) = written else { break };
            self.live.wrote(written as u64);
            if (written as u64) < bytes {
                break;
            }
        }
        Ok(())
    }
}

impl Service {
    fn write(
        &mut self,
        connection: &mut impl Streams,
        mut http3: Option<&mut Http3>,
        buffer: Option<&Buffer>,
        content: Content,
        stopped: bool,
        now: Time,
    ) -> Result<(), ConnectionError> {
        if self.headers_due
            && let Some(http3) = http3.as_deref_mut()
        {
            let connection = connection.quiche().ok_or(NO_HTTP3)?;
            if !http3.answer(connection, self.stream)? {
                return Ok(());
            }
            self.headers_due = false;
        }
        while !self.ended {
            let offer = self.source.offer(now - self.requested, self.written);
            let (ready, all) = match stopped {
                true => (0, true),
                false => (offer.bytes, offer.last),
            };
            self.more_at = offer.more_at.map(|more_at| self.requested + more_at);
            if ready == 0 && !all {
                break;
            }
            let take = |length| content.piece(self.stream, self.written, length);
            let piece = match buffer {
                Some(buffer) => {
                    let piece = ready.min(buffer.piece_bytes);
                    if buffer.buffer.room() < piece {
                        break;
                    }
                    buffer.buffer.hold(take(piece))
                }
                None => take(ready),
            };
            let length = piece.length();
            let last = all && length as u64 == ready;
            let written = match http3.as_deref_mut() {
                Some(http3) => {
                    let connection = connection.quiche().ok_or(NO_HTTP3)?;
                    http3.send(connection, self.stream, piece, last)?
                }
                None => connection.send(self.stream, piece, last, "stream_send()")?,
            };
            let Some(written) = written else { break };
            self.written += written as u64;
            if written < length {
                break;
            }
            self.ended = last;
        }
        Ok(())
    }
}
