//! Puts quiche's published release and this project's series of patches together.
//!
//! The release is the one that cargo downloads from the registry. It is held to two checksums: that
//! of `upstream/Cargo.lock`, which cargo compares with the registry's when it downloads, and those
//! of `upstream/SHA256SUMS`, which [`assemble`] compares with the files that it reads. Cargo does
//! not look at an unpacked crate again after the download, so the second finds a file that was
//! changed later.
//!
//! The patches are `patches/0001-NAME.patch` and so on. They apply in this order, each hunk at
//! exactly its own line, without fuzz.

mod error;
mod files;
mod patch;
mod release;
mod series;

use std::env;
use std::path::Path;

pub use error::AssembleError;
pub use release::{RELEASE, checksums};
pub use series::{Patch, check, series};

/// The environment variable that [`Tree::from_environment`] reads.
pub const VARIABLE: &str = "GALLOP_QUICHE_PATCHES";

/// A source tree of quiche.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    /// The release as it was published.
    Released,
    /// The release with this many patches of the series, from the first.
    FirstPatches(usize),
    /// The release with the whole series.
    Patched,
}

impl Tree {
    /// [`Tree::FirstPatches`] with the value of the environment variable [`VARIABLE`], and
    /// [`Tree::Patched`] if it is not set.
    ///
    /// # Errors
    ///
    /// The value is not a number.
    pub fn from_environment() -> Result<Tree, AssembleError> {
        let Some(value) = env::var_os(VARIABLE) else {
            return Ok(Tree::Patched);
        };
        let value = value.to_string_lossy();
        let count = value.parse().map_err(|_| AssembleError::Variable {
            found: value.into_owned(),
        })?;
        Ok(Tree::FirstPatches(count))
    }
}

/// Writes a source tree of quiche into a folder.
///
/// `package_dir` is the folder of the package `quiche` of this project, which has the series
/// (`patches`) and names the release (`upstream`).
///
/// `destination` is made if it is missing. A folder that an earlier call wrote is brought up to
/// date: files that are equal keep their modification time, so that cargo compiles nothing twice,
/// and files that do not belong to the tree are removed, except the top-level folders `target` and
/// `.git`.
///
/// # Errors
///
/// The release is not available, is another version, or does not have the recorded checksums; a
/// patch does not apply; the series has a gap or is shorter than asked for; `destination` has files
/// of someone else; reading or writing fails.
pub fn assemble(tree: Tree, package_dir: &Path, destination: &Path) -> Result<(), AssembleError> {
    let mut files = release::read(package_dir)?;
    for patch in series::selected(tree, package_dir)? {
        patch::apply(&mut files, &patch.path, &patch.diff)?;
    }
    files.write(destination)
}
