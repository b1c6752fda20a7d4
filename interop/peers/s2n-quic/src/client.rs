//! The client: files over hq-interop.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Result, ensure};
use bytes::Bytes;
use futures_util::future::try_join_all;
use s2n_quic::Client;
use s2n_quic::client::Connect;
use s2n_quic::connection::Handle;
use url::Url;

use crate::{chacha20, contract, limits, session};

/// Gets all files as the case wants them.
pub async fn run(case: &str) -> Result<()> {
    let urls = contract::urls()?;
    let address = contract::address(&urls[0]).await?;
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

/// Gets files over one connection.
async fn fetch(client: &Client, address: SocketAddr, urls: &[Url], case: &str) -> Result<()> {
    let connect = Connect::new(address).with_server_name(session::SERVER_NAME);
    let connection = client.connect(connect).await?;
    try_join_all(urls.iter().map(|url| get(connection.handle(), url))).await?;
    if case == "resumption" {
        tokio::time::sleep(contract::TICKET_WAIT).await;
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
        ensure!(content.len() <= contract::FILE_BYTES, "{url} is too long");
    }
    contract::keep(url, &content)
}
