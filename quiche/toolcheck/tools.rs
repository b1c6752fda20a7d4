use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The names of a variable that boring-sys and cmake look at, the most special first: it may be
/// given for one target, as in `CMAKE_x86_64-unknown-linux-gnu`.
fn names(variable: &str, host: &str, target: &str) -> [String; 4] {
    let kind = if host == target { "HOST" } else { "TARGET" };
    [
        format!("{variable}_{target}"),
        format!("{variable}_{}", target.replace('-', "_")),
        format!("{kind}_{variable}"),
        variable.to_owned(),
    ]
}

/// Something that the build of BoringSSL needs and that is missing.
#[derive(Debug, PartialEq, Eq)]
pub struct Missing {
    /// The missing tool, and its purpose.
    pub tool: &'static str,
    /// The Debian package that has it.
    pub debian: &'static str,
    /// Another way to give it.
    pub otherwise: &'static str,
}

/// The tools that boring-sys needs and does not find in this environment. `libclang` is true if
/// libclang can be loaded.
///
/// cmake and git are not needed for a BoringSSL that was built elsewhere.
pub fn missing(variable: impl Fn(&str) -> Option<OsString>, libclang: bool) -> Vec<Missing> {
    let mut missing = Vec::new();
    if !libclang {
        missing.push(Missing {
            tool: "libclang (bindgen reads BoringSSL's headers with it)",
            debian: "libclang-dev",
            otherwise: "set LIBCLANG_PATH to the folder that has libclang.so",
        });
    }
    let text = |name| variable(name).map(|value| value.to_string_lossy().into_owned());
    let (host, target) = (text("HOST"), text("TARGET"));
    let (host, target) = (host.unwrap_or_default(), target.unwrap_or_default());
    let for_target = |name| names(name, &host, &target).iter().find_map(|n| variable(n));
    if for_target("BORING_BSSL_PATH").is_some() {
        return missing;
    }

    let search = variable("PATH").unwrap_or_default();
    let cmake = for_target("CMAKE").unwrap_or_else(|| "cmake".into());
    if find(&cmake, &search).is_none() {
        missing.push(Missing {
            tool: "cmake (BoringSSL is built with it)",
            debian: "cmake",
            otherwise: "set CMAKE to the path of cmake",
        });
    }
    let patched = for_target("BORING_BSSL_ASSUME_PATCHED").is_some_and(|value| !value.is_empty());
    if !patched && find(OsStr::new("git"), &search).is_none() {
        missing.push(Missing {
            tool: "git (boring-sys applies its patches to BoringSSL with it)",
            debian: "git",
            otherwise: "put git on PATH",
        });
    }
    missing
}

/// One message about all that is missing.
pub fn message(missing: &[Missing]) -> String {
    let tools: Vec<&str> = missing.iter().map(|m| m.tool).collect();
    let debian: Vec<&str> = missing.iter().map(|m| m.debian).collect();
    let otherwise: Vec<&str> = missing.iter().map(|m| m.otherwise).collect();
    format!(
        "quiche cannot be built, missing: {}. On Debian: apt-get install {}. Otherwise: {}.",
        tools.join("; "),
        debian.join(" "),
        otherwise.join("; "),
    )
}

/// Finds a program as the operating system would: a name on the search path, a path as it is.
fn find(program: &OsStr, search: &OsStr) -> Option<PathBuf> {
    let file = |path: PathBuf| {
        let with_suffix = PathBuf::from({
            let mut name = path.clone().into_os_string();
            name.push(std::env::consts::EXE_SUFFIX);
            name
        });
        [path, with_suffix].into_iter().find(|path| path.is_file())
    };
    if Path::new(program).components().count() > 1 {
        return file(program.into());
    }
    std::env::split_paths(search).find_map(|dir| file(dir.join(program)))
}
