//! The catalogue of controllers: the one table from which names, options, help and documentation
//! come.

use std::fmt::{self, Debug, Write};
use std::str::FromStr;
use std::sync::Arc;

use crate::canter;
use crate::controller::{Controller, PathConfig};
use crate::copa;
use crate::cubic::Cubic;
use crate::gallop::StableGrowth;
use crate::loss_based;
use crate::options::{Chosen, OptionSpec, OptionsError, known_names};
use crate::reno::Reno;
use crate::vegas::{self, Doubling};

/// Every controller of this crate.
pub static CATALOG: &[Entry] = &[
    Entry::of::<vegas::Options<Doubling>>(),
    Entry::of::<vegas::Options<StableGrowth>>(),
    Entry::of::<canter::Options>(),
    Entry::of::<copa::Options>(),
    Entry::of::<loss_based::Options<Cubic>>(),
    Entry::of::<loss_based::Options<Reno>>(),
];

/// The options of a controller, checked, and the way to build it from them.
///
/// A controller enters the catalogue by a type that implements this.
pub trait Recipe: Debug + Send + Sync + Sized + 'static {
    /// The controller's name.
    const NAME: &'static str;
    /// One line about it.
    const SUMMARY: &'static str;
    /// Its options.
    const OPTIONS: &'static [OptionSpec];

    /// Takes the options; each is within its own range.
    ///
    /// # Errors
    ///
    /// The options do not go together.
    fn new(chosen: &Chosen) -> Result<Self, OptionsError>;

    /// A controller for a new path.
    fn build(&self, path: &PathConfig) -> Box<dyn Controller>;
}

/// A controller of the catalogue.
#[derive(Debug)]
pub struct Entry {
    /// The controller's name.
    pub name: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// Its options.
    pub options: &'static [OptionSpec],
    recipe: fn(&Chosen) -> Result<Arc<dyn Build>, OptionsError>,
}

/// A [`Recipe`] whose type is forgotten.
trait Build: Debug + Send + Sync {
    fn build(&self, path: &PathConfig) -> Box<dyn Controller>;
}

impl<R: Recipe> Build for R {
    fn build(&self, path: &PathConfig) -> Box<dyn Controller> {
        Recipe::build(self, path)
    }
}

impl Entry {
    /// The entry of a recipe.
    const fn of<R: Recipe>() -> Entry {
        Entry {
            name: R::NAME,
            summary: R::SUMMARY,
            options: R::OPTIONS,
            recipe: |chosen| Ok(Arc::new(R::new(chosen)?)),
        }
    }

    /// The algorithm with the options that `text` names, and the defaults of all others.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] names the option and the values that it takes.
    pub fn algorithm(&'static self, text: &str) -> Result<Algorithm, OptionsError> {
        let options = Chosen::defaults(self.options).with(text)?;
        let recipe = (self.recipe)(&options)?;
        Ok(Algorithm {
            entry: self,
            options,
            recipe,
        })
    }

    /// The name, the summary and the options, for the `--help` of a program.
    pub fn help(&self) -> String {
        let mut help = format!("  {:<16} {}\n", self.name, self.summary);
        for option in self.options {
            let (name, allowed) = (option.name, option.allowed_text());
            let _ = writeln!(
                help,
                "      {name:<14} {}: {allowed} [default: {}]",
                option.meaning, option.default
            );
        }
        help
    }
}

/// The name and the options in the text form of a controller. The options may be empty.
pub fn name_and_options(text: &str) -> (&str, &str) {
    text.split_once(':').unwrap_or((text, ""))
}

/// A congestion control algorithm of this crate, with its options.
///
/// Its text form is a name, alone or with options after a colon: `vegas`,
/// `gallop-vegas:alpha=1,beta=3`. With the feature `quiche` it is the factory that a quiche
/// configuration takes.
#[derive(Clone, Debug)]
pub struct Algorithm {
    entry: &'static Entry,
    options: Chosen,
    recipe: Arc<dyn Build>,
}

