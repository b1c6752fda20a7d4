//! Changes `plug-point.patch`: see quiche/README.md.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use quiche_assemble::{Tree, assemble, checksums};

const USAGE: &str = "\
usage: quiche-patch checkout DIR   write the release as a git repository, and apply the patch to
                                   its work tree
       quiche-patch save DIR       write what differs from the release in DIR to plug-point.patch
       quiche-patch checksums      write upstream/SHA256SUMS, after a change of the release";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["checkout", dir] => checkout(Path::new(dir)),
        ["save", dir] => save(Path::new(dir)),
        ["checksums"] => save_checksums(),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the package `quiche`.
fn package_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn checkout(dir: &Path) -> Result<(), Box<dyn Error>> {
    assemble(Tree::Released, &package_dir(), dir)?;
    git(dir, &["init", "--quiet"])?;
    fs::write(
        dir.join(".git/info/exclude"),
        "/target\n/.quiche-assemble\n",
    )?;
    git(dir, &["add", "--all", "--force", "."])?;
    git(
        dir,
        &["rm", "--cached", "--quiet", "--force", ".quiche-assemble"],
    )?;
    git(
        dir,
        &[
            "-c",
            "user.name=quiche-patch",
            "-c",
            "user.email=quiche-patch@localhost",
            "commit",
            "--quiet",
            "--message=quiche as released",
        ],
    )?;
    let patch = package_dir().canonicalize()?.join("plug-point.patch");
    // What does not apply, after a change of the release, is left in *.rej files.
    git(
        dir,
        &[
            "apply",
            "--reject",
            "--whitespace=nowarn",
            &patch.to_string_lossy(),
        ],
    )?;
    Ok(())
}

fn save(dir: &Path) -> Result<(), Box<dyn Error>> {
    git(dir, &["add", "--intent-to-add", "."])?;
    let diff = git(
        dir,
        &[
            "diff",
            "--no-color",
            "--no-ext-diff",
            "--no-renames",
            "--abbrev=7",
            "--unified=3",
            "--src-prefix=a/",
            "--dst-prefix=b/",
        ],
    )?;
    fs::write(package_dir().join("plug-point.patch"), diff)?;
    Ok(())
}

fn save_checksums() -> Result<(), Box<dyn Error>> {
    let text = checksums(&package_dir())?;
    fs::write(package_dir().join("upstream/SHA256SUMS"), text)?;
    Ok(())
}

/// Runs git in a folder, and returns what it prints.
fn git(dir: &Path, arguments: &[&str]) -> Result<Vec<u8>, Box<dyn Error>> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(dir)
        .output()?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        let message = String::from_utf8_lossy(&output.stderr);
        Err(format!("git {}: {}", arguments.join(" "), message.trim()).into())
    }
}
