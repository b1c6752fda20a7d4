//! The interop runner's contract, for the endpoints in Rust. Each is a workspace of its own and
//! includes this file as a module.

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use url::Url;

/// The exit status for a test case that is not supported.
const UNSUPPORTED: u8 = 127;

/// The server's chain.
pub const CHAIN: &str = "/certs/cert.pem";

/// The server's key.
pub const KEY: &str = "/certs/priv.key";

/// The longest request of hq-interop.
pub const REQUEST_BYTES: usize = 8192;

/// The largest file, in bytes.
pub const FILE_BYTES: usize = 1 << 30;

/// The time to wait for session tickets, which come right after the handshake.
pub const TICKET_WAIT: Duration = Duration::from_millis(200);

/// Runs the role and the test case that the environment names, if `supports` says so.
pub fn run(
    supports: impl Fn(&str, &str) -> bool,
    server: impl AsyncFnOnce(&str) -> Result<()>,
    client: impl AsyncFnOnce(&str) -> Result<()>,
) -> ExitCode {
    let role = env::var("ROLE").unwrap_or_default();
    let case = env::var("TESTCASE").unwrap_or_default();
    if !supports(&role, &case) {
        eprintln!("test case {case} is not supported as {role}");
        return ExitCode::from(UNSUPPORTED);
    }
    let run = || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        match role.as_str() {
            "server" => runtime.block_on(server(&case)),
            "client" => runtime.block_on(client(&case)),
            _ => bail!("ROLE is server or client, not {role:?}"),
        }
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The congestion controller, if there is one for this end.
pub fn controller() -> Result<Option<gallop::Algorithm>> {
    match env::var("CC") {
        Ok(name) => Ok(Some(name.parse().context("CC")?)),
        Err(_) => Ok(None),
    }
}

/// The URLs that the client has to fetch, at least one.
pub fn urls() -> Result<Vec<Url>> {
    let requests = env::var("REQUESTS").unwrap_or_default();
    let urls: Vec<Url> = requests
        .split_whitespace()
        .map(Url::parse)
        .collect::<Result<_, _>>()?;
    ensure!(!urls.is_empty(), "REQUESTS names no URL");
    Ok(urls)
}

/// The address of a URL's server.
pub async fn address(url: &Url) -> Result<SocketAddr> {
    let host = url.host_str().context("a URL without host")?;
    let port = url.port_or_known_default().unwrap_or(443);
    tokio::net::lookup_host((host, port))
        .await?
        .next()
        .with_context(|| format!("{host} has no address"))
}

/// Writes a file that the client received.
pub fn keep(url: &Url, content: &[u8]) -> Result<()> {
    let name = Path::new(url.path())
        .file_name()
        .with_context(|| format!("{url} names no file"))?;
    Ok(fs::write(Path::new("/downloads").join(name), content)?)
}

/// The answer to a request of hq-interop.
pub fn answer(request: Vec<u8>) -> Result<Vec<u8>> {
    let request = String::from_utf8(request)?;
    let path = request
        .strip_prefix("GET ")
        .context("a request that is not GET")?;
    Ok(fs::read(file(path.trim_end())?)?)
}

/// The file of a path.
pub fn file(path: &str) -> Result<PathBuf> {
    let below = Path::new(path.trim_start_matches('/'));
    let is_inside = below
        .components()
        .all(|component| matches!(component, Component::Normal(_)));
    ensure!(is_inside, "path {path:?}");
    Ok(Path::new("/www").join(below))
}
