//! Tests of the program that changes the series of patches.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use quiche_assemble::RELEASE;

use support::{DIFF, folder, package, small_package, write};

fn run(program: &str, dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.current_dir(dir).args(arguments);
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "someone");
        command.env(format!("GIT_{role}_EMAIL"), "someone@localhost");
    }
    command.output().unwrap()
}

fn quiche_patch(dir: &Path, arguments: &[&str]) -> Output {
    run(env!("CARGO_BIN_EXE_quiche-patch"), dir, arguments)
}

/// Runs `quiche-patch`, which has to succeed.
fn succeed(dir: &Path, arguments: &[&str]) {
    let output = quiche_patch(dir, arguments);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Runs `quiche-patch`, which has to fail, and returns its message.
fn failure(dir: &Path, arguments: &[&str]) -> String {
    let output = quiche_patch(dir, arguments);
    assert!(!output.status.success());
    stderr(&output)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn git(dir: &Path, arguments: &[&str]) -> String {
    let output = run("git", dir, arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        stderr(&output)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// A project with a small release and one patch.
fn project(test: &str) -> PathBuf {
    let project = folder(test);
    small_package(&project.join("quiche"), RELEASE, DIFF);
    project
}

/// The patches of a project by file name.
fn patches(project: &Path) -> BTreeMap<String, String> {
    fs::read_dir(project.join("quiche/patches"))
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn help_is_shown_and_nothing_is_written() {
    let dir = folder("help");
    for arguments in [&["--help"][..], &["checkout", "--help"]] {
        let output = quiche_patch(&dir, arguments);
        assert!(output.status.success());
        let help = String::from_utf8_lossy(&output.stdout);
        assert!(help.contains("usage: quiche-patch") && help.contains("Example"));
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn the_series_is_the_same_after_checkout_and_save() {
    let project = folder("real-series");
    for part in ["patches", "upstream", "upstream/src"] {
        let (from, to) = (package().join(part), project.join("quiche").join(part));
        fs::create_dir_all(&to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let file = entry.unwrap();
            if file.path().is_file() {
                fs::copy(file.path(), to.join(file.file_name())).unwrap();
            }
        }
    }
    let before = patches(&project);
    succeed(&project.join("quiche"), &["checkout", "../tree"]);
    let tree = project.join("tree");
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
    let commits = git(&tree, &["rev-list", "HEAD"]);
    assert_eq!(commits.lines().count(), before.len() + 1);
    succeed(&project, &["save", "tree"]);
    assert_eq!(patches(&project), before);
}

#[test]
fn commits_become_patches() {
    let project = project("commits");
    succeed(&project, &["checkout", "tree"]);
    let tree = project.join("tree");

    // The first patch is amended, and a second one is added.
    write(tree.join("src/new.rs"), "first\nlast\n");
    git(
        &tree,
        &["commit", "--quiet", "--all", "--amend", "--no-edit"],
    );
    write(tree.join("src/third.rs"), "third\n");
    git(&tree, &["add", "src/third.rs"]);
    let message = ["-m", "Add a third file: why not", "-m", "There was room."];
    git(&tree, &[&["commit", "--quiet"][..], &message].concat());
    succeed(&project, &["save", "tree"]);
    let saved = patches(&project);
    let names: Vec<&str> = saved.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["0001-poem.patch", "0002-add-a-third-file-why-not.patch"]
    );
    assert!(saved["0001-poem.patch"].contains("+first\n+last\n"));
    assert!(saved["0001-poem.patch"].contains("Change the poem\n\nIt is worth it.\n---\n"));
    let third = &saved["0002-add-a-third-file-why-not.patch"];
    assert_eq!(
        third,
        "From: The Gallop authors <noreply@gallop.invalid>\n\
         Subject: [PATCH] Add a third file: why not\n\nThere was room.\n---\n \
         src/third.rs | 1 +\n 1 file changed, 1 insertion(+)\n create mode 100644 src/third.rs\n\n\
         diff --git a/src/third.rs b/src/third.rs\nnew file mode 100644\n--- /dev/null\n\
         +++ b/src/third.rs\n@@ -0,0 +1 @@\n+third\n"
    );

    // The commits are dropped again.
    git(&tree, &["reset", "--quiet", "--hard", "HEAD~"]);
    succeed(&project, &["save", "tree"]);
    assert_eq!(patches(&project).len(), 1);
}

#[test]
fn a_patch_keeps_the_name_that_its_message_gives() {
    let project = project("name");
    succeed(&project, &["checkout", "tree"]);
    let tree = project.join("tree");
    let message = git(&tree, &["log", "-1", "--format=%B"]);
    assert!(message.contains("Patch-Name: poem"), "{message}");
    let renamed = message.replace("Patch-Name: poem", "Patch-Name: verse");
    git(&tree, &["commit", "--quiet", "--amend", "-m", &renamed]);
    succeed(&project, &["save", "tree"]);
    assert_eq!(
        Vec::from_iter(patches(&project).keys()),
        ["0001-verse.patch"]
    );
}

#[test]
fn changes_in_no_commit_are_not_saved() {
    let project = project("uncommitted");
    succeed(&project, &["checkout", "tree"]);
    let before = patches(&project);
    write(project.join("tree/src/new.rs"), "none\n");
    let message = failure(&project, &["save", "tree"]);
    assert!(
        message.contains("changes that are in no commit"),
        "{message}"
    );
    assert!(message.contains("src/new.rs"), "{message}");
    assert_eq!(patches(&project), before);
}

#[test]
fn a_series_that_would_not_apply_is_not_saved() {
    let project = project("misfit");
    succeed(&project, &["checkout", "tree"]);
    let before = patches(&project);

    // A first commit that is not the release.
    let tree = project.join("tree");
    git(&tree, &["checkout", "--quiet", "quiche-0.30.0"]);
    write(tree.join("src/poem.rs"), "none\n");
    git(
        &tree,
        &["commit", "--quiet", "--all", "--amend", "--no-edit"],
    );
    git(&tree, &["tag", "--force", "quiche-0.30.0"]);
    write(tree.join("src/poem.rs"), "some\n");
    git(&tree, &["commit", "--quiet", "--all", "-m", "Say more"]);
    let message = failure(&project, &["save", "tree"]);
    assert!(
        message.contains("0001-say-more.patch does not apply to src/poem.rs"),
        "{message}"
    );
    assert_eq!(patches(&project), before);
}

#[test]
fn a_checkout_is_not_overwritten() {
    let project = project("again");
    succeed(&project, &["checkout", "tree"]);
    write(project.join("tree/src/new.rs"), "work\n");
    let message = failure(&project, &["checkout", "tree"]);
    assert!(message.contains("is a git repository already"), "{message}");
    let kept = fs::read_to_string(project.join("tree/src/new.rs")).unwrap();
    assert_eq!(kept, "work\n");
}

#[test]
fn a_patch_that_does_not_apply_is_left_to_git_am() {
    let project = project("carry-over");
    let patch = project.join("quiche/patches/0001-poem.patch");
    let text = fs::read_to_string(&patch).unwrap();
    fs::write(&patch, text.replace("-eight", "-acht")).unwrap();
    let message = failure(&project, &["checkout", "tree"]);
    assert!(message.contains("git am --continue"), "{message}");
    assert!(project.join("tree/src/poem.rs.rej").is_file());
    let message = failure(&project, &["save", "tree"]);
    assert!(message.contains("in no commit"), "{message}");
}

#[test]
fn outside_of_a_project_there_is_no_series() {
    let message = failure(Path::new("/"), &["save", "tree"]);
    assert!(message.contains("quiche/patches"), "{message}");
}
