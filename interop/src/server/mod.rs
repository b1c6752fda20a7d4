//! The server: files and uploads over HTTP/3 and hq-interop, each connection with the congestion
//! controller that the operator's rules give it.
//!
//! It drives quiche itself. tokio-quiche spaces packets only for quiche's BBR, and only with
//! SO_TXTIME; and tokio's timers are of a millisecond, in which a connection at 100 Mbit/s sends
//! nine datagrams. Vegas needs each packet to leave when it counts as sent.

pub mod certificate;
mod delivery;
pub mod files;
mod hq;
mod http3;
pub mod metrics;
pub mod request;
pub mod respond;
mod responses;
mod retry;
pub mod rules;
mod session;
mod sessions;
pub mod upload;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};

use crate::arguments;
use crate::congestion_control::CongestionControl;
use crate::outbox::Pacing;
use crate::socket::{ReceiveBuffers, Socket};
use crate::stop::Stop;
use crate::timer::Timer;
use crate::trace::{self, KeyLog, Traces};
use crate::transport;
use certificate::{Certificate, CertificateError};
use files::Files;
use metrics::Metrics;
use retry::Tokens;
use rules::{Rules, RulesError};
use sessions::{Acceptance, Chooser, Sessions};
use upload::Uploads;

/// Serve files over HTTP/3 with a congestion controller of choice
///
/// Without a certificate, one for localhost is made and kept.
#[derive(Clone, Debug, clap::Parser)]
#[command(
    name = "gallop-server",
    version,
    after_help = "Example:\n  gallop-server --root public --cc gallop-vegas\n\n\
        Exit status: 0 after SIGTERM or SIGINT, 1 if the server cannot start or go on, 2 for a \
        wrong flag."
)]
pub struct Arguments {
    /// Address and port to listen on; can be given several times [default: port 4433 of all
    /// addresses]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<SocketAddr>,

    /// Folder whose files are served
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    pub root: PathBuf,

    /// Congestion controller: vegas, gallop-vegas (with options, as in vegas:alpha=2,beta=4), reno,
    /// cubic or bbr2
    #[arg(long, default_value = "gallop-vegas", value_name = "NAME[:OPTIONS]")]
    pub cc: CongestionControl,

    /// Rules that give some connections another controller (TOML)
    #[arg(long, value_name = "FILE")]
    pub cc_rules: Option<PathBuf>,

    /// How release times of packets are kept
    #[arg(long, value_enum, default_value_t)]
    pub pacing: Pacing,

    /// Send every packet by a system call of its own, for networks that do not take joined ones
    /// (GSO)
    #[arg(long)]
    pub no_gso: bool,

    /// Certificate chain (PEM)
    #[arg(long, requires = "key", value_name = "FILE")]
    pub cert: Option<PathBuf>,

    /// The certificate's private key (PEM)
    #[arg(long, requires = "cert", value_name = "FILE")]
    pub key: Option<PathBuf>,

    /// Where a certificate is kept that is made for want of one [default: gallop/ in the user's
    /// data folder]
    #[arg(long, conflicts_with = "cert", value_name = "FOLDER")]
    pub cert_dir: Option<PathBuf>,

    /// Folder for uploads (POST, PUT); without, they are counted and dropped
    #[arg(long, value_name = "FOLDER")]
    pub upload_dir: Option<PathBuf>,

    /// The largest upload, in bytes
    #[arg(long, default_value_t = 1 << 30, value_name = "BYTES")]
    pub upload_limit: u64,

    /// Which traces are written.
    #[command(flatten)]
    pub traces: trace::Flags,

    /// Append the TLS secrets of connections to this file, for Wireshark
    #[arg(long, value_name = "FILE")]
    pub keylog: Option<PathBuf>,

    /// Serve metrics for Prometheus at http://ADDRESS/metrics
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,

    /// Connections that are open at most; more are not answered, and from half of it on clients have
    /// to prove their address first (Retry)
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    pub max_connections: usize,

    /// Close a connection after so many seconds of silence
    #[arg(long, default_value = "30", value_parser = arguments::seconds, value_name = "SECONDS")]
    pub idle_timeout: Duration,

    /// Close a connection whose handshake is not complete after so many seconds
    #[arg(long, default_value = "10", value_parser = arguments::seconds, value_name = "SECONDS")]
    pub handshake_timeout: Duration,

    #[command(flatten)]
    pub(crate) assumed: arguments::Assumed,

