//! A file for a qlog. quiche drops errors of the writer, so the file remembers
//! the first.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Writes of that size go to the file.
const BUFFER_BYTES: usize = 1 << 18;

/// The first error of a trace file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<io::Error>>>);

impl Failure {
    /// The first error until now, if there was one.
    pub(crate) fn check(&self) -> io::Result<()> {
        let mut error = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        error.take().map_or(Ok(()), Err)
    }

    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| {
            let copy = io::Error::new(error.kind(), error.to_string());
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert(copy);
        })
    }
}

struct TraceFile {
    file: File,
    failure: Failure,
}

impl Write for TraceFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.file.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            result => self.failure.note(result),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.failure.note(self.file.flush())
    }
}

/// Creates the file. All is written when the writer has been dropped; then ask
/// whether it failed.
pub(crate) fn create(path: &Path) -> io::Result<(Box<dyn Write + Send + Sync>, Failure)> {
    let failure = Failure::default();
    let file = TraceFile {
        file: File::create(path)?,
        failure: failure.clone(),
    };
    Ok((
        Box::new(BufWriter::with_capacity(BUFFER_BYTES, file)),
        failure,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_not_forgotten() {
        let (mut writer, failure) = create(Path::new("/dev/full")).expect("it opens");
        writer.write_all(b"trace").expect("it is buffered");
        drop(writer);
        let error = failure.check().expect_err("nothing fits on it");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
