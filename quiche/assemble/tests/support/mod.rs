//! Parts that the tests share.
#![allow(dead_code, reason = "each crate of tests uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};

use quiche_assemble::{RELEASE, checksums};

/// The package `quiche` of this project.
pub fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// An empty folder.
pub fn folder(test: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Writes a file, and makes its folder.
pub fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A file of the small release.
pub const POEM: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n";

/// A diff that changes, adds and removes files.
pub const DIFF: &str = "\
diff --git a/src/poem.rs b/src/poem.rs
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
--- /dev/null
+++ b/src/new.rs
@@ -0,0 +1,2 @@
+first
+second
diff --git a/src/old.rs b/src/old.rs
deleted file mode 100644
--- a/src/old.rs
+++ /dev/null
@@ -1 +0,0 @@
-old
";

/// The text of a patch with this subject.
pub fn patch_text(subject: &str, diff: &str) -> String {
    format!(
        "From: The Gallop authors <noreply@gallop.invalid>\n\
         Subject: [PATCH] {subject}\n\nIt is worth it.\n---\n summary\n\n{diff}"
    )
}

/// A package like `quiche`, with a small release of its own beside the lock file and one patch.
pub fn small_package(dir: &Path, version: &str, diff: &str) {
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
        let sums = checksums(dir).unwrap();
        write(dir.join("upstream/SHA256SUMS"), &sums);
    }
    write(
        dir.join("patches/0001-poem.patch"),
        &patch_text("Change the poem", diff),
    );
}
