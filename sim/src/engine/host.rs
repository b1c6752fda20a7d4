//! Hosts that stand still at times, because their processors have other work.

use std::collections::BTreeMap;

use gallop_network::packet::Packet;
use gallop_network::stalls::Stalls;
use gallop_network::time::Time;

/// The host of the servers of a route.
#[derive(Debug)]
pub(crate) struct Host {
    stalls: Stalls,
    /// The time at which it goes on.
    resumes_at: Option<Time>,
    /// The work that waits until then.
    waiting: Waiting,
}

/// Work that waits for a host.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Packets that have come, in order.
    pub(crate) packets: Vec<Packet>,
    /// Flows that have something to do, and true if they are to send.
    pub(crate) flows: BTreeMap<usize, bool>,
}

impl Host {
    pub(crate) fn new(stalls: Stalls) -> Host {
        Host {
            stalls,
            resumes_at: None,
            waiting: Waiting::default(),
        }
    }

    /// The work that waits, if the host stands still; and when it will go on, if nothing waited
    /// before.
    pub(crate) fn stalled(&mut self, now: Time) -> Option<(&mut Waiting, Option<Time>)> {
        let news = match self.resumes_at {
            Some(_) => None,
            None => Some(self.stalls.end(now)?),
        };
        self.resumes_at = self.resumes_at.or(news);
        Some((&mut self.waiting, news))
    }

    /// The host goes on: returns the work that waited.
    pub(crate) fn resume(&mut self) -> Waiting {
        self.resumes_at = None;
        std::mem::take(&mut self.waiting)
    }
}
