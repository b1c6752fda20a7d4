use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::AssembleError;
use crate::files::Files;

/// The release of quiche that the patches fit.
pub const RELEASE: &str = "0.30.0";

/// Reads the files of the release, as listed in `upstream/SHA256SUMS`, and compares them with it.
pub(crate) fn read(package_dir: &Path) -> Result<Files, AssembleError> {
    let root = find(package_dir)?;
    let sums = package_dir.join("upstream/SHA256SUMS");
    let list = fs::read_to_string(&sums).map_err(AssembleError::io("read", &sums))?;

    let mut files = Files::default();
    for (index, line) in list.lines().enumerate() {
        let (expected, name) = line.split_once("  ").ok_or_else(|| AssembleError::Sums {
            sums: sums.clone(),
            line: index + 1,
        })?;
        let path = root.join(name);
        let contents = fs::read(&path).map_err(AssembleError::io("read", &path))?;
        let found = sha256(&contents);
        if found != expected {
            return Err(AssembleError::ReleaseFile {
                path,
                path_root: root,
                sums,
                expected: expected.to_owned(),
                found,
            });
        }
        files.0.insert(name.to_owned(), contents);
    }
    Ok(files)
}

/// The text for `upstream/SHA256SUMS`: the SHA-256 and the path of each file of the release, as
/// `sha256sum` prints them. It is for the move to another release, right after cargo downloaded it.
///
/// # Errors
///
/// The release is not available, is another version, or cannot be read.
pub fn checksums(package_dir: &Path) -> Result<String, AssembleError> {
    let root = find(package_dir)?;
    let mut names = Vec::new();
    list(&root, "", &mut names)?;
    names.sort();

    let mut text = String::new();
    for name in names {
        let path = root.join(&name);
        let contents = fs::read(&path).map_err(AssembleError::io("read", &path))?;
        text.push_str(&format!("{}  {name}\n", sha256(&contents)));
    }
    Ok(text)
}

fn list(dir: &Path, prefix: &str, names: &mut Vec<String>) -> Result<(), AssembleError> {
    for entry in fs::read_dir(dir).map_err(AssembleError::io("list", dir))? {
        let entry = entry.map_err(AssembleError::io("list", dir))?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            list(&entry.path(), &format!("{name}/"), names)?;
        } else if !name.starts_with('.') {
            // Files whose name starts with a dot are cargo's own.
            names.push(name);
        }
    }
    Ok(())
}

fn sha256(contents: &[u8]) -> String {
    Sha256::digest(contents)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The part of the output of `cargo metadata` that is used.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    manifest_path: PathBuf,
}

/// Finds the folder of the release. Cargo downloads it if it is missing.
fn find(package_dir: &Path) -> Result<PathBuf, AssembleError> {
    let manifest = package_dir.join("upstream/Cargo.toml");
    let lock = package_dir.join("upstream/Cargo.lock");

    let cargo = PathBuf::from(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let output = Command::new(&cargo)
        .args(["metadata", "--locked", "--format-version", "1"])
        // Cargo reads its configuration from the folder that it runs in.
        .current_dir(package_dir.join("upstream"))
        .output()
        .map_err(|source| AssembleError::CargoNotRun { cargo, source })?;

    let unavailable = |message: String| AssembleError::Unavailable {
        lock: lock.clone(),
        message,
    };
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(if message.contains("checksum for `quiche") {
            AssembleError::Checksum { lock, message }
        } else {
            unavailable(message)
        });
    }

    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).map_err(|e| unavailable(e.to_string()))?;
    let package = metadata
        .packages
        .into_iter()
        .find(|package| package.name == "quiche")
        .ok_or_else(|| unavailable("there is no package named quiche".to_owned()))?;
    if package.version != RELEASE {
        return Err(AssembleError::Version {
            manifest,
            found: package.version,
        });
    }
    Ok(package
        .manifest_path
        .parent()
        .unwrap_or(package_dir)
        .to_owned())
}
