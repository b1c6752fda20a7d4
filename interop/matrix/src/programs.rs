//! The programs of all implementations, and how they are started.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::case::Case;
use crate::endpoint::{Endpoint, Peer, Role};

/// The places of programs.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `interop/` of the checkout.
    pub interop: PathBuf,
    /// The folder of gallop-server and gallop-client.
    pub ours: PathBuf,
    /// The folder in which peers are built, a folder each.
    pub built: PathBuf,
    /// The controller of peers that take one of ours; `None` leaves it to them.
    pub peers_controller: Option<String>,
    /// The peers' `peer.toml`.
    pub peers: BTreeMap<String, Peer>,
}

impl Programs {
    /// The command that starts one end in the folders and with the environment of the runner.
    pub fn command(
        &self,
        endpoint: &Endpoint,
        role: Role,
        case: &Case,
        folder: &Path,
        requests: &str,
    ) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private"])
            .arg(self.interop.join("matrix").join("container.sh"))
            .arg(folder);
        match endpoint {
            Endpoint::Gallop(controller) => {
                command
                    .arg(self.interop.join("run_endpoint.sh"))
                    .env("BIN", &self.ours)
                    .env("CC", controller)
                    .env("QLOG", "sparse");
            }
            Endpoint::Peer(name) => {
                command
                    .arg(
                        self.interop
                            .join("peers")
                            .join(name)
                            .join("run_endpoint.sh"),
                    )
                    .env("BUILT", self.built.join(name))
                    // It may be there as the name of a C compiler.
                    .env_remove("CC");
                if let Some(controller) = &self.peers_controller {
                    command.env("CC", controller);
                }
            }
        }
        command
            .env("ROLE", role.name())
            .env("TESTCASE", case.testcase(role))
            .env("SSLKEYLOGFILE", "/logs/keys.log")
            .env("QLOGDIR", "/logs/qlog/")
            .env_remove("RUST_LOG");
        if role == Role::Client {
            command.env("REQUESTS", requests);
        }
        command
    }

    /// Builds a peer, unless that was done before.
    ///
    /// # Errors
    ///
    /// A program that it needs is missing, or its `setup.sh` fails.
    pub fn build(&self, peer: &Peer) -> Result<()> {
        for program in &peer.needs {
            let mut version = Command::new("which");
            version.arg(program).stdout(Stdio::null());
            ensure!(
                version.status().is_ok_and(|status| status.success()),
                "{program} is not installed"
            );
        }
        let built = self.built.join(&peer.name);
        let stamp = built.join("gallop-stamp");
        let wanted = fingerprint(&peer.folder)
            .with_context(|| format!("cannot read {}", peer.folder.display()))?;
        if fs::read_to_string(&stamp).is_ok_and(|stamp| stamp == wanted) {
            return Ok(());
        }
        fs::create_dir_all(&built).with_context(|| format!("cannot make {}", built.display()))?;
        let log = built.join("setup.log");
        let output =
            fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let script = peer.folder.join("setup.sh");
        let status = Command::new(&script)
            .arg(&built)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .status()
            .with_context(|| format!("cannot run {}", script.display()))?;
        ensure!(
            status.success(),
            "{} failed, {status}: see {}",
            script.display(),
            log.display()
        );
        gallop_files::write(&stamp, wanted.as_bytes())
            .with_context(|| format!("cannot write {}", stamp.display()))
    }
}

/// Changes when a file of the folder does.
fn fingerprint(folder: &Path) -> std::io::Result<String> {
    let mut hasher = DefaultHasher::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<PathBuf> = fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        entries.sort();
        for entry in entries {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.file_name().is_none_or(|name| name != "peer.toml") {
                entry.hash(&mut hasher);
                fs::read(&entry)?.hash(&mut hasher);
            }
        }
    }
    Ok(format!("{:016x}", hasher.finish()))
}
