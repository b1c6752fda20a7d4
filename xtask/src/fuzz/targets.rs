//! The fuzz targets.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A fuzz target: the test `fuzz_` and its name.
#[derive(Debug)]
pub struct Target {
    /// Its inputs are in `fuzz/NAME.corpus`.
    pub name: &'static str,
    /// The statement that is checked.
    pub proves: &'static str,
    /// The package that the test is in, and the name of the test's file.
    pub package: &'static str,
    pub test: &'static str,
    /// The features that it needs of its package.
    pub features: &'static str,
    /// The folder of the test.
    pub folder: &'static str,
    /// The files that the target is about.
    pub about: &'static [&'static str],
}

impl Target {
    /// The inputs that are kept.
    pub fn corpus(&self, root: &Path) -> PathBuf {
        root.join("fuzz").join(format!("{}.corpus", self.name))
    }

    /// The inputs that once failed, if there are any.
    pub fn failed(&self, root: &Path) -> PathBuf {
        root.join("fuzz").join(format!("{}.failed", self.name))
    }
}

/// All targets.
pub const TARGETS: [Target; 9] = [
    Target {
        name: "vegas",
        proves: "what must hold of Vegas, in any life of a connection",
        package: "gallop",
        test: "invariants",
        features: "",
        folder: "tests/invariants",
        about: CONTROLLERS,
    },
    Target {
        name: "gallop_vegas",
        proves: "what must hold of Gallop-Vegas, in any life of a connection",
        package: "gallop",
        test: "invariants",
        features: "",
        folder: "tests/invariants",
        about: CONTROLLERS,
    },
    Target {
        name: "every_controller",
        proves: "every controller keeps its bounds, in any life of a connection",
        package: "gallop",
        test: "invariants",
        features: "",
        folder: "tests/invariants",
        about: CONTROLLERS,
    },
    Target {
        name: "option_text",
        proves: "a text is an algorithm with options, or an error that names the culprit",
        package: "gallop",
        test: "invariants",
        features: "",
        folder: "tests/invariants",
        about: &["src/catalog.rs", "src/options.rs"],
    },
    Target {
        name: "mistyped_files",
        proves: "an experiment's file is read, or refused with the place of each mistake",
        package: "gallop-sim",
        test: "fuzz_experiments",
        features: "",
        folder: "sim/tests",
        about: &["sim/src/experiment"],
    },
    Target {
        name: "changed_datagrams",
        proves: "a connection arrives or ends, whatever a network does to its datagrams",
        package: "gallop-sim",
        test: "fuzz_datagrams",
        features: "",
        folder: "sim/tests",
        about: &["src"],
    },
    Target {
        name: "hostile_client",
        proves: "nothing is left of a client, and nobody else suffers, whatever it sends",
        package: "gallop-interop",
        test: "fuzz_hostile_client",
        features: "",
        folder: "interop/tests",
        about: &[
            "interop/src/fields.rs",
            "interop/src/server/hq.rs",
            "interop/src/server/http3.rs",
            "interop/src/server/session.rs",
            "interop/src/server/sessions.rs",
            "interop/src/server/upload.rs",
        ],
    },
    Target {
        name: "hostile_server",
        proves: "the client keeps what is whole and nothing else, whatever a server answers",
        package: "gallop-interop",
        test: "fuzz_hostile_server",
        features: "",
        folder: "interop/tests",
        about: &[
            "interop/src/fields.rs",
            "interop/src/client/exchange.rs",
            "interop/src/client/link.rs",
            "interop/src/client/mod.rs",
            "interop/src/client/response.rs",
            "interop/src/client/transfer.rs",
        ],
    },
    Target {
        name: "requests",
        proves: "a request gets a true and well-formed answer, or is malformed",
        package: "gallop-interop",
        test: "fuzz_requests",
        features: "",
        folder: "interop/tests",
        about: &[
            "interop/src/fields.rs",
            "interop/src/server/files.rs",
            "interop/src/server/request.rs",
            "interop/src/server/respond.rs",
        ],
    },
];

const CONTROLLERS: &[&str] = &[
    "src/base_rtt.rs",
    "src/controller.rs",
    "src/copa.rs",
    "src/cubic.rs",
    "src/gallop.rs",
    "src/hystart.rs",
    "src/loss_based.rs",
    "src/pacing.rs",
    "src/persistent_congestion.rs",
    "src/recovery.rs",
    "src/reno.rs",
    "src/round.rs",
    "src/vegas.rs",
    "src/window.rs",
];

/// The targets of these names; all targets without names.
///
/// # Errors
///
/// A name is not that of a target.
pub fn choose(names: &[String]) -> Result<Vec<&'static Target>> {
    if names.is_empty() {
        return Ok(TARGETS.iter().collect());
    }
    let find = |name: &String| {
        let plain = name.strip_prefix("fuzz_").unwrap_or(name);
        TARGETS
            .iter()
            .find(|target| target.name == plain)
            .with_context(|| {
                let known: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
                format!(
                    "unknown fuzz target {name}; the targets are {}",
                    known.join(", ")
                )
            })
    };
    names.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_where_they_are_said_to_be() {
        let root = crate::root().unwrap();
        for target in &TARGETS {
            let folder = root.join(target.folder);
            let file = folder.join(format!("{}.rs", target.test));
            let file = if file.is_file() {
                file
            } else {
                folder.join("main.rs")
            };
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(
                text.contains(&format!("fn fuzz_{}()", target.name)),
                "{}",
                target.name
            );
            for path in target.about {
                assert!(root.join(path).exists(), "{path}");
            }
        }
    }

    #[test]
    fn every_target_has_inputs() {
        let root = crate::root().unwrap();
        for target in &TARGETS {
            let inputs = gallop_fuzz::corpus::read(&target.corpus(&root)).unwrap();
            assert!(!inputs.is_empty(), "{}", target.name);
        }
    }

    #[test]
    fn an_unknown_name_is_named() {
        let error = choose(&["vegan".to_owned()]).unwrap_err().to_string();
        assert!(
            error.contains("vegan") && error.contains("option_text"),
            "{error}"
        );
        assert_eq!(choose(&["fuzz_vegas".to_owned()]).unwrap()[0].name, "vegas");
    }
}
