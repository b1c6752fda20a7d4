//! Waiting until a point in time, more precisely than the millisecond of epoll.
//!
//! Spike suppression spaces datagrams by tens of microseconds; a wait that is rounded up to a
//! millisecond would hold a connection below some 20 Mbit/s.

use std::io;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
mod clock {
    use std::io;
    use std::os::fd::{AsFd, AsRawFd};
    use std::time::Duration;

    use mio::unix::SourceFd;
    use mio::{Interest, Registry, Token};
    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

    /// A timerfd, which wakes the poll that it is registered with.
    #[derive(Debug)]
    pub(super) struct Clock(TimerFd);

    impl Clock {
        pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
            let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
            let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
            let fd = timer.as_fd().as_raw_fd();
            registry.register(&mut SourceFd(&fd), token, Interest::READABLE)?;
            Ok(Clock(timer))
        }

        /// Makes the poll wake after `wait`; returns the poll's own timeout.
        pub(super) fn arm(&self, wait: Duration) -> io::Result<Option<Duration>> {
            let expiration = Expiration::OneShot(wait.max(Duration::from_nanos(1)).into());
            self.0.set(expiration, TimerSetTimeFlags::empty())?;
            Ok(None)
        }

        pub(super) fn disarm(&self) -> io::Result<()> {
            Ok(self.0.unset()?)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod clock {
    use std::io;
    use std::time::Duration;

    use mio::{Registry, Token};

    /// The poll's own timeout, which is in nanoseconds with kqueue.
    #[derive(Debug)]
    pub(super) struct Clock;

    impl Clock {
        pub(super) fn new(_registry: &Registry, _token: Token) -> io::Result<Self> {
            Ok(Clock)
        }

        pub(super) fn arm(&self, wait: Duration) -> io::Result<Option<Duration>> {
            Ok(Some(wait))
        }

        pub(super) fn disarm(&self) -> io::Result<()> {
            Ok(())
        }
    }
}

/// Ends the wait of a [`mio::Poll`] at a point in time.
#[derive(Debug)]
pub struct Timer {
    clock: clock::Clock,
    armed: Option<Instant>,
}

impl Timer {
    /// A timer for the poll of `registry`; its events carry `token` and need no treatment.
    ///
    /// # Errors
    ///
    /// The system gives no timer.
    pub fn new(registry: &mio::Registry, token: mio::Token) -> io::Result<Self> {
        Ok(Timer {
            clock: clock::Clock::new(registry, token)?,
            armed: None,
        })
    }

    /// Prepares a wait until `deadline` (for ever without one); returns the timeout to give to
    /// [`mio::Poll::poll`].
    ///
    /// # Errors
    ///
    /// The system refuses to set the timer.
    pub fn timeout(&mut self, deadline: Option<Instant>) -> io::Result<Option<Duration>> {
        let Some(deadline) = deadline else {
            if self.armed.take().is_some() {
                self.clock.disarm()?;
            }
            return Ok(None);
        };
        let wait = deadline.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return Ok(Some(Duration::ZERO));
        }
        self.armed = Some(deadline);
        self.clock.arm(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_at_its_deadline_and_not_before() {
        let mut poll = mio::Poll::new().unwrap();
        let mut timer = Timer::new(poll.registry(), mio::Token(0)).unwrap();
        let mut events = mio::Events::with_capacity(4);
        for wait in [Duration::from_micros(300), Duration::from_millis(3)] {
            let deadline = Instant::now() + wait;
            while Instant::now() < deadline {
                let timeout = timer.timeout(Some(deadline)).unwrap();
                poll.poll(&mut events, timeout).unwrap();
            }
        }
        assert_eq!(
            timer.timeout(Some(Instant::now())).unwrap(),
            Some(Duration::ZERO)
        );
        assert_eq!(timer.timeout(None).unwrap(), None);
    }
}
