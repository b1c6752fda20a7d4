//! The server: files over hq-interop or HTTP/3; it takes uploads too.

use std::fs;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::{Buf, Bytes};
use http::{Method, Response, StatusCode};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Connection, Endpoint, Incoming, RecvStream, SendStream, ServerConfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{contract, settings};

/// Serves until it is ended.
pub async fn run(case: &str) -> Result<()> {
    let chain = CertificateDer::pem_file_iter(contract::CHAIN)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(contract::KEY)?;
    let mut tls = rustls::ServerConfig::builder_with_provider(settings::provider(case))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![settings::protocol(case)];
    tls.key_log = Arc::new(rustls::KeyLogFile::new());
    tls.max_early_data_size = u32::MAX;
    let initial = settings::initial_suite().context("no suite for first packets")?;
    let tls = QuicServerConfig::with_initial(Arc::new(tls), initial)?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(Arc::new(settings::transport()?));

    let endpoint = Endpoint::server(config, SocketAddr::from((Ipv6Addr::UNSPECIFIED, 443)))?;
    while let Some(incoming) = endpoint.accept().await {
        if case == "retry" && !incoming.remote_address_validated() {
            incoming.retry()?;
            continue;
        }
        let is_http = matches!(case, "http3" | "upload");
        tokio::spawn(async move {
            if let Err(error) = serve(incoming, is_http).await {
                eprintln!("connection: {error:#}");
            }
        });
    }
    Ok(())
}

async fn serve(incoming: Incoming, is_http: bool) -> Result<()> {
    let connection = incoming.await?;
    if is_http {
        return serve_http(connection).await;
    }
    loop {
        let (send, receive) = connection.accept_bi().await?;
        tokio::spawn(async move {
            if let Err(error) = answer(send, receive).await {
                eprintln!("stream: {error:#}");
            }
        });
    }
}

async fn answer(mut send: SendStream, mut receive: RecvStream) -> Result<()> {
    let request = receive.read_to_end(contract::REQUEST_BYTES).await?;
    send.write_all(&contract::answer(request)?).await?;
    send.finish()?;
    Ok(())
}

async fn serve_http(connection: Connection) -> Result<()> {
    let mut http =
        h3::server::Connection::<_, Bytes>::new(h3_quinn::Connection::new(connection)).await?;
    while let Some(resolver) = http.accept().await? {
        tokio::spawn(async move {
            let answered = async {
                let (request, mut stream) = resolver.resolve_request().await?;
                let mut received = Vec::new();
                while let Some(mut data) = stream.recv_data().await? {
                    let length = data.remaining();
                    received.extend_from_slice(&data.copy_to_bytes(length));
                }
                let content = if matches!(*request.method(), Method::POST | Method::PUT) {
                    fs::write("/logs/upload", &received)?;
                    Some(format!("{} bytes\n", received.len()).into_bytes())
                } else {
                    fs::read(contract::file(request.uri().path())?).ok()
                };
                let status = match content {
                    Some(_) => StatusCode::OK,
                    None => StatusCode::NOT_FOUND,
                };
                stream
                    .send_response(Response::builder().status(status).body(())?)
                    .await?;
                stream
                    .send_data(Bytes::from(content.unwrap_or_default()))
                    .await?;
                stream.finish().await?;
                anyhow::Ok(())
            };
            if let Err(error) = answered.await {
                eprintln!("request: {error:#}");
            }
        });
    }
    Ok(())
}
