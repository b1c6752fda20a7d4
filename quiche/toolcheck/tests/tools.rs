//! The tools that the build script finds missing, in made-up environments.

#[path = "../tools.rs"]
mod tools;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tools::{message, missing};

/// A folder with the named, empty files.
fn folder(test: &str, files: &[&str]) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&dir).unwrap();
    for file in files {
        std::fs::write(dir.join(file), "").unwrap();
    }
    dir
}

fn missing_packages(variables: &[(&str, &OsStr)], libclang: bool) -> Vec<&'static str> {
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.to_os_string())
    };
    missing(variable, libclang)
        .iter()
        .map(|m| m.debian)
        .collect()
}

#[test]
fn nothing_is_missing_when_the_tools_are_on_the_path() {
    let tools = folder("all", &["cmake", "git"]);
    let none: [&str; 0] = [];
    assert_eq!(missing_packages(&[("PATH", tools.as_os_str())], true), none);
}

#[test]
fn each_missing_tool_is_found_missing() {
    let cmake = folder("cmake", &["cmake"]);
    let git = folder("git", &["git"]);
    assert_eq!(
        missing_packages(&[("PATH", git.as_os_str())], true),
        ["cmake"]
    );
    assert_eq!(
        missing_packages(&[("PATH", cmake.as_os_str())], true),
        ["git"]
    );
    assert_eq!(
        missing_packages(&[], false),
        ["libclang-dev", "cmake", "git"]
    );
}

#[test]
fn cmake_may_be_named_by_a_variable() {
    let tools = folder("named", &["git", "cmake-3"]);
    let cmake = tools.join("cmake-3");
    let none: [&str; 0] = [];
    let path = ("PATH", tools.as_os_str());
    assert_eq!(
        missing_packages(&[path, ("CMAKE", cmake.as_os_str())], true),
        none
    );
    assert_eq!(
        missing_packages(&[path, ("CMAKE", OsStr::new("/nowhere/cmake"))], true),
        ["cmake"]
    );
    let target = ("TARGET", OsStr::new("riscv64gc-unknown-linux-gnu"));
    let named = ("CMAKE_riscv64gc_unknown_linux_gnu", cmake.as_os_str());
    assert_eq!(missing_packages(&[path, target, named], true), none);
}

#[test]
fn a_prebuilt_boringssl_needs_only_libclang() {
    let prebuilt = [("BORING_BSSL_PATH", OsStr::new("/opt/boringssl"))];
    assert_eq!(missing_packages(&prebuilt, false), ["libclang-dev"]);
}

#[test]
fn the_message_says_what_to_install() {
    let text = message(&missing(|_| None, false));
    assert!(
        text.contains("apt-get install libclang-dev cmake git"),
        "{text}"
    );
    assert!(
        text.contains("LIBCLANG_PATH") && text.contains("CMAKE"),
        "{text}"
    );
    assert!(!text.contains('\n'), "cargo shows one line: {text}");
}
