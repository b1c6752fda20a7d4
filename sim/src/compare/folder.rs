//! The folder of a comparison: it is only ever taken from an earlier comparison.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{CompareError, Comparison};

/// The file that says what a comparison's folder holds, and marks it as one.
pub const FILE_NAME: &str = "comparison.json";

/// Everything else that a comparison and its report leave in their folder.
const LEFT_BEHIND: [&str; 8] = [
    "main",
    "quic-defaults",
    "plots",
    "report.html",
    "claims.json",
    "summary.csv",
    // Earlier versions left these.
    "summary.json",
    "runs",
];

/// Makes the folder, empties it of an earlier comparison, and writes the file that marks it.
pub(super) fn prepare(comparison: &Comparison) -> Result<(), CompareError> {
    #[derive(Serialize)]
    struct Described<'a> {
        title: &'a str,
        command: &'a str,
        experiments: Vec<&'a Path>,
    }
    let out = &comparison.out;
    let refuse = |error: io::Error| CompareError::Flag {
        flag: "--out",
        problem: format!("{}: {error}", out.display()),
    };
    fs::create_dir_all(out).map_err(refuse)?;
    let mark = out.join(FILE_NAME);
    let is_empty = fs::read_dir(out).map_err(refuse)?.next().is_none();
    if !is_empty && !mark.is_file() {
        return Err(CompareError::Flag {
            flag: "--out",
            problem: format!(
                "{}: there are files in it that no comparison wrote; give an empty folder",
                out.display()
            ),
        });
    }
    for name in LEFT_BEHIND {
        remove(&out.join(name)).map_err(refuse)?;
    }
    let described = Described {
        title: &comparison.title,
        command: &comparison.command,
        experiments: comparison
            .experiments
            .iter()
            .map(|experiment| experiment.directory.as_path())
            .collect(),
    };
    write_json(&mark, &described)
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes a file of JSON whole or not at all.
pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), CompareError> {
    let text = serde_json::to_string_pretty(value)
        .map_err(io::Error::from)
        .and_then(|text| gallop_files::write(path, (text + "\n").as_bytes()));
    text.map_err(|error| CompareError::Write {
        path: PathBuf::from(path),
        error,
    })
}
