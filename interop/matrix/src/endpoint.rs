//! The participants: our programs with a controller each, and other implementations.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// One of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Answers.
    Server,
    /// Asks.
    Client,
}

impl Role {
    /// As the environment variable ROLE has it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Server => "server",
            Role::Client => "client",
        }
    }
}

/// An implementation as the matrix shows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// Ours, with this controller.
    Gallop(String),
    /// A folder of `interop/peers`.
    Peer(String),
}

impl Endpoint {
    /// True if it is one of ours.
    pub fn is_ours(&self) -> bool {
        matches!(self, Endpoint::Gallop(_))
    }

    /// A name for folders.
    pub fn folder(&self) -> String {
        self.to_string()
            .replace(|char: char| !char.is_ascii_alphanumeric(), "-")
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Gallop(controller) => write!(formatter, "gallop:{controller}"),
            Endpoint::Peer(name) => formatter.write_str(name),
        }
    }
}

/// The URL of our own implementation.
pub const OUR_URL: &str = "https://github.com/cloudflare/quiche";

/// The description of an implementation in its `peer.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Its name: that of its folder.
    #[serde(skip)]
    pub name: String,
    /// Its folder.
    #[serde(skip)]
    pub folder: PathBuf,
    /// The project's URL.
    pub url: String,
    /// The version that is run.
    pub version: String,
    /// The roles that it can have.
    pub roles: Vec<Role>,
    /// Programs that building it needs.
    #[serde(default)]
    pub needs: Vec<String>,
    /// True if `--fast` runs it.
    #[serde(default)]
    pub fast: bool,
    /// Cases that it does not support but cannot refuse, because it gets another case's name.
    #[serde(default)]
    pub unsupported: Vec<Unsupported>,
    /// Known causes of its failures.
    #[serde(default)]
    pub known: Vec<Known>,
}

/// Cases that an implementation does not support.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unsupported {
    /// Its role.
    pub role: Role,
    /// The names of cases.
    pub cases: Vec<String>,
    /// The reason.
    pub why: String,
}

/// A failure whose cause has been found.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The peer's role.
    pub role: Role,
    /// The names of cases.
    pub cases: Vec<String>,
    /// The party at fault.
    pub fault: String,
    /// The cause.
    pub why: String,
}

impl Peer {
    /// The reason in `peer.toml` why it does not support a case in this role.
    pub fn unsupported(&self, role: Role, case: &str) -> Option<&str> {
        self.unsupported
            .iter()
            .find(|one| one.role == role && one.cases.iter().any(|name| name == case))
            .map(|one| one.why.as_str())
    }

    /// The known cause of a case's failure with the peer in this role.
    pub fn known(&self, role: Role, case: &str) -> Option<&Known> {
        self.known
            .iter()
            .find(|known| known.role == role && known.cases.iter().any(|name| name == case))
    }
}

/// Reads all peers: one folder each, by name.
///
/// # Errors
///
/// A folder has no `peer.toml`, or one that is wrong.
pub fn peers(folder: &Path) -> Result<BTreeMap<String, Peer>> {
    let mut peers = BTreeMap::new();
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if !path.is_dir() {
            continue;
        }
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default()
            .to_owned();
        let file = path.join("peer.toml");
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut peer: Peer =
            toml::from_str(&text).with_context(|| format!("{}", file.display()))?;
        ensure!(
            !peer.roles.is_empty(),
            "{}: roles names neither server nor client",
            file.display()
        );
        peer.name = name.clone();
        peer.folder = path;
        peers.insert(name, peer);
    }
    Ok(peers)
}
