//! Assembling the real release, and small changed copies of everything it depends on.

use std::fs;
use std::path::{Path, PathBuf};

use quiche_assemble::{AssembleError, RELEASE, Tree, assemble, checksums};

/// The package `quiche` of this project.
fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// An empty folder.
fn folder(test: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

const POEM: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n";

const PATCH: &str = "\
diff --git a/src/poem.rs b/src/poem.rs
index 0000000..1111111 100644
--- a/src/poem.rs
+++ b/src/poem.rs
@@ -2,3 +2,4 @@ one
 two
 three
+three and a half
 four
@@ -7,3 +8,2 @@ six
 seven
-eight
 nine
diff --git a/src/new.rs b/src/new.rs
new file mode 100644
index 0000000..1111111
--- /dev/null
+++ b/src/new.rs
@@ -0,0 +1,2 @@
+first
+second
diff --git a/src/old.rs b/src/old.rs
deleted file mode 100644
index 1111111..0000000
--- a/src/old.rs
+++ /dev/null
@@ -1 +0,0 @@
-old
";

/// A package like `quiche`, with a small release of its own beside the lock file.
fn small_package(test: &str, version: &str, patch: &str) -> PathBuf {
    let dir = folder(test);
    let release = dir.join("upstream/release");
    write(
        release.join("Cargo.toml"),
        &format!("[package]\nname = \"quiche\"\nversion = \"{version}\"\nedition = \"2021\"\n"),
    );
    write(release.join("src/lib.rs"), "");
    write(release.join("src/poem.rs"), POEM);
    write(release.join("src/old.rs"), "old\n");
    write(
        dir.join("upstream/Cargo.toml"),
        "[workspace]\n[package]\nname = \"upstream\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
         [dependencies]\nquiche = { path = \"release\" }\n",
    );
    write(dir.join("upstream/src/lib.rs"), "");
    write(
        dir.join("upstream/Cargo.lock"),
        &format!(
            "version = 4\n\n[[package]]\nname = \"quiche\"\nversion = \"{version}\"\n\n\
             [[package]]\nname = \"upstream\"\nversion = \"0.0.0\"\ndependencies = [\"quiche\"]\n"
        ),
    );
    if version == RELEASE {
        let sums = checksums(&dir).unwrap();
        write(dir.join("upstream/SHA256SUMS"), &sums);
    }
    write(dir.join("plug-point.patch"), patch);
    dir
}

/// The real `upstream` folder, changed by `change`, which is given a file's name and text.
fn changed_upstream(test: &str, change: impl Fn(&str, String) -> String) -> PathBuf {
    let dir = folder(test);
    for name in ["Cargo.toml", "Cargo.lock", "SHA256SUMS", "src/lib.rs"] {
        let text = fs::read_to_string(package().join("upstream").join(name)).unwrap();
        write(dir.join("upstream").join(name), &change(name, text));
    }
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
fn the_release_and_the_patch_make_both_trees() {
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
    let package = small_package("patched", RELEASE, PATCH);
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
    let package = small_package("in-place", RELEASE, PATCH);
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
    let package = small_package("not-ours", RELEASE, PATCH);
    write(package.join("destination/letter.txt"), "");
    let (error, message) = failure(&package);
    assert!(matches!(error, AssembleError::Destination { .. }));
    assert!(message.contains("destination is not empty"), "{message}");
    assert!(package.join("destination/letter.txt").exists());
}

#[test]
fn a_patch_that_does_not_apply_names_file_and_hunk() {
    let patch = PATCH.replace("-eight", "-acht");
    let (error, message) = failure(&small_package("misfit", RELEASE, &patch));
    assert!(matches!(
        error,
        AssembleError::Patch {
            hunk: 2,
            line: 8,
            ..
        }
    ));
    assert!(
        message.contains("plug-point.patch does not apply to src/poem.rs, hunk 2 at line 8"),
        "{message}"
    );
    assert!(message.contains(r#"the patch has "acht\n", the release "eight\n""#));
    assert!(message.contains("fits the release 0.30.0 exactly"));
}

#[test]
fn a_hunk_is_not_moved_to_where_it_would_fit() {
    let patch = PATCH.replace("@@ -2,3 +2,4 @@", "@@ -3,3 +3,4 @@");
    let (error, message) = failure(&small_package("moved", RELEASE, &patch));
    assert!(
        matches!(error, AssembleError::Patch { hunk: 1, .. }),
        "{message}"
    );
}

#[test]
fn a_patch_for_a_file_that_the_release_lacks_is_refused() {
    let patch = PATCH.replace("poem.rs", "prose.rs");
    let (error, message) = failure(&small_package("lacking", RELEASE, &patch));
    assert!(matches!(error, AssembleError::PatchSyntax { .. }));
    assert!(
        message.contains("src/prose.rs is changed, but the release lacks it"),
        "{message}"
    );
}

#[test]
fn a_patch_that_is_cut_off_is_refused() {
    let cut = PATCH.find(" nine").unwrap();
    let (error, message) = failure(&small_package("cut-off", RELEASE, &PATCH[..cut]));
    assert!(
        matches!(error, AssembleError::PatchSyntax { .. }),
        "{message}"
    );
}

#[test]
fn another_version_is_refused() {
    let (error, message) = failure(&small_package("version", "0.29.1", PATCH));
    assert!(matches!(error, AssembleError::Version { .. }));
    assert!(
        message.contains("upstream/Cargo.toml provides quiche 0.29.1"),
        "{message}"
    );
    assert!(message.contains("0.30.0 exactly"), "{message}");
}

#[test]
fn a_file_that_changed_after_the_download_is_refused() {
    let package = small_package("tampered", RELEASE, PATCH);
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
    let package = small_package("sums", RELEASE, PATCH);
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
