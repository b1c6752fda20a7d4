use std::{env, fs, io, path::{Path, PathBuf}, process::Command};

const CRATE: &str = "quiche-0.30.0";

fn main() {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap());
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    println!("cargo:rerun-if-changed=plug-point.patch");
    println!("cargo:rerun-if-changed=upstream/Cargo.lock");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(boring_v5)");
    println!("cargo::rustc-check-cfg=cfg(capture_keylogs)");
    if env::var("DEP_BORINGSSL_VERSION_MAJOR").as_deref() == Ok("5") {
        println!("cargo:rustc-cfg=boring_v5");
    }
    println!("cargo:rustc-link-lib=static=ssl");
    println!("cargo:rustc-link-lib=static=crypto");

    let meta = Command::new(env::var("CARGO").unwrap())
        .args(["metadata", "--locked", "--format-version", "1", "--manifest-path"])
        .arg(here.join("upstream/Cargo.toml"))
        .output()
        .unwrap();
    assert!(meta.status.success(), "{}", String::from_utf8_lossy(&meta.stderr));
    let json = String::from_utf8_lossy(&meta.stdout);
    let end = json.find(&format!("{CRATE}/Cargo.toml\"")).unwrap();
    let start = json[..end].rfind('"').unwrap() + 1;
    let src = PathBuf::from(format!("{}{CRATE}", &json[start..end]));

    let dst = out.join("quiche");
    let _ = fs::remove_dir_all(&dst);
    copy(&src, &dst).unwrap();
    let st = Command::new("git")
        .args(["apply", "--whitespace=nowarn"])
        .arg(here.join("plug-point.patch"))
        .current_dir(&dst)
        .env("GIT_CEILING_DIRECTORIES", &out)
        .status()
        .unwrap();
    assert!(st.success());
    // include!() does not accept inner attributes or inner docs.
    let lib = dst.join("src/lib.rs");
    let s = fs::read_to_string(&lib).unwrap();
    let s: String = s
        .lines()
        .map(|l| if l.starts_with("//!") || l.starts_with("#![") { "\n".into() } else { format!("{l}\n") })
        .collect();
    fs::write(&lib, s).unwrap();
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for e in fs::read_dir(from)? {
        let e = e?;
        if e.file_type()?.is_dir() {
            copy(&e.path(), &to.join(e.file_name()))?;
        } else {
            fs::copy(e.path(), to.join(e.file_name()))?;
        }
    }
    Ok(())
}
