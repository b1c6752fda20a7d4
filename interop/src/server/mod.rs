//! The server: files and uploads over HTTP/3 and hq-interop, each connection with the congestion
//! controller that the operator's rules give it.
//!
//! It drives quiche itself. tokio-quiche spaces packets only for quiche's BBR, and only with
//! SO_TXTIME; and tokio's timers have a resolution of 1 ms, in which a connection at 100 Mbit/s
//! sends nine datagrams. Vegas needs each packet to leave at the time that is recorded for it.

mod acceptance;
mod arguments;
pub mod certificate;
mod chooser;
mod delivery;
mod event_loop;
pub mod files;
mod hq;
mod http3;
mod memory;
pub mod metrics;
mod post;
pub mod request;
mod reset;
pub mod respond;
mod retry;
mod room;
pub mod rules;
mod session;
mod sessions;
mod start;
pub mod upload;

use std::io;
use std::net::SocketAddr;
use std::thread;

use crate::stop::Stop;
use crate::trace::{KeyLog, Traces};
pub use arguments::Arguments;
use certificate::Certificate;
use event_loop::EventLoop;
use files::Files;
use metrics::Metrics;
pub use start::StartError;
use upload::Uploads;

/// Files, uploads, traces and metrics that all connections share.
struct Service {
    files: Files,
    uploads: Uploads,
    traces: Option<Traces>,
    keylog: Option<KeyLog>,
    metrics: Metrics,
}

/// A server that listens.
pub struct Server {
    loops: Vec<EventLoop>,
    stop: Stop,
    addresses: Vec<SocketAddr>,
    certificate: Certificate,
    metrics: Metrics,
    metrics_address: Option<SocketAddr>,
}

impl Server {
    /// The addresses on which it listens.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.addresses.iter().copied()
    }

    /// Its metrics, which go on while it runs.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// The address at which it serves metrics.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Its certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// A handle that asks it to end.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// The number of threads that serve connections.
    pub fn threads(&self) -> usize {
        self.loops.len()
    }

    /// Serves until it is asked to end; then finishes open responses within the timeout.
    ///
    /// # Errors
    ///
    /// The system cannot wait for events, or gives no threads.
    ///
    /// # Panics
    ///
    /// If one of its threads does.
    pub fn run(self) -> io::Result<()> {
        let Server { loops, stop, .. } = self;
        let stop = &stop;
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for (number, event_loop) in loops.into_iter().enumerate() {
                let run = move || {
                    let mut failure = EndsOthers(Some(stop));
                    let result = event_loop.run();
                    if result.is_ok() {
                        failure.0 = None;
                    }
                    result
                };
                let name = format!("connections-{number}");
                match thread::Builder::new().name(name).spawn_scoped(scope, run) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        drop(EndsOthers(Some(stop)));
                        return Err(error);
                    }
                }
            }
            threads
                .into_iter()
                .try_for_each(|thread| match thread.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
        })
    }
}

/// Ends a server, a thread of which has failed, at once.
struct EndsOthers<'a>(Option<&'a Stop>);

impl Drop for EndsOthers<'_> {
    fn drop(&mut self) {
        if let Some(stop) = self.0 {
            stop.request();
            stop.request();
        }
    }
}
