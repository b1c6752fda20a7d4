//! The path's self-check: flows of datagrams see the rate, delay, buffer and errors of the
//! settings.

mod flow;

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use gallop_network::queue::QueueSpec;
use gallop_network::units::{Buffer, Rate};
use serde::Serialize;

use crate::settings::{Blackhole, Direction, Errors, Rebinding, Rebound};
use crate::{Path, PathError, Settings};
use flow::{Flow, Observed};

/// The relative tolerance of a measurement.
const TOLERANCE: f64 = 0.02;

/// Standard deviations around the mean of a binomial distribution that hold 999 of 1000 samples.
const DEVIATIONS: f64 = 3.3;

/// IP packets of full flows.
const FULL_PACKET_BYTES: u64 = 1500;

/// A measurement beside its expected value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurement {
    /// Its name.
    pub name: &'static str,
    /// Its unit; empty for a count.
    pub unit: &'static str,
    /// The expected value.
    pub expected: f64,
    /// The measured value.
    pub measured: f64,
    /// The least value that passes.
    pub low: f64,
    /// The largest value that passes.
    pub high: f64,
    /// True if it passes.
    pub good: bool,
}

impl Measurement {
    /// A measurement that passes within [`TOLERANCE`].
    fn near(name: &'static str, unit: &'static str, expected: f64, measured: f64) -> Measurement {
        let margin = expected.abs() * TOLERANCE;
        Measurement::within(name, unit, expected, measured, margin)
    }

    fn within(
        name: &'static str,
        unit: &'static str,
        expected: f64,
        measured: f64,
        margin: f64,
    ) -> Measurement {
        let (low, high) = (expected - margin, expected + margin);
        Measurement {
            name,
            unit,
            expected,
            measured,
            low,
            high,
            good: (low..=high).contains(&measured),
        }
    }

    /// Right if it is the same number.
    fn exactly(name: &'static str, expected: usize, measured: usize) -> Measurement {
        Measurement::within(name, "", expected as f64, measured as f64, 0.0)
    }

    /// Right if `hits` of `trials` are plausible.
    fn binomial(name: &'static str, probability: f64, trials: usize, hits: usize) -> Measurement {
        let expected = probability * trials as f64;
        let deviation = (expected * (1.0 - probability)).sqrt();
        Measurement::within(name, "", expected, hits as f64, DEVIATIONS * deviation)
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.good {
            true => "good",
            false => "WRONG",
        };
        write!(
            f,
            "{:<34} {:>11.3} {:<6} asked for {:>11.3}, right from {:.3} to {:.3}: {verdict}",
            self.name, self.measured, self.unit, self.expected, self.low, self.high,
        )
    }
}

/// Checks all, and tells `seen` about every measurement as it comes. It takes some ten seconds.
///
/// # Errors
/// There is no path.
pub fn run(mut seen: impl FnMut(&Measurement)) -> Result<Vec<Measurement>, PathError> {
    let mut all = Vec::new();
    for check in [
        idle,
        idle_ipv6,
        overload,
        overload_back,
        loss,
        blackhole,
        corruption,
        rebinding,
    ] {
        let measurements = check()?;
        measurements.iter().for_each(&mut seen);
        all.extend(measurements);
    }
    Ok(all)
}

type Checked = Result<Vec<Measurement>, PathError>;

/// A direction that drops nothing, even if the sender had to catch up.
fn roomy() -> Direction {
    Direction {
        queue: packets(10_000),
        ..Direction::default()
    }
}

