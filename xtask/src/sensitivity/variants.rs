//! Sources of canter whose constants an environment variable changes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use regex::{Captures, Regex};
use serde::Serialize;

/// The environment variable that changes a constant: `NAME=FACTOR`.
pub const VARIABLE: &str = "GALLOP_SENSITIVITY";

/// The folder of the controller in a checkout.
const FOLDER: &str = "src/canter";

/// Goes into the root module of the controller; the variable's name is filled in.
const VARIED: &str = r#"
/// A value that half of it or twice of it can stand for.
pub(crate) trait Vary {
    fn times(self, factor: f64, adds: bool) -> Self;
}

impl Vary for f64 {
    fn times(self, factor: f64, adds: bool) -> f64 {
        let is_near_one = self > 0.5 && self < 2.0 && self != 1.0;
        if is_near_one && !adds { 1.0 + (self - 1.0) * factor } else { self * factor }
    }
}

impl Vary for u32 {
    fn times(self, factor: f64, _: bool) -> u32 {
        (f64::from(self) * factor).round().max(1.0) as u32
    }
}

impl Vary for std::time::Duration {
    fn times(self, factor: f64, _: bool) -> std::time::Duration {
        self.mul_f64(factor)
    }
}

pub(crate) fn varied<T: Vary>(name: &str, value: T) -> T {
    let change = std::env::var("VARIABLE").unwrap_or_default();
    match change.split_once('=') {
        Some((changed, factor)) if changed == name => {
            let adds = ["PACKETS", "_S", "ROUNDS", "RTTS", "WINDOWS", "SPREADS"];
            let adds = adds.iter().any(|unit| name.ends_with(unit));
            value.times(factor.parse().expect("a factor"), adds)
        }
        _ => value,
    }
}
"#;

/// A constant of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Constant {
    /// Its module and name.
    pub name: String,
    /// Its value in the source.
    pub value: String,
}

/// Changes the sources of the controller in a checkout so that [`VARIABLE`] changes its constants;
/// returns these. Numbers of samples that are the sizes of arrays are left out.
///
/// # Errors
///
/// A file cannot be read or written; the error names it.
pub fn vary(checkout: &Path) -> Result<Vec<Constant>> {
    let folder = checkout.join(FOLDER);
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut files = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    files.sort();
    let mut sources = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let module = file.file_stem().unwrap_or_default();
        sources.push((module.to_string_lossy().into_owned(), text, file));
    }
    let mut constants = Vec::new();
    for (module, text, file) in &sources {
        let own = constants_of(module, text);
        let mut changed = changed(module, text);
        for (other, others_text, _) in sources.iter().filter(|(other, ..)| other != module) {
            for constant in constants_of(other, others_text) {
                changed = imported(&changed, &constant.name);
            }
        }
        if module == "mod" {
            changed.push_str(&VARIED.replace("VARIABLE", VARIABLE));
        }
        fs::write(file, changed).with_context(|| file.display().to_string())?;
        constants.extend(own);
    }
    Ok(constants)
}

/// A line that defines a constant.
fn definition() -> Regex {
    Regex::new(r"(?m)^((?:pub\(super\) )?)const ([A-Z0-9_]+): (f64|u32|Duration) = (.+);$")
        .expect("a valid expression")
}

fn constants_of(module: &str, text: &str) -> Vec<Constant> {
    let constant = |found: Captures| Constant {
        name: format!("{module}::{}", &found[2]),
        value: found[4].to_owned(),
    };
    definition().captures_iter(text).map(constant).collect()
}

/// The text with its own constants made variable.
fn changed(module: &str, text: &str) -> String {
    let mut changed = text.to_owned();
    for constant in constants_of(module, text) {
        changed = used(&changed, short(&constant.name));
    }
    // The name is dereferenced in its definition too.
    let definition = Regex::new(
        r"(?m)^((?:pub\(super\) )?)const \(\*([A-Z0-9_]+)\): (f64|u32|Duration) = (.+);$",
    )
    .expect("a valid expression");
    let variable = |found: &Captures| {
        let (visible, name, kind, value) = (&found[1], &found[2], &found[3], &found[4]);
        format!(
            "{visible}static {name}: std::sync::LazyLock<{kind}> = std::sync::LazyLock::new(|| \
             crate::canter::varied(\"{module}::{name}\", {value}));"
        )
    };
    definition.replace_all(&changed, variable).into_owned()
}

/// The text with another module's constant made variable, if it is imported.
fn imported(text: &str, name: &str) -> String {
    let name = short(name);
    let import = Regex::new(&format!(r"(?m)^use [^;]*\b{name}\b")).expect("a valid expression");
    match import.is_match(text) {
        true => used(text, name),
        false => text.to_owned(),
    }
}

/// The text with `name` dereferenced, but in imports, in comments, and behind a type.
fn used(text: &str, name: &str) -> String {
    let found = Regex::new(&format!(r"(^|[^:\w]){name}\b")).expect("a valid expression");
    let mut is_import = false;
    let mut lines = Vec::new();
    for line in text.split('\n') {
        is_import |= line.starts_with("use ");
        let is_comment = line.trim_start().starts_with("//");
        lines.push(match is_import || is_comment {
            true => line.to_owned(),
            false => found
                .replace_all(line, format!("${{1}}(*{name})"))
                .into_owned(),
        });
        is_import &= !line.ends_with(';');
    }
    lines.join("\n")
}

fn short(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRUISE: &str = "\
use super::startup::{GROWTH, Startup};

/// STEP and so on.
const STEP: f64 = 1.0 / 16.0;
const ROUNDS: usize = 3;

fn grow(window: f64) -> f64 {
    window * (1.0 + STEP) + GROWTH + Cubic::STEP
}
";

    #[test]
    fn constants_become_variable_wherever_they_are_used() {
        let constant = Constant {
            name: "cruise::STEP".to_owned(),
            value: "1.0 / 16.0".to_owned(),
        };
        assert_eq!(constants_of("cruise", CRUISE), [constant]);
        let changed = imported(&changed("cruise", CRUISE), "startup::GROWTH");
        assert!(changed.contains("{GROWTH, Startup}"), "{changed}");
        assert!(changed.contains("/// STEP and so on."), "{changed}");
        assert!(
            changed.contains("static STEP: std::sync::LazyLock<f64>"),
            "{changed}"
        );
        assert!(
            changed.contains("varied(\"cruise::STEP\", 1.0 / 16.0)"),
            "{changed}"
        );
        assert!(changed.contains("const ROUNDS: usize = 3;"), "{changed}");
        assert!(
            changed.contains("(1.0 + (*STEP)) + (*GROWTH) + Cubic::STEP"),
            "{changed}"
        );
    }
}
