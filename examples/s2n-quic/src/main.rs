//! A transfer over s2n-quic from a server to a client in one process, over the loopback interface.
//!
//!     cargo run --release -- --cc canter

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::Parser;
use gallop::Algorithm;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use s2n_quic::client::Connect;
use s2n_quic::provider::tls::rustls;
use s2n_quic::{Client, Server};

const NAME: &str = "localhost";

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
    let certificate = cert.der().to_vec();
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let tls = rustls::Server::builder()
        .with_certificate(certificate.clone(), signing_key.serialize_der())
        .and_then(|builder| builder.build())
        .map_err(anyhow::Error::from_boxed)?;
    let server = Server::builder()
        .with_io(any_port)?
        .with_tls(tls)?
        // The one line that matters: any controller of the catalogue, with its options.
        .with_congestion_controller(arguments.cc.clone())?
        .start()?;
    let address = server.local_addr()?;
    tokio::spawn(async move {
        if let Err(error) = serve(server, arguments.bytes).await {
            eprintln!("server: {error:#}");
        }
    });

    let tls = rustls::Client::builder()
        .with_certificate(certificate)
        .and_then(|builder| builder.build())
        .map_err(anyhow::Error::from_boxed)?;
    let client = Client::builder()
        .with_io(any_port)?
        .with_tls(tls)?
        .start()?;
    let connect = Connect::new(address).with_server_name(NAME);
    let mut connection = client.connect(connect).await?;
    let start = Instant::now();
    let stream = connection.accept_receive_stream().await?;
    let mut stream = stream.context("no stream")?;
    let mut received = 0;
    while let Some(chunk) = stream.receive().await? {
        received += chunk.len();
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{}: {received} bytes in {seconds:.3} s, {:.1} Mbit/s",
        arguments.cc,
        received as f64 * 8e-6 / seconds
    );
    Ok(())
}

/// Sends so many bytes to the first client.
async fn serve(mut server: Server, bytes: usize) -> Result<()> {
    let mut connection = server.accept().await.context("no client")?;
    let mut stream = connection.open_send_stream().await?;
    let piece = Bytes::from(vec![0; 1 << 16]);
    let mut left = bytes;
    while left > 0 {
        let now = left.min(piece.len());
        stream.send(piece.slice(..now)).await?;
        left -= now;
    }
    stream.finish()?;
    // The client closes when it has everything.
    let _ = connection.accept().await;
    Ok(())
}
