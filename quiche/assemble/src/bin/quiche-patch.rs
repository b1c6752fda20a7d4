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
       quiche-patch checksums      write upstream/SHA256SUMS, after a change of the release

The patch and the checksums are those of the project that the current folder is in.

Example: quiche-patch checkout ../quiche-tree";

const PATCH: &str = "plug-point.patch";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["--help" | "-h"] | [_, "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        ["checkout", dir] => package_dir().and_then(|package| checkout(&package, Path::new(dir))),
        ["save", dir] => package_dir().and_then(|package| save(&package, Path::new(dir))),
        ["checksums"] => package_dir().and_then(|package| save_checksums(&package)),
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

/// The folder of the package `quiche`, in the project that the current folder is in.
fn package_dir() -> Result<PathBuf, Box<dyn Error>> {
    let here = std::env::current_dir()?;
    let packages = here.ancestors().map(|folder| folder.join("quiche"));
    let package = packages.into_iter().find(|it| it.join(PATCH).is_file());
    package.ok_or_else(|| {
        let message = "is in no folder that has quiche/plug-point.patch: run this in the project";
        format!("{} {message}", here.display()).into()
    })
}

fn checkout(package: &Path, dir: &Path) -> Result<(), Box<dyn Error>> {
    assemble(Tree::Released, package, dir)?;
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
    let patch = package.join(PATCH);
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

fn save(package: &Path, dir: &Path) -> Result<(), Box<dyn Error>> {
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
    fs::write(package.join(PATCH), diff)?;
    Ok(())
}

fn save_checksums(package: &Path) -> Result<(), Box<dyn Error>> {
    let text = checksums(package)?;
    fs::write(package.join("upstream/SHA256SUMS"), text)?;
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
