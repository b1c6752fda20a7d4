//! `cargo xtask newest`: the adapters against the newest releases of their stacks.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::process;

/// Compile the adapters with the newest releases that they permit
///
/// The lock file pins the releases that all other commands use. This one resolves without it, a stack
/// at a time, and so needs the registry; run it now and then.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 if all adapters compile; 1 if a release broke one.")]
pub struct Arguments {}

/// The stacks that are not patched: the feature of `gallop`, and the package that has the interface.
const STACKS: [(&str, &str); 3] = [
    ("quinn", "quinn-proto"),
    ("noq", "noq-proto"),
    ("s2n-quic", "s2n-quic-core"),
];

/// Runs the command.
///
/// # Errors
///
/// The registry cannot be reached, or an adapter does not compile.
pub fn run(_arguments: &Arguments) -> Result<()> {
    let root = crate::root()?;
    let folder = crate::target(&root).join("newest");
    let mut broken = Vec::new();
    for (stack, package) in STACKS {
        let user = folder.join(stack);
        make_user(&user, &root, stack)?;
        let cargo = |command: &str| {
            let mut cargo = process::cargo();
            cargo.current_dir(&user).arg(command);
            cargo
        };
        process::run(&mut cargo("generate-lockfile"))?;
        let release = release(&user.join("Cargo.lock"), package)?;
        let mut check = cargo("check");
        check.arg("--target-dir").arg(folder.join("target"));
        match process::run(&mut check) {
            Ok(()) => println!("{release}: the adapter compiles"),
            Err(_) => broken.push(release),
        }
    }
    ensure!(
        broken.is_empty(),
        "broken by a release: {}",
        broken.join(", ")
    );
    Ok(())
}

/// Writes a package that uses the adapter to a stack, without a lock file.
fn make_user(user: &Path, root: &Path, stack: &str) -> Result<()> {
    if user.exists() {
        fs::remove_dir_all(user).with_context(|| user.display().to_string())?;
    }
    let source = user.join("src");
    fs::create_dir_all(&source).with_context(|| source.display().to_string())?;
    // Resolver 2 takes the newest release, whatever Rust it needs.
    let manifest = format!(
        "[package]\nname = \"newest\"\nversion = \"0.0.0\"\nedition = \"2024\"\nresolver = \"2\"\n\n\
         [dependencies]\ngallop = {{ path = {root:?}, features = [{stack:?}] }}\n\n[workspace]\n"
    );
    for (name, text) in [("Cargo.toml", manifest.as_str()), ("src/lib.rs", "")] {
        let file = user.join(name);
        fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// The name and the version of a package in a lock file.
fn release(lock: &Path, package: &str) -> Result<String> {
    let text = fs::read_to_string(lock).with_context(|| lock.display().to_string())?;
    let (_, after) = text
        .split_once(&format!("name = \"{package}\"\nversion = \""))
        .with_context(|| format!("{} has no {package}", lock.display()))?;
    let version = after.split('"').next().unwrap_or_default();
    Ok(format!("{package} {version}"))
}
