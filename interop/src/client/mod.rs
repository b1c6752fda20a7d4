//! The client: fetches and uploads, over one or more connections, with any congestion controller.

mod arguments;
mod exchange;
mod failure;
mod link;
mod origin;
mod report;
mod response;
mod session;
mod settings;
mod transfer;

use std::io;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use mio::{Events, Interest, Poll, Token};

use crate::socket::ReceiveBuffers;
use crate::stop::{OnSignals, Stop};
use crate::timer::Timer;
use crate::transport::H3;
pub use arguments::{Arguments, Method};
pub use failure::Failure;
use link::Link;
pub use link::Summary;
use origin::Origin;
pub use report::Report;
use settings::Settings;
pub use transfer::{Job, Outcome, Target};

const TIMER: Token = Token(usize::MAX);
const STOP: Token = Token(usize::MAX - 1);

/// Room for the packets of one system call.
const SCRATCH_BYTES: usize = 64 << 10;

/// Reads from one socket before others get their turn.
const READS_PER_TURN: usize = 16;

/// Runs the client with these flags; the report is complete even after a failure.
pub fn run(arguments: &Arguments) -> (Report, Result<(), Failure>) {
    let mut report = Report::default();
    if arguments.insecure {
        tracing::warn!("--insecure: anybody can pretend to be the server");
    }
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
    _signals: OnSignals,
    links: Vec<Link>,
    origins: Vec<Origin>,
    progress: ProgressBar,
    scratch: Vec<u8>,
}

impl Client {
    fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let system = |error: io::Error| Failure::Local(error.to_string());
        let origins = origin::origins(arguments)?;
        let settings = Settings::new(arguments)?;
        let mut config = settings.config(arguments)?;
        let poll = Poll::new().map_err(system)?;
        let timer = Timer::new(poll.registry(), TIMER).map_err(system)?;
        let stop = Stop::new(poll.registry(), STOP).map_err(system)?;
        let signals = stop.on_signals().map_err(system)?;
        let mut links = Vec::new();
        for (index, origin) in origins.iter().enumerate() {
            let peer = origin.resolve()?;
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
            _signals: signals,
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
            .and_then(|timeout| begun.checked_add(timeout.into()));
        let connect_timeout = arguments.connect_timeout.into();
        let mut events = Events::with_capacity(256);
        let mut buffers = ReceiveBuffers::default();
        loop {
            let now = Instant::now();
            for link in &mut self.links {
                link.begin(&self.settings, now);
                let is_late = link
                    .handshake_deadline(connect_timeout)
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
                    let handshake = link.handshake_deadline(connect_timeout);
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

    /// Closes connections, and reports unfinished transfers.
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
        let session = self.links.iter().find_map(|link| {
            let conditions = link.session_conditions(&self.settings);
            Some((conditions, link.connection.session()?))
        });
        if let (Some(path), Some((conditions, session))) = (&self.settings.session, session)
            && let Err(error) = session::write(path, conditions, session)
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
    let is_early = !link.connection.is_established();
    while (exchange.active() as u64) < parallel
        // Early data can be repeated by others: no upload is sent in it (RFC 8470 §4).
        && jobs.front().is_some_and(|job| !is_early || job.upload.is_none())
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
