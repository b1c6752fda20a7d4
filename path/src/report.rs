//! The report of a path.

use std::fmt;
use std::time::Duration;

use gallop_network::conveyor::Conveyor;
use gallop_network::time::Time;
use serde::Serialize;

use crate::exit::ExitCounts;

/// The counters and measurements of a path.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The time that it existed.
    pub seconds: f64,
    /// From the client to the server.
    pub to_server: DirectionReport,
    /// From the server to the client.
    pub to_client: DirectionReport,
    /// The number of times that the NAT forgot its bindings.
    pub rebindings: u64,
    /// The lateness of packets.
    pub lateness: Lateness,
    /// Processor time that the path took.
    pub cpu_seconds: f64,
    /// True if its thread had real-time priority.
    pub real_time_priority: bool,
    /// The measurements of the window, if there was one and it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowReport>,
}

/// The measurements of a part of a path's time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WindowReport {
    /// From the client to the server.
    pub to_server: LinkReport,
    /// From the server to the client.
    pub to_client: LinkReport,
    /// The lateness of the packets that left in that time.
    pub lateness: Lateness,
}

/// The measurements of one direction's link. Bytes are those of IP packets, and the queue has the
/// packet that is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LinkReport {
    /// Packets that used the link.
    pub forwarded_packets: u64,
    /// Their bytes.
    pub forwarded_bytes: u64,
    /// Packets that the queue dropped.
    pub dropped_packets: u64,
    /// Mean over time of the queue.
    pub queue_mean_packets: f64,
    /// The length that the queue did not exceed for 95 % of the time.
    pub queue_p95_packets: usize,
    /// The longest that the queue was.
    pub queue_max_packets: usize,
    /// Mean time from a packet's arrival at the queue until it was sent, if there was one.
    pub queue_mean_delay_s: Option<f64>,
}

impl LinkReport {
    /// The measurements of a link until `now`.
    pub(crate) fn of(conveyor: &Conveyor, now: Time) -> LinkReport {
        let meter = conveyor.link().meter();
        LinkReport {
            forwarded_packets: meter.forwarded_packets(),
            forwarded_bytes: meter.forwarded_bytes(),
            dropped_packets: meter.drops(),
            queue_mean_packets: meter.mean_packets(now),
            queue_p95_packets: meter.p95_packets(now),
            queue_max_packets: meter.max_packets(),
            queue_mean_delay_s: meter.mean_delay(now).map(|delay| delay.as_secs_f64()),
        }
    }
}

/// The counters of one direction. Bytes are those of IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DirectionReport {
    /// Packets that came.
    pub offered_packets: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Packets that left at the other end.
    pub delivered_packets: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Packets that the queue dropped.
    pub dropped_packets: u64,
    /// Packets that the queue marked.
    pub marked_packets: u64,
    /// The longest that the queue was, the packet in service included.
    pub max_queue_packets: usize,
    /// Packets lost at random.
    pub lost_packets: u64,
    /// Packets lost in a black hole.
    pub blackholed_packets: u64,
    /// Packets that were damaged and delivered.
    pub corrupted_packets: u64,
    /// Packets for a binding that the NAT did not have.
    pub unbound_packets: u64,
    /// Packets that no router would pass on.
    pub unrouted_packets: u64,
    /// Packets that the receiver's device did not take.
    pub refused_packets: u64,
}

impl DirectionReport {
    /// Adds what the link has counted since measuring started.
    pub(crate) fn add_link(&mut self, conveyor: &Conveyor) {
        let meter = conveyor.link().meter();
        self.dropped_packets += meter.drops();
        self.marked_packets += conveyor.link().marks();
        self.max_queue_packets = self.max_queue_packets.max(meter.max_packets());
    }

    /// Adds what the link and its end have counted.
    pub(crate) fn complete(mut self, conveyor: &Conveyor, exit: ExitCounts) -> DirectionReport {
        self.add_link(conveyor);
        DirectionReport {
            lost_packets: exit.lost,
            blackholed_packets: exit.blackholed,
            corrupted_packets: exit.corrupted,
            ..self
        }
    }
}

/// The lateness of packets that left the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Lateness {
    /// The mean.
    pub mean_s: f64,
    /// The maximum.
    pub max_s: f64,
    /// Packets that were more than a millisecond late.
    pub over_1ms_packets: u64,
}

/// Collects lateness.
#[derive(Debug, Default)]
pub(crate) struct LatenessMeter {
    packets: u32,
    sum: Duration,
    max: Duration,
    over_1ms: u64,
}

impl LatenessMeter {
    /// A packet that was `due` leaves `now`.
    pub(crate) fn record(&mut self, due: Time, now: Time) {
        let late = now - due;
        self.packets = self.packets.saturating_add(1);
        self.sum += late;
        self.max = self.max.max(late);
        self.over_1ms += u64::from(late > Duration::from_millis(1));
    }

    pub(crate) fn lateness(&self) -> Lateness {
        Lateness {
            mean_s: self.sum.as_secs_f64() / f64::from(self.packets.max(1)),
            max_s: self.max.as_secs_f64(),
            over_1ms_packets: self.over_1ms,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "path: {:.1} s, {:.2} s of processor time",
            self.seconds, self.cpu_seconds
        )?;
        for (name, direction) in [
            ("to server", &self.to_server),
            ("to client", &self.to_client),
        ] {
            writeln!(f, "{name}: {direction}")?;
        }
        if self.rebindings > 0 {
            writeln!(f, "rebindings: {}", self.rebindings)?;
        }
        let Lateness {
            mean_s,
            max_s,
            over_1ms_packets,
        } = self.lateness;
        let priority = match self.real_time_priority {
            true => "",
            false => ", without real-time priority",
        };
        write!(
            f,
            "lateness: mean {:.0} µs, at most {:.1} ms, {over_1ms_packets} packets over 1 ms{priority}",
            mean_s * 1e6,
            max_s * 1e3,
        )
    }
}

impl fmt::Display for DirectionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} packets ({} of {} bytes), queue at most {}",
            self.delivered_packets,
            self.offered_packets,
            self.delivered_bytes,
            self.offered_bytes,
            self.max_queue_packets,
        )?;
        for (count, what) in [
            (self.dropped_packets, "dropped"),
            (self.marked_packets, "marked"),
            (self.lost_packets, "lost"),
            (self.blackholed_packets, "blackholed"),
            (self.corrupted_packets, "corrupted"),
            (self.unbound_packets, "unbound"),
            (self.unrouted_packets, "unrouted"),
            (self.refused_packets, "refused"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}
