//! Stream data. The bodies that simulated applications send are zeros, so a buffer of them is only
//! a length, or a pattern that shows where each byte belongs; HTTP/3 also writes headers.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use gallop_network::random;
use quiche::{BufFactory, BufSplit};
use rand::Rng;

/// The longest buffer, in bytes.
pub(crate) const MAX_BUFFER_BYTES: usize = 1 << 16;

pub(crate) static ZEROS: [u8; MAX_BUFFER_BYTES] = [0; MAX_BUFFER_BYTES];

/// The number of bytes after which the pattern repeats itself. It is prime, so that data that was
/// moved by whole datagrams or buffers looks different.
const PATTERN_BYTES: usize = 65_521;

/// The pattern, repeated for so long that a buffer can begin anywhere.
static PATTERN: LazyLock<Arc<[u8]>> = LazyLock::new(|| {
    let mut pattern = vec![0; PATTERN_BYTES];
    random::stream(0, 0).fill_bytes(&mut pattern);
    pattern.extend_from_within(..);
    pattern.into()
});

/// Content of the bodies of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Zeros.
    Zeros,
    /// Random bytes that the receiver knows.
    Pattern,
}

impl Content {
    /// The content at `offset` of `stream`: `length` bytes, or as many as a buffer holds if that is
    /// less.
    pub(crate) fn piece(self, stream: u64, offset: u64, length: u64) -> StreamData {
        let zeros = StreamData::zeros(length);
        match self {
            Content::Zeros => zeros,
            Content::Pattern => StreamData {
                bytes: Some(Arc::clone(&PATTERN)),
                start: ((offset + STREAM_SHIFT_BYTES * stream) % PATTERN_BYTES as u64) as usize,
                length: zeros.length.min(PATTERN_BYTES),
                ..StreamData::default()
            },
        }
    }

    /// True if `bytes` are the content at `offset` of `stream`.
    pub(crate) fn is_at(self, stream: u64, offset: u64, bytes: &[u8]) -> bool {
        let mut at = offset;
        bytes.chunks(PATTERN_BYTES).all(|bytes| {
            let piece = self.piece(stream, at, bytes.len() as u64);
            at += bytes.len() as u64;
            piece.as_ref() == bytes
        })
    }
}

/// The distance in the pattern between the places at which the bodies of two streams begin.
const STREAM_SHIFT_BYTES: u64 = 7919;

/// Bytes that an application hands to a stream.
#[derive(Clone, Debug, Default)]
pub struct StreamData {
    /// `None` for zeros.
    bytes: Option<Arc<[u8]>>,
    start: usize,
    length: usize,
    /// Counts the bytes as held until quiche drops the buffer, which it does when all of it has
    /// been acknowledged.
    _held: Option<Rc<Held>>,
}

impl StreamData {
    /// `length` zeros, or as many as a buffer holds if that is less.
    #[must_use]
    pub(crate) fn zeros(length: u64) -> StreamData {
        StreamData {
            length: usize::try_from(length).map_or(MAX_BUFFER_BYTES, |n| n.min(MAX_BUFFER_BYTES)),
            ..StreamData::default()
        }
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn is_zeros(&self) -> bool {
        self.bytes.is_none()
    }
}

impl AsRef<[u8]> for StreamData {
    fn as_ref(&self) -> &[u8] {
        let all: &[u8] = self.bytes.as_deref().unwrap_or(&ZEROS);
        &all[self.start..self.start + self.length]
    }
}

impl BufSplit for StreamData {
    fn split_at(&mut self, at: usize) -> StreamData {
        let mut rest = self.clone();
        rest.length = self.length - at;
        if self.bytes.is_some() {
            rest.start = self.start + at;
        }
        self.length = at;
        rest
    }
}

/// Makes [`StreamData`] for quiche.
#[derive(Clone, Debug, Default)]
pub struct StreamBuffers;

impl BufFactory for StreamBuffers {
    type Buf = StreamData;
    type DgramBuf = Vec<u8>;

    fn buf_from_slice(bytes: &[u8]) -> StreamData {
        StreamData {
            bytes: Some(bytes.into()),
            length: bytes.len(),
            ..StreamData::default()
        }
    }

    fn dgram_buf_from_slice(bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
}

/// The sender's socket buffer: the data that the application has handed over and that has not been
/// sent, or has not been acknowledged together with all data before it.
#[derive(Clone, Debug)]
pub(crate) struct SendBuffer {
    limit: u64,
    held: Rc<Cell<u64>>,
}

/// Bytes in a [`SendBuffer`].
#[derive(Debug)]
struct Held {
    bytes: u64,
    held: Rc<Cell<u64>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.held.set(self.held.get() - self.bytes);
    }
}

impl SendBuffer {
    /// An empty buffer of `limit` bytes.
    pub(crate) fn new(limit: u64) -> SendBuffer {
        let held = Rc::default();
        SendBuffer { limit, held }
    }

    /// Bytes that still fit.
    pub(crate) fn room(&self) -> u64 {
        self.limit.saturating_sub(self.held.get())
    }

    /// Bytes that it holds.
    pub(crate) fn held(&self) -> u64 {
        self.held.get()
    }

    /// Returns `data`, counted as held.
    pub(crate) fn hold(&self, data: StreamData) -> StreamData {
        let bytes = data.length as u64;
        let held = Rc::clone(&self.held);
        held.set(held.get() + bytes);
        StreamData {
            _held: Some(Rc::new(Held { bytes, held })),
            ..data
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_and_bytes_split_alike() {
        let mut zeros = StreamData::zeros(10);
        let rest = zeros.split_at(4);
        assert_eq!((zeros.as_ref(), rest.as_ref()), (&[0; 4][..], &[0; 6][..]));
        let mut bytes = StreamBuffers::buf_from_slice(b"headers");
        let mut rest = bytes.split_at(4);
        let last = rest.split_at(2);
        let parts = [bytes.as_ref(), rest.as_ref(), last.as_ref()];
        assert_eq!(parts, [b"head".as_slice(), b"er", b"s"]);
    }

    #[test]
    fn a_pattern_tells_offsets_and_streams_apart() {
        for (offset, length) in [(0, 100), (65_520, 3000), (1 << 40, 65_521)] {
            let mut piece = Content::Pattern.piece(4, offset, length);
            assert_eq!(piece.length() as u64, length);
            assert!(Content::Pattern.is_at(4, offset, piece.as_ref()));
            assert!(!Content::Pattern.is_at(4, offset + 1, piece.as_ref()));
            assert!(!Content::Pattern.is_at(8, offset, piece.as_ref()));
            let rest = piece.split_at(40);
            assert!(Content::Pattern.is_at(4, offset + 40, rest.as_ref()));
        }
        let whole = Content::Pattern.piece(0, 7, u64::MAX);
        let longer = [whole.as_ref(), whole.as_ref()].concat();
        assert!(Content::Pattern.is_at(0, 7, &longer), "it repeats itself");
    }

    #[test]
    fn room_comes_back_when_the_last_part_of_a_buffer_goes() {
        let buffer = SendBuffer::new(100);
        let mut first = buffer.hold(StreamData::zeros(60));
        assert_eq!(buffer.room(), 40);
        let rest = first.split_at(10);
        drop(first);
        assert_eq!(buffer.room(), 40);
        drop(rest);
        assert_eq!(buffer.room(), 100);
    }
}
