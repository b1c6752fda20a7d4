//! Puts the published release and the series of patches together, for src/lib.rs to include.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use quiche_assemble::{assemble, Tree, RELEASE, VARIABLE};

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Cargo reads one line as one message.
            for line in error.to_string().lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), Box<dyn Error>> {
    let version = env::var("CARGO_PKG_VERSION")?;
    if version != RELEASE {
        return Err(format!("quiche/Cargo.toml says {version}, the patches fit {RELEASE}").into());
    }
    if cfg!(feature = "pkg-config-meta") {
        return Err(
            "the feature pkg-config-meta makes a C library, which this package does not \
                    build; quiche/README.md says how to get the whole source tree"
                .into(),
        );
    }

    let package = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let tree = out.join("quiche");
    assemble(Tree::from_environment()?, &package, &tree)?;
    split_inner_attributes(&tree.join("src"), &out)?;
    link_boringssl();
    for input in ["build.rs", "patches", "upstream"] {
        println!("cargo::rerun-if-changed={input}");
    }
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    Ok(())
}

/// `include!` takes no inner attributes: they move to src/lib.rs, the documentation to a file that
/// it includes.
fn split_inner_attributes(src: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let lib = src.join("lib.rs");
    let source = fs::read_to_string(&lib).map_err(|e| format!("{}: {e}", lib.display()))?;
    let mut code = String::new();
    let mut docs = String::new();
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("//!") {
            docs.push_str(text.strip_prefix(' ').unwrap_or(text));
            docs.push('\n');
        } else if !line.starts_with("#![") {
            code.push_str(line);
        }
        code.push('\n'); // It keeps the line numbers.
    }
    write(&src.join("included.rs"), &code)?;
    write(&out.join("lib.md"), &docs)
}

fn write(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()).into())
}

/// Does what the build script of the release does.
fn link_boringssl() {
    println!("cargo::rustc-check-cfg=cfg(boring_v5)");
    if cfg!(feature = "boringssl-boring-crate") {
        if env::var("DEP_BORINGSSL_VERSION_MAJOR").as_deref() == Ok("5") {
            println!("cargo::rustc-cfg=boring_v5");
        }
        println!("cargo::rustc-link-lib=static=ssl");
        println!("cargo::rustc-link-lib=static=crypto");
    }
}
