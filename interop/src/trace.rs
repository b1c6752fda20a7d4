//! Traces (qlog) and TLS secrets (key log) of connections.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::qvis::Qvis;

/// The flags for traces.
#[derive(Clone, Debug, clap::Args)]
pub struct Flags {
    /// Write a qlog trace of each connection into this folder
    #[arg(long, value_name = "FOLDER")]
    pub qlog_dir: Option<PathBuf>,

    /// Detail of the traces
    #[arg(long, value_enum, default_value_t, requires = "qlog_dir")]
    pub qlog: Detail,

    /// Write full traces for qvis alone; qlog-dancer opens those of `--qlog full`
    #[arg(long, requires = "qlog_dir", conflicts_with = "qlog")]
    pub qvis: bool,
}

/// The detail of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Detail {
    /// Losses, states of the controller, and metrics every 10 ms or 32 packets; fit for production.
    #[default]
    Sparse,
    /// Every packet; this costs more than half of the throughput.
    Full,
}

/// The least time between the metrics of a sparse trace; quiche also waits for 32 packets.
const SPARSE_INTERVAL: Duration = Duration::from_millis(10);

/// The folder of traces, and their contents.
#[derive(Clone, Debug)]
pub struct Traces {
    folder: PathBuf,
    detail: Detail,
    qvis: bool,
}

impl Traces {
    /// Traces in `folder`, which is made if it does not exist.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn new(folder: &Path, flags: &Flags) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Traces {
            folder: folder.to_owned(),
            detail: if flags.qvis { Detail::Full } else { flags.qlog },
            qvis: flags.qvis,
        })
    }

    /// Begins the trace of a connection: a file named after its first connection id and the side,
    /// with the controller as its title. A trace that cannot be written is skipped.
    pub fn begin(&self, connection: &mut quiche::Connection, side: &str, controller: &str) {
        let path = self.path(connection, side);
        let file = match File::create(&path) {
            Ok(file) => file,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "no trace");
                return;
            }
        };
        let file = BufWriter::new(file);
        let writer: Box<dyn Write + Send + Sync> = if self.qvis {
            Box::new(Qvis::new(file))
        } else {
            Box::new(file)
        };
        connection.set_qlog(
            writer,
            controller.to_owned(),
            format!("{side}, congestion control {controller}"),
        );
        if self.detail == Detail::Sparse {
            connection.set_qlog_interval(Some(SPARSE_INTERVAL));
        }
    }

    /// Removes the trace of a connection that never came about.
    pub fn discard(&self, connection: &quiche::Connection, side: &str) {
        // If there is none, it could not be written.
        let _ = std::fs::remove_file(self.path(connection, side));
    }

    fn path(&self, connection: &quiche::Connection, side: &str) -> PathBuf {
        self.folder
            .join(format!("{}_{side}.sqlog", connection.trace_id()))
    }
}

/// A file for the secrets of connections, in the format of NSS.
#[derive(Debug)]
pub struct KeyLog(File);

impl KeyLog {
    /// Appends to `path`. Who reads the file can read the connections: if it is new, only its owner
    /// may.
    ///
    /// # Errors
    ///
    /// It cannot be opened for writing.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(KeyLog(options.open(path)?))
    }

    /// A writer for one connection.
    ///
    /// # Errors
    ///
    /// There are no more file descriptors.
    pub fn writer(&self) -> io::Result<Box<dyn Write + Send + Sync>> {
        Ok(Box::new(self.0.try_clone()?))
    }
}
