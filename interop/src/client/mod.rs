//! The client: fetches and uploads, over one or more connections, with any congestion controller.

mod exchange;
mod link;
mod report;
mod transfer;

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use boring::ssl::{SslContextBuilder, SslMethod};
use indicatif::{ProgressBar, ProgressStyle};
use mio::{Events, Interest, Poll, Token};
use url::{Host, Url};

use crate::arguments;
use crate::congestion_control::CongestionControl;
use crate::outbox::Pacing;
use crate::socket::ReceiveBuffers;
use crate::stop::Stop;
use crate::timer::Timer;
use crate::trace::{self, KeyLog, Traces};
use crate::transport::{self, H3, HQ};
use link::Link;
pub use link::Summary;
pub use report::Report;
pub use transfer::{Job, Outcome, Target};

/// Fetch files from, or upload files to, an HTTP/3 server
///
/// Without --output and --dir what is received is counted and dropped.
#[derive(Clone, Debug, clap::Parser)]
#[command(
    name = "gallop-client",
    version,
    after_help = "Examples:\n  gallop-client --insecure --dir downloads https://localhost:4433/file\n  \
        gallop-client --insecure --cc vegas --upload file https://localhost:4433/file\n\n\
        Exit status: 0 if all went well; 1 if a transfer failed (a status of 400 or more, or a \
        reset); 2 for a wrong flag; 3 if a server cannot be reached or ends the connection; 4 if \
        --timeout has passed; 5 if a server's certificate is not trusted; 6 if a local file \
        cannot be read or written; 7 after SIGTERM or SIGINT."
)]
pub struct Arguments {
    /// What to fetch: https://HOST/PATH, or https://HOST:PORT/PATH
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

    /// How it is sent
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

    /// Do it all so many times
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), value_name = "COUNT")]
    pub repeat: u64,

    /// Congestion controller of this end, which matters for uploads
    #[arg(long, default_value = "gallop-vegas", value_name = "NAME[:OPTIONS]")]
    pub cc: CongestionControl,

    /// How release times of packets are kept
    #[arg(long, value_enum, default_value_t)]
    pub pacing: Pacing,

    /// Send every packet by a system call of its own, for networks that do not take joined ones
    /// (GSO)
    #[arg(long)]
    pub no_gso: bool,

    /// Raw requests of the QUIC interop runner (hq-interop) instead of HTTP/3
    #[arg(long, conflicts_with = "upload")]
    pub hq: bool,

    /// Certificates that are trusted (PEM) instead of the system's
    #[arg(long, conflicts_with = "insecure", value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// Trust any certificate
    #[arg(short = 'k', long)]
    pub insecure: bool,

    /// Resume the TLS session in this file, and keep the next one there
    #[arg(long, value_name = "FILE")]
    pub session: Option<PathBuf>,

    /// Send requests with the first packets (0-RTT) when a session is resumed
    #[arg(long, requires = "session")]
    pub early_data: bool,

    /// Give up after so many seconds
    #[arg(long, value_parser = arguments::seconds, value_name = "SECONDS")]
    pub timeout: Option<Duration>,

    /// Give up connecting after so many seconds
    #[arg(long, default_value = "10", value_parser = arguments::seconds, value_name = "SECONDS")]
    pub connect_timeout: Duration,

    /// Close a connection after so many seconds of silence
    #[arg(long, default_value = "30", value_parser = arguments::seconds, value_name = "SECONDS")]
    pub idle_timeout: Duration,

    #[command(flatten)]
    pub(crate) assumed: arguments::Assumed,

    /// Write what was measured as JSON to standard output
    #[arg(long)]
    pub json: bool,

    /// Write neither progress nor results
    #[arg(short, long)]
    pub quiet: bool,

    /// Which traces are written.
    #[command(flatten)]
    pub traces: trace::Flags,

    /// Append the TLS secrets of connections to this file, for Wireshark
    #[arg(long, value_name = "FILE")]
    pub keylog: Option<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs)] // clap shows the documentation of a flattened field.
    pub log: arguments::Log,
}

/// How uploads are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Method {
    /// PUT
    #[default]
    Put,
    /// POST
    Post,
}

/// Why the client cannot do all that was asked for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// Some transfers failed; the report says why.
    #[error("{0} of {1} transfers failed")]
    Transfers(usize, usize),
    /// A server cannot be reached, or ended the connection.
    #[error("{0}")]
    Connect(String),
    /// The time is over.
    #[error("not done after {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// A server is not whom it should be.
    #[error("{0}")]
    Certificate(String),
    /// A local file.
    #[error("{0}")]
    Local(String),
    /// A signal.
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// The exit status of a program.
    pub fn exit_status(&self) -> u8 {
        match self {
            Failure::Transfers(..) => 1,
            Failure::Connect(_) => 3,
            Failure::Timeout(_) => 4,
            Failure::Certificate(_) => 5,
            Failure::Local(_) => 6,
            Failure::Interrupted => 7,
        }
    }
}

