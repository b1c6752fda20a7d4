//! Many small inputs in one file: a line each, in hexadecimal.
//!
//! Empty lines and lines that begin with `#` are skipped. The inputs are sorted and without
//! duplicates, so that a change of one input is a change of one line.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file of inputs that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    /// The file system refuses.
    #[error("{}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A line is not an input.
    #[error("{}:{line}: expected pairs of hexadecimal digits", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
    },
}

/// An input and the number of its line, from 1.
pub type Numbered = (usize, Vec<u8>);

/// Reads the inputs of a file.
///
/// # Errors
///
/// The file cannot be read, or has a line that is not an input.
pub fn read(path: &Path) -> Result<Vec<Numbered>, CorpusError> {
    let text = fs::read_to_string(path).map_err(|error| CorpusError::File {
        path: path.to_owned(),
        error,
    })?;
    let mut inputs = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let input = decode(text).ok_or_else(|| CorpusError::Line {
            path: path.to_owned(),
            line,
        })?;
        inputs.push((line, input));
    }
    Ok(inputs)
}

/// Writes a file of inputs, in place of one that is there.
///
/// An empty input is left out: a fuzzer tries it anyway.
///
/// # Errors
///
/// The file cannot be written.
pub fn write(path: &Path, inputs: impl IntoIterator<Item = Vec<u8>>) -> Result<(), CorpusError> {
    let inputs: BTreeSet<Vec<u8>> = inputs.into_iter().collect();
    let mut text =
        "# Inputs of a fuzz target, a line each in hexadecimal. See docs/testing.md.\n".to_owned();
    for input in inputs.iter().filter(|input| !input.is_empty()) {
        for byte in input {
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
    }
    gallop_files::write(path, text.as_bytes()).map_err(|error| CorpusError::File {
        path: path.to_owned(),
        error,
    })
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| match *pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.corpus");
        let inputs = [vec![255, 0, 10], vec![1], vec![], vec![1]];
        write(&path, inputs).unwrap();
        assert_eq!(read(&path).unwrap(), [(2, vec![1]), (3, vec![255, 0, 10])]);
    }

    #[test]
    fn a_line_that_is_no_input_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.corpus");
        for wrong in ["0a1", "0g", "0a 1", "+1", "é"] {
            fs::write(&path, format!("# comment\n\n0aFF\n{wrong}\n")).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains("some.corpus:4:"), "{error}");
        }
        let error = read(&folder.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("none: "), "{error}");
    }
}
