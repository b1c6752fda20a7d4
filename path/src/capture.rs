//! Packets in a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::SystemTime;

use crate::PathError;

/// Nanosecond timestamps, in the byte order of the writer (draft-ietf-opsawg-pcap §4).
const MAGIC: u32 = 0xa1b2_3c4d;
const VERSION: [u16; 2] = [2, 4];
/// Packets begin with the IP header (LINKTYPE_RAW).
const LINK_TYPE: u32 = 101;

/// A pcap file of IP packets.
#[derive(Debug)]
pub(crate) struct Capture {
    file: BufWriter<File>,
}

impl Capture {
    pub(crate) fn create(path: &Path) -> Result<Capture, PathError> {
        let failed = |error| PathError::Capture {
            path: path.display().to_string(),
            error,
        };
        let mut file = BufWriter::new(File::create(path).map_err(failed)?);
        let header = [
            &MAGIC.to_ne_bytes()[..],
            &VERSION[0].to_ne_bytes(),
            &VERSION[1].to_ne_bytes(),
            &[0; 8],
            &u32::from(u16::MAX).to_ne_bytes(),
            &LINK_TYPE.to_ne_bytes(),
        ];
        file.write_all(&header.concat()).map_err(failed)?;
        Ok(Capture { file })
    }

    /// Writes an IP packet that passes now.
    pub(crate) fn record(&mut self, packet: &[u8]) -> io::Result<()> {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let time = since_epoch.unwrap_or_default();
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        // Seconds have 32 bits in this format.
        let header = [time.as_secs() as u32, time.subsec_nanos(), length, length];
        self.file
            .write_all(&header.map(u32::to_ne_bytes).concat())?;
        self.file.write_all(packet)
    }

    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
