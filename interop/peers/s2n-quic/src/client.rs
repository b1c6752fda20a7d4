//! The client: files over hq-interop.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::future::try_join_all;
use s2n_quic::Client;
use s2n_quic::client::Connect;
use s2n_quic::connection::Handle;
use url::Url;

use crate::{chacha20, limits, session};

/// The most that a file takes.
const FILE_BYTES: usize = 1 << 30;

/// Session tickets come right after the handshake.
const TICKET_WAIT: Duration = Duration::from_millis(200);

/// Gets all files as the case wants them.
pub async fn run(case: &str) -> Result<()> {
    let requests = env::var("REQUESTS").unwrap_or_default();
    let urls: Vec<Url> = requests
        .split_whitespace()
        .map(Url::parse)
        .collect::<Result<_, _>>()?;
    let address = address(urls.first().context("REQUESTS names no URL")?).await?;
    let local = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let builder = Client::builder().with_io(local)?.with_limits(limits()?)?;
    let mut client = match case {
        "chacha20" => builder.with_tls(chacha20::client()?)?.start()?,
        _ => builder.with_tls(session::client(case)?)?.start()?,
    };
    match case {
        "multiconnect" => {
            for url in &urls {
                fetch(&client, address, std::slice::from_ref(url), case).await?;
            }
        }
        "resumption" => {
            fetch(&client, address, &urls[..1], case).await?;
            fetch(&client, address, &urls[1..], case).await?;
        }
        _ => fetch(&client, address, &urls, case).await?,
    }
    client.wait_idle().await?;
    Ok(())
}

async fn address(url: &Url) -> Result<SocketAddr> {
    let host = url.host_str().context("a URL without host")?;
    let port = url.port_or_known_default().unwrap_or(443);
    tokio::net::lookup_host((host, port))
        .await?
        .next()
        .with_context(|| format!("{host} has no address"))
}

/// Gets files over one connection.
async fn fetch(client: &Client, address: SocketAddr, urls: &[Url], case: &str) -> Result<()> {
    let connect = Connect::new(address).with_server_name(session::SERVER_NAME);
    let connection = client.connect(connect).await?;
    try_join_all(urls.iter().map(|url| get(connection.handle(), url))).await?;
    if case == "resumption" {
        tokio::time::sleep(TICKET_WAIT).await;
    }
    connection.close(0_u32.into());
    Ok(())
}

async fn get(mut connection: Handle, url: &Url) -> Result<()> {
    let mut stream = connection.open_bidirectional_stream().await?;
    let request = format!("GET {}\r\n", url.path());
    stream.send(Bytes::from(request)).await?;
    stream.finish()?;
    let mut content = Vec::new();
    while let Some(chunk) = stream.receive().await? {
        content.extend_from_slice(&chunk);
        ensure!(content.len() <= FILE_BYTES, "{url} is too long");
    }
    let name = Path::new(url.path())
        .file_name()
        .with_context(|| format!("{url} names no file"))?;
    Ok(fs::write(Path::new("/downloads").join(name), content)?)
}
