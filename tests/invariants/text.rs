//! Texts that are much like an algorithm with its options.

use bolero::TypeGenerator;
use gallop::{Algorithm, AlgorithmError, OptionsError};

/// A piece of a text.
#[derive(Clone, Debug, TypeGenerator)]
pub enum Piece {
    /// A word with a meaning at the right place.
    Word(#[generator(0..WORDS.len())] usize),
    Number(f64),
    Integer(i32),
    Character(char),
}

const WORDS: [&str; 27] = [
    "vegas:",
    "gallop-vegas:",
    "alpha=",
    "beta=",
    "gamma=",
    "decrease=",
    "initial_window=",
    "rtt=",
    "mean",
    "min",
    "last",
    ",",
    "=",
    " ",
    "0.5",
    "3",
    "nan",
    "inf",
    "1e999",
    "-0",
    "copa:",
    "cubic-rfc9438:",
    "reno-rfc9002",
    "delta=",
    "hystart=",
    "compete=",
    "on",
];

/// The text that the pieces make.
pub fn join(pieces: &[Piece]) -> String {
    let text = |piece: &Piece| match piece {
        Piece::Word(index) => WORDS[*index].to_owned(),
        Piece::Number(number) => number.to_string(),
        Piece::Integer(number) => number.to_string(),
        Piece::Character(character) => character.to_string(),
    };
    pieces.iter().map(text).collect()
}

/// A text is an algorithm that its own text form gives again, or an error that says where to look.
///
/// # Panics
///
/// If it is neither.
pub fn check(text: &str) {
    let error = match text.parse::<Algorithm>() {
        Ok(algorithm) => {
            assert_eq!(
                algorithm.to_string().parse(),
                Ok(algorithm.clone()),
                "{text:?}"
            );
            return;
        }
        Err(error) => error,
    };
    let message = error.to_string();
    let culprit = match error {
        AlgorithmError::Unknown { name, .. } => name,
        AlgorithmError::Options { error, .. } => match error {
            OptionsError::Unknown { name, .. } | OptionsError::Twice { name } => name,
            OptionsError::Invalid { name, .. } | OptionsError::Above { name, .. } => {
                name.to_owned()
            }
            OptionsError::NotAPair { text } => text,
            other => panic!("{text:?}: {other}"),
        },
        other => panic!("{text:?}: {other}"),
    };
    assert!(message.contains(&format!("`{culprit}`")), "{message}");
    // Above a β that was given, α may be the default.
    assert!(
        text.contains(&culprit) || text.contains("beta"),
        "{message} for {text:?}"
    );
}
