//! The invariants of a connection, checked after every action of its server.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::{Duration, Instant};

use gallop_network::packet::Side;
use gallop_network::time::Time;

use crate::engine::flow::{Observation, Observer};

/// An invariant that does not hold.
#[derive(Clone, Debug)]
pub(super) struct Violation {
    pub(super) time: Time,
    pub(super) flow: usize,
    pub(super) controller: String,
    pub(super) what: String,
}

/// The first violation of a run, and the number of checks.
#[derive(Debug, Default)]
pub(super) struct Violations {
    first: Rc<RefCell<Option<Violation>>>,
    checks: Rc<Cell<u64>>,
}

impl Violations {
    pub(super) fn take(&self) -> Option<Violation> {
        self.first.borrow_mut().take()
    }

    pub(super) fn checks(&self) -> u64 {
        self.checks.get()
    }

    /// Watches a flow.
    pub(super) fn observer(&self, flow: usize, controller: &str) -> Observer {
        let (first, checks) = (Rc::clone(&self.first), Rc::clone(&self.checks));
        let controller = controller.to_owned();
        let mut seen = None;
        Box::new(move |observation: Observation<'_>| {
            let Some(now) = look(&observation, &controller) else {
                return;
            };
            checks.set(checks.get() + 1);
            if let Err(what) = now.check(seen.as_ref()) {
                first.borrow_mut().get_or_insert_with(|| Violation {
                    time: observation.time,
                    flow,
                    controller: controller.clone(),
                    what,
                });
            }
            seen = Some(now.after(seen.take()));
        })
    }
}

/// Smallest and largest window (RFC 9002 §7.2; quiche's limit), in datagrams of the smallest and
/// the largest size.
const WINDOW_BYTES: RangeInclusive<usize> = 2 * 1200..=(1 << 20) * 1350;

/// Values of the active path of a server.
#[derive(Debug)]
struct Look {
    path: (SocketAddr, SocketAddr),
    now: Instant,
    window_bytes: usize,
    longest_rtt: Option<Duration>,
    /// Values of our controllers alone.
    ours: Option<Figures>,
}

/// Figures of our controllers.
#[derive(Debug, Default)]
struct Figures {
    release: Option<Instant>,
    /// The latest release until now.
    latest_release: Option<Instant>,
    base_rtt_ms: Option<f64>,
    /// True if BaseRTT was that of small packets, until there was a full one.
    base_rtt_rose: bool,
    backlog_packets: f64,
    nonsense: Option<(&'static str, f64)>,
}

fn look(observation: &Observation<'_>, controller: &str) -> Option<Look> {
    if observation.side == Side::Client {
        return None;
    }
    let connection = observation.connection;
    let path = connection.path_stats().find(|path| path.active)?;
    let ours = connection
        .congestion_controller()
        .filter(|_| controller.contains("vegas") || controller.starts_with("canter"));
    Some(Look {
        path: (path.local_addr, path.peer_addr),
        now: Instant::now(),
        window_bytes: path.cwnd,
        longest_rtt: path.max_rtt,
        ours: ours.map(|controller| {
            let mut figures = Figures {
                release: controller.next_release_time(),
                ..Figures::default()
            };
            controller.metrics(&mut |name, value| figures.take(name, value));
            figures
        }),
    })
}

impl Figures {
    fn take(&mut self, name: &'static str, value: f64) {
        if !value.is_finite() || value < 0.0 {
            self.nonsense = Some((name, value));
        }
        match name {
            "vegas_base_rtt_ms" => self.base_rtt_ms = Some(value),
            "vegas_backlog_packets" => self.backlog_packets = value,
            _ => {}
        }
    }
}

impl Look {
    /// Compares the values with the invariants and with the check before.
    fn check(&self, before: Option<&Look>) -> Result<(), String> {
        let window_bytes = self.window_bytes;
        if !WINDOW_BYTES.contains(&window_bytes) && self.ours.is_some() {
            return Err(format!("a window of {window_bytes} bytes"));
        }
        let Some(ours) = &self.ours else {
            return Ok(());
        };
        if let Some((name, value)) = ours.nonsense {
            return Err(format!("{name} is {value}"));
        }
        if let (Some(release), Some(longest)) = (ours.release, self.longest_rtt)
            && release > self.now + longest
        {
            let held = release - self.now;
            return Err(format!("held for {held:?}; the longest RTT is {longest:?}"));
        }
        let same_path = before.filter(|before| before.path == self.path);
        let Some(before) = same_path.and_then(|before| before.ours.as_ref()) else {
            return Ok(());
        };
        if ours.release.is_some() && ours.release < before.latest_release {
            return Err("a release time went back".to_owned());
        }
        match (before.base_rtt_ms, ours.base_rtt_ms) {
            (Some(old), None) => Err(format!("BaseRTT of {old} ms was forgotten")),
            (Some(old), Some(new)) if new > old && before.base_rtt_rose => {
                Err(format!("BaseRTT rose from {old} to {new} ms"))
            }
            _ => Ok(()),
        }
    }

    /// Values to compare at the next check.
    fn after(mut self, before: Option<Look>) -> Look {
        let same_path = before.filter(|before| before.path == self.path);
        if let Some(ours) = &mut self.ours {
            let before = same_path.and_then(|before| before.ours);
            let before = before.unwrap_or_default();
            ours.latest_release = ours.release.max(before.latest_release);
            let rose = before.base_rtt_ms.is_some() && ours.base_rtt_ms > before.base_rtt_ms;
            ours.base_rtt_rose = before.base_rtt_rose || rose;
        }
        self
    }
}
