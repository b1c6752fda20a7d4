//! Changes the series of patches: see quiche/README.md.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use quiche_assemble::{Patch, RELEASE, Tree, assemble, check, checksums, series};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "\
usage: quiche-patch checkout DIR   make DIR a git repository: the release of quiche as the first
                                   commit, and one commit per patch of quiche/patches
       quiche-patch save DIR       write the commits after the first back to quiche/patches
       quiche-patch checksums      write quiche/upstream/SHA256SUMS, after a move to another release

Amend, reorder, drop or add commits in DIR with git, between checkout and save. A commit's message
becomes the patch's. Its line \"Patch-Name: NAME\" gives the file its name; without one the name comes
from the first line of the message.

The series is that of the project that the current folder is in.

Example, a change of the third patch:
  quiche-patch checkout ../quiche-tree
  cd ../quiche-tree
  git rebase --interactive quiche-0.30.0    # mark the third commit with \"edit\"
  # edit, build and test
  git commit --all --amend && git rebase --continue
  cd -
  quiche-patch save ../quiche-tree";

/// The line of a commit's message that names the patch's file.
const NAME: &str = "Patch-Name: ";

/// The folder of the series in the package.
const PATCHES: &str = "patches";

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
fn package_dir() -> Result<PathBuf> {
    let here = std::env::current_dir()?;
    let packages = here.ancestors().map(|folder| folder.join("quiche"));
    let package = packages.into_iter().find(|it| it.join(PATCHES).is_dir());
    package.ok_or_else(|| {
        format!(
            "{} is not in a project with a folder quiche/{PATCHES}: run quiche-patch in the project",
            here.display()
        )
        .into()
    })
}

/// The name of the first commit, which is the release.
fn release_tag() -> String {
    format!("quiche-{RELEASE}")
}

fn checkout(package: &Path, dir: &Path) -> Result<()> {
    if dir.join(".git").exists() {
        return Err(format!(
            "{} is a git repository already: save it and remove it, or name another folder",
            dir.display()
        )
        .into());
    }
    let patches = series(package)?;
    assemble(Tree::Released, package, dir)?;
    git(dir, &["init", "--quiet", "--initial-branch=main"])?;
    fs::write(
        dir.join(".git/info/exclude"),
        "/target\n/.quiche-assemble\n",
    )?;
    let list = fs::read_to_string(package.join("upstream/SHA256SUMS"))?;
    let files = list
        .lines()
        .filter_map(|line| Some(line.split_once("  ")?.1));
    let add: Vec<&str> = ["add", "--force", "--"].into_iter().chain(files).collect();
    git(dir, &add)?;
    let message = format!("quiche {RELEASE} as released");
    git(dir, &["commit", "--quiet", "--message", &message])?;
    git(dir, &["tag", &release_tag()])?;

    let mailbox: String = patches.iter().map(mail).collect();
    let am = [
        "am",
        "--quiet",
        "--reject",
        "--whitespace=nowarn",
        "--committer-date-is-author-date",
    ];
    git_with(dir, &am, mailbox.as_bytes()).map_err(|error| {
        format!(
            "{error}\nThe rest of the patch is in *.rej files in {}: carry it over by hand, \
             `git add` it, and go on with `git am --continue`",
            dir.display()
        )
    })?;
    Ok(())
}

/// A patch as `git am` reads it from a mailbox of several. The date is always the same, and so are
/// the hashes of the commits.
fn mail(patch: &Patch) -> String {
    let mut named = patch.clone();
    if !named.body.is_empty() {
        named.body.push('\n');
    }
    named.body.push_str(&format!("{NAME}{}\n", patch.name));
    format!(
        "From {:040} Mon Sep 17 00:00:00 2001\nDate: Thu, 1 Jan 2026 00:00:00 +0000\n{}\n",
        0,
        named.text()
    )
}

fn save(package: &Path, dir: &Path) -> Result<()> {
    let uncommitted = git(dir, &["status", "--porcelain"])?;
    if !uncommitted.is_empty() {
        return Err(format!(
            "{} has changes that are in no commit: commit them, then save again\n{}",
            dir.display(),
            uncommitted.trim_end()
        )
        .into());
    }
    for folder in ["rebase-apply", "rebase-merge"] {
        if dir.join(".git").join(folder).exists() {
            return Err(format!(
                "{}: finish `git rebase` or `git am` first, then save again",
                dir.display()
            )
            .into());
        }
    }
    let release = format!("refs/tags/{}", release_tag());
    let commits = format!("{release}..HEAD");
    if git(dir, &["merge-base", "--is-ancestor", &release, "HEAD"]).is_err() {
        return Err(format!(
            "HEAD of {} does not come after the release, the commit {}",
            dir.display(),
            release_tag()
        )
        .into());
    }
    let merges = git(dir, &["rev-list", "--merges", &commits])?;
    if let Some(merge) = merges.lines().next() {
        return Err(format!("{merge} is a merge: a series has none").into());
    }

    let mut patches = Vec::new();
    let mut names = BTreeSet::new();
    for commit in git(dir, &["rev-list", "--reverse", &commits])?.lines() {
        let patch = patch(package, dir, commit, patches.len() + 1)?;
        if !names.insert(patch.name.clone()) {
            return Err(format!(
                "two commits have the name {0}: change the line {NAME:?} of one of them",
                patch.name
            )
            .into());
        }
        patches.push(patch);
    }
    check(&patches, package)?;
    write(package, &patches)
}

