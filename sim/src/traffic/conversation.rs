//! Requests and answers of a connection.

use std::fmt;
use std::iter;
use std::time::Duration;

use serde::Deserialize;

use super::Source;

/// A request and its answer.
#[derive(Debug)]
pub struct Exchange {
    /// The time that the client waits before it asks; [`Pace`] gives its start.
    pub wait: Duration,
    /// Length of the request, in stream bytes; over HTTP/3 the request is its headers.
    pub request_bytes: u64,
    /// The server's answer.
    pub answer: Box<dyn Source>,
}

/// The rule by which the next exchange begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// This many are under way at once; when one ends, the client takes the next and waits. The
    /// first wait is counted from the end of the handshake.
    Closed(u64),
    /// The wait is counted from the time at which the request before was due, answered or not.
    Open,
}

/// The exchanges of a connection. The flow has finished after all have ended and no more come.
pub struct Conversation {
    pub(crate) exchanges: Box<dyn Iterator<Item = Exchange>>,
    pub(crate) pace: Pace,
    pub(crate) protocol: Protocol,
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation")
            .field("pace", &self.pace)
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

/// The protocol of requests and answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// HTTP/3 (RFC 9114).
    #[default]
    Http3,
    /// A QUIC stream for each, and nothing else on it.
    Streams,
}

/// The length of a request that only names the data to send, in bytes.
pub(crate) const REQUEST_BYTES: u64 = 32;

impl Conversation {
    /// The exchanges of an iterator, over `protocol`.
    #[must_use]
    pub fn new(
        exchanges: impl Iterator<Item = Exchange> + 'static,
        pace: Pace,
        protocol: Protocol,
    ) -> Conversation {
        Conversation {
            exchanges: Box::new(exchanges),
            pace,
            protocol,
        }
    }

    /// One short request, at once, and one answer over a stream.
    #[must_use]
    pub fn answer(answer: Box<dyn Source>) -> Conversation {
        let exchange = Exchange {
            wait: Duration::ZERO,
            request_bytes: REQUEST_BYTES,
            answer,
        };
        Conversation::new(iter::once(exchange), Pace::Closed(1), Protocol::Streams)
    }

    /// No exchange at all.
    pub(crate) fn empty() -> Conversation {
        Conversation::new(iter::empty(), Pace::Open, Protocol::Streams)
    }
}
