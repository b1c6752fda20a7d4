//! The servers that are compared, as commands that serve the same files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::bench::{Place, release};
use crate::process;

/// The controllers of our server.
const CONTROLLERS: [&str; 6] = ["cubic", "reno", "canter", "vegas", "gallop-vegas", "bbr2"];

/// The controllers of the server on tokio-quiche, among the examples.
const TOKIO_CONTROLLERS: [&str; 2] = ["cubic", "gallop-vegas"];

/// Other people's servers, in interop/peers, with the program that builds them. s2n-quic has no HTTP/3.
const PEERS: [(&str, &str); 3] = [("quic-go", "go"), ("quinn", "cargo"), ("nginx", "gcc")];

/// The address at which peers listen: the runner's contract leaves no choice.
const PEER_PORT: u16 = 443;

const OUR_PORT: u16 = 4433;

/// A server among those that are compared.
pub(super) struct Contestant {
    pub(super) name: String,
    pub(super) port: u16,
    /// True if its failures are ours.
    pub(super) is_ours: bool,
    kind: Kind,
}

enum Kind {
    Ours(&'static str),
    Tokio(&'static str),
    Peer { name: &'static str, built: PathBuf },
}

impl Contestant {
    /// Our server with a controller.
    pub(super) fn ours(controller: &'static str) -> Self {
        Contestant {
            name: format!("gallop-server, {controller}"),
            port: OUR_PORT,
            is_ours: true,
            kind: Kind::Ours(controller),
        }
    }

    /// Our server with each controller.
    pub(super) fn all_of_ours() -> impl Iterator<Item = Self> {
        CONTROLLERS.into_iter().map(Contestant::ours)
    }

    fn tokio(controller: &'static str) -> Self {
        Contestant {
            name: format!("tokio-quiche, {controller}"),
            port: OUR_PORT,
            is_ours: true,
            kind: Kind::Tokio(controller),
        }
    }

    /// All servers. A peer that cannot be built is left out with a message.
    pub(super) fn all(place: &Place) -> Vec<Self> {
        let tokio = TOKIO_CONTROLLERS.into_iter().map(Contestant::tokio);
        let peers = PEERS
            .into_iter()
            .filter_map(|(name, needs)| match build(place, name, needs) {
                Ok(built) => Some(Contestant {
                    name: name.to_owned(),
                    port: PEER_PORT,
                    is_ours: false,
                    kind: Kind::Peer { name, built },
                }),
                Err(error) => {
                    eprintln!("  {name} is left out: {error:#}");
                    None
                }
            });
        Contestant::all_of_ours()
            .chain(tokio)
            .chain(peers)
            .collect()
    }

    /// A command that serves the files of `folder` at `address`. Peers listen at all addresses.
    pub(super) fn command(&self, place: &Place, folder: &Path, address: &str) -> Command {
        match &self.kind {
            Kind::Ours(controller) => {
                let listen = ["--listen".to_owned(), format!("{address}:{}", self.port)];
                ours(place, folder, "gallop-server", &listen, controller)
            }
            Kind::Tokio(controller) => {
                let listen = ["--address".to_owned(), format!("{address}:{}", self.port)];
                ours(place, folder, "tokio-quiche-server", &listen, controller)
            }
            Kind::Peer { name, built } => theirs(place, folder, name, built),
        }
    }
}

fn ours(
    place: &Place,
    folder: &Path,
    program: &str,
    listen: &[String; 2],
    controller: &str,
) -> Command {
    let mut command = Command::new(release(&place.target).join(program));
    command
        .args(listen)
        .arg("--root")
        .arg(folder.join("www"))
        .arg("--cert")
        .arg(folder.join("certs").join("cert.pem"))
        .arg("--key")
        .arg(folder.join("certs").join("priv.key"))
        .args(["--cc", controller]);
    command
}

/// A peer sees the folders where the runner's containers have them.
fn theirs(place: &Place, folder: &Path, peer: &str, built: &Path) -> Command {
    let interop = place.root.join("interop");
    let mut command = Command::new("unshare");
    command
        .arg("--mount")
        .arg(interop.join("matrix").join("container.sh"))
        .arg(folder)
        .arg(interop.join("peers").join(peer).join("run_endpoint.sh"))
        .env("BUILT", built)
        .env("ROLE", "server")
        .env("TESTCASE", "http3");
    command
}

fn build(place: &Place, peer: &str, needs: &str) -> Result<PathBuf> {
    let built = place.target.join("peers").join(peer);
    fs::create_dir_all(&built).with_context(|| built.display().to_string())?;
    process::output(Command::new(needs).arg("version"))
        .or_else(|_| process::output(Command::new(needs).arg("--version")))?;
    let setup = place
        .root
        .join("interop")
        .join("peers")
        .join(peer)
        .join("setup.sh");
    process::run(Command::new(setup).arg(&built))?;
    Ok(built)
}
