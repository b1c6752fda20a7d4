use std::fs;
use std::path::{Path, PathBuf};

use crate::{AssembleError, Tree, patch, release};

/// The folder of the series in the package.
const FOLDER: &str = "patches";

/// The beginning of a patch file, before its message.
const FROM: &str = "From: The Gallop authors <noreply@gallop.invalid>\n";
const SUBJECT: &str = "Subject: [PATCH] ";

/// One patch of the series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The file.
    pub path: PathBuf,
    /// The name without number and ending: `plug-point` of `0001-plug-point.patch`.
    pub name: String,
    /// The first line of the message.
    pub subject: String,
    /// The rest of the message, which ends with a line feed unless it is empty.
    pub body: String,
    /// A summary of the changed files for readers, between the message and the diff.
    pub summary: String,
    /// The changes, as `git diff` writes them.
    pub diff: String,
}

impl Patch {
    /// The file of a patch of the series.
    pub fn file(package_dir: &Path, number: usize, name: &str) -> PathBuf {
        package_dir
            .join(FOLDER)
            .join(format!("{number:04}-{name}.patch"))
    }

    /// The text of the file, which `git am` takes as well.
    pub fn text(&self) -> String {
        let Patch {
            subject,
            body,
            summary,
            diff,
            ..
        } = self;
        format!("{FROM}{SUBJECT}{subject}\n\n{body}---\n{summary}{diff}")
    }

    fn read(path: PathBuf, name: &str) -> Result<Patch, AssembleError> {
        let text = fs::read_to_string(&path).map_err(AssembleError::io("read", &path))?;
        let syntax = |message: &str| AssembleError::PatchSyntax {
            patch: path.clone(),
            message: message.to_owned(),
        };
        let (subject, rest) = text
            .strip_prefix(FROM)
            .and_then(|rest| rest.strip_prefix(SUBJECT)?.split_once("\n\n"))
            .ok_or_else(|| {
                syntax(&format!(
                    "expected the lines {:?} and \"{SUBJECT}…\", and an empty one",
                    FROM.trim_end()
                ))
            })?;
        let (body, changes) = match rest.strip_prefix("---\n") {
            Some(changes) => ("", changes),
            None => {
                let end = rest
                    .find("\n---\n")
                    .ok_or_else(|| syntax("expected a line \"---\" after the message"))?;
                (&rest[..=end], &rest[end + "\n---\n".len()..])
            }
        };
        let diff = match changes.starts_with("diff --git ") {
            true => 0,
            false => changes
                .find("\ndiff --git ")
                .map(|line_feed| line_feed + 1)
                .ok_or_else(|| syntax("it changes nothing"))?,
        };
        Ok(Patch {
            name: name.to_owned(),
            subject: subject.to_owned(),
            body: body.to_owned(),
            summary: changes[..diff].to_owned(),
            diff: changes[diff..].to_owned(),
            path,
        })
    }
}

/// Reads the series of a package, in order.
///
/// # Errors
///
/// A file cannot be read, or is not the patch with the next number.
pub fn series(package_dir: &Path) -> Result<Vec<Patch>, AssembleError> {
    let folder = package_dir.join(FOLDER);
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(AssembleError::io("list", &folder))? {
        let entry = entry.map_err(AssembleError::io("list", &folder))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();

    let read = |(index, file): (usize, &String)| {
        let path = folder.join(file);
        let name = file
            .strip_suffix(".patch")
            .and_then(|stem| stem.strip_prefix(&format!("{:04}-", index + 1)))
            .filter(|name| !name.is_empty());
        match name {
            Some(name) => Patch::read(path, name),
            None => Err(AssembleError::Series {
                path,
                expected: index + 1,
            }),
        }
    };
    names.iter().enumerate().map(read).collect()
}

/// The patches that make a tree.
pub(crate) fn selected(tree: Tree, package_dir: &Path) -> Result<Vec<Patch>, AssembleError> {
    match tree {
        Tree::Released => Ok(Vec::new()),
        Tree::Patched => series(package_dir),
        Tree::FirstPatches(count) => {
            let mut patches = series(package_dir)?;
            let length = patches.len();
            if count > length {
                return Err(AssembleError::Count { count, length });
            }
            patches.truncate(count);
            Ok(patches)
        }
    }
}

/// Applies patches to the release and drops the result. Patches are checked in this way before they
/// are written.
///
/// # Errors
///
/// The release is not available, or a patch does not apply.
pub fn check(patches: &[Patch], package_dir: &Path) -> Result<(), AssembleError> {
    let mut files = release::read(package_dir)?;
    for patch in patches {
        patch::apply(&mut files, &patch.path, &patch.diff)?;
    }
    Ok(())
}
