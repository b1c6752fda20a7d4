//! The client's application, which asks and reads.

use std::collections::BTreeMap;
use std::time::Duration;

use gallop_network::time::Time;

use super::Requests;
use super::http3::Http3;
use crate::endpoint::buffers::{Content, MAX_BUFFER_BYTES, StreamData};
use crate::endpoint::connection::{Connection, ConnectionError, NO_HTTP3, failed};
use crate::endpoint::streams::Streams;
use crate::traffic::conversation::Protocol;
use crate::traffic::conversation::{Conversation, Exchange, Pace};
use crate::traffic::live::Live;

/// The client's application.
#[derive(Debug)]
pub(crate) struct Client {
    conversation: Conversation,
    requests: Requests,
    http3: Option<Http3>,
    /// Time at which the conversation is cut off.
    stop: Option<Time>,
    /// True if it closes the connection when it has finished.
    closes: bool,
    begun: bool,
    /// True if no more exchanges come.
    exhausted: bool,
    /// Exchanges that have not begun, and the times at which they do.
    waiting: Vec<(Time, Exchange)>,
    /// Exchanges under way, by stream.
    open: BTreeMap<u64, Open>,
    next_stream: u64,
    /// Bytes of the answers that were read.
    pub(crate) received: u64,
    /// Answers that have been read to the end.
    pub(crate) answers: Vec<Answer>,
    /// Time at which everything had been read.
    pub(crate) finished: Option<Time>,
    /// An answer that ended at another length than it should have: the length it should have had,
    /// and the one it has.
    pub(crate) wrong_length: Option<(u64, u64)>,
    /// Offset in an answer of the first byte that differs from the server's.
    pub(crate) wrong_content: Option<u64>,
    content: Content,
    /// The live stream that it reads.
    live: Option<Live>,
    /// Buffer for the content that is compared.
    scratch: Vec<u8>,
}

/// An exchange under way.
#[derive(Debug)]
struct Open {
    asked: Time,
    /// Bytes of the request that the stream has not taken yet.
    unsent: u64,
    received: u64,
    /// Bytes of the whole answer, if it ends.
    length: Option<u64>,
}

/// An answer that has been read to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// Time at which its end was read.
    pub(crate) ended: Time,
    /// Time from the request to that end.
    pub(crate) took: Duration,
}

impl Client {
    pub(crate) fn new(
        conversation: Conversation,
        requests: Requests,
        stop: Option<Time>,
        closes: bool,
        content: Content,
        live: Option<Live>,
    ) -> Client {
        Client {
            http3: (conversation.protocol == Protocol::Http3).then(Http3::default),
            conversation,
            requests,
            stop,
            closes,
            begun: false,
            exhausted: false,
            waiting: Vec::new(),
            open: BTreeMap::new(),
            next_stream: 0,
            received: 0,
            answers: Vec::new(),
            finished: None,
            wrong_length: None,
            wrong_content: None,
            content,
            live,
            scratch: Vec::new(),
        }
    }

    pub(super) fn wants_to_close(&self) -> bool {
        self.closes && self.finished.is_some()
    }

    pub(super) fn more_at(&self, after: Option<Time>) -> Option<Time> {
        let stop = self.stop.filter(|_| !self.waiting.is_empty());
        let due = self.waiting.iter().map(|(due, _)| *due);
        due.chain(stop).filter(|&time| Some(time) > after).min()
    }

    fn stopped(&self, now: Time) -> bool {
        self.stop.is_some_and(|stop| stop <= now)
    }

    /// Takes the next exchange; its wait begins at `from`.
    fn draw(&mut self, from: Time) {
        match self.conversation.exchanges.next() {
            Some(exchange) => self.waiting.push((from + exchange.wait, exchange)),
            None => self.exhausted = true,
        }
    }

    pub(super) fn write(
        &mut self,
        connection: &mut impl Streams,
        now: Time,
    ) -> Result<(), ConnectionError> {
        if !connection.is_established() {
            return Ok(());
        }
        if !self.begun {
            self.begun = true;
            let at_once = match self.conversation.pace {
                Pace::Closed(at_once) => at_once,
                Pace::Open => 1,
            };
            (0..at_once).for_each(|_| self.draw(now));
        }
        if self.stopped(now) {
            self.exhausted = true;
            self.waiting.clear();
        }
        while let Some(next) = self.waiting.iter().position(|(due, _)| *due <= now) {
            let (due, exchange) = self.waiting.swap_remove(next);
            if let Some(unsent) = self.ask(connection, exchange, now)? {
                self.waiting.push((due, unsent));
                break;
            }
            if self.conversation.pace == Pace::Open {
                self.draw(due);
            }
        }
        self.write_requests(connection)?;
        self.check_finished(now);
        Ok(())
    }

