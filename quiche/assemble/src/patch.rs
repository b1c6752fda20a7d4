use std::path::Path;

use diffy::patch_set::{FileOperation, ParseOptions, PatchSet};
use diffy::{Hunk, Line, Patch};

use crate::AssembleError;
use crate::files::Files;

/// Applies a diff of `git diff`, with each hunk at exactly the place it names. `patch` is the file
/// that it comes from.
pub(crate) fn apply(files: &mut Files, patch: &Path, diff: &str) -> Result<(), AssembleError> {
    let syntax = |message: String| AssembleError::PatchSyntax {
        patch: patch.to_owned(),
        message,
    };

    for file_patch in PatchSet::parse(diff, ParseOptions::gitdiff()) {
        let file_patch = file_patch.map_err(|e| syntax(e.to_string()))?;
        let operation = file_patch.operation().strip_prefix(1);
        let (old, new) = match &operation {
            FileOperation::Create(new) => (None, Some(new)),
            FileOperation::Delete(old) => (Some(old), None),
            FileOperation::Modify { original, modified } if original == modified => {
                (Some(original), Some(modified))
            }
            other => return Err(syntax(format!("{other:?} is not supported"))),
        };
        let name = new.or(old).map(|name| name.to_string()).unwrap_or_default();
        let hunks = file_patch
            .patch()
            .as_text()
            .ok_or_else(|| syntax(format!("{name} is patched as a binary file")))?;

        let original = match old {
            Some(_) => files.0.remove(&name),
            None if files.0.contains_key(&name) => {
                return Err(syntax(format!("{name} is added, but is there already")));
            }
            None => Some(Vec::new()),
        };
        let original =
            original.ok_or_else(|| syntax(format!("{name} is changed, but is not there")))?;
        let original =
            String::from_utf8(original).map_err(|_| syntax(format!("{name} is not UTF-8")))?;

        let patched = apply_hunks(&original, hunks).map_err(|misfit| AssembleError::Patch {
            patch: patch.to_owned(),
            file: name.clone(),
            hunk: misfit.hunk,
            line: misfit.line,
            expected: misfit.expected,
            found: misfit.found,
        })?;
        if new.is_some() {
            files.0.insert(name, patched.into_bytes());
        }
    }
    Ok(())
}

/// A line at which a patch and a file differ.
struct Misfit {
    hunk: usize,
    line: usize,
    expected: String,
    found: String,
}

fn apply_hunks(original: &str, patch: &Patch<'_, str>) -> Result<String, Misfit> {
    let lines: Vec<&str> = original.split_inclusive('\n').collect();
    let mut patched = String::with_capacity(original.len());
    let mut next = 0; // The first line that is not yet copied or dropped.

    for (index, hunk) in patch.hunks().iter().enumerate() {
        let misfit = |at: usize, expected: &str| Misfit {
            hunk: index + 1,
            line: at + 1,
            expected: format!("{expected:?}"),
            found: match lines.get(at) {
                Some(line) => format!("{line:?}"),
                None => "ends".to_owned(),
            },
        };
        let first = first_line(hunk);
        let Some(kept) = lines.get(next..first) else {
            return Err(misfit(first, "a hunk"));
        };
        patched.extend(kept.iter().copied());
        next = first;

        for line in hunk.lines() {
            match *line {
                Line::Insert(text) => patched.push_str(text),
                Line::Context(text) | Line::Delete(text) => {
                    if lines.get(next) != Some(&text) {
                        return Err(misfit(next, text));
                    }
                    if matches!(line, Line::Context(_)) {
                        patched.push_str(text);
                    }
                    next += 1;
                }
            }
        }
    }
    patched.extend(lines.iter().skip(next).copied());
    Ok(patched)
}

/// The index of a hunk's first old line. A hunk without old lines gives the number of the line
/// before it.
fn first_line(hunk: &Hunk<'_, str>) -> usize {
    let old = hunk.old_range();
    if old.is_empty() {
        old.start()
    } else {
        old.start().saturating_sub(1)
    }
}
