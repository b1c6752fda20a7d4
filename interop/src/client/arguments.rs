//! The client's flags.

use std::path::PathBuf;

use gallop::stack::quiche::Selection;
use gallop_network::units::Span;
use url::Url;

use crate::arguments;
use crate::outbox::Pacing;
use crate::trace;

const EXAMPLES: &str = "\
Examples:
  gallop-client --insecure --dir downloads https://localhost:4433/file
  gallop-client --insecure --cc vegas --upload file https://localhost:4433/file

Exit status: 0 if all went well; 1 if a transfer failed (a status of 400 or more, or a reset); 2 for a \
wrong flag; 3 if a server cannot be reached or ends the connection; 4 if --timeout has passed; 5 if a \
server's certificate is not trusted; 6 if a local file cannot be read or written; 7 after SIGTERM or \
SIGINT.";

/// Fetch files from, or upload files to, an HTTP/3 server
///
/// Without --output and --dir, received bytes are counted and dropped.
#[derive(Clone, Debug, clap::Parser)]
#[command(
    name = "gallop-client",
    version,
    args_override_self = true,
    after_help = EXAMPLES,
    after_long_help = arguments::with_controllers(EXAMPLES)
)]
pub struct Arguments {
    /// URLs to fetch: https://HOST/PATH, or https://HOST:PORT/PATH
    #[arg(required = true, value_parser = url, value_name = "URL")]
    pub urls: Vec<Url>,

    /// Write the response to this file, or to standard output (-)
    #[arg(short, long, conflicts_with = "dir", value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write responses to files in this folder, named after the last part of their paths
    #[arg(short, long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,

    /// Send this file to each URL
    #[arg(short, long, value_name = "FILE")]
    pub upload: Option<PathBuf>,

    /// Method of the upload
    #[arg(long, value_enum, default_value_t, requires = "upload")]
    pub method: Method,

    /// Ask for the response's header section alone (HEAD)
    #[arg(short = 'I', long, conflicts_with_all = ["upload", "hq"])]
    pub head: bool,

    /// Send this header field, as in "range: bytes=0-99"; can be given several times
    #[arg(short = 'H', long, value_parser = field, conflicts_with = "hq", value_name = "FIELD")]
    pub header: Vec<(String, String)>,

    /// Requests at once on each connection
    #[arg(short, long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..), value_name = "COUNT")]
    pub parallel: u64,

    /// Connections to each server
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000), value_name = "COUNT")]
    pub connections: u64,

    /// Repeat all transfers so many times
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), value_name = "COUNT")]
    pub repeat: u64,

    /// Congestion controller of this end, which matters for uploads; --help lists all
    #[arg(long, default_value = "canter", value_name = "NAME[:OPTIONS]")]
    pub cc: Selection,

    /// Method of keeping packets' release times
    #[arg(long, value_enum, default_value_t)]
    pub pacing: Pacing,

    /// Send every packet with its own system call, for networks that do not take joined packets
    /// (GSO)
    #[arg(long)]
    pub no_gso: bool,

    /// Raw requests of the QUIC interop runner (hq-interop) instead of HTTP/3
    #[arg(long, conflicts_with = "upload")]
    pub hq: bool,

    /// Trust these certificates (PEM) instead of the system's
    #[arg(long, conflicts_with = "insecure", value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// Trust any certificate
    #[arg(short = 'k', long)]
    pub insecure: bool,

    /// Resume the TLS session in this file, and save the next one there
    #[arg(long, value_name = "FILE")]
    pub session: Option<PathBuf>,

    /// Send requests with the first packets (0-RTT) when a session is resumed
    #[arg(long, requires = "session")]
    pub early_data: bool,

    /// Give up after this time, such as 2s or 500ms
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Span>,

    /// Give up connecting after this time
    #[arg(long, default_value = "10s", value_name = "TIME")]
    pub connect_timeout: Span,

    /// Close a connection after this time without packets
    #[arg(long, default_value = "30s", value_name = "TIME")]
    pub idle_timeout: Span,

    #[command(flatten)]
    pub(crate) assumed: arguments::Assumed,

    /// Write the results as JSON to standard output
    #[arg(long)]
    pub json: bool,

    /// Write neither progress nor results
    #[arg(short, long)]
    pub quiet: bool,

    /// The traces to write.
    #[command(flatten)]
    pub traces: trace::Flags,

    /// Append the TLS secrets of connections to this file, for Wireshark
    #[arg(long, value_name = "FILE")]
    pub keylog: Option<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs)] // clap shows the documentation of a flattened field.
    pub log: arguments::Log,
}

/// The method of uploads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Method {
    /// PUT
    #[default]
    Put,
    /// POST
    Post,
}

fn url(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("{error}"))?;
    if url.scheme() != "https" || url.host().is_none() {
        return Err("expected https://HOST[:PORT]/PATH".to_owned());
    }
    Ok(url)
}

fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| "expected NAME: VALUE".to_owned())?;
    let name = name.trim().to_ascii_lowercase();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("{name:?} is not a valid name of a header field"));
    }
    Ok((name, value.trim().to_owned()))
}
