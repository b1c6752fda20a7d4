//! Quantities as texts of a number and a unit, and the errors of texts that are no quantities.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::de;
use thiserror::Error;

/// A text that is not the quantity it should be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("\"{text}\" is not a {quantity}: {reason}")]
pub struct UnitError {
    text: String,
    quantity: &'static str,
    reason: Reason,
}

/// The problem with a quantity.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(super) enum Reason {
    #[error("it does not start with a number; write a number and a unit, such as {example}")]
    NoNumber { example: &'static str },
    #[error("it has no unit; use {allowed}")]
    NoUnit { allowed: &'static str },
    #[error("unknown unit \"{unit}\"; use {allowed}")]
    UnknownUnit { unit: String, allowed: &'static str },
    #[error("it is negative")]
    Negative,
    #[error("it is zero, or rounds to zero; it must be at least {least}")]
    Zero { least: &'static str },
    #[error("it has a fraction; packets come whole")]
    Fraction,
    #[error("it is too large; the most is {most}")]
    TooLarge { most: &'static str },
}

/// Name and units of a kind of quantity.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) example: &'static str,
    pub(super) allowed: &'static str,
    pub(super) most: &'static str,
}

impl Kind {
    pub(super) fn error(&self, text: &str, reason: Reason) -> UnitError {
        UnitError {
            text: text.to_owned(),
            quantity: self.name,
            reason,
        }
    }

    /// Number and unit (in lower case) of `text`.
    pub(super) fn split(&self, text: &str) -> Result<(f64, String), UnitError> {
        let trimmed = text.trim();
        let (number, unit) = longest_number(trimmed).ok_or_else(|| {
            self.error(
                text,
                Reason::NoNumber {
                    example: self.example,
                },
            )
        })?;
        let unit = unit.trim_start().to_ascii_lowercase();
        if unit.is_empty() {
            let allowed = self.allowed;
            return Err(self.error(text, Reason::NoUnit { allowed }));
        }
        if number < 0.0 {
            return Err(self.error(text, Reason::Negative));
        }
        Ok((number, unit))
    }

    pub(super) fn unknown_unit(&self, text: &str, unit: String) -> UnitError {
        let allowed = self.allowed;
        self.error(text, Reason::UnknownUnit { unit, allowed })
    }

    /// The whole number nearest to `value`, at most `limit`.
    pub(super) fn whole(&self, text: &str, value: f64, limit: u64) -> Result<u64, UnitError> {
        let rounded = value.round();
        if !(0.0..=limit as f64).contains(&rounded) {
            let reason = match rounded < 0.0 {
                true => Reason::Negative,
                false => Reason::TooLarge { most: self.most },
            };
            return Err(self.error(text, reason));
        }
        Ok(rounded as u64)
    }

    pub(super) fn not_zero(
        &self,
        text: &str,
        value: u64,
        least: &'static str,
    ) -> Result<NonZeroU64, UnitError> {
        NonZeroU64::new(value).ok_or_else(|| self.error(text, Reason::Zero { least }))
    }
}

/// Splits `text` after the longest prefix that is a decimal number. Words that `f64` understands,
/// such as "nan" and "inf", are no numbers here.
fn longest_number(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c))
        .unwrap_or(text.len());
    (1..=end)
        .rev()
        .find_map(|end| Some((text[..end].parse().ok()?, &text[end..])))
}

/// Writes `value` in the largest of `units` that leaves at most three decimals, so that it reads
/// back as the same number; else in `smallest`.
pub(super) fn write_largest(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    units: &[(&str, u64)],
    smallest: &str,
) -> fmt::Result {
    for &(unit, size) in units {
        if value >= size && value.is_multiple_of((size / 1000).max(1)) {
            let thousandths = value / (size / 1000).max(1);
            let (whole, fraction) = (thousandths / 1000, thousandths % 1000);
            let fraction = format!(".{fraction:03}");
            let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
            return write!(f, "{whole}{fraction}{unit}");
        }
    }
    write!(f, "{value}{smallest}")
}

/// Reads a quantity that may be written as a number or as a text.
pub(super) struct NumberOrText<T> {
    pub(super) expecting: &'static str,
    pub(super) number: fn(f64) -> Result<T, UnitError>,
}

impl<T: FromStr<Err = UnitError>> de::Visitor<'_> for NumberOrText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        (self.number)(number).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_f64(number as f64)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_f64(number as f64)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}