    /// Begins an exchange; returns it if the connection has no stream for it now.
    fn ask(
        &mut self,
        connection: &mut impl Streams,
        exchange: Exchange,
        now: Time,
    ) -> Result<Option<Exchange>, ConnectionError> {
        let (stream, unsent) = match &mut self.http3 {
            Some(http3) => match http3.ask(connection.quiche().ok_or(NO_HTTP3)?)? {
                Some(stream) => (stream, 0),
                None => return Ok(Some(exchange)),
            },
            None if !connection.open_request() => return Ok(Some(exchange)),
            None => (self.next_stream, exchange.request_bytes),
        };
        self.next_stream = stream + 4;
        let open = Open {
            asked: now,
            unsent,
            received: 0,
            length: exchange.answer.length(),
        };
        self.open.insert(stream, open);
        self.requests.borrow_mut().insert(stream, exchange.answer);
        Ok(None)
    }

    /// Hands the rest of the requests to their streams.
    fn write_requests(&mut self, connection: &mut impl Streams) -> Result<(), ConnectionError> {
        let unsent = self.open.iter_mut().filter(|(_, open)| open.unsent > 0);
        for (&stream, open) in unsent {
            let data = StreamData::zeros(open.unsent);
            let last = data.length() as u64 == open.unsent;
            let written = connection.send(stream, data, last, "sending a request")?;
            open.unsent -= written.unwrap_or(0) as u64;
        }
        Ok(())
    }

    pub(super) fn read(
        &mut self,
        connection: &mut impl Streams,
        now: Time,
    ) -> Result<bool, ConnectionError> {
        let mut ended = false;
        if let Some(mut http3) = self.http3.take() {
            let connection = connection.quiche().ok_or(NO_HTTP3)?;
            http3.read_answers(connection, |stream, bytes, end| {
                ended |= end;
                self.take(stream, bytes, end, now);
            })?;
            self.http3 = Some(http3);
        } else {
            let mut next = 0;
            while let Some((&stream, _)) = self.open.range(next..).next() {
                next = stream + 1;
                let read = match (self.content, connection.quiche()) {
                    (Content::Pattern, Some(connection)) => {
                        match self.read_and_compare(connection, stream) {
                            Ok((bytes, end)) => Some((bytes as u64, end)),
                            Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => None,
                            Err(error) => return Err(failed("reading an answer")(error)),
                        }
                    }
                    _ => connection.discard(stream, "reading an answer")?,
                };
                if let Some((bytes, end)) = read {
                    ended |= end;
                    self.take(stream, bytes, end, now);
                }
            }
        }
        ended |= self.read_frames(connection, now)?;
        if ended {
            self.check_finished(now);
        }
        Ok(ended)
    }

    /// Reads the frames of a live stream, each on a stream of its own; returns true if one ended.
    fn read_frames(
        &mut self,
        connection: &mut impl Streams,
        now: Time,
    ) -> Result<bool, ConnectionError> {
        let Some(live) = &self.live else {
            return Ok(false);
        };
        let mut ended = false;
        while let Some(stream) = connection.next_readable() {
            if self.open.contains_key(&stream) {
                continue;
            }
            if let Some((bytes, end)) = connection.discard(stream, "reading a frame")? {
                self.received += bytes;
                if end {
                    live.complete(stream, now);
                    ended = true;
                }
            }
        }
        Ok(ended)
    }

    /// Reads all of `stream` that is there, and compares it with the server's content.
    fn read_and_compare(
        &mut self,
        connection: &mut Connection,
        stream: u64,
    ) -> quiche::Result<(usize, bool)> {
        let start = self.open.get(&stream).map_or(0, |open| open.received);
        self.scratch.resize(MAX_BUFFER_BYTES, 0);
        let mut read = 0;
        loop {
            match connection.stream_recv(stream, &mut self.scratch) {
                Ok((bytes, end)) => {
                    let offset = start + read as u64;
                    if !self.content.is_at(stream, offset, &self.scratch[..bytes]) {
                        self.wrong_content.get_or_insert(offset);
                    }
                    read += bytes;
                    if end {
                        return Ok((read, true));
                    }
                }
                Err(quiche::Error::Done) if read > 0 => return Ok((read, false)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes `bytes` of the answer on `stream`.
    fn take(&mut self, stream: u64, bytes: u64, end: bool, now: Time) {
        self.received += bytes;
        let Some(open) = self.open.get_mut(&stream) else {
            return;
        };
        open.received += bytes;
        if !end {
            return;
        }
        if let Some(length) = open.length
            && length != open.received
            && self.stop.is_none_or(|stop| now < stop)
        {
            self.wrong_length = Some((length, open.received));
        }
        let took = now - open.asked;
        self.answers.push(Answer { ended: now, took });
        self.open.remove(&stream);
        if matches!(self.conversation.pace, Pace::Closed(_)) && !self.stopped(now) {
            self.draw(now);
        }
    }

    fn check_finished(&mut self, now: Time) {
        let over = (self.exhausted || self.stopped(now)) && self.waiting.is_empty();
        let frames_read = self.live.as_ref().is_none_or(Live::is_read);
        if over && self.open.is_empty() && frames_read && self.finished.is_none() {
            self.finished = Some(now);
        }
    }
}
