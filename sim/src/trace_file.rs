//! A file for a qlog, which appears when it is whole. quiche drops errors of the writer, so the
//! file remembers the first.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use gallop_files::WholeFile;

/// Writes of that size go to the file.
const BUFFER_BYTES: usize = 1 << 18;

/// A file that a writer elsewhere fills.
#[derive(Debug)]
pub(crate) struct TraceFile(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Nothing once it is finished.
    file: Option<WholeFile>,
    /// The first error.
    error: Option<io::Error>,
}

impl TraceFile {
    /// Begins the file; all is written when the writer has been dropped.
    pub(crate) fn create(path: &Path) -> io::Result<(TraceFile, Box<dyn Write + Send + Sync>)> {
        let state = Arc::new(Mutex::new(State {
            file: Some(WholeFile::create(path)?),
            error: None,
        }));
        let writer = BufWriter::with_capacity(BUFFER_BYTES, Writer(Arc::clone(&state)));
        Ok((TraceFile(state), Box::new(writer)))
    }

    /// Gives the file its name if all could be written to it.
    pub(crate) fn finish(self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (state.error.take(), state.file.take()) {
            (Some(error), _) => Err(error),
            (None, file) => file.map_or(Ok(()), WholeFile::finish),
        }
    }
}

/// The end of a trace file that is written to.
struct Writer(Arc<Mutex<State>>);

impl Writer {
    fn with<T: Default>(
        &self,
        work: impl FnOnce(&mut WholeFile) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = state.file.as_mut().map_or(Ok(T::default()), work);
        if let Err(error) = &result
            && error.kind() != io::ErrorKind::Interrupted
        {
            let copy = io::Error::new(error.kind(), error.to_string());
            state.error.get_or_insert(copy);
        }
        result
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with(WholeFile::flush)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_full_disk_is_not_forgotten() {
        let (file, mut writer) = TraceFile::create(Path::new("/dev/full")).expect("it opens");
        writer.write_all(b"trace").expect("it is buffered");
        drop(writer);
        let error = file.finish().expect_err("nothing fits on it");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_trace_appears_when_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("flow-0.server.sqlog");
        let (file, mut writer) = TraceFile::create(&path).expect("it opens");
        writer.write_all(b"trace").expect("it is buffered");
        drop(writer);
        assert!(!path.exists());
        file.finish().expect("it is whole");
        assert_eq!(fs::read(&path).expect("a trace"), b"trace");
    }
}
