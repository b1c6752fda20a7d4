//! Options of controllers: how they are declared, read, checked and shown.

use std::fmt;

/// The declaration of one option of a controller.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// The name, as in `name=value`.
    pub name: &'static str,
    /// The meaning, as a statement or a noun phrase.
    pub meaning: &'static str,
    /// The unit of a number; empty if it has none.
    pub unit: &'static str,
    /// The values that may be given.
    pub allowed: Allowed,
    /// The value of a controller whose text does not name the option.
    pub default: DefaultValue,
}

/// The values that an option takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// A number from the first to the second, both included.
    Number(f64, f64),
    /// A number above the first and below the second.
    NumberBetween(f64, f64),
    /// A whole number from the first to the second, both included.
    Whole(u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
}

/// The value that an option has by default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DefaultValue {
    /// A number.
    Number(f64),
    /// A word.
    Word(&'static str),
    /// The value of another option, or of the QUIC stack; in words.
    Elsewhere(&'static str),
}

impl fmt::Display for DefaultValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DefaultValue::Number(number) => number.fmt(f),
            DefaultValue::Word(text) | DefaultValue::Elsewhere(text) => f.write_str(text),
        }
    }
}

impl OptionSpec {
    /// The allowed values in words, as in `a number of datagrams from 0 to 1000`.
    pub fn allowed_text(&self) -> String {
        let of_unit = match self.unit {
            "" => String::new(),
            unit => format!(" of {unit}"),
        };
        match self.allowed {
            Allowed::Number(least, most) => format!("a number{of_unit} from {least} to {most}"),
            Allowed::NumberBetween(low, high) => {
                format!("a number{of_unit} above {low} and below {high}")
            }
            Allowed::Whole(least, most) => {
                format!("a whole number{of_unit} from {least} to {most}")
            }
            Allowed::Word(words) => listed(words, "or"),
        }
    }

    fn read(&self, text: &str) -> Result<Value, OptionsError> {
        // A comparison with NaN is false, so NaN is refused.
        let number = |fits: &dyn Fn(f64) -> bool| {
            let number = text.parse().ok().filter(|number| fits(*number));
            number.map(Value::Number)
        };
        match self.allowed {
            Allowed::Number(least, most) => number(&|it| (least..=most).contains(&it)),
            Allowed::NumberBetween(low, high) => number(&|it| it > low && it < high),
            Allowed::Whole(least, most) => {
                let whole = text.parse().ok().filter(|it| (least..=most).contains(it));
                whole.map(Value::Whole)
            }
            Allowed::Word(words) => {
                let word = words.iter().find(|word| **word == text);
                word.map(|word| Value::Word(word))
            }
        }
        .ok_or_else(|| OptionsError::Invalid {
            name: self.name,
            value: text.into(),
            allowed: self.allowed_text(),
        })
    }
}

/// A value that was given and is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Number(f64),
    Whole(u64),
    Word(&'static str),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Whole(number) => number.fmt(f),
            Value::Word(word) => f.write_str(word),
        }
    }
}

/// The values of a controller's options: those that were given, each within its range, and the
/// defaults.
///
/// The text form has a `name=value` pair for each option with a value, with commas between.
#[derive(Clone, Debug)]
pub struct Chosen {
    specs: &'static [OptionSpec],
    given: Vec<Option<Value>>,
}

impl Chosen {
    /// The defaults.
    pub fn defaults(specs: &'static [OptionSpec]) -> Chosen {
        Chosen {
            specs,
            given: vec![None; specs.len()],
        }
    }

