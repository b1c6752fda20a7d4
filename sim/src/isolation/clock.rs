//! The virtual clock: one per thread. A thread without one has the real clock.
//!
//! quiche and BoringSSL ask the operating system for the time themselves. So this module defines
//! the C functions that they call in the end (`clock_gettime`, `gettimeofday` and `time`) and
//! answers from the thread's virtual clock. On a thread without one the kernel answers. Waiting
//! (sleep, timed locks) is not virtual: a simulation never waits.
//!
//! [`isolated`](crate::isolated) sets the clock and checks that these definitions are the ones the
//! program runs with.

pub use gallop_network::time::Time;

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Virtual monotonic time at the start of a simulation: far enough from zero that subtracting any
/// RTT or timeout from an `Instant` cannot underflow.
pub const BASE: Duration = Duration::from_secs(1_000_000);

/// Virtual wall clock at the start of a simulation: 2026-01-01 00:00:00 UTC.
pub const WALL_CLOCK_BASE: Duration = Duration::from_secs(1_767_225_600);

thread_local! {
    /// Virtual monotonic nanoseconds, [`BASE`] included; 0 means the real clock.
    static NOW: Cell<u64> = const { Cell::new(0) };
}

/// Sets this thread's clock to `now`.
pub fn set(now: Time) {
    let base = Time::from(BASE).as_nanos();
    NOW.set(base.saturating_add(now.as_nanos()));
}

/// Returns this thread to the real clock.
pub fn clear() {
    NOW.set(0);
}

/// This thread's virtual time, or `None` if it has the real clock.
#[must_use]
pub fn now() -> Option<Time> {
    let base = Time::from(BASE).as_nanos();
    NOW.get().checked_sub(base).map(Time::from_nanos)
}

/// Translates between quiche's `Instant`s and [`Time`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch(Instant);

impl Epoch {
    /// The epoch of this thread's virtual clock; `None` without one.
    pub(crate) fn of_this_thread() -> Option<Epoch> {
        let now = now()?;
        Some(Epoch(Instant::now() - Duration::from(now)))
    }

    /// The time of `instant`; an instant before the start counts as the start.
    pub(crate) fn time(self, instant: Instant) -> Time {
        Time::from(instant.saturating_duration_since(self.0))
    }

    /// The instant of `time`.
    pub(crate) fn instant(self, time: Time) -> Instant {
        self.0 + Duration::from(time)
    }
}

#[expect(
    unsafe_code,
    reason = "replacing the C library's clock needs exported symbols and raw pointers"
)]
mod overrides {
    use std::time::Duration;

    use libc::{c_int, c_void, clockid_t, time_t, timespec, timeval};

    use super::{BASE, NOW, WALL_CLOCK_BASE};

    /// The virtual reading of `clock`, if this thread has a virtual clock.
    fn reading(clock: clockid_t) -> Option<Duration> {
        let now = match NOW.get() {
            0 => return None,
            now => Duration::from_nanos(now),
        };
        match clock {
            libc::CLOCK_MONOTONIC
            | libc::CLOCK_MONOTONIC_RAW
            | libc::CLOCK_MONOTONIC_COARSE
            | libc::CLOCK_BOOTTIME => Some(now),
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => {
                Some(now.saturating_sub(BASE) + WALL_CLOCK_BASE)
            }
            // The CPU clocks measure this program, not the simulated world.
            _ => None,
        }
    }

    /// The wall clock, virtual or real.
    fn wall_clock() -> timespec {
        let mut now = timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `now` is a valid timespec to write to.
        unsafe { clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
        now
    }

    /// clock_gettime(2).
    #[unsafe(no_mangle)]
    unsafe extern "C" fn clock_gettime(clock: clockid_t, out: *mut timespec) -> c_int {
        match reading(clock) {
            Some(now) if !out.is_null() => {
                let now = timespec {
                    tv_sec: now.as_secs() as time_t,
                    tv_nsec: now.subsec_nanos().into(),
                };
                // SAFETY: the caller passes a timespec to write to; it is not null.
                unsafe { out.write(now) };
                0
            }
            // SAFETY: the kernel checks the pointer itself.
            _ => unsafe { libc::syscall(libc::SYS_clock_gettime, clock, out) as c_int },
        }
    }

    /// gettimeofday(2). The time zone is obsolete and left alone.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn gettimeofday(out: *mut timeval, _zone: *mut c_void) -> c_int {
        let now = wall_clock();
        if !out.is_null() {
            let now = timeval {
                tv_sec: now.tv_sec,
                tv_usec: now.tv_nsec / 1000,
            };
            // SAFETY: the caller passes a timeval to write to; it is not null.
            unsafe { out.write(now) };
        }
        0
    }

    /// time(2).
    #[unsafe(no_mangle)]
    unsafe extern "C" fn time(out: *mut time_t) -> time_t {
        let now = wall_clock().tv_sec;
        if !out.is_null() {
            // SAFETY: the caller passes a time_t to write to; it is not null.
            unsafe { out.write(now) };
        }
        now
    }
}
