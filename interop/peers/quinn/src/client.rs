//! The client: files over hq-interop or HTTP/3.

use std::future::poll_fn;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Buf;
use futures_util::future::try_join_all;
use http::Request;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint, VarInt};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use url::Url;

use crate::{contract, settings};

/// Gets all files as the case wants them.
pub async fn run(case: &str) -> Result<()> {
    let urls = contract::urls()?;
    let config = config(case)?;
    let mut endpoint = Endpoint::client(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)))?;
    endpoint.set_default_client_config(config);
    match case {
        "multiconnect" => {
            for url in &urls {
                fetch(&endpoint, std::slice::from_ref(url), case).await?;
            }
        }
        "resumption" | "zerortt" => {
            fetch(&endpoint, &urls[..1], case).await?;
            fetch(&endpoint, &urls[1..], case).await?;
        }
        _ => fetch(&endpoint, &urls, case).await?,
    }
    endpoint.wait_idle().await;
    Ok(())
}

fn config(case: &str) -> Result<ClientConfig> {
    let provider = settings::provider(case);
    let mut tls = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    tls.alpn_protocols = vec![settings::protocol(case)];
    tls.key_log = Arc::new(rustls::KeyLogFile::new());
    tls.enable_early_data = case == "zerortt";
    let initial = settings::initial_suite().context("no suite for first packets")?;
    let tls = QuicClientConfig::with_initial(Arc::new(tls), initial)?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(settings::transport()?));
    Ok(config)
}

/// Gets files over one connection.
async fn fetch(endpoint: &Endpoint, urls: &[Url], case: &str) -> Result<()> {
    let Some(first) = urls.first() else {
        return Ok(());
    };
    let host = first.host_str().context("a URL without host")?;
    let address = match contract::address(first).await? {
        SocketAddr::V4(v4) => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())),
        v6 => v6,
    };
    let connecting = endpoint.connect(address, host)?;
    let connection = if case == "zerortt" {
        match connecting.into_0rtt() {
            Ok((connection, _accepted)) => connection,
            Err(connecting) => connecting.await?,
        }
    } else {
        connecting.await?
    };
    if case == "http3" {
        get_http(connection.clone(), urls).await?;
    } else {
        try_join_all(urls.iter().map(|url| get(&connection, url, case))).await?;
    }
    if matches!(case, "resumption" | "zerortt") {
        tokio::time::sleep(contract::TICKET_WAIT).await;
    }
    connection.close(VarInt::from_u32(0), b"");
    Ok(())
}

async fn get(connection: &Connection, url: &Url, case: &str) -> Result<()> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(format!("GET {}\r\n", url.path()).as_bytes())
        .await?;
    send.finish()?;
    let mut content = Vec::new();
    let mut wants_update = case == "keyupdate";
    while let Some(chunk) = receive.read_chunk(usize::MAX, true).await? {
        content.extend_from_slice(&chunk.bytes);
        ensure!(content.len() <= contract::FILE_BYTES, "{url} is too long");
        if wants_update {
            connection.force_key_update();
            wants_update = false;
        }
    }
    contract::keep(url, &content)
}

async fn get_http(connection: Connection, urls: &[Url]) -> Result<()> {
    let (mut driver, sender) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
    let driving = tokio::spawn(async move { poll_fn(|context| driver.poll_close(context)).await });
    try_join_all(urls.iter().map(|url| {
        let mut sender = sender.clone();
        async move {
            let request = Request::get(url.as_str()).body(())?;
            let mut stream = sender.send_request(request).await?;
            stream.finish().await?;
            let response = stream.recv_response().await?;
            ensure!(response.status() == 200, "{url}: {}", response.status());
            let mut content = Vec::new();
            while let Some(mut data) = stream.recv_data().await? {
                let length = data.remaining();
                content.extend_from_slice(&data.copy_to_bytes(length));
            }
            contract::keep(url, &content)
        }
    }))
    .await?;
    driving.abort();
    Ok(())
}

/// Trusts any certificate: the runner makes them for each run.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