fn packets(count: u64) -> QueueSpec {
    QueueSpec::drop_tail(Buffer::Packets(
        NonZeroU64::new(count).unwrap_or(NonZeroU64::MIN),
    ))
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// The time that the default link takes for a full packet.
fn service() -> Duration {
    Direction::default().rate.time_to_send(FULL_PACKET_BYTES)
}

/// A slow flow: the delay of an empty path.
fn idle() -> Checked {
    idle_delay("delay of an empty path", false)
}

fn idle_ipv6() -> Checked {
    idle_delay("delay of an empty path, IPv6", true)
}

fn idle_delay(name: &'static str, ipv6: bool) -> Checked {
    let settings = Settings::default();
    let (observed, _) = observe(
        &settings,
        &Flow {
            ipv6,
            spacing: Duration::from_millis(5),
            count: 150,
            ..Flow::default()
        },
    )?;
    let expected = settings.to_server.delay + service();
    let measured = observed.median_delay(0);
    Ok(vec![Measurement::near(
        name,
        "ms",
        milliseconds(expected),
        milliseconds(measured),
    )])
}

/// Twice the rate: the rate, a full buffer, and drops.
fn overload() -> Checked {
    let names = ["rate", "delay of 100 packets", "drops"];
    full_buffer(names, Flow::default())
}

/// The same from server to client.
fn overload_back() -> Checked {
    let names = [
        "rate, to the client, IPv6",
        "delay of 100 packets, to the client",
        "drops, to the client",
    ];
    let (ipv6, to_client) = (true, true);
    full_buffer(
        names,
        Flow {
            ipv6,
            to_client,
            ..Flow::default()
        },
    )
}

fn full_buffer(names: [&'static str; 3], flow: Flow) -> Checked {
    const BUFFER: u64 = 100;
    let settings = Settings::symmetric(Direction {
        queue: packets(BUFFER),
        ..Direction::default()
    });
    let flow = Flow {
        spacing: service() / 2,
        count: 4000,
        ..flow
    };
    let (observed, dropped) = observe(&settings, &flow)?;
    let [rate, delay, drops] = names;

    // Until the buffer is full and the flow steady, twice as many as fit.
    let settled = 2 * BUFFER as usize;
    let empty = settings.to_server.delay + service();
    let waiting = observed.median_delay(settled).saturating_sub(empty);
    let buffer = settings
        .to_server
        .rate
        .time_to_send(BUFFER * FULL_PACKET_BYTES);

    // All that was sent, but what the link could send meanwhile and what the buffer and the link
    // hold at the end.
    let sent_meanwhile = observed.sending_time().as_secs_f64() / service().as_secs_f64();
    let expected_drops = f64::from(flow.count) - sent_meanwhile - (BUFFER + 1) as f64;
    let mbit = Rate::MEGABIT.bps() as f64;
    Ok(vec![
        Measurement::near(
            rate,
            "Mbit/s",
            settings.to_server.rate.bps() as f64 / mbit,
            observed.rate_bps(FULL_PACKET_BYTES) / mbit,
        ),
        Measurement::near(delay, "ms", milliseconds(buffer), milliseconds(waiting)),
        Measurement::near(drops, "", expected_drops, dropped as f64),
    ])
}

/// Random loss.
fn loss() -> Checked {
    let probability = 0.1;
    let loss = Some(Errors {
        probability,
        burst: None,
    });
    let settings = Settings::symmetric(Direction { loss, ..roomy() });
    let flow = Flow::small();
    let (observed, _) = observe(&settings, &flow)?;
    let count = flow.count as usize;
    let lost = count - observed.arrivals.len();
    Ok(vec![Measurement::binomial(
        "random losses",
        probability,
        count,
        lost,
    )])
}

/// A black hole that opens twice.
fn blackhole() -> Checked {
    let hole = Blackhole {
        on: Duration::from_millis(800),
        off: Duration::from_millis(400),
        times: 2,
    };
    let settings = Settings::symmetric(Direction {
        blackhole: Some(hole),
        ..roomy()
    });
    let spacing = Duration::from_millis(2);
    let count = 1400;
    let flow = Flow {
        spacing,
        count,
        ..Flow::small()
    };
    let (observed, _) = observe(&settings, &flow)?;
    let gaps = observed.gaps(hole.off / 2);
    let mut measurements = vec![Measurement::exactly("black holes", 2, gaps.len())];
    if let Some(&(start, end)) = gaps.first() {
        // Time counts from when the first packet comes, but is seen from when it leaves; arrivals
        // are one spacing apart even without a hole.
        let wire_bytes = flow.wire_bytes();
        let empty = settings.to_server.delay + settings.to_server.rate.time_to_send(wire_bytes);
        let on = milliseconds(hole.on.saturating_sub(empty));
        let off = end.saturating_sub(start).saturating_sub(spacing);
        measurements.extend([
            Measurement::near("time before the black hole", "ms", on, milliseconds(start)),
            Measurement::near(
                "time of the black hole",
                "ms",
                milliseconds(hole.off),
                milliseconds(off),
            ),
        ]);
    }
    Ok(measurements)
}

/// Damage that reaches the endpoint.
fn corruption() -> Checked {
    let probability = 0.3;
    let corruption = Some(Errors {
        probability,
        burst: None,
    });
    let settings = Settings::symmetric(Direction {
        corruption,
        ..roomy()
    });
    let flow = Flow::small();
    let (observed, _) = observe(&settings, &flow)?;
    let count = flow.count as usize;
    let arrived = observed.arrivals.len() + observed.damaged;
    Ok(vec![
        Measurement::exactly("datagrams that arrive", count, arrived),
        Measurement::binomial("damaged datagrams", probability, count, observed.damaged),
    ])
}

/// A NAT that forgets: how many ends of the client the server sees.
fn rebinding() -> Checked {
    let mut measurements = Vec::new();
    for (name, what, ipv6) in [
        ("ports after two rebindings", Rebound::Port, false),
        ("addresses after two rebindings", Rebound::Address, true),
    ] {
        let first = Duration::from_millis(200);
        let every = Some(first);
        let rebinding = Some(Rebinding { what, first, every });
        let settings = Settings {
            rebinding,
            ..Settings::default()
        };
        let flow = Flow {
            ipv6,
            spacing: Duration::from_millis(5),
            count: 108,
            ..Flow::small()
        };
        let (observed, _) = observe(&settings, &flow)?;
        let ends = observed.arrivals.iter().map(|arrival| arrival.from);
        let seen = match what {
            Rebound::Port => ends.map(|end| end.port()).collect::<BTreeSet<_>>().len(),
            Rebound::Address => ends.map(|end| end.ip()).collect::<BTreeSet<_>>().len(),
        };
        measurements.push(Measurement::exactly(name, 3, seen));
    }
    Ok(measurements)
}

/// Sends `flow` over a path; returns what is seen of it, and the packets that the queue dropped.
fn observe(settings: &Settings, flow: &Flow) -> Result<(Observed, u64), PathError> {
    let path = Path::start(settings)?;
    let observed = flow.run(&path)?;
    let report = path.stop()?;
    let direction = match flow.to_client {
        true => report.to_client,
        false => report.to_server,
    };
    Ok((observed, direction.dropped_packets))
}
