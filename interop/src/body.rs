//! The content of a message after its header section.

use std::fmt;
use std::io::{self, Read};

/// The bytes that are read from a file at once: only some packets, because the server keeps as much
/// for each response that a client does not read.
const CHUNK_BYTES: usize = 16 << 10;

/// The bytes of a message: a source, and bytes that were read from it but not sent yet.
pub struct Body {
    source: Option<Box<dyn Read + Send>>,
    chunk: Vec<u8>,
    sent: usize,
    left_bytes: u64,
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes left)", self.left_bytes)
    }
}

impl Body {
    /// No bytes.
    pub fn empty() -> Self {
        Body::text("")
    }

    /// The bytes of a text.
    pub fn text(text: &str) -> Self {
        Body {
            source: None,
            chunk: text.as_bytes().to_vec(),
            sent: 0,
            left_bytes: text.len() as u64,
        }
    }

    /// So many bytes, which are read when they are needed.
    pub fn reader(source: Box<dyn Read + Send>, length_bytes: u64) -> Self {
        Body {
            source: Some(source),
            chunk: Vec::new(),
            sent: 0,
            left_bytes: length_bytes,
        }
    }

    /// The number of bytes that are still to be sent.
    pub fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// The bytes to send next, and whether they are the last.
    ///
    /// # Errors
    ///
    /// The source cannot be read, or is shorter than promised.
    pub fn peek(&mut self) -> io::Result<(&[u8], bool)> {
        if self.sent == self.chunk.len()
            && self.left_bytes > 0
            && let Some(source) = &mut self.source
        {
            let size = self.left_bytes.min(CHUNK_BYTES as u64) as usize;
            self.chunk.resize(size, 0);
            source.read_exact(&mut self.chunk)?;
            self.sent = 0;
        }
        let next = &self.chunk[self.sent..];
        Ok((next, next.len() as u64 == self.left_bytes))
    }

    /// Marks so many of these bytes as sent.
    pub fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        self.left_bytes -= bytes as u64;
    }
}
