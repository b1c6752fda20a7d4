//! Stream data without bytes: all data that simulated applications send are
//! zeros, so a buffer is only a length.

use quiche::{BufFactory, BufSplit};

/// The longest buffer, in bytes.
pub(crate) const MAX_BUFFER_BYTES: usize = 1 << 16;

static ZEROS: [u8; MAX_BUFFER_BYTES] = [0; MAX_BUFFER_BYTES];

/// A number of zero bytes.
#[derive(Clone, Debug, Default)]
pub struct Zeros {
    length: usize,
}

impl Zeros {
    /// `length` bytes, or as many as a buffer holds if that is less.
    #[must_use]
    pub(crate) fn new(length: u64) -> Zeros {
        Zeros {
            length: usize::try_from(length).map_or(MAX_BUFFER_BYTES, |n| n.min(MAX_BUFFER_BYTES)),
        }
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl AsRef<[u8]> for Zeros {
    fn as_ref(&self) -> &[u8] {
        &ZEROS[..self.length]
    }
}

impl BufSplit for Zeros {
    fn split_at(&mut self, at: usize) -> Zeros {
        let rest = Zeros {
            length: self.length - at,
        };
        self.length = at;
        rest
    }
}

/// Makes [`Zeros`] for quiche.
#[derive(Clone, Debug, Default)]
pub struct ZeroBuffers;

impl BufFactory for ZeroBuffers {
    type Buf = Zeros;
    type DgramBuf = Vec<u8>;

    /// quiche calls this only for data passed as a slice, which is cut into
    /// shorter pieces than a buffer holds; the simulator passes [`Zeros`].
    fn buf_from_slice(data: &[u8]) -> Zeros {
        debug_assert!(data.iter().all(|&byte| byte == 0));
        Zeros::new(data.len() as u64)
    }

    fn dgram_buf_from_slice(data: &[u8]) -> Vec<u8> {
        data.to_vec()
    }
}