    /// The same with the options that `text` names changed.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] names the option and the values that it takes.
    pub fn with(&self, text: &str) -> Result<Chosen, OptionsError> {
        let mut chosen = self.clone();
        let mut seen = Vec::new();
        for pair in text
            .split(',')
            .map(str::trim)
            .filter(|pair| !pair.is_empty())
        {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| OptionsError::NotAPair { text: pair.into() })?;
            let (name, value) = (name.trim(), value.trim());
            let place = self.place(name).ok_or_else(|| OptionsError::Unknown {
                name: name.into(),
                known: self.specs.iter().map(|spec| spec.name).collect(),
            })?;
            if seen.contains(&place) {
                return Err(OptionsError::Twice { name: name.into() });
            }
            seen.push(place);
            chosen.given[place] = Some(self.specs[place].read(value)?);
        }
        Ok(chosen)
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.specs.iter().position(|spec| spec.name == name)
    }

    fn value(&self, name: &str) -> Option<Value> {
        let place = self.place(name)?;
        self.given[place].or(match self.specs[place].default {
            DefaultValue::Number(number) => Some(Value::Number(number)),
            DefaultValue::Word(word) => Some(Value::Word(word)),
            DefaultValue::Elsewhere(_) => None,
        })
    }

    /// The number that an option is given as, or by default. `None` if its value is elsewhere, or
    /// if the table has no such option.
    pub fn number_if_any(&self, name: &str) -> Option<f64> {
        match self.value(name)? {
            Value::Number(number) => Some(number),
            Value::Whole(number) => Some(number as f64),
            Value::Word(_) => None,
        }
    }

    /// The number that an option is given as, or by default.
    ///
    /// # Panics
    ///
    /// If the table has no such option with a number as its default.
    pub fn number(&self, name: &str) -> f64 {
        self.number_if_any(name)
            .unwrap_or_else(|| panic!("the table has no default for the number `{name}`"))
    }

    /// The whole number that an option is given as, if it is.
    pub fn whole(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            Value::Whole(number) => Some(number),
            _ => None,
        }
    }

    /// The word that an option is given as, or by default.
    ///
    /// # Panics
    ///
    /// If the table has no such option with a word as its default.
    pub fn word(&self, name: &str) -> &'static str {
        match self.value(name) {
            Some(Value::Word(word)) => word,
            _ => panic!("the table has no default for the word `{name}`"),
        }
    }
}

/// Equal if the same values are chosen, given or by default.
impl PartialEq for Chosen {
    fn eq(&self, other: &Chosen) -> bool {
        self.to_string() == other.to_string()
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self
            .specs
            .iter()
            .filter_map(|spec| Some((spec.name, self.value(spec.name)?)));
        for (place, (name, value)) in values.enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{name}={value}")?;
        }
        Ok(())
    }
}

/// An option that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// No option has this name.
    #[error("unknown option `{name}`: {}", known_names(name, known, "options"))]
    Unknown {
        /// The name that was given.
        name: String,
        /// The names of the options that there are.
        known: Vec<&'static str>,
    },
    /// The text is no `name=value` pair.
    #[error("`{text}` is no option: write name=value, with commas between several")]
    NotAPair {
        /// The text that was given.
        text: String,
    },
    /// An option was given twice.
    #[error("option `{name}` is given twice")]
    Twice {
        /// The option's name.
        name: String,
    },
    /// The value is not allowed.
    #[error("option `{name}` cannot be `{value}`: it must be {allowed}")]
    Invalid {
        /// The option's name.
        name: &'static str,
        /// The value that was given.
        value: String,
        /// The values that are allowed.
        allowed: String,
    },
    /// One option is above another that bounds it.
    #[error("option `{name}` ({value}) is above `{bound}` ({most}): it must be at most {bound}")]
    Above {
        /// The option's name.
        name: &'static str,
        /// Its value, given or by default.
        value: f64,
        /// The name of the option that bounds it.
        bound: &'static str,
        /// The value of that option, given or by default.
        most: f64,
    },
}

/// The names that there are, and the one that was probably meant.
pub(crate) fn known_names(unknown: &str, known: &[&str], plural: &str) -> String {
    if known.is_empty() {
        return format!("there are no {plural}");
    }
    let closest = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(unknown, name), name))
        .min()
        .filter(|(distance, name)| *distance <= 1 + name.len() / 3);
    let hint = closest.map_or_else(String::new, |(_, name)| format!("did you mean `{name}`? "));
    format!("{hint}the {plural} are {}", listed(known, "and"))
}