/// What all connections share.
struct Settings {
    protocol: &'static [u8],
    congestion_control: CongestionControl,
    pacing: Pacing,
    no_gso: bool,
    insecure: bool,
    early_data: bool,
    session: Option<PathBuf>,
    keylog: Option<KeyLog>,
    traces: Option<Traces>,
}

/// A server, and what is wanted of it.
struct Origin {
    host: Host<String>,
    port: u16,
    jobs: VecDeque<Job>,
}

const TIMER: Token = Token(usize::MAX);
const STOP: Token = Token(usize::MAX - 1);

/// Room for the packets of one system call.
const SCRATCH_BYTES: usize = 64 << 10;

/// Reads from one socket before others get their turn.
const READS_PER_TURN: usize = 16;

fn url(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("{error}"))?;
    if url.scheme() != "https" || url.host().is_none() {
        return Err("https://HOST[:PORT]/PATH is needed".to_owned());
    }
    Ok(url)
}

fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| "NAME: VALUE is needed".to_owned())?;
    let name = name.trim().to_ascii_lowercase();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("{name:?} is no name of a header field"));
    }
    Ok((name, value.trim().to_owned()))
}

/// Does what the flags say; the report is complete also after a failure.
pub fn run(arguments: &Arguments) -> (Report, Result<(), Failure>) {
    let mut report = Report::default();
    let result = Client::new(arguments).and_then(|mut client| {
        let result = client.run(arguments, &mut report);
        client.finish(&mut report);
        result
    });
    let result = result.and_then(|()| report.result());
    (report, result)
}

struct Client {
    settings: Settings,
    poll: Poll,
    timer: Timer,
    stop: Stop,
    links: Vec<Link>,
    origins: Vec<Origin>,
    progress: ProgressBar,
    scratch: Vec<u8>,
}

