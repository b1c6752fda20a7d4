// A transfer from a server to a client in one process, over the loopback interface; written once for
// quinn and for noq, which is quinn's fork. The program that includes this file names it `stack`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use gallop::Algorithm;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::RootCertStore;
use rustls::pki_types::PrivatePkcs8KeyDer;
use stack::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use stack::{ClientConfig, Endpoint, ServerConfig, TransportConfig};

const NAME: &str = "localhost";
const PROTOCOL: &[u8] = b"transfer";

/// Transfer bytes from a server to a client, and say how fast.
#[derive(Debug, Parser)]
struct Arguments {
    /// The server's congestion controller, with options after a colon
    #[arg(long, value_name = "NAME[:options]", default_value = "canter")]
    cc: Algorithm,
    /// The bytes to transfer
    #[arg(long, default_value_t = 100_000_000)]
    bytes: usize,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([NAME.to_owned()])?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());

    // The one line that matters: any controller of the catalogue, with its options.
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(Arc::new(arguments.cc.clone()));

    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key.into())?;
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport));
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Endpoint::server(config, any_port)?;
    let address = server.local_addr()?;
    tokio::spawn(async move {
        if let Err(error) = serve(&server, arguments.bytes).await {
            eprintln!("server: {error:#}");
        }
    });

    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone())?;
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    let client = Endpoint::client(any_port)?;
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    let connection = client.connect_with(config, address, NAME)?.await?;

    let start = Instant::now();
    let mut stream = connection.accept_uni().await?;
    let received = stream.read_to_end(arguments.bytes).await?.len();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{}: {received} bytes in {seconds:.3} s, {:.1} Mbit/s",
        arguments.cc,
        received as f64 * 8e-6 / seconds
    );
    connection.close(0u32.into(), b"");
    Ok(())
}

/// Sends so many bytes to the first client.
async fn serve(server: &Endpoint, bytes: usize) -> Result<()> {
    let incoming = server.accept().await.context("no client")?;
    let connection = incoming.await?;
    let mut stream = connection.open_uni().await?;
    let piece = vec![0; 1 << 16];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(piece.len());
        stream.write_all(&piece[..now]).await?;
        left -= now;
    }
    stream.finish()?;
    // The client closes when it has everything.
    connection.closed().await;
    Ok(())
}