    /// Finish responses for so many seconds when asked to end
    #[arg(long, default_value = "10", value_parser = arguments::seconds, value_name = "SECONDS")]
    pub shutdown_timeout: Duration,

    /// Have all clients prove their address first (Retry)
    #[arg(long)]
    pub retry: bool,

    #[command(flatten)]
    #[allow(missing_docs)] // clap shows the documentation of a flattened field.
    pub log: arguments::Log,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address} (UDP): {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The address for metrics cannot be listened on.
    #[error("cannot serve metrics on {address} (TCP): {error}")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// A file or folder that a flag names.
    #[error("{flag} {path}: {error}")]
    Path {
        /// The flag.
        flag: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The rules.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// Departure times are wanted where there are none.
    #[error("--pacing txtime: {0}")]
    Departure(io::Error),
    /// quiche's configuration.
    #[error("quiche's configuration: {0}")]
    Quiche(#[from] quiche::Error),
    /// What the system must give to any server.
    #[error("cannot wait for events: {0}")]
    Poll(io::Error),
}

/// What all connections are served from.
struct Service {
    files: Files,
    uploads: Uploads,
    traces: Option<Traces>,
    keylog: Option<KeyLog>,
    metrics: Metrics,
}

/// Where clients connect if no address is given.
const DEFAULT_PORT: u16 = 4433;

/// The tokens of the poll; sockets have their index.
const TIMER: Token = Token(usize::MAX);
const STOP: Token = Token(usize::MAX - 1);

/// Reads from one socket before connections get their turn.
const READS_PER_TURN: usize = 16;

/// A server that listens.
pub struct Server {
    poll: Poll,
    timer: Timer,
    stop: Stop,
    sockets: Vec<Socket>,
    sessions: Sessions,
    shutdown_timeout: Duration,
    certificate: Certificate,
    metrics_address: Option<SocketAddr>,
}

impl Server {
    /// Prepares all that can fail, and listens.
    ///
    /// # Errors
    ///
    /// [`StartError`] names the flag, file or address.
    pub fn start(arguments: &Arguments) -> Result<Self, StartError> {
        #[cfg(target_os = "linux")]
        raise_file_limit();
        let at = |flag, path: &PathBuf| {
            let path = path.clone();
            move |error| StartError::Path { flag, path, error }
        };
        let files = Files::new(&arguments.root).map_err(at("--root", &arguments.root))?;
        let folder = arguments.upload_dir.as_ref();
        let uploads = Uploads::new(folder.map(PathBuf::as_path), arguments.upload_limit)
            .map_err(at("--upload-dir", folder.unwrap_or(&arguments.root)))?;
        let flags = &arguments.traces;
        let traces = match &flags.qlog_dir {
            Some(path) => Some(Traces::new(path, flags).map_err(at("--qlog-dir", path))?),
            None => None,
        };
        let keylog = match &arguments.keylog {
            Some(path) => Some(KeyLog::open(path).map_err(at("--keylog", path))?),
            None => None,
        };
        let rules = match &arguments.cc_rules {
            Some(path) => Rules::read(path, arguments.cc.clone())?,
            None => Rules::all(arguments.cc.clone()),
        };
        let certificate = certificate(arguments)?;
        let mut tls = certificate.context()?;
        let chooser = Chooser::new(rules);
        chooser.attach(&mut tls);
        let mut config = transport::config(
            tls,
            &[transport::H3, transport::HQ],
            &arguments.cc,
            arguments.pacing,
            arguments.idle_timeout,
        )?;
        config.set_initial_rtt(arguments.assumed.initial_rtt);
        if keylog.is_some() {
            config.log_keys();
        }
        let poll = Poll::new().map_err(StartError::Poll)?;
        let timer = Timer::new(poll.registry(), TIMER).map_err(StartError::Poll)?;
        let stop = Stop::new(poll.registry(), STOP).map_err(StartError::Poll)?;
        let mut sockets = listen(&arguments.listen)?;
        for (index, socket) in sockets.iter_mut().enumerate() {
            if arguments.no_gso {
                socket.disable_segmentation_offload();
            }
            if arguments.pacing == Pacing::Txtime {
                socket
                    .enable_departure_times()
                    .map_err(StartError::Departure)?;
            }
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry()
                .register(socket, Token(index), interest)
                .map_err(StartError::Poll)?;
        }
        let metrics = Metrics::default();
        let metrics_address = match arguments.metrics {
            Some(address) => Some(
                metrics
                    .serve(address)
                    .map_err(|error| StartError::Metrics { address, error })?,
            ),
            None => None,
        };
        let acceptance = Acceptance {
            config,
            chooser,
            pacing: arguments.pacing,
            tokens: Tokens::new()?,
            always_retry: arguments.retry,
            max_connections: arguments.max_connections,
            handshake_timeout: arguments.handshake_timeout,
        };
        let service = Service {
            files,
            uploads,
            traces,
            keylog,
            metrics,
        };
        Ok(Server {
            poll,
            timer,
            stop,
            sockets,
            sessions: Sessions::new(acceptance, service),
            shutdown_timeout: arguments.shutdown_timeout,
            certificate,
            metrics_address,
        })
    }

    /// The addresses that it listens on.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.sockets.iter().map(Socket::local_address)
    }

    /// The address at which it serves metrics.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Its certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Asks it to end.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Serves until it is asked to end; then finishes what is under way, within the timeout.
    ///
    /// # Errors
    ///
    /// Waiting for events fails.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        let mut buffers = ReceiveBuffers::default();
        let mut readable = vec![false; self.sockets.len()];
        let mut leave_until: Option<Instant> = None;
        loop {
            let is_busy = self.sessions.is_busy() || readable.contains(&true);
            let wake = self
                .sessions
                .next_wake()
                .into_iter()
                .chain(leave_until)
                .min();
            let timeout = match is_busy {
                true => Some(Duration::ZERO),
                false => self.timer.timeout(wake)?,
            };
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            for event in &events {
                if let Some(readable) = readable.get_mut(event.token().0) {
                    *readable |= event.is_readable();
                    if event.is_writable() {
                        self.sessions.unblock();
                    }
                }
            }
            for (socket, readable) in self.sockets.iter().zip(&mut readable) {
                if *readable {
                    *readable = receive(socket, &self.sockets, &mut self.sessions, &mut buffers);
                }
            }
            self.sessions.turns(&self.sockets);
            if self.stop.requests() > 0 && leave_until.is_none() {
                tracing::info!("ending");
                leave_until = Some(Instant::now() + self.shutdown_timeout);
                self.sessions.leave();
            }
            if let Some(until) = leave_until {
                let is_enough =
                    self.sessions.is_over() || self.stop.requests() > 1 || until <= Instant::now();
                if is_enough {
                    self.sessions.end(&self.sockets);
                    return Ok(());
                }
            }
        }
    }
}

