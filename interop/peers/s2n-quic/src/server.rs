//! The server: files over hq-interop.

use std::net::{Ipv6Addr, SocketAddr};

use anyhow::{Result, ensure};
use bytes::Bytes;
use s2n_quic::provider::endpoint_limits;
use s2n_quic::stream::BidirectionalStream;
use s2n_quic::{Connection, Server};

use crate::{contract, limits, session};

/// Serves until it is ended.
pub async fn run(case: &str) -> Result<()> {
    let mut attempts = endpoint_limits::Default::builder();
    if case == "retry" {
        // Every handshake is one too many until its client has returned a token.
        attempts = attempts.with_inflight_handshake_limit(0)?;
    }
    let builder = Server::builder()
        .with_io(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 443)))?
        .with_tls(session::server()?)?
        .with_limits(limits()?)?
        .with_endpoint_limits(attempts.build()?)?;
    let mut server = match contract::controller()? {
        Some(controller) => builder.with_congestion_controller(controller)?.start()?,
        None => builder.start()?,
    };
    while let Some(connection) = server.accept().await {
        tokio::spawn(async move {
            if let Err(error) = serve(connection).await {
                eprintln!("connection: {error:#}");
            }
        });
    }
    Ok(())
}

async fn serve(mut connection: Connection) -> Result<()> {
    while let Some(stream) = connection.accept_bidirectional_stream().await? {
        tokio::spawn(async move {
            if let Err(error) = answer(stream).await {
                eprintln!("stream: {error:#}");
            }
        });
    }
    Ok(())
}

async fn answer(mut stream: BidirectionalStream) -> Result<()> {
    let mut request = Vec::new();
    while let Some(chunk) = stream.receive().await? {
        request.extend_from_slice(&chunk);
        ensure!(
            request.len() <= contract::REQUEST_BYTES,
            "the request is too long"
        );
    }
    stream.send(Bytes::from(contract::answer(request)?)).await?;
    stream.finish()?;
    Ok(())
}
