//! Puts quiche's published release and the plug point's patch together.
//!
//! The release is the one that cargo downloads from the registry, held to two checksums: that of
//! `upstream/Cargo.lock`, which cargo compares with the registry's when it downloads, and those of
//! `upstream/SHA256SUMS`, which [`assemble`] compares with the files that it reads. Cargo looks at
//! an unpacked crate no more after it was downloaded, so the second is what notices a file that
//! changed since.
//!
//! The patch has to fit the release exactly: each hunk at its own line, without fuzz.

mod error;
mod files;
mod patch;
mod release;

use std::path::Path;

pub use error::AssembleError;
pub use release::{RELEASE, checksums};

/// Which source tree of quiche.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    /// As the release was published.
    Released,
    /// The release with the plug point.
    Patched,
}

/// Writes a source tree of quiche into a folder.
///
/// `package_dir` is the folder of the package `quiche` of this project, which has the patch
/// (`plug-point.patch`) and names the release (`upstream`).
///
/// `destination` is made if need be. A folder that an earlier call wrote is brought up to date:
/// files that are equal keep their modification time, so that cargo compiles nothing twice, and
/// files that do not belong to the tree are removed, but for the top-level folders `target` and
/// `.git`.
///
/// # Errors
///
/// When the release is not to be had, is another version, or is not the one whose checksums are
/// recorded; when the patch does not apply; when `destination` has files of someone else; and when
/// reading or writing fails.
pub fn assemble(tree: Tree, package_dir: &Path, destination: &Path) -> Result<(), AssembleError> {
    let mut files = release::read(package_dir)?;
    if tree == Tree::Patched {
        patch::apply(&mut files, &package_dir.join("plug-point.patch"))?;
    }
    files.write(destination)
}