/// Takes as many open files as the system permits: every response has one, and every trace.
#[cfg(target_os = "linux")]
fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files stays");
    }
}

/// Reads some datagrams; says whether there may be more.
fn receive(
    socket: &Socket,
    sockets: &[Socket],
    sessions: &mut Sessions,
    buffers: &mut ReceiveBuffers,
) -> bool {
    for _ in 0..READS_PER_TURN {
        let received = socket.receive(buffers, |datagram, info| {
            sessions.receive(sockets, datagram, info);
        });
        if let Err(error) = received {
            if error.kind() == io::ErrorKind::WouldBlock {
                return false;
            }
            // Such as an ICMP message for an earlier datagram.
            tracing::debug!(%error, "receive");
        }
    }
    true
}

fn certificate(arguments: &Arguments) -> Result<Certificate, CertificateError> {
    if let (Some(chain), Some(key)) = (&arguments.cert, &arguments.key) {
        return Ok(Certificate {
            chain: chain.clone(),
            key: key.clone(),
        });
    }
    let folder = match &arguments.cert_dir {
        Some(folder) => folder.clone(),
        None => certificate::default_folder()?,
    };
    Certificate::self_signed(&folder)
}

fn listen(addresses: &[SocketAddr]) -> Result<Vec<Socket>, StartError> {
    let bind =
        |address| Socket::bind(address).map_err(|error| StartError::Listen { address, error });
    if !addresses.is_empty() {
        return addresses.iter().copied().map(bind).collect();
    }
    let any = |ip| SocketAddr::new(ip, DEFAULT_PORT);
    let mut sockets = vec![bind(any(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))?];
    match bind(any(IpAddr::V6(Ipv6Addr::UNSPECIFIED))) {
        Ok(socket) => sockets.push(socket),
        Err(StartError::Listen { error, .. }) if error.kind() == io::ErrorKind::AddrInUse => {
            let address = any(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
            return Err(StartError::Listen { address, error });
        }
        // A machine without IPv6.
        Err(error) => tracing::warn!(%error, "IPv4 only"),
    }
    Ok(sockets)
}
