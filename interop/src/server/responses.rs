//! Responses of one connection that are being sent, and requests that wait for their turn.

use std::collections::{BTreeMap, VecDeque};

use crate::server::request::Request;

/// The number of responses that are sent at a time: each has an open file and a part of it in
/// memory for as long as the client likes. More requests wait.
const MAX_SENDING: usize = 100;

/// The requests of one connection by stream; `T` is a response that is being sent.
#[derive(Debug)]
pub(super) struct Responses<T> {
    sending: BTreeMap<u64, T>,
    waiting: VecDeque<(u64, Request)>,
}

impl<T> Default for Responses<T> {
    fn default() -> Self {
        Responses {
            sending: BTreeMap::new(),
            waiting: VecDeque::new(),
        }
    }
}

impl<T> Responses<T> {
    /// A request, to be answered in its turn.
    pub(super) fn ask(&mut self, stream: u64, request: Request) {
        self.waiting.push_back((stream, request));
    }

    /// The next request to be answered, if it is its turn.
    pub(super) fn next(&mut self) -> Option<(u64, Request)> {
        match self.sending.len() < MAX_SENDING {
            true => self.waiting.pop_front(),
            false => None,
        }
    }

    /// A response, to be sent at once.
    pub(super) fn send(&mut self, stream: u64, response: T) {
        self.sending.insert(stream, response);
    }

    /// The response that is being sent on a stream.
    pub(super) fn sending(&mut self, stream: u64) -> Option<&mut T> {
        self.sending.get_mut(&stream)
    }

    /// True if a stream's request has been read and its response has not been sent completely.
    pub(super) fn contains(&self, stream: u64) -> bool {
        self.sending.contains_key(&stream)
            || self.waiting.iter().any(|(waiting, _)| *waiting == stream)
    }

    /// Forgets a stream.
    pub(super) fn remove(&mut self, stream: u64) {
        if self.sending.remove(&stream).is_none() {
            self.waiting.retain(|(waiting, _)| *waiting != stream);
        }
    }

    /// True if nothing is left to send.
    pub(super) fn is_empty(&self) -> bool {
        self.sending.is_empty() && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_until_there_is_room() {
        let mut responses = Responses::default();
        let last = MAX_SENDING as u64;
        for stream in 0..=last {
            responses.ask(stream, Request::default());
        }
        while let Some((stream, _)) = responses.next() {
            responses.send(stream, ());
        }
        assert!(responses.sending(last - 1).is_some());
        assert!(responses.sending(last).is_none());
        assert!(responses.contains(last));
        responses.remove(0);
        assert_eq!(responses.next().map(|(stream, _)| stream), Some(last));
        assert!(!responses.contains(last));
    }

    #[test]
    fn who_goes_waits_no_longer() {
        let mut responses: Responses<()> = Responses::default();
        responses.ask(0, Request::default());
        responses.ask(4, Request::default());
        responses.remove(0);
        assert_eq!(responses.next().map(|(stream, _)| stream), Some(4));
        assert!(responses.is_empty());
    }
}
