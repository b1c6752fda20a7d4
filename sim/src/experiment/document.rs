//! A TOML text whose values know their places, so that errors name the line of a problem even if
//! the values of axes have been put in.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::error::Problem;
use super::scenario;
use crate::invalid::Invalid;

/// A text and the values in it.
#[derive(Debug)]
pub(super) struct Document<'t> {
    text: &'t str,
    root: Spanned<DeTable<'t>>,
}

/// The values of a point's axes, which `$name` stands for.
pub(super) type Values<'t> = BTreeMap<String, DeValue<'t>>;

/// A problem somewhere in the text.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) at: Range<usize>,
    pub(super) problem: String,
}

impl<'t> Document<'t> {
    pub(super) fn parse(text: &'t str) -> Result<Document<'t>, Vec<Located>> {
        let (root, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            return Ok(Document { text, root });
        }
        Err(errors.iter().map(located).collect())
    }

    pub(super) fn root(&self) -> &DeTable<'t> {
        self.root.get_ref()
    }

    /// The part of the text that a value was read from.
    pub(super) fn source(&self, value: &Spanned<DeValue<'t>>) -> &'t str {
        self.text.get(value.span()).unwrap_or_default()
    }

    /// Reads the whole text with the axes' values in place of their names.
    ///
    /// # Errors
    /// Names an axis that does not exist, or the first value that `T` refuses.
    pub(super) fn read<T: DeserializeOwned>(&self, values: &Values<'t>) -> Result<T, Located> {
        let mut root = self.root.clone();
        for key in scenario::TABLES {
            root.get_mut().remove(key);
        }
        fill_table(root.get_mut(), values)?;
        T::deserialize(toml::de::Deserializer::from(root)).map_err(|error| located(&error))
    }

    /// The position of the value at a place such as `link[2].queue.max`, or of the closest table
    /// around it.
    pub(super) fn find(&self, place: &str) -> Range<usize> {
        let mut at = 0..0;
        let mut value: Option<&DeValue<'t>> = None;
        for step in place.split(['.', '[']) {
            let next = match step.strip_suffix(']') {
                Some(number) => number
                    .parse()
                    .ok()
                    .and_then(|number: usize| value?.as_array()?.get(number)),
                None => match value {
                    None => self.root().get(step),
                    Some(value) => value.as_table().and_then(|table| table.get(step)),
                },
            };
            let Some(next) = next else { break };
            at = next.span();
            value = Some(next.get_ref());
        }
        at
    }

    /// The problem that a check has found, at its place in the text.
    pub(super) fn locate(&self, invalid: &Invalid) -> Located {
        Located {
            at: self.find(&invalid.place),
            problem: invalid.to_string(),
        }
    }
}

/// Line and column of a problem.
pub(super) fn problem(text: &str, located: Located) -> Problem {
    let before = text.get(..located.at.start).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    Problem {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        problem: located.problem,
    }
}

fn located(error: &toml::de::Error) -> Located {
    Located {
        at: error.span().unwrap_or(0..0),
        problem: in_our_words(error.message()),
    }
}

/// Puts serde's message into the words of the documentation, and names the known key that is
/// closest to an unknown one.
fn in_our_words(message: &str) -> String {
    if let Some(rest) = message.strip_prefix("missing field `") {
        let key = rest.split('`').next().unwrap_or_default();
        return format!("the key `{key}` is missing");
    }
    if message.starts_with("invalid value: integer `0`, expected a nonzero") {
        return "it is 0; it must be at least 1".to_owned();
    }
    for (prefix, what) in [("unknown field `", "key"), ("unknown variant `", "value")] {
        if let Some(rest) = message.strip_prefix(prefix) {
            // Names alternate with the text between them.
            let mut names = rest.split('`').step_by(2);
            let unknown = names.next().unwrap_or_default();
            let known: Vec<&str> = names.collect();
            return unknown_name(what, unknown, &known);
        }
    }
    message.to_owned()
}

/// A message that there is no such name, with the closest one and all that there are.
pub(super) fn unknown_name(what: &str, unknown: &str, known: &[&str]) -> String {
    let closest = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(unknown, name), name))
        .min()
        .filter(|(distance, name)| *distance <= 1 + name.len() / 3);
    let hint = closest.map_or_else(String::new, |(_, name)| format!("did you mean `{name}`? "));
    match known {
        [] => format!("unknown {what} `{unknown}`: there are none"),
        _ => format!(
            "unknown {what} `{unknown}`: {hint}there are {}",
            known.join(", ")
        ),
    }
}

/// The value of an axis that leaves the key out.
const NONE: &str = "none";

fn fill_table<'t>(table: &mut DeTable<'t>, values: &Values<'t>) -> Result<(), Located> {
    let is_none = |value: &DeValue<'t>| {
        let name = value.as_str().and_then(|text| text.strip_prefix('$'));
        let axis = name.and_then(|name| values.get(name));
        axis.and_then(DeValue::as_str) == Some(NONE)
    };
    let left_out: Vec<_> = table
        .iter()
        .filter(|(_, value)| is_none(value.get_ref()))
        .map(|(key, _)| key.clone())
        .collect();
    for key in left_out {
        table.remove(&key);
    }
    table
        .iter_mut()
        .try_for_each(|(_, value)| fill(value, values))
}

fn fill_array<'t>(array: &mut DeArray<'t>, values: &Values<'t>) -> Result<(), Located> {
    array.iter_mut().try_for_each(|value| fill(value, values))
}

/// Puts the axes' values in place of their names.
pub(super) fn fill<'t>(
    value: &mut Spanned<DeValue<'t>>,
    values: &Values<'t>,
) -> Result<(), Located> {
    let at = value.span();
    match value.get_mut() {
        DeValue::Table(table) => fill_table(table, values),
        DeValue::Array(array) => fill_array(array, values),
        DeValue::String(text) => {
            let Some(name) = text.strip_prefix('$') else {
                return Ok(());
            };
            let Some(axis) = values.get(name) else {
                let known: Vec<&str> = values.keys().map(String::as_str).collect();
                let problem = unknown_name("axis", name, &known);
                return Err(Located { at, problem });
            };
            *value.get_mut() = axis.clone();
            Ok(())
        }
        _ => Ok(()),
    }
}
