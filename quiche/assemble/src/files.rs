use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::AssembleError;

/// A file that marks a folder that [`Files::write`] wrote.
const MARKER: &str = ".quiche-assemble";

/// The entries at the top level of a destination that are kept.
const KEPT: [&str; 3] = [MARKER, "target", ".git"];

/// The files of a tree: contents by path, with `/` between folders.
#[derive(Default)]
pub(crate) struct Files(pub(crate) BTreeMap<String, Vec<u8>>);

impl Files {
    /// Makes `destination` have these files and no others.
    pub(crate) fn write(&self, destination: &Path) -> Result<(), AssembleError> {
        claim(destination)?;
        self.remove_others(destination, "")?;
        for (path, contents) in &self.0 {
            let path = destination.join(path);
            if fs::read(&path).is_ok_and(|old| old == *contents) {
                continue;
            }
            if let Some(parent) = path.parent() {
                create_dir(parent)?;
            }
            fs::write(&path, contents).map_err(AssembleError::io("write", &path))?;
        }
        Ok(())
    }

    fn remove_others(&self, dir: &Path, prefix: &str) -> Result<(), AssembleError> {
        let entries = fs::read_dir(dir).map_err(AssembleError::io("list", dir))?;
        for entry in entries {
            let entry = entry.map_err(AssembleError::io("list", dir))?;
            let name = entry.file_name();
            let path = entry.path();
            if prefix.is_empty() && KEPT.iter().any(|kept| name == *kept) {
                continue;
            }
            let kind = entry
                .file_type()
                .map_err(AssembleError::io("look at", &path))?;
            let relative = format!("{prefix}{}", name.to_string_lossy());
            if kind.is_dir() {
                self.remove_others(&path, &format!("{relative}/"))?;
            } else if !self.0.contains_key(&relative) {
                fs::remove_file(&path).map_err(AssembleError::io("remove", &path))?;
            }
        }
        Ok(())
    }
}

/// Accepts a folder that is missing, empty or marked.
fn claim(destination: &Path) -> Result<(), AssembleError> {
    create_dir(destination)?;
    let marker = destination.join(MARKER);
    if marker.exists() {
        return Ok(());
    }
    let mut entries = fs::read_dir(destination).map_err(AssembleError::io("list", destination))?;
    if entries.next().is_some() {
        return Err(AssembleError::Destination {
            destination: destination.to_owned(),
        });
    }
    fs::write(&marker, "").map_err(AssembleError::io("write", &marker))
}

fn create_dir(dir: &Path) -> Result<(), AssembleError> {
    fs::create_dir_all(dir).map_err(AssembleError::io("make the folder", dir))
}