impl Client {
    fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let local = |path: &Path| {
            let path = path.display().to_string();
            move |error: io::Error| Failure::Local(format!("{path}: {error}"))
        };
        let system = |error: io::Error| Failure::Local(error.to_string());
        let jobs = jobs(arguments)?;
        let settings = Settings {
            protocol: if arguments.hq { HQ } else { H3 },
            congestion_control: arguments.cc.clone(),
            pacing: arguments.pacing,
            no_gso: arguments.no_gso,
            insecure: arguments.insecure,
            early_data: arguments.early_data,
            session: arguments.session.clone(),
            keylog: match &arguments.keylog {
                Some(path) => Some(KeyLog::open(path).map_err(local(path))?),
                None => None,
            },
            traces: match &arguments.traces.qlog_dir {
                Some(path) => Some(Traces::new(path, &arguments.traces).map_err(local(path))?),
                None => None,
            },
        };
        let mut config = config(arguments, &settings)?;
        let poll = Poll::new().map_err(system)?;
        let timer = Timer::new(poll.registry(), TIMER).map_err(system)?;
        let stop = Stop::new(poll.registry(), STOP).map_err(system)?;
        stop.on_signals().map_err(system)?;
        let origins = origins(jobs);
        let mut links = Vec::new();
        for (index, origin) in origins.iter().enumerate() {
            let peer = resolve(origin)?;
            let wanted = arguments.connections.min(origin.jobs.len() as u64);
            for _ in 0..wanted {
                let mut link = Link::connect(&mut config, &settings, index, &origin.host, peer)?;
                let interest = Interest::READABLE | Interest::WRITABLE;
                poll.registry()
                    .register(&mut link.socket[0], Token(links.len()), interest)
                    .map_err(system)?;
                links.push(link);
            }
        }
        let progress = match arguments.quiet {
            true => ProgressBar::hidden(),
            false => progress_bar(),
        };
        Ok(Client {
            settings,
            poll,
            timer,
            stop,
            links,
            origins,
            progress,
            scratch: vec![0; SCRATCH_BYTES],
        })
    }

    fn run(&mut self, arguments: &Arguments, report: &mut Report) -> Result<(), Failure> {
        let begun = Instant::now();
        let deadline = arguments
            .timeout
            .and_then(|timeout| begun.checked_add(timeout));
        let mut events = Events::with_capacity(256);
        let mut buffers = ReceiveBuffers::default();
        loop {
            let now = Instant::now();
            for link in &mut self.links {
                link.begin(&self.settings, now);
                let is_late = link
                    .handshake_deadline(arguments.connect_timeout)
                    .is_some_and(|deadline| deadline <= now);
                if is_late && !link.is_closing() {
                    link.fail(Failure::Connect(format!(
                        "no connection after {:.1} s",
                        link.age(now).as_secs_f64()
                    )));
                }
                request(link, &mut self.origins, arguments.parallel);
                link.send(&mut self.scratch);
                // The first packet opens the way for early data.
                if link.begin(&self.settings, now) {
                    request(link, &mut self.origins, arguments.parallel);
                    link.send(&mut self.scratch);
                }
                if let Some(exchange) = &mut link.exchange {
                    report.transfers.extend(exchange.take_finished());
                }
            }
            report.duration_s = begun.elapsed().as_secs_f64();
            self.show_progress();
            if self.is_done() {
                return Ok(());
            }
            if let Some(link) = self.links.iter().find(|link| link.is_closing()) {
                return Err(link.failure());
            }
            if let (Some(deadline), Some(timeout)) = (deadline, arguments.timeout)
                && deadline <= now
            {
                return Err(Failure::Timeout(timeout));
            }
            if self.stop.requests() > 0 {
                return Err(Failure::Interrupted);
            }
            let wake = self
                .links
                .iter()
                .flat_map(|link| {
                    let handshake = link.handshake_deadline(arguments.connect_timeout);
                    link.wake().into_iter().chain(handshake)
                })
                .chain(deadline)
                .min();
            self.wait(wake, &mut events)?;
            let now = Instant::now();
            for link in &mut self.links {
                for _ in 0..READS_PER_TURN {
                    if link.is_readable {
                        link.receive(&mut buffers);
                    }
                }
                if link
                    .connection
                    .timeout_instant()
                    .is_some_and(|timeout| timeout <= now)
                {
                    link.connection.on_timeout();
                }
                if let Some(exchange) = &mut link.exchange {
                    exchange.read(&mut link.connection);
                }
            }
        }
    }

    fn wait(&mut self, wake: Option<Instant>, events: &mut Events) -> Result<(), Failure> {
        let system = |error: io::Error| Failure::Local(format!("cannot wait: {error}"));
        let timeout = match self.links.iter().any(|link| link.is_readable) {
            true => Some(Duration::ZERO),
            false => self.timer.timeout(wake).map_err(system)?,
        };
        if let Err(error) = self.poll.poll(events, timeout)
            && error.kind() != io::ErrorKind::Interrupted
        {
            return Err(system(error));
        }
        for event in &*events {
            if let Some(link) = self.links.get_mut(event.token().0) {
                link.is_readable |= event.is_readable();
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        let is_idle = |link: &Link| {
            let active = link
                .exchange
                .as_ref()
                .map_or(0, |exchange| exchange.active());
            // A handshake that nobody waits for any more is completed all the same.
            active == 0 && link.is_established()
        };
        self.origins.iter().all(|origin| origin.jobs.is_empty()) && self.links.iter().all(is_idle)
    }

    fn show_progress(&self) {
        let moved = self
            .links
            .iter()
            .filter_map(|link| link.exchange.as_ref())
            .map(|exchange| exchange.moved_bytes())
            .sum();
        self.progress.set_position(moved);
    }

    /// Ends connections in order, and reports what is left undone.
    fn finish(&mut self, report: &mut Report) {
        self.progress.finish_and_clear();
        for link in &mut self.links {
            let code = if self.settings.protocol == H3 {
                0x100
            } else {
                0
            };
            let was_closing = link.is_closing();
            let _ = link.connection.close(true, code, b"");
            link.send(&mut self.scratch);
            let reason = match was_closing {
                true => link.failure().to_string(),
                false => "not finished".to_owned(),
            };
            if let Some(exchange) = &mut link.exchange {
                exchange.fail(&reason);
                report.transfers.extend(exchange.take_finished());
            }
            report.connections.push(link.summary(&self.settings));
        }
        for origin in &mut self.origins {
            for job in origin.jobs.drain(..) {
                let outcome = job.failed("not begun".to_owned(), false);
                report.transfers.push(outcome);
            }
        }
        let session = self.links.iter().find_map(|link| link.connection.session());
        if let (Some(path), Some(session)) = (&self.settings.session, session)
            && let Err(error) = gallop_files::write_private(path, session)
        {
            tracing::warn!(path = %path.display(), %error, "the session is not kept");
        }
    }
}

/// Gives a connection requests, as many as it may have at once.
fn request(link: &mut Link, origins: &mut [Origin], parallel: u64) {
    let jobs = &mut origins[link.server].jobs;
    let Some(exchange) = &mut link.exchange else {
        return;
    };
    while (exchange.active() as u64) < parallel
        && let Some(job) = jobs.pop_front()
    {
        if let Some(job) = exchange.request(&mut link.connection, job) {
            jobs.push_front(job);
            return;
        }
    }
}

fn progress_bar() -> ProgressBar {
    let template = "{spinner} {bytes} in {elapsed}, {binary_bytes_per_sec}";
    match ProgressStyle::with_template(template) {
        Ok(style) => ProgressBar::new_spinner().with_style(style),
        Err(_) => ProgressBar::new_spinner(),
    }
}

/// What the flags ask for, checked as far as that is possible without a server.
fn jobs(arguments: &Arguments) -> Result<Vec<Job>, Failure> {
    if arguments.output.is_some() && arguments.urls.len() > 1 {
        return Err(Failure::Local(
            "--output is for one URL; for several give --dir".to_owned(),
        ));
    }
    if let Some(path) = &arguments.upload {
        fs::File::open(path)
            .map_err(|error| Failure::Local(format!("{}: {error}", path.display())))?;
    }
    if let Some(dir) = &arguments.dir {
        fs::create_dir_all(dir)
            .map_err(|error| Failure::Local(format!("{}: {error}", dir.display())))?;
    }
    let job = |url: &Url| -> Result<Job, Failure> {
        let target = match (&arguments.output, &arguments.dir) {
            (Some(path), _) if path == Path::new("-") => Target::Output,
            (Some(path), _) => Target::File(path.clone()),
            (None, Some(dir)) => {
                let name = url
                    .path()
                    .rsplit('/')
                    .next()
                    .filter(|name| !name.is_empty())
                    .unwrap_or("index.html");
                Target::File(dir.join(name))
            }
            (None, None) => Target::Discard,
        };
        Ok(Job {
            url: url.clone(),
            target,
            method: match (&arguments.upload, arguments.method) {
                (None, _) if arguments.head => "HEAD",
                (None, _) => "GET",
                (Some(_), Method::Put) => "PUT",
                (Some(_), Method::Post) => "POST",
            },
            fields: arguments.header.clone(),
            upload: arguments.upload.clone(),
        })
    };
    let once: Vec<Job> = arguments.urls.iter().map(job).collect::<Result<_, _>>()?;
    Ok((0..arguments.repeat).flat_map(|_| once.clone()).collect())
}

fn origins(jobs: Vec<Job>) -> Vec<Origin> {
    let mut origins: Vec<Origin> = Vec::new();
    for job in jobs {
        let Some(host) = job.url.host().map(|host| host.to_owned()) else {
            continue; // `url` above has seen to it.
        };
        let port = job.url.port_or_known_default().unwrap_or(443);
        match origins
            .iter_mut()
            .find(|origin| origin.host == host && origin.port == port)
        {
            Some(origin) => origin.jobs.push_back(job),
            None => origins.push(Origin {
                host,
                port,
                jobs: VecDeque::from([job]),
            }),
        }
    }
    origins
}

fn resolve(origin: &Origin) -> Result<SocketAddr, Failure> {
    let port = origin.port;
    let name = match &origin.host {
        Host::Ipv4(ip) => return Ok((*ip, port).into()),
        Host::Ipv6(ip) => return Ok((*ip, port).into()),
        Host::Domain(name) => name,
    };
    let unknown = |why: String| Failure::Connect(format!("{name}: {why}"));
    let addresses: Vec<SocketAddr> = (name.as_str(), port)
        .to_socket_addrs()
        .map_err(|error| unknown(error.to_string()))?
        .collect();
    addresses
        .iter()
        // IPv4 first: the server's default listens on both, others may not.
        .find(|address| address.is_ipv4())
        .or(addresses.first())
        .copied()
        .ok_or_else(|| unknown("no address".to_owned()))
}

fn config(arguments: &Arguments, settings: &Settings) -> Result<quiche::Config, Failure> {
    let tls = |error: boring::error::ErrorStack| Failure::Local(format!("TLS: {error}"));
    let mut context = SslContextBuilder::new(SslMethod::tls()).map_err(tls)?;
    match &arguments.ca {
        Some(path) => {
            let trouble = |what: String| Failure::Local(format!("--ca {}: {what}", path.display()));
            fs::File::open(path).map_err(|error| trouble(error.to_string()))?;
            context
                .set_ca_file(path)
                .map_err(|_| trouble("no certificates in PEM format".to_owned()))?;
        }
        None => context.set_default_verify_paths().map_err(tls)?,
    }
    let mut config = transport::config(
        context,
        &[settings.protocol],
        &settings.congestion_control,
        settings.pacing,
        arguments.idle_timeout,
    )
    .map_err(|error| Failure::Local(format!("quiche's configuration: {error}")))?;
    config.set_initial_rtt(arguments.assumed.initial_rtt);
    config.verify_peer(!arguments.insecure);
    if settings.keylog.is_some() {
        config.log_keys();
    }
    Ok(config)
}
