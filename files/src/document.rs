//! Documents with a place for a table that a command writes.

use std::fs;
use std::path::{Path, PathBuf};

/// A document with a place for a command's table: between the lines `<!-- NAME: measured -->` and
/// `<!-- NAME: end -->`.
#[derive(Debug)]
pub struct Document {
    path: PathBuf,
    /// The text up to the first marker, with it.
    before: String,
    /// The text from the second marker on, with it.
    after: String,
}

/// The line before the table of the command `name`, and the one after it.
fn markers(name: &str) -> [String; 2] {
    [
        format!("<!-- {name}: measured -->"),
        format!("<!-- {name}: end -->"),
    ]
}

impl Document {
    /// Reads a document and finds the place of the command `name`.
    ///
    /// # Errors
    /// Names the document, and the marker that is missing or stands at a wrong place.
    pub fn read(path: &Path, name: &str) -> Result<Document, String> {
        let refuse = |problem: String| format!("{}: {problem}", path.display());
        let text = fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
        crate::check(path).map_err(|error| refuse(error.to_string()))?;
        let [first, last] = markers(name);
        let place = |marker: &str| {
            let mut places = text.match_indices(marker);
            match (places.next(), places.next()) {
                (Some((at, _)), None) => Ok(at),
                (None, _) => Err(refuse(format!(
                    "there is no line `{marker}`; expected the table's place between `{first}` and `{last}`"
                ))),
                (Some(_), Some(_)) => Err(refuse(format!(
                    "`{marker}` stands there twice; expected one place for the table"
                ))),
            }
        };
        let (start, end) = (place(&first)? + first.len(), place(&last)?);
        if end < start {
            return Err(refuse(format!(
                "`{last}` stands before `{first}`; expected it after"
            )));
        }
        Ok(Document {
            path: path.to_path_buf(),
            before: text[..start].to_owned(),
            after: text[end..].to_owned(),
        })
    }

    /// Writes the document with the table in its place, whole or not at all.
    ///
    /// # Errors
    /// Names the document and the reason for which it cannot be written.
    pub fn write(&self, table: &str) -> Result<(), String> {
        let text = format!("{}\n{}\n{}", self.before, table.trim_end(), self.after);
        crate::write(&self.path, text.as_bytes())
            .map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "compare";

    #[test]
    fn a_document_is_changed_between_the_markers_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("README.md");
        let [start, end] = markers(NAME);
        fs::write(&path, format!("a\n{start}\nold\n{end}\nb\n")).expect("a document");
        let document = Document::read(&path, NAME).expect("a place");
        document.write("| new |\n").expect("it is written");
        let text = fs::read_to_string(&path).expect("a text");
        assert_eq!(text, format!("a\n{start}\n| new |\n{end}\nb\n"));
    }

    #[test]
    fn a_document_without_a_place_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("README.md");
        let [start, end] = markers(NAME);
        for (text, problem) in [
            (
                String::new(),
                "there is no line `<!-- compare: measured -->`",
            ),
            (start.clone(), "there is no line `<!-- compare: end -->`"),
            (format!("{start}{end}{start}"), "stands there twice"),
            (format!("{end}\n{start}"), "stands before"),
        ] {
            fs::write(&path, text).expect("a document");
            let error = Document::read(&path, NAME).expect_err(problem);
            assert!(error.contains("README.md: "), "{error}");
            assert!(error.contains(problem), "{error}");
        }
        let error = Document::read(&folder.path().join("none.md"), NAME).expect_err("no file");
        assert!(error.contains("none.md: "), "{error}");
    }
}
