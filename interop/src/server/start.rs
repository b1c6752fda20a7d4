//! Starting a server: everything that can fail before it serves.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use mio::{Interest, Poll, Registry, Token, Waker};

use crate::outbox::Pacing;
use crate::server::acceptance::Acceptance;
use crate::server::arguments::Arguments;
use crate::server::certificate::{self, Certificate, CertificateError};
use crate::server::chooser::Chooser;
use crate::server::event_loop::{EventLoop, TIMER, WAKER};
use crate::server::files::Files;
use crate::server::memory::Memory;
use crate::server::metrics::Metrics;
use crate::server::post::{MAX_THREADS, Post};
use crate::server::reset::Resets;
use crate::server::retry::Tokens;
use crate::server::room::Room;
use crate::server::rules::{Rules, RulesError};
use crate::server::sessions::Sessions;
use crate::server::upload::Uploads;
use crate::server::{Server, Service};
use crate::socket::Socket;
use crate::stop::Stop;
use crate::timer::Timer;
use crate::trace::{KeyLog, Traces};
use crate::transport;

/// The reasons why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The server cannot listen on an address.
    #[error("cannot listen on {address} (UDP): {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        error: io::Error,
    },
    /// The server cannot listen on the address for metrics.
    #[error("cannot serve metrics on {address} (TCP): {error}")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// The reason.
        error: io::Error,
    },
    /// A file or folder that a flag names cannot be used.
    #[error("{flag} {path}: {error}")]
    Path {
        /// The flag.
        flag: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// No folder is named, and others than this machine could see the current one.
    #[error(
        "--listen {0} is open to others: say with --root which folder they may see; without it, only \
         this machine sees the current one"
    )]
    Root(SocketAddr),
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The rules cannot be used.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The system has no departure times.
    #[error("--pacing txtime: {0}")]
    Departure(io::Error),
    /// quiche refuses its configuration.
    #[error("quiche's configuration: {0}")]
    Quiche(#[from] quiche::Error),
    /// A resource that any server needs.
    #[error("cannot wait for events: {0}")]
    Poll(io::Error),
}

/// The port if no address is given.
const DEFAULT_PORT: u16 = 4433;

impl Server {
    /// Prepares everything that can fail, and listens.
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
        let addresses = addresses(&arguments.listen);
        let root = root(arguments.root.as_ref(), &addresses)?;
        let files = Files::new(&root).map_err(at("--root", &root))?;
        let folder = arguments.upload_dir.as_ref();
        let uploads = Uploads::new(folder.map(PathBuf::as_path), arguments.upload_limit)
            .map_err(at("--upload-dir", folder.unwrap_or(&root)))?;
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
            arguments.idle_timeout.into(),
        )?;
        config.set_initial_max_streams_bidi(transport::REQUESTS);
        config.set_initial_rtt(arguments.assumed.initial_rtt.into());
        if keylog.is_some() {
            config.log_keys();
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
            config: Arc::new(Mutex::new(config)),
            chooser,
            pacing: arguments.pacing,
            tokens: Tokens::new()?,
            resets: Resets::new(&certificate.key)?,
            always_retry: arguments.retry,
            room: Room::new(arguments.max_connections),
            handshake_timeout: arguments.handshake_timeout.into(),
            is_leaving: false,
        };
        let service = Arc::new(Service {
            files,
            uploads,
            traces,
            keylog,
            metrics: metrics.clone(),
        });
        let threads = threads(arguments.threads);
        let memory = Memory::new(arguments.memory, threads);
        let sockets = listen(&addresses, threads)?;
        let addresses = sockets[0].iter().map(Socket::local_address).collect();
        let polls = (0..threads)
            .map(|_| Poll::new().map_err(StartError::Poll))
            .collect::<Result<Vec<_>, _>>()?;
        let wakers = polls
            .iter()
            .map(|poll| Ok(Arc::new(Waker::new(poll.registry(), WAKER)?)))
            .collect::<io::Result<Vec<_>>>()
            .map_err(StartError::Poll)?;
        let posts = Post::of_threads(&wakers);
        let stop = Stop::of(wakers);
        let mut loops = Vec::new();
        for ((poll, post), mut sockets) in polls.into_iter().zip(posts).zip(sockets) {
            let timer = Timer::new(poll.registry(), TIMER).map_err(StartError::Poll)?;
            prepare(&mut sockets, poll.registry(), arguments)?;
            let (acceptance, service) = (acceptance.clone(), Arc::clone(&service));
            loops.push(EventLoop {
                poll,
                timer,
                stop: stop.clone(),
                sockets,
                sessions: Sessions::new(acceptance, service, Arc::clone(&memory), post),
                shutdown_timeout: arguments.shutdown_timeout.into(),
            });
        }
        Ok(Server {
            loops,
            stop,
            addresses,
            certificate,
            metrics,
            metrics_address,
        })
    }
}

/// The number of threads: the one given, or that of the cores where the system spreads packets over
/// sockets.
fn threads(given: Option<u16>) -> usize {
    let cores = || match cfg!(target_os = "linux") {
        true => thread::available_parallelism().map_or(1, usize::from),
        false => 1,
    };
    given.map_or_else(cores, usize::from).min(MAX_THREADS)
}

/// Gives the sockets of one thread the services that the flags ask for.
fn prepare(
    sockets: &mut [Socket],
    registry: &Registry,
    arguments: &Arguments,
) -> Result<(), StartError> {
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
        registry
            .register(socket, Token(index), interest)
            .map_err(StartError::Poll)?;
    }
    Ok(())
}

/// Raises the limit of open files as far as the system permits: every response and trace has one.
#[cfg(target_os = "linux")]
fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files stays");
    }
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

/// The addresses to listen on: those given, or this machine's own.
fn addresses(given: &[SocketAddr]) -> Vec<SocketAddr> {
    if !given.is_empty() {
        return given.to_vec();
    }
    vec![
        (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into(),
        (Ipv6Addr::LOCALHOST, DEFAULT_PORT).into(),
    ]
}

/// The folder to serve: the one given, or for this machine alone the current one.
fn root(given: Option<&PathBuf>, addresses: &[SocketAddr]) -> Result<PathBuf, StartError> {
    let open = addresses.iter().find(|address| !address.ip().is_loopback());
    match (given, open) {
        (Some(root), _) => Ok(root.clone()),
        (None, None) => Ok(Path::new(".").to_owned()),
        (None, Some(address)) => Err(StartError::Root(*address)),
    }
}

/// The sockets of each thread.
fn listen(addresses: &[SocketAddr], threads: usize) -> Result<Vec<Vec<Socket>>, StartError> {
    let mut sockets: Vec<Vec<Socket>> = (0..threads).map(|_| Vec::new()).collect();
    for address in addresses.iter().copied() {
        match Socket::bind_several(address, threads) {
            Ok(bound) => {
                for (sockets, socket) in sockets.iter_mut().zip(bound) {
                    sockets.push(socket);
                }
            }
            // A machine without IPv6.
            Err(error)
                if address.ip() == Ipv6Addr::LOCALHOST
                    && !sockets[0].is_empty()
                    && error.kind() != io::ErrorKind::AddrInUse =>
            {
                tracing::warn!(%error, "IPv4 only");
            }
            Err(error) => return Err(StartError::Listen { address, error }),
        }
    }
    Ok(sockets)
}
