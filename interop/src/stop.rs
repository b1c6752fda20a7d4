//! Ending a loop that waits, from outside of it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// Asks a server or client to end.
#[derive(Clone, Debug)]
pub struct Stop {
    requests: Arc<AtomicUsize>,
    wakers: Arc<[Arc<mio::Waker>]>,
}

impl Stop {
    /// Wakes the poll of `registry` with `token` when it is asked to end.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn new(registry: &mio::Registry, token: mio::Token) -> io::Result<Self> {
        let waker = mio::Waker::new(registry, token)?;
        Ok(Stop::of([Arc::new(waker)]))
    }

    /// Wakes the polls of several threads.
    pub fn of(wakers: impl Into<Arc<[Arc<mio::Waker>]>>) -> Self {
        Stop {
            requests: Arc::default(),
            wakers: wakers.into(),
        }
    }

    /// Asks to end; the second request asks to end at once.
    pub fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        for waker in self.wakers.iter() {
            if let Err(error) = waker.wake() {
                tracing::error!(%error, "cannot be woken");
            }
        }
    }

    /// The number of requests to end.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Makes SIGINT and SIGTERM ask for the end, as long as the result is kept.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn on_signals(&self) -> io::Result<OnSignals> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let on_signals = OnSignals(signals.handle());
        let stop = self.clone();
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || signals.forever().for_each(|_| stop.request()))?;
        Ok(on_signals)
    }
}

/// Ends the thread that waits for signals when it is dropped.
#[derive(Debug)]
pub struct OnSignals(Handle);

impl Drop for OnSignals {
    fn drop(&mut self) {
        self.0.close();
    }
}
