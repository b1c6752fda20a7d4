//! Invalid values, named by their place in a file.

use thiserror::Error;

/// An invalid value.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{place}: {problem}")]
pub struct Invalid {
    /// The place, such as `link[0].queue.limit`.
    pub place: String,
    /// The problem, and a value that would be right.
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
