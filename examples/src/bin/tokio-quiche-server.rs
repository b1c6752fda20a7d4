//! Serves the files of a folder over HTTP/3, with tokio-quiche and a congestion controller of
//! choice. An upload (POST) is answered with its number of bytes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clap::Parser;
use futures_util::{SinkExt, StreamExt};
use gallop::stack::quiche::Selection;
use percent_encoding::percent_decode_str;
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::net::UdpSocket;
use tokio_quiche::buf_factory::BufFactory;
use tokio_quiche::http3::driver::{
    InboundFrame, IncomingH3Headers, OutboundFrame, OutboundFrameSender, ServerH3Event,
};
use tokio_quiche::http3::settings::Http3Settings;
use tokio_quiche::metrics::DefaultMetrics;
use tokio_quiche::quiche::h3::{Header, NameValue};
use tokio_quiche::settings::{CertificateKind, Hooks, QuicSettings, TlsCertificatePaths};
use tokio_quiche::{ConnectionParams, ServerH3Controller, ServerH3Driver};

/// Serve the files of a folder over HTTP/3 with tokio-quiche
#[derive(Parser)]
#[command(version, args_override_self = true, after_help = Selection::help())]
struct Arguments {
    /// Address and port to listen on
    #[arg(long, default_value = "127.0.0.1:4433")]
    address: SocketAddr,

    /// Folder whose files are served
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    root: PathBuf,

    /// Congestion controller
    #[arg(long, default_value = "canter", value_name = "NAME[:OPTIONS]")]
    cc: Selection,

    /// Certificate chain (PEM)
    #[arg(long, value_name = "FILE")]
    cert: String,

    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE")]
    key: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // From here on quiche knows the controllers by name.
    gallop::register()?;

    let mut settings = QuicSettings::default();
    settings.cc_algorithm = arguments.cc.to_string();
    // `enable_pacing` stays off: tokio-quiche leaves the waiting to sockets with SO_TXTIME.
    let certificate = TlsCertificatePaths {
        cert: &arguments.cert,
        private_key: &arguments.key,
        kind: CertificateKind::X509,
    };
    let parameters = ConnectionParams::new_server(settings, certificate, Hooks::default());

    // The system itself refuses paths and links that lead out of this folder.
    let root = Dir::open_ambient_dir(&arguments.root, ambient_authority())
        .with_context(|| format!("--root {}", arguments.root.display()))?;
    let root = Arc::new(root);
    let socket = UdpSocket::bind(arguments.address)
        .await
        .with_context(|| format!("--address {}", arguments.address))?;
    let address = socket.local_addr()?;
    let mut listeners = tokio_quiche::listen([socket], parameters, DefaultMetrics)
        .with_context(|| format!("--cert {}, --key {}", arguments.cert, arguments.key))?;
    println!("listening on {address} with {}", arguments.cc);

    while let Some(connection) = listeners[0].next().await {
        match connection {
            Ok(connection) => {
                let (driver, controller) = ServerH3Driver::new(Http3Settings::default());
                connection.start(driver);
                tokio::spawn(serve(controller, Arc::clone(&root)));
            }
            Err(error) => eprintln!("a connection failed: {error}"),
        }
    }
    Ok(())
}

/// Answers the requests of one connection until it ends.
async fn serve(mut controller: ServerH3Controller, root: Arc<Dir>) {
    while let Some(event) = controller.event_receiver_mut().recv().await {
        if let ServerH3Event::Headers {
            incoming_headers, ..
        } = event
        {
            let root = Arc::clone(&root);
            tokio::spawn(async move {
                // The peer sees an error as a reset of the stream.
                if let Err(error) = respond(incoming_headers, root).await {
                    eprintln!("a response failed: {error}");
                }
            });
        }
    }
}

async fn respond(mut request: IncomingH3Headers, root: Arc<Dir>) -> anyhow::Result<()> {
    let field = |name: &[u8]| {
        let header = request
            .headers
            .iter()
            .find(|header| header.name() == name)?;
        std::str::from_utf8(header.value()).ok()
    };
    match (field(b":method"), field(b":path")) {
        (Some("GET"), Some(path)) => {
            let path = path.to_owned();
            match tokio::task::spawn_blocking(move || open(&root, &path)).await? {
                Some((file, length)) => send_file(request.send, file, length).await,
                None => send_text(request.send, "404", "not found\n").await,
            }
        }
        (Some("POST"), Some(_)) => {
            let mut received: usize = 0;
            while !request.read_fin {
                match request.recv.recv().await {
                    Some(InboundFrame::Body(bytes, is_last)) => {
                        received += bytes.len();
                        request.read_fin = is_last;
                    }
                    _ => anyhow::bail!("the upload was broken off"),
                }
            }
            send_text(request.send, "200", &format!("{received}\n")).await
        }
        _ => send_text(request.send, "405", "expected GET or POST\n").await,
    }
}

/// Opens the file that a URL's path names, if it is a file below `root`, and says its length.
fn open(root: &Dir, path: &str) -> Option<(File, u64)> {
    let path = path.split('?').next()?.strip_prefix('/')?;
    let path = percent_decode_str(path).decode_utf8().ok()?;
    // Opening a named pipe would wait for a writer.
    let metadata = root.metadata(path.as_ref()).ok()?;
    if !metadata.is_file() {
        return None;
    }
    let file = root.open(path.as_ref()).ok()?;
    Some((File::from_std(file.into_std()), metadata.len()))
}

async fn send_file(mut send: OutboundFrameSender, file: File, length: u64) -> anyhow::Result<()> {
    send.send(headers("200", length)).await?;
    let mut file = file.take(length);
    loop {
        let mut chunk = Vec::with_capacity(BufFactory::MAX_BUF_SIZE);
        if file.read_buf(&mut chunk).await? == 0 {
            break;
        }
        send.send(OutboundFrame::Body(chunk.into(), false)).await?;
    }
    anyhow::ensure!(
        file.limit() == 0,
        "the file became shorter while it was sent"
    );
    send.send(OutboundFrame::Body(Default::default(), true))
        .await?;
    Ok(())
}

async fn send_text(mut send: OutboundFrameSender, status: &str, text: &str) -> anyhow::Result<()> {
    send.send(headers(status, text.len() as u64)).await?;
    let body = text.as_bytes().to_vec().into();
    send.send(OutboundFrame::Body(body, true)).await?;
    Ok(())
}

fn headers(status: &str, length: u64) -> OutboundFrame {
    let headers = vec![
        Header::new(b":status", status.as_bytes()),
        Header::new(b"content-length", length.to_string().as_bytes()),
    ];
    OutboundFrame::Headers(headers, None)
}
