//! The program that changes the patch.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An empty folder.
fn folder(test: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn run(program: &str, dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.current_dir(dir).args(arguments).output().unwrap()
}

fn quiche_patch(dir: &Path, arguments: &[&str]) -> Output {
    run(env!("CARGO_BIN_EXE_quiche-patch"), dir, arguments)
}

fn git(dir: &Path, arguments: &[&str]) {
    assert!(run("git", dir, arguments).status.success(), "{arguments:?}");
}

#[test]
fn help_is_shown_and_nothing_is_written() {
    let dir = folder("help");
    for arguments in [&["--help"][..], &["checkout", "--help"]] {
        let output = quiche_patch(&dir, arguments);
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("usage: quiche-patch"));
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn a_patch_is_saved_in_the_project_of_the_current_folder() {
    let project = folder("save");
    fs::create_dir_all(project.join("quiche")).unwrap();
    let patch = project.join("quiche/plug-point.patch");
    fs::write(&patch, "").unwrap();
    let tree = project.join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("poem"), "one\n").unwrap();
    git(&tree, &["init", "--quiet"]);
    git(&tree, &["add", "poem"]);
    let author = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
    git(
        &tree,
        &[&author[..], &["commit", "--quiet", "--message=one"]].concat(),
    );
    fs::write(tree.join("poem"), "two\n").unwrap();

    assert!(
        quiche_patch(&project.join("quiche"), &["save", "../tree"])
            .status
            .success()
    );
    let saved = fs::read_to_string(patch).unwrap();
    assert!(saved.ends_with("-one\n+two\n"), "{saved}");
}

#[test]
fn outside_of_a_project_there_is_no_patch() {
    let output = quiche_patch(Path::new("/"), &["save", "tree"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("quiche/plug-point.patch"));
}
