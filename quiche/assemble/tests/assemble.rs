//! Tests that assemble the real release, and small changed copies of all files that it depends on.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use quiche_assemble::{AssembleError, RELEASE, Tree, assemble, series};

use support::{DIFF, POEM, folder, package, patch_text, small_package, write};

/// The real `upstream` folder, changed by `change`, which is given a file's name and text.
fn changed_upstream(test: &str, change: impl Fn(&str, String) -> String) -> PathBuf {
    let dir = folder(test);
    for name in ["Cargo.toml", "Cargo.lock", "SHA256SUMS", "src/lib.rs"] {
        let text = fs::read_to_string(package().join("upstream").join(name)).unwrap();
        write(dir.join("upstream").join(name), &change(name, text));
    }
    dir
}

/// A small package in an empty folder.
fn small(test: &str, version: &str, diff: &str) -> PathBuf {
    let dir = folder(test);
    small_package(&dir, version, diff);
    dir
}

/// Assembles the patched tree, which has to fail, and returns the error with its message.
fn failure(package: &Path) -> (AssembleError, String) {
    let destination = package.join("destination");
    let error = assemble(Tree::Patched, package, &destination).unwrap_err();
    let message = error.to_string();
    (error, message)
}

/// All files below a folder, by path.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.clone(), fs::read(path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn the_release_and_the_series_make_both_trees() {
    let dir = folder("real");
    let (released, patched) = (dir.join("released"), dir.join("patched"));
    assemble(Tree::Released, &package(), &released).unwrap();
    assemble(Tree::Patched, &package(), &patched).unwrap();

    let sums = fs::read_to_string(package().join("upstream/SHA256SUMS")).unwrap();
    let marker = 1;
    assert_eq!(files(&released).len(), sums.lines().count() + marker);

    let external = "src/recovery/congestion/external.rs";
    assert!(!released.join(external).exists());
    assert!(patched.join(external).exists());
    let lib = |tree: &Path| fs::read_to_string(tree.join("src/lib.rs")).unwrap();
    assert!(!lib(&released).contains("register_cc_algorithm"));
    assert!(lib(&patched).contains("register_cc_algorithm"));
}

#[test]
fn a_patch_changes_adds_and_removes_files() {
    let package = small("patched", RELEASE, DIFF);
    let tree = package.join("tree");
    assemble(Tree::Patched, &package, &tree).unwrap();
    let read = |name: &str| fs::read_to_string(tree.join("src").join(name)).unwrap();
    assert_eq!(
        read("poem.rs"),
        "one\ntwo\nthree\nthree and a half\nfour\nfive\nsix\nseven\nnine\n"
    );
    assert_eq!(read("new.rs"), "first\nsecond\n");
    assert!(!tree.join("src/old.rs").exists());
}

#[test]
fn a_tree_is_brought_up_to_date_in_place() {
    let package = small("in-place", RELEASE, DIFF);
    let tree = package.join("tree");
    assemble(Tree::Patched, &package, &tree).unwrap();
    let modified = |name: &str| fs::metadata(tree.join(name)).unwrap().modified().unwrap();
    let before = modified("src/lib.rs");
    write(tree.join("target/kept"), "");
    write(tree.join("src/stray.rs"), "");

    assemble(Tree::Released, &package, &tree).unwrap();
    assert_eq!(modified("src/lib.rs"), before);
    assert_eq!(fs::read_to_string(tree.join("src/poem.rs")).unwrap(), POEM);
    assert!(tree.join("src/old.rs").exists());
    assert!(tree.join("target/kept").exists());
    assert!(!tree.join("src/new.rs").exists());
    assert!(!tree.join("src/stray.rs").exists());
}

#[test]
fn a_folder_of_someone_else_is_left_alone() {
    let package = small("not-ours", RELEASE, DIFF);
    write(package.join("destination/letter.txt"), "");
    let (error, message) = failure(&package);
    assert!(matches!(error, AssembleError::Destination { .. }));
    assert!(message.contains("destination is not empty"), "{message}");
    assert!(package.join("destination/letter.txt").exists());
}

