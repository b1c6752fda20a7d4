//! Experiments' files with typing mistakes, which are read, or refused with the place of the
//! mistake.

use std::path::PathBuf;

use bolero::TypeGenerator;
use gallop_sim::experiment::{Experiment, ExperimentError};

/// Files that are sound, of every kind of table.
const SOUND: [&str; 5] = [
    include_str!("experiments/fairness.toml"),
    include_str!("../../experiments/gallop/figure-8.toml"),
    include_str!("../../experiments/streaming/figure-6.toml"),
    include_str!("../../experiments/vegas/tcplib.toml"),
    include_str!("experiments/links.toml"),
];

/// Text that is typed in place of other text.
const WORDS: [&str; 32] = [
    "",
    " ",
    "\n",
    "\t",
    "#",
    "=",
    ".",
    ",",
    "\"",
    "'",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "$run",
    "$",
    "0",
    "-1",
    "1e400",
    "nan",
    "inf",
    "9223372036854775807",
    "true",
    "1979-05-27",
    "10ms",
    "50p",
    "10mbit",
    "vegas:alpha=9",
    "é",
    "\u{0}",
];

/// A mistake.
#[derive(Debug, TypeGenerator)]
struct Mistake {
    /// Number of the word in the file, modulo the number of words.
    place: u16,
    kind: Kind,
}

#[derive(Debug, TypeGenerator)]
enum Kind {
    Replace(#[generator(0..WORDS.len())] usize),
    Insert(#[generator(0..WORDS.len())] usize),
    Delete,
    Copy { from: u16 },
    DeleteLine,
    CopyLine { from: u16 },
    Truncate,
}

/// Splits a text into words, quotes, blanks and signs, from which it can be put together again.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut in_word = false;
    for character in text.chars() {
        let belongs = character.is_alphanumeric() || "-_.".contains(character);
        match words.last_mut() {
            Some(word) if in_word && belongs => word.push(character),
            _ => words.push(character.into()),
        }
        in_word = belongs;
    }
    words
}

/// The words of the line that the word at `place` is in.
fn line(words: &[String], place: usize) -> std::ops::Range<usize> {
    let ends = |word: &String| word == "\n";
    let start = words[..place]
        .iter()
        .rposition(ends)
        .map_or(0, |end| end + 1);
    let end = words[place..].iter().position(ends);
    start..end.map_or(words.len(), |end| place + end + 1)
}

fn mistype(text: &str, mistakes: &[Mistake]) -> String {
    let mut words = words(text);
    for Mistake { place, kind } in mistakes {
        if words.is_empty() {
            break;
        }
        let place = usize::from(*place) % words.len();
        let other = |from: u16| usize::from(from) % words.len();
        match *kind {
            Kind::Replace(word) => words[place] = WORDS[word].to_owned(),
            Kind::Insert(word) => words.insert(place, WORDS[word].to_owned()),
            Kind::Delete => drop(words.remove(place)),
            Kind::Copy { from } => words[place] = words[other(from)].clone(),
            Kind::DeleteLine => drop(words.drain(line(&words, place))),
            Kind::CopyLine { from } => {
                let copy = words[line(&words, other(from))].to_vec();
                let at = line(&words, place).start;
                words.splice(at..at, copy);
            }
            Kind::Truncate => words.truncate(place),
        }
    }
    words.concat()
}

fn check(text: &str) {
    match Experiment::parse("mistyped", PathBuf::from("mistyped.toml"), text) {
        Ok(experiment) => {
            assert!(!experiment.points.is_empty());
            for point in &experiment.points {
                assert_eq!(point.labels.len(), experiment.axes.len());
            }
        }
        Err(ExperimentError::Invalid { problems, .. }) => {
            assert!(!problems.is_empty());
            let lines = text.lines().count() + 1;
            for problem in problems {
                assert!((1..=lines).contains(&problem.line), "{problem:?}");
                assert!(problem.column >= 1, "{problem:?}");
                assert!(!problem.problem.is_empty(), "{problem:?}");
            }
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn the_files_are_sound() {
    for text in SOUND {
        let path = PathBuf::from("sound.toml");
        let experiment = Experiment::parse("sound", path, &words(text).concat());
        assert!(experiment.is_ok(), "{experiment:?}");
    }
}

#[test]
fn fuzz_mistyped_files() {
    gallop_fuzz::check(
        "mistyped_files",
        1000,
        |(file, mistakes): &(u8, Vec<Mistake>)| {
            // One or two mistakes leave most of a file to be checked.
            let few = &mistakes[..mistakes.len().min(3)];
            check(&mistype(SOUND[usize::from(*file) % SOUND.len()], few));
        },
    );
}
