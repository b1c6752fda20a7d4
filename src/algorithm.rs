//! The controllers by name.

use std::fmt;
use std::str::FromStr;

use crate::options::{Options, OptionsError};

/// A congestion control algorithm of this crate, with its options.
///
/// Its text form is a name, alone or with options after a colon: `vegas`,
/// `gallop-vegas:alpha=1,beta=3`. With the feature `quiche` it is the factory that a quiche
/// configuration takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Algorithm {
    /// TCP Vegas (000).
    Vegas(Options),
    /// Gallop-Vegas (003).
    GallopVegas(Options),
}

impl Algorithm {
    /// Every algorithm with its default options.
    pub const ALL: [Algorithm; 2] = [
        Algorithm::Vegas(Options::VEGAS),
        Algorithm::GallopVegas(Options::GALLOP_VEGAS),
    ];

    /// The algorithm's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Algorithm::Vegas(_) => "vegas",
            Algorithm::GallopVegas(_) => "gallop-vegas",
        }
    }

    /// The algorithm's options.
    pub const fn options(&self) -> &Options {
        match self {
            Algorithm::Vegas(options) | Algorithm::GallopVegas(options) => options,
        }
    }

    /// The same algorithm with the options that `text` names changed.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] names the option and what is allowed.
    pub fn with(self, text: &str) -> Result<Algorithm, OptionsError> {
        Ok(match self {
            Algorithm::Vegas(options) => Algorithm::Vegas(options.with(text)?),
            Algorithm::GallopVegas(options) => Algorithm::GallopVegas(options.with(text)?),
        })
    }
}

impl FromStr for Algorithm {
    type Err = AlgorithmError;

    fn from_str(text: &str) -> Result<Self, AlgorithmError> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let algorithm = Algorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
            .ok_or_else(|| AlgorithmError::Unknown { name: name.into() })?;
        algorithm
            .with(options)
            .map_err(|error| AlgorithmError::Options {
                name: algorithm.name(),
                error,
            })
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name(), self.options())
    }
}

/// A text that names no algorithm of this crate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AlgorithmError {
    /// No algorithm has this name.
    #[error(
        "unknown congestion control algorithm `{name}`: the algorithms are vegas and gallop-vegas"
    )]
    Unknown {
        /// The name that was given.
        name: String,
    },
    /// An option cannot be used.
    #[error("{name}: {error}")]
    Options {
        /// The algorithm's name.
        name: &'static str,
        /// What is wrong with the option.
        error: OptionsError,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_and_without_options() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
        let tuned: Algorithm = "gallop-vegas:alpha=2,beta=5".parse().unwrap();
        assert_eq!(tuned.name(), "gallop-vegas");
        assert_eq!((tuned.options().alpha, tuned.options().beta), (2.0, 5.0));
    }

    #[test]
    fn errors_name_the_algorithm_and_the_option() {
        for (text, message) in [
            (
                "vegass",
                "unknown congestion control algorithm `vegass`: the algorithms are vegas and gallop-vegas",
            ),
            (
                "",
                "unknown congestion control algorithm ``: the algorithms are vegas and gallop-vegas",
            ),
            (
                "vegas:alpha=9",
                "vegas: option `alpha` (9) is above `beta` (4): it must be at most beta",
            ),
            (
                "gallop-vegas:rtt=",
                "gallop-vegas: option `rtt` cannot be ``: it must be mean, min or last",
            ),
        ] {
            let error = text.parse::<Algorithm>().unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
