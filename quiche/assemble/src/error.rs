use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::{RELEASE, VARIABLE};

/// The reason for which a source tree of quiche could not be put together.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// A file or folder could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },

    /// Cargo could not be started.
    #[error("cannot run {} to find quiche's release: {source}", cargo.display())]
    CargoNotRun {
        /// The program.
        cargo: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },

    /// Cargo could not provide the release, for example because the registry cannot be reached.
    #[error(
        "cargo cannot provide the crate quiche {RELEASE} that {} locks; it has to be in the \
         registry's cache, or the registry within reach. Cargo says:\n{message}",
        lock.display()
    )]
    Unavailable {
        /// The lock file.
        lock: PathBuf,
        /// The message of cargo.
        message: String,
    },

    /// The registry's release has another checksum than the lock file.
    #[error(
        "the crate quiche {RELEASE} of the registry does not have the checksum of {}: one of them \
         was tampered with. Cargo says:\n{message}",
        lock.display()
    )]
    Checksum {
        /// The lock file.
        lock: PathBuf,
        /// The message of cargo.
        message: String,
    },

    /// A manifest or lock file names another version of quiche than the patches fit.
    #[error(
        "{} provides quiche {found}, but the patches fit quiche {RELEASE} exactly",
        manifest.display()
    )]
    Version {
        /// The manifest that led to the version.
        manifest: PathBuf,
        /// The version.
        found: String,
    },

    /// A file of the release is not the one that was published.
    #[error(
        "{} is not as published in quiche {RELEASE}: its SHA-256 is {found}, {} has {expected}. \
         Remove {} and build again, cargo then unpacks the crate anew",
        path.display(), sums.display(), path_root.display()
    )]
    ReleaseFile {
        /// The file.
        path: PathBuf,
        /// The folder of the unpacked crate.
        path_root: PathBuf,
        /// The list of checksums.
        sums: PathBuf,
        /// The recorded SHA-256.
        expected: String,
        /// The SHA-256 of the file.
        found: String,
    },

    /// The list of checksums cannot be read.
    #[error("{} line {line}: expected a SHA-256, two spaces and a path", sums.display())]
    Sums {
        /// The list of checksums.
        sums: PathBuf,
        /// The line, from 1.
        line: usize,
    },

    /// The folder of the series has a file that is not the next patch.
    #[error(
        "{} is out of place: expected {expected:04}-NAME.patch there; the patches of the series are \
         numbered from 0001 without gaps",
        path.display()
    )]
    Series {
        /// The file.
        path: PathBuf,
        /// The number that was expected.
        expected: usize,
    },

    /// The environment variable for [`Tree`](crate::Tree) is not a number.
    #[error("{VARIABLE} is {found:?}: expected a number of patches")]
    Variable {
        /// The value.
        found: String,
    },

    /// More patches were asked for than there are.
    #[error("{VARIABLE} is {count}: expected at most {length}, the number of patches")]
    Count {
        /// The number of patches that was asked for.
        count: usize,
        /// The number of patches in the series.
        length: usize,
    },

    /// A patch is not one that `quiche-patch save` writes, or does more than change, add and remove
    /// text files.
    #[error("cannot read the patch {}: {message}", patch.display())]
    PatchSyntax {
        /// The patch.
        patch: PathBuf,
        /// The problem.
        message: String,
    },

    /// A patch does not fit the release with the patches before it.
    #[error(
        "{} does not apply to {file}, hunk {hunk} at line {line}: the patch has {expected}, the file \
         {found}. A patch applies at exactly its lines, to the release {RELEASE} with the patches \
         before it; quiche/README.md says how to change the series",
        patch.display()
    )]
    Patch {
        /// The patch.
        patch: PathBuf,
        /// The file of the release.
        file: String,
        /// The hunk of this file, from 1.
        hunk: usize,
        /// The line of the file, from 1.
        line: usize,
        /// The line that the patch has there.
        expected: String,
        /// The line that the file has there.
        found: String,
    },

    /// The destination is a folder that was not written by [`assemble`](crate::assemble).
    #[error(
        "{} is not empty and was not written by quiche-assemble; name another folder, or empty it",
        destination.display()
    )]
    Destination {
        /// The folder.
        destination: PathBuf,
    },
}

impl AssembleError {
    /// For `map_err`: names what was done, and to what.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| AssembleError::Io {
            action,
            path,
            source,
        }
    }
}