/// Words with commas, and `conjunction` before the last.
pub(crate) fn listed(words: &[&str], conjunction: &str) -> String {
    match words {
        [] => String::new(),
        [word] => (*word).to_owned(),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPECS: &[OptionSpec] = &[
        OptionSpec {
            name: "alpha",
            meaning: "a threshold",
            unit: "datagrams",
            allowed: Allowed::Number(0.0, 1000.0),
            default: DefaultValue::Number(2.0),
        },
        OptionSpec {
            name: "part",
            meaning: "a part",
            unit: "",
            allowed: Allowed::NumberBetween(0.0, 1.0),
            default: DefaultValue::Number(0.75),
        },
        OptionSpec {
            name: "window",
            meaning: "a window",
            unit: "datagrams",
            allowed: Allowed::Whole(2, 1 << 20),
            default: DefaultValue::Elsewhere("the stack's"),
        },
        OptionSpec {
            name: "rtt",
            meaning: "a measure",
            unit: "",
            allowed: Allowed::Word(&["mean", "min", "last"]),
            default: DefaultValue::Word("mean"),
        },
    ];

    fn chosen(text: &str) -> Result<Chosen, OptionsError> {
        Chosen::defaults(SPECS).with(text)
    }

    #[test]
    fn every_kind_of_option_is_read() {
        let defaults = chosen("").unwrap();
        assert_eq!(defaults.to_string(), "alpha=2,part=0.75,rtt=mean");
        assert_eq!(defaults.number_if_any("window"), None);
        let given = chosen("alpha=1.5, part=0.5,window=32,rtt=min,").unwrap();
        assert_eq!((given.number("alpha"), given.number("part")), (1.5, 0.5));
        assert_eq!(
            (given.whole("window"), given.word("rtt")),
            (Some(32), "min")
        );
        assert_eq!(given.number_if_any("window"), Some(32.0));
        assert_eq!(given.number_if_any("beta"), None);
    }

    #[test]
    fn later_options_change_earlier_ones() {
        let first = chosen("alpha=1,rtt=last").unwrap();
        let second = first.with("alpha=3").unwrap();
        assert_eq!(second, chosen("alpha=3,rtt=last").unwrap());
        assert_eq!(chosen("alpha=2"), chosen(""), "the default, given");
    }

    #[test]
    fn errors_name_the_option_and_the_values_it_takes() {
        for (text, message) in [
            (
                "aplha=1",
                "unknown option `aplha`: did you mean `alpha`? the options are alpha, part, window and rtt",
            ),
            (
                "zzz=1",
                "unknown option `zzz`: the options are alpha, part, window and rtt",
            ),
            (
                "alpha",
                "`alpha` is no option: write name=value, with commas between several",
            ),
            (
                "alpha=NaN",
                "option `alpha` cannot be `NaN`: it must be a number of datagrams from 0 to 1000",
            ),
            (
                "alpha=-1",
                "option `alpha` cannot be `-1`: it must be a number of datagrams from 0 to 1000",
            ),
            (
                "alpha=inf",
                "option `alpha` cannot be `inf`: it must be a number of datagrams from 0 to 1000",
            ),
            (
                "alpha=",
                "option `alpha` cannot be ``: it must be a number of datagrams from 0 to 1000",
            ),
            (
                "part=1",
                "option `part` cannot be `1`: it must be a number above 0 and below 1",
            ),
            (
                "part=nan",
                "option `part` cannot be `nan`: it must be a number above 0 and below 1",
            ),
            (
                "window=1",
                "option `window` cannot be `1`: it must be a whole number of datagrams from 2 to 1048576",
            ),
            (
                "window=2.5",
                "option `window` cannot be `2.5`: it must be a whole number of datagrams from 2 to 1048576",
            ),
            (
                "rtt=median",
                "option `rtt` cannot be `median`: it must be mean, min or last",
            ),
            ("alpha=1,alpha=2", "option `alpha` is given twice"),
        ] {
            assert_eq!(chosen(text).unwrap_err().to_string(), message, "{text}");
        }
        let none = Chosen::defaults(&[]).with("alpha=1").unwrap_err();
        assert_eq!(
            none.to_string(),
            "unknown option `alpha`: there are no options"
        );
    }

    proptest! {
        #[test]
        fn the_text_form_round_trips(
            alpha in 0.0..=1000.0,
            part in 0.001..0.999,
            window in proptest::option::of(2u64..=1 << 20),
            rtt in prop_oneof![Just("mean"), Just("min"), Just("last")],
        ) {
            let window = window.map_or(String::new(), |window| format!("window={window}"));
            let given = chosen(&format!("alpha={alpha},part={part},rtt={rtt},{window}")).unwrap();
            prop_assert_eq!(chosen(&given.to_string()), Ok(given));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = chosen(&text);
        }
    }
}