/// The patch that a commit makes.
fn patch(package: &Path, dir: &Path, commit: &str, number: usize) -> Result<Patch> {
    let message = git(dir, &["log", "--max-count=1", "--format=%B", commit])?;
    let (subject, body) = message
        .trim_end()
        .split_once('\n')
        .unwrap_or((&message, ""));
    let subject = subject.trim();
    let name = body.lines().find_map(|line| line.strip_prefix(NAME));
    let name = slug(name.unwrap_or(subject));
    if name.is_empty() {
        return Err(format!("{commit} has no message to name its patch by").into());
    }
    let lines = body.lines().filter(|line| !line.starts_with(NAME));
    let body: String = lines.map(|line| format!("{line}\n")).collect();
    let body = body.trim().to_owned();
    if body.lines().any(|line| line == "---") {
        return Err(
            format!("the message of {commit} has a line \"---\", which ends a message").into(),
        );
    }
    let body = match body.is_empty() {
        true => body,
        false => body + "\n",
    };

    let changes = |options: &[&str]| {
        let tree = [
            "diff-tree",
            "--no-commit-id",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--no-renames",
            "--diff-algorithm=myers",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            "-r",
        ];
        git(dir, &[&tree, options, &[commit]].concat())
    };
    let diff = without_hashes(&changes(&["--unified=3"])?);
    if diff.is_empty() {
        return Err(format!("{commit} changes nothing: drop it").into());
    }
    Ok(Patch {
        path: Patch::file(package, number, &name),
        subject: subject.to_owned(),
        body,
        summary: changes(&["--stat=72", "--summary"])? + "\n",
        diff,
        name,
    })
}

/// A diff without the lines that name its contents by hash. They change with every earlier patch.
fn without_hashes(diff: &str) -> String {
    let mut is_header = false;
    let keep = |line: &&str| {
        is_header = match line {
            _ if line.starts_with("diff --git ") => true,
            _ if line.starts_with("@@ ") => false,
            _ => is_header,
        };
        !(is_header && line.starts_with("index "))
    };
    diff.split_inclusive('\n').filter(keep).collect()
}

/// A text in lower case, with a hyphen for everything that is not a letter or a digit.
fn slug(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    words.join("-")
}

/// Replaces the series, whole or not at all.
fn write(package: &Path, patches: &[Patch]) -> Result<()> {
    let (folder, old) = (package.join(PATCHES), package.join(".patches.old"));
    let new = package.join(".patches.new");
    if new.exists() {
        fs::remove_dir_all(&new)?;
    }
    fs::create_dir(&new)?;
    for patch in patches {
        let file = patch.path.file_name().unwrap_or_default();
        fs::write(new.join(file), patch.text())?;
    }
    fs::rename(&folder, &old)?;
    fs::rename(&new, &folder)?;
    fs::remove_dir_all(&old)?;
    Ok(())
}

fn save_checksums(package: &Path) -> Result<()> {
    let text = checksums(package)?;
    fs::write(package.join("upstream/SHA256SUMS"), text)?;
    Ok(())
}

/// Runs git in a folder, and returns what it prints.
fn git(dir: &Path, arguments: &[&str]) -> Result<String> {
    git_with(dir, arguments, &[])
}

/// Runs git in a folder with this input, and returns what it prints.
fn git_with(dir: &Path, arguments: &[&str], input: &[u8]) -> Result<String> {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(dir);
    // The user's configuration must not change the patches.
    git.env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{role}_NAME"), "The Gallop authors");
        git.env(format!("GIT_{role}_EMAIL"), "noreply@gallop.invalid");
        git.env(format!("GIT_{role}_DATE"), "2026-01-01T00:00:00+0000");
    }
    git.stdin(Stdio::piped());
    git.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = git.spawn().map_err(|e| format!("cannot run git: {e}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // git may end without reading all of the input; its exit status and message say why.
        let _ = stdin.write_all(input);
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let command = arguments.first().unwrap_or(&"");
    Err(format!("git {command} in {}: {}", dir.display(), message.trim()).into())
}
