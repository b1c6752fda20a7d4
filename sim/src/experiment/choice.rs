//! Choices of points: the key `where`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::axes::Axis;
use super::document::unknown_name;
use crate::invalid::Invalid;

/// Values that axes may have; an axis that is not named may have any.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Where(BTreeMap<String, OneOrMore>);

/// `"1ms"` or `["1ms", "208ms"]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "a value of an axis (a text, a number or true or false), or a list of them"
)]
enum OneOrMore {
    One(Label),
    More(Vec<Label>),
}

/// A value of an axis as the file writes it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
enum Label {
    Text(String),
    Switch(bool),
    Whole(i64),
    Number(f64),
}

impl Label {
    /// True if it is the axis' value `text`.
    fn is(&self, text: &str) -> bool {
        let number = |value: f64| text.parse() == Ok(value);
        match self {
            Label::Text(own) => own == text,
            Label::Switch(own) => own.to_string() == text,
            Label::Whole(own) => number(*own as f64),
            Label::Number(own) => number(*own),
        }
    }
}

impl OneOrMore {
    fn labels(&self) -> &[Label] {
        match self {
            OneOrMore::One(label) => std::slice::from_ref(label),
            OneOrMore::More(labels) => labels,
        }
    }
}

impl Where {
    /// True if it chooses all points.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values that an axis may have; `None` if it may have any.
    #[must_use]
    pub fn values(&self, axis: &str) -> Vec<&str> {
        let labels = self.0.get(axis).map_or(&[][..], OneOrMore::labels);
        let texts = labels.iter().filter_map(|label| match label {
            Label::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Writes the values as the axes do.
    ///
    /// # Errors
    /// Names an axis or a value that does not exist.
    pub(super) fn resolve(&mut self, axes: &[Axis], place: &str) -> Result<(), Invalid> {
        for (name, labels) in &mut self.0 {
            let invalid = |problem| Invalid::new(format!("{place}.{name}"), problem);
            let Some(axis) = axes.iter().find(|axis| axis.name == *name) else {
                let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
                return Err(invalid(unknown_name("axis", name, &names)));
            };
            let mut texts = Vec::new();
            for label in labels.labels() {
                let Some(text) = axis.values.iter().find(|text| label.is(text)) else {
                    let unknown = match label {
                        Label::Text(text) => text.clone(),
                        Label::Switch(own) => own.to_string(),
                        Label::Whole(own) => own.to_string(),
                        Label::Number(own) => own.to_string(),
                    };
                    let values: Vec<&str> = axis.values.iter().map(String::as_str).collect();
                    let what = format!("value of the axis `{name}`,");
                    return Err(invalid(unknown_name(&what, &unknown, &values)));
                };
                texts.push(Label::Text(text.clone()));
            }
            *labels = OneOrMore::More(texts);
        }
        Ok(())
    }

    /// True if a point with these values of the axes is chosen.
    #[must_use]
    pub fn includes(&self, axes: &[Axis], labels: &[String]) -> bool {
        self.0.iter().all(|(name, wanted)| {
            let value = axes.iter().position(|axis| axis.name == *name);
            value
                .and_then(|index| labels.get(index))
                .is_some_and(|text| wanted.labels().iter().any(|label| label.is(text)))
        })
    }

    /// This choice with the values of `other` in place of those of the same axes.
    #[must_use]
    pub(super) fn overridden(&self, other: &Where) -> Where {
        let mut both = self.0.clone();
        both.extend(other.0.clone());
        Where(both)
    }
}
