//! Problems of an experiment's file, with their places.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The reason for which an experiment cannot be used.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The file's name cannot name an experiment.
    #[error(
        "{path}: the name of an experiment's file, and of its folder, consists of letters, digits, '.', '_' and '-', and the file's ends in .toml"
    )]
    Name {
        /// The file.
        path: PathBuf,
    },
    /// The file has problems.
    #[error("{}", Lines(.path, .problems))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// All problems that were found, by their places in the file.
        problems: Vec<Problem>,
    },
}

/// A problem in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The problem, and a value that would be right.
    pub problem: String,
}

/// Writes every problem on a line of its own, in the form that editors know.
struct Lines<'a>(&'a PathBuf, &'a [Problem]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lines(path, problems) = self;
        for (number, problem) in problems.iter().enumerate() {
            let Problem {
                line,
                column,
                problem,
            } = problem;
            let end = if number > 0 { "\n" } else { "" };
            write!(f, "{end}{}:{line}:{column}: {problem}", path.display())?;
        }
        Ok(())
    }
}