#[test]
fn a_patch_that_does_not_apply_names_file_hunk_and_line() {
    let patch = DIFF.replace("-eight", "-acht");
    let (error, message) = failure(&small("misfit", RELEASE, &patch));
    assert!(matches!(
        error,
        AssembleError::Patch {
            hunk: 2,
            line: 8,
            ..
        }
    ));
    assert!(
        message.contains("0001-poem.patch does not apply to src/poem.rs, hunk 2 at line 8"),
        "{message}"
    );
    assert!(message.contains(r#"the patch has "acht\n", the file "eight\n""#));
    assert!(message.contains("to the release 0.30.0 with the patches before it"));
}

/// A diff that fits the release only after [`DIFF`].
const SECOND: &str = "\
diff --git a/src/poem.rs b/src/poem.rs
--- a/src/poem.rs
+++ b/src/poem.rs
@@ -3,2 +3,2 @@ two
 three
-three and a half
+three and a third
";

#[test]
fn patches_apply_in_order() {
    let package = small("series", RELEASE, DIFF);
    write(
        package.join("patches/0002-third.patch"),
        &patch_text("Say a third", SECOND),
    );
    let names: Vec<String> = series(&package)
        .unwrap()
        .into_iter()
        .map(|p| p.name)
        .collect();
    assert_eq!(names, ["poem", "third"]);

    let tree = package.join("tree");
    let poem = |tree_kind: Tree| {
        assemble(tree_kind, &package, &tree).unwrap();
        fs::read_to_string(tree.join("src/poem.rs")).unwrap()
    };
    assert!(poem(Tree::Patched).contains("three and a third\n"));
    assert!(poem(Tree::FirstPatches(1)).contains("three and a half\n"));
    assert_eq!(poem(Tree::FirstPatches(0)), POEM);

    fs::remove_file(package.join("patches/0001-poem.patch")).unwrap();
    write(
        package.join("patches/0001-third.patch"),
        &patch_text("Say a third", SECOND),
    );
    fs::remove_file(package.join("patches/0002-third.patch")).unwrap();
    let (_, message) = failure(&package);
    assert!(
        message.contains("0001-third.patch does not apply to src/poem.rs, hunk 1 at line 4"),
        "{message}"
    );
}

#[test]
fn more_patches_than_there_are_cannot_be_applied() {
    let package = small("count", RELEASE, DIFF);
    let error = assemble(Tree::FirstPatches(2), &package, &package.join("tree")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "GALLOP_QUICHE_PATCHES is 2: expected at most 1, the number of patches"
    );
}

#[test]
fn a_gap_in_the_series_is_refused() {
    for file in ["0003-third.patch", "0002-third.diff", "0001-again.patch"] {
        let package = small("gap", RELEASE, DIFF);
        write(
            package.join("patches").join(file),
            &patch_text("Say a third", SECOND),
        );
        let (error, message) = failure(&package);
        assert!(matches!(error, AssembleError::Series { .. }), "{message}");
        assert!(message.contains("numbered from 0001 without gaps"));
    }
}

#[test]
fn a_patch_without_header_or_changes_is_refused() {
    for (text, expected) in [
        (DIFF.to_owned(), "expected the lines"),
        (patch_text("Nothing", ""), "it changes nothing"),
        (
            patch_text("Nothing", "").replace("---", ""),
            "expected a line \"---\"",
        ),
    ] {
        let package = small("header", RELEASE, DIFF);
        write(package.join("patches/0001-poem.patch"), &text);
        let (error, message) = failure(&package);
        assert!(matches!(error, AssembleError::PatchSyntax { .. }));
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_hunk_is_not_moved_to_where_it_would_fit() {
    let patch = DIFF.replace("@@ -2,3 +2,4 @@", "@@ -3,3 +3,4 @@");
    let (error, message) = failure(&small("moved", RELEASE, &patch));
    assert!(
        matches!(error, AssembleError::Patch { hunk: 1, .. }),
        "{message}"
    );
}

#[test]
fn a_patch_for_a_file_that_the_release_lacks_is_refused() {
    let patch = DIFF.replace("poem.rs", "prose.rs");
    let (error, message) = failure(&small("lacking", RELEASE, &patch));
    assert!(matches!(error, AssembleError::PatchSyntax { .. }));
    assert!(
        message.contains("src/prose.rs is changed, but is not there"),
        "{message}"
    );
}

#[test]
fn a_patch_that_is_cut_off_is_refused() {
    let cut = DIFF.find(" nine").unwrap();
    let (error, message) = failure(&small("cut-off", RELEASE, &DIFF[..cut]));
    assert!(
        matches!(error, AssembleError::PatchSyntax { .. }),
        "{message}"
    );
}

#[test]
fn another_version_is_refused() {
    let (error, message) = failure(&small("version", "0.29.1", DIFF));
    assert!(matches!(error, AssembleError::Version { .. }));
    assert!(
        message.contains("upstream/Cargo.toml provides quiche 0.29.1"),
        "{message}"
    );
    assert!(message.contains("0.30.0 exactly"), "{message}");
}

#[test]
fn a_file_that_changed_after_the_download_is_refused() {
    let package = small("tampered", RELEASE, DIFF);
    write(package.join("upstream/release/src/poem.rs"), "none\n");
    let (error, message) = failure(&package);
    assert!(matches!(error, AssembleError::ReleaseFile { .. }));
    assert!(
        message.contains("poem.rs is not as published in quiche 0.30.0"),
        "{message}"
    );
    assert!(message.contains("upstream/SHA256SUMS"), "{message}");
}

#[test]
fn a_list_of_checksums_that_cannot_be_read_names_the_line() {
    let package = small("sums", RELEASE, DIFF);
    let sums = package.join("upstream/SHA256SUMS");
    let text = fs::read_to_string(&sums).unwrap();
    write(sums, &format!("{text}nonsense\n"));
    let (error, message) = failure(&package);
    assert!(
        matches!(error, AssembleError::Sums { line: 5, .. }),
        "{message}"
    );
}

#[test]
fn a_release_with_another_checksum_is_refused() {
    let package = changed_upstream("checksum", |name, text| {
        if name == "Cargo.lock" {
            let start = text.find("name = \"quiche\"").unwrap();
            let (before, quiche) = text.split_at(start);
            before.to_owned() + &quiche.replacen("checksum = \"52b3", "checksum = \"52b4", 1)
        } else {
            text
        }
    });
    let (error, message) = failure(&package);
    assert!(matches!(error, AssembleError::Checksum { .. }), "{message}");
    assert!(message.contains("the crate quiche 0.30.0"), "{message}");
    assert!(message.contains("upstream/Cargo.lock"), "{message}");
}

#[test]
fn a_registry_out_of_reach_is_named() {
    let package = changed_upstream("unreachable", |_, text| text);
    write(
        package.join("upstream/.cargo/config.toml"),
        "[net]\nretry = 0\n[source.crates-io]\nreplace-with = \"nowhere\"\n\
         [source.nowhere]\nregistry = \"sparse+http://127.0.0.1:9/\"\n",
    );
    let (error, message) = failure(&package);
    assert!(
        matches!(error, AssembleError::Unavailable { .. }),
        "{message}"
    );
    assert!(message.contains("the crate quiche 0.30.0"), "{message}");
    assert!(message.contains("upstream/Cargo.lock"), "{message}");
    assert!(message.contains("127.0.0.1"), "{message}");
}

#[test]
fn a_crate_that_is_not_in_the_registry_is_named() {
    let package = changed_upstream("missing", |_, text| text);
    fs::create_dir(package.join("registry")).unwrap();
    write(
        package.join("upstream/.cargo/config.toml"),
        "[source.crates-io]\nreplace-with = \"empty\"\n\
         [source.empty]\ndirectory = \"../registry\"\n",
    );
    let (error, message) = failure(&package);
    assert!(
        matches!(error, AssembleError::Unavailable { .. }),
        "{message}"
    );
    assert!(message.contains("quiche"), "{message}");
}
