//! A folder of experiments: their names, and their earlier names.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use super::axes::is_id;
use super::document::unknown_name;

/// The file of earlier names. Experiments are named from the folder that has it.
const ALIASES: &str = "aliases.toml";

/// A folder of experiments. An experiment's name is its path in there, without `.toml`.
#[derive(Clone, Debug)]
pub struct Library {
    folder: PathBuf,
    aliases: Aliases,
}

/// The file `aliases.toml`: earlier names and the present ones.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Aliases {
    #[serde(default)]
    experiments: BTreeMap<String, String>,
    /// The first two parts of claims' ids.
    #[serde(default)]
    claims: BTreeMap<String, String>,
}

/// The reason for which a folder of experiments cannot be used.
#[derive(Debug, Error)]
pub enum LibraryError {
    /// The folder or the file of earlier names cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The file of earlier names is not what it should be.
    #[error("{}: {error}", .path.display())]
    Aliases {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: Box<toml::de::Error>,
    },
    /// No experiment has this name.
    #[error("{0}")]
    Unknown(String),
}

impl Library {
    /// Opens a folder of experiments.
    ///
    /// # Errors
    ///
    /// The file `aliases.toml` in it cannot be read or has unknown keys.
    pub fn open(folder: &Path) -> Result<Library, LibraryError> {
        let path = folder.join(ALIASES);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => return Err(LibraryError::Read { path, error }),
        };
        match toml::from_str(&text) {
            Ok(aliases) => Ok(Library {
                folder: folder.to_path_buf(),
                aliases,
            }),
            Err(error) => Err(LibraryError::Aliases {
                path,
                error: Box::new(error),
            }),
        }
    }

    /// The experiments' names and files, sorted by name.
    ///
    /// # Errors
    ///
    /// A folder cannot be read.
    pub fn experiments(&self) -> Result<BTreeMap<String, PathBuf>, LibraryError> {
        let mut experiments = BTreeMap::new();
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            let unreadable = |error| LibraryError::Read {
                path: folder.clone(),
                error,
            };
            for entry in fs::read_dir(&folder).map_err(unreadable)? {
                let path = entry.map_err(unreadable)?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Some(name) = name_in(&self.folder, &path) {
                    experiments.insert(name, path);
                }
            }
        }
        Ok(experiments)
    }

    /// The file of the experiment with a present or an earlier name.
    ///
    /// # Errors
    ///
    /// No experiment has it (the closest and all known ones are named), or a folder cannot be read.
    pub fn find(&self, name: &str) -> Result<PathBuf, LibraryError> {
        let experiments = self.experiments()?;
        let present = self.present_name(name);
        experiments.get(present).cloned().ok_or_else(|| {
            let known: Vec<&str> = experiments.keys().map(String::as_str).collect();
            LibraryError::Unknown(unknown_name("experiment", name, &known))
        })
    }

    /// The present name of an experiment with this present or earlier one.
    #[must_use]
    pub fn present_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.experiments.get(name).map_or(name, |now| now)
    }

    /// The id that a claim had before, if it had another one.
    #[must_use]
    pub fn earlier_claim(&self, id: &str) -> Option<String> {
        let mut aliases = self.aliases.claims.iter();
        aliases.find_map(|(before, now)| {
            let rest = id.strip_prefix(now.as_str())?;
            rest.starts_with('/').then(|| format!("{before}{rest}"))
        })
    }
}

/// The name of the experiment in a file: its path from the nearest folder with an `aliases.toml`
/// on, or else the file's own name, without `.toml`.
pub(super) fn name_of(file: &Path) -> Option<String> {
    let absolute = std::path::absolute(file).ok()?;
    let mut folders = absolute.ancestors().skip(1);
    match folders.find(|folder| folder.join(ALIASES).is_file()) {
        Some(folder) => name_in(folder, &absolute),
        None => name_in(absolute.parent()?, &absolute),
    }
}

/// The name of a file as an experiment of this folder, if it can be one.
fn name_in(folder: &Path, file: &Path) -> Option<String> {
    let path = file.strip_prefix(folder).ok()?;
    if path.extension()? != "toml" || path == Path::new(ALIASES) {
        return None;
    }
    let name = path.with_extension("");
    let parts: Vec<&str> = name
        .iter()
        .map(|part| part.to_str().filter(|part| is_id(part)))
        .collect::<Option<_>>()?;
    Some(parts.join("/"))
}
