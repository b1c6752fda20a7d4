//! The document with a place for the table.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The lines around the table.
const MARKERS: [&str; 2] = ["<!-- real: measured -->", "<!-- real: end -->"];

/// A document with a place for the table.
#[derive(Debug)]
pub struct Document {
    path: PathBuf,
    before: String,
    after: String,
}

impl Document {
    /// Reads a document and finds the place in it.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has no such place.
    pub fn read(path: &Path) -> Result<Document> {
        let place = || path.display().to_string();
        let text = fs::read_to_string(path).with_context(place)?;
        gallop_files::check(path).with_context(place)?;
        let [first, last] = MARKERS;
        let parts = text
            .split_once(first)
            .and_then(|(before, rest)| Some((before, rest.split_once(last)?.1)));
        let (before, after) = parts.with_context(|| {
            format!(
                "{}: there is no line `{first}` with a line `{last}` after it",
                place()
            )
        })?;
        Ok(Document {
            path: path.to_path_buf(),
            before: format!("{before}{first}"),
            after: format!("{last}{after}"),
        })
    }

    /// Writes the document with the table in its place.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, table: &str) -> Result<()> {
        let text = format!("{}\n\n{}\n\n{}", self.before, table.trim(), self.after);
        gallop_files::write(&self.path, text.as_bytes())
            .with_context(|| self.path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_replaced_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.md");
        let [first, last] = MARKERS;
        fs::write(&file, format!("# A\n\n{first}\nold\n{last}\n\ntext\n")).unwrap();
        for _ in 0..2 {
            Document::read(&file).unwrap().write("| new |\n").unwrap();
            let expected = format!("# A\n\n{first}\n\n| new |\n\n{last}\n\ntext\n");
            assert_eq!(fs::read_to_string(&file).unwrap(), expected);
        }
        for wrong in [format!("{first}\n"), format!("{last}\n{first}\n")] {
            fs::write(&file, wrong).unwrap();
            let error = Document::read(&file).unwrap_err().to_string();
            assert!(error.contains(first), "{error}");
        }
    }
}