impl Algorithm {
    /// The algorithm's name.
    pub fn name(&self) -> &'static str {
        self.entry.name
    }

    /// One line about the algorithm.
    pub fn summary(&self) -> &'static str {
        self.entry.summary
    }

    /// The algorithm's options.
    pub fn options(&self) -> &Chosen {
        &self.options
    }

    /// A controller for a new path.
    pub fn build(&self, path: &PathConfig) -> Box<dyn Controller> {
        self.recipe.build(path)
    }
}

impl FromStr for Algorithm {
    type Err = AlgorithmError;

    fn from_str(text: &str) -> Result<Self, AlgorithmError> {
        let (name, options) = name_and_options(text);
        let entry = CATALOG
            .iter()
            .find(|entry| entry.name == name)
            .ok_or_else(|| AlgorithmError::Unknown {
                name: name.into(),
                known: CATALOG.iter().map(|entry| entry.name).collect(),
            })?;
        entry
            .algorithm(options)
            .map_err(|error| AlgorithmError::Options {
                name: entry.name,
                error,
            })
    }
}

impl PartialEq for Algorithm {
    fn eq(&self, other: &Algorithm) -> bool {
        (self.name(), &self.options) == (other.name(), &other.options)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = self.options.to_string();
        let colon = if options.is_empty() { "" } else { ":" };
        write!(f, "{}{colon}{options}", self.name())
    }
}

/// A text that names no algorithm.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AlgorithmError {
    /// No algorithm has this name.
    #[error(
        "unknown congestion controller `{name}`: {}",
        known_names(name, known, "controllers")
    )]
    Unknown {
        /// The name that was given.
        name: String,
        /// The names that there are.
        known: Vec<&'static str>,
    },
    /// A controller that is built into a QUIC stack takes no options.
    #[error("{name} is built into quiche and takes no options, but `{options}` was given")]
    NoOptions {
        /// The controller's name.
        name: &'static str,
        /// The text after the colon.
        options: String,
    },
    /// An option cannot be used.
    #[error("{name}: {error}")]
    Options {
        /// The algorithm's name.
        name: &'static str,
        /// The reason.
        error: OptionsError,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::listed;

    const PATH: PathConfig = PathConfig {
        max_datagram_size_bytes: 1200,
        initial_window_packets: 10,
        pacing: true,
    };

    #[test]
    fn every_controller_is_built_by_its_name_and_by_its_text() {
        for entry in CATALOG {
            let algorithm: Algorithm = entry.name.parse().unwrap();
            assert_eq!(algorithm.name(), entry.name);
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm.clone()));
            assert_eq!(algorithm.build(&PATH).window_bytes(), 12_000);
        }
    }

    #[test]
    fn names_and_options_are_given_once() {
        for (place, entry) in CATALOG.iter().enumerate() {
            assert!(
                CATALOG[..place]
                    .iter()
                    .all(|other| other.name != entry.name)
            );
            for (place, option) in entry.options.iter().enumerate() {
                let earlier = &entry.options[..place];
                assert!(earlier.iter().all(|other| other.name != option.name));
            }
        }
    }

    #[test]
    fn options_are_part_of_what_an_algorithm_is() {
        let tuned: Algorithm = "gallop-vegas:alpha=2,beta=5".parse().unwrap();
        assert_eq!(tuned.options().number_if_any("beta"), Some(5.0));
        assert_ne!(Ok(tuned), "gallop-vegas".parse());
    }

    #[test]
    fn errors_name_the_algorithm_and_the_option() {
        let names: Vec<&str> = CATALOG.iter().map(|entry| entry.name).collect();
        let known = format!("the controllers are {}", listed(&names, "and"));
        for (text, message) in [
            (
                "vegass",
                format!("unknown congestion controller `vegass`: did you mean `vegas`? {known}"),
            ),
            ("", format!("unknown congestion controller ``: {known}")),
            (
                "vegas:alpha=9",
                "vegas: option `alpha` (9) is above `beta` (4): it must be at most beta".into(),
            ),
            (
                "gallop-vegas:rtt=",
                "gallop-vegas: option `rtt` cannot be ``: it must be mean, min or last".into(),
            ),
            (
                "reno-rfc9002:alpha=1",
                "reno-rfc9002: unknown option `alpha`: there are no options".into(),
            ),
        ] {
            let error = text.parse::<Algorithm>().unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
