//! The server's flags.

use std::net::SocketAddr;
use std::path::PathBuf;

use gallop::stack::quiche::Selection;
use gallop_network::units::Span;

use crate::arguments;
use crate::outbox::Pacing;
use crate::trace;

const EXAMPLE: &str = "\
Example:
  gallop-server --root public --cc canter

Exit status: 0 after SIGTERM or SIGINT, 1 if the server cannot start or go on, 2 for a wrong flag.";

/// Serve files over HTTP/3 with a congestion controller of choice
///
/// Without a certificate, one for localhost is made and kept.
#[derive(Clone, Debug, clap::Parser)]
#[command(
    name = "gallop-server",
    version,
    args_override_self = true,
    after_help = EXAMPLE,
    after_long_help = arguments::with_controllers(EXAMPLE)
)]
pub struct Arguments {
    /// Address and port to listen on, such as `0.0.0.0:4433` or `[::]:4433` for all; can be given several
    /// times [default: port 4433 of 127.0.0.1 and ::1, which only this machine reaches]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<SocketAddr>,

    /// Folder whose files are served, but for hidden ones [default: the current folder, and only if
    /// no address is open to others]
    #[arg(long, value_name = "FOLDER")]
    pub root: Option<PathBuf>,

    /// Congestion controller; --help lists all, with their options
    #[arg(long, default_value = "canter", value_name = "NAME[:OPTIONS]")]
    pub cc: Selection,

    /// Rules that give some connections another controller (TOML)
    #[arg(long, value_name = "FILE")]
    pub cc_rules: Option<PathBuf>,

    /// Method of keeping packets' release times
    #[arg(long, value_enum, default_value_t)]
    pub pacing: Pacing,

    /// Send every packet with its own system call, for networks that do not take joined packets
    /// (GSO)
    #[arg(long)]
    pub no_gso: bool,

    /// Certificate chain (PEM)
    #[arg(long, requires = "key", value_name = "FILE")]
    pub cert: Option<PathBuf>,

    /// The certificate's private key (PEM)
    #[arg(long, requires = "cert", value_name = "FILE")]
    pub key: Option<PathBuf>,

    /// Folder for the certificate that is made if none is given [default: gallop/ in the user's
    /// data folder]
    #[arg(long, conflicts_with = "cert", value_name = "FOLDER")]
    pub cert_dir: Option<PathBuf>,

    /// Folder for uploads (POST, PUT), none of which takes the place of another file; without it,
    /// their bytes are counted and dropped
    #[arg(long, value_name = "FOLDER")]
    pub upload_dir: Option<PathBuf>,

    /// The largest upload
    #[arg(long, default_value = "1gb", value_parser = arguments::bytes, value_name = "SIZE")]
    pub upload_limit: u64,

    /// The traces to write.
    #[command(flatten)]
    pub traces: trace::Flags,

    /// Append the TLS secrets of connections to this file, for Wireshark
    #[arg(long, value_name = "FILE")]
    pub keylog: Option<PathBuf>,

    /// Serve metrics for Prometheus at http://ADDRESS/metrics
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,

    /// Threads that serve connections [default: as many as the process has cores on Linux, elsewhere
    /// one]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,

    /// Limit of open connections; more are not answered, and from half of the limit on clients have
    /// to prove their address first (Retry)
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    pub max_connections: usize,

    /// Limit of the memory that connections hold. If all together hold more, the one that holds
    /// most is closed; so is one that alone holds more than an eighth
    #[arg(long, default_value = "1gb", value_parser = arguments::bytes, value_name = "SIZE")]
    pub memory: u64,

    /// Close a connection after this time without packets
    #[arg(long, default_value = "30s", value_name = "TIME")]
    pub idle_timeout: Span,

    /// Close a connection whose handshake is not complete after this time
    #[arg(long, default_value = "10s", value_name = "TIME")]
    pub handshake_timeout: Span,

    #[command(flatten)]
    pub(crate) assumed: arguments::Assumed,

    /// Finish responses for at most this time when asked to end
    #[arg(long, default_value = "10s", value_name = "TIME")]
    pub shutdown_timeout: Span,

    /// Make all clients prove their address first (Retry)
    #[arg(long)]
    pub retry: bool,

    #[command(flatten)]
    #[allow(missing_docs)] // clap shows the documentation of a flattened field.
    pub log: arguments::Log,
}
