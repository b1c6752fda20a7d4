//! Values that make no sense, named by their place in a file.

use thiserror::Error;

/// A value that makes no sense.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{place}: {problem}")]
pub struct Invalid {
    /// Where, such as `groups[0].runs[1].id`.
    pub place: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl Invalid {
    /// `problem` at `place`.
    #[must_use]
    pub fn new(place: impl Into<String>, problem: impl Into<String>) -> Invalid {
        Invalid {
            place: place.into(),
            problem: problem.into(),
        }
    }
}

/// Refuses `place` for `problem` unless the condition holds.
///
/// # Errors
/// The problem, if it does not hold.
pub fn require(holds: bool, place: &str, problem: impl FnOnce() -> String) -> Result<(), Invalid> {
    match holds {
        true => Ok(()),
        false => Err(Invalid::new(place, problem())),
    }
}
