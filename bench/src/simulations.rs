//! `gallop-bench transfer` and `gallop-bench simulator`: simulations that are measured from
//! outside, or by their CPU time.

use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use gallop::stack::quiche::Selection;
use gallop_sim::traffic::Bulk;
use gallop_sim::units::{Buffer, Rate, Size, Span, stream_bytes_per_packet};
use gallop_sim::{AckPolicy, Controller, Conversation, Dumbbell, Flow, Side, Simulation, isolated};
use serde::Serialize;

use crate::cpu;
use crate::subject::DATAGRAM_BYTES;

const SEED: u64 = 1;

/// ACKs for every second packet (RFC 9000 §13.2.2).
fn acks() -> AckPolicy {
    AckPolicy {
        every: std::num::NonZeroU32::MIN.saturating_add(1),
        ..AckPolicy::EVERY_PACKET
    }
}

/// Transfer data over a simulated path, to be run under callgrind
///
/// Prints a line of JSON with the packets that were sent.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  valgrind --tool=callgrind --collect-atstart=no '--toggle-collect=*whole_transfer*' \\
      gallop-bench transfer --cc vegas --size 20mb")]
pub struct Transfer {
    /// The controller
    #[arg(long, value_name = "NAME[:OPTIONS]")]
    cc: Selection,
    /// Stream data to send
    #[arg(long, default_value = "20000000b")]
    size: Size,
    /// The bottleneck's rate
    #[arg(long, default_value = "100mbit")]
    rate: Rate,
    /// Propagation delay there and back
    #[arg(long, default_value = "20ms")]
    rtt: Span,
    /// Buffer of the bottleneck
    #[arg(long, default_value = "200p")]
    buffer: Buffer,
}

/// The result of a transfer.
#[derive(Debug, Serialize)]
struct Transferred {
    controller: String,
    bytes: u64,
    duration_s: f64,
    /// QUIC packets of the server.
    sent_packets: u64,
    lost_packets: u64,
    /// QUIC packets of the client: nearly all ACKs.
    client_packets: u64,
}

/// Runs the command.
///
/// # Errors
///
/// The simulation fails.
pub fn transfer(arguments: &Transfer) -> Result<()> {
    let bytes = arguments
        .size
        .bytes(stream_bytes_per_packet(DATAGRAM_BYTES));
    let transferred = isolated(SEED, || {
        let path =
            Dumbbell::new(arguments.rate, arguments.rtt.into(), arguments.buffer).build(1, SEED);
        let mut simulation = Simulation::new(path.topology)?;
        let flow = simulation.add_flow(Flow {
            acks: acks(),
            conversation: Conversation::answer(Box::new(Bulk::Bytes(bytes))),
            ..Flow::new(Controller::named(arguments.cc.as_str()))
        })?;
        let end = whole_transfer(&mut simulation)?;
        let report = simulation.report(flow).unwrap_or_default();
        let client = simulation.connection(flow, Side::Client);
        Ok::<_, anyhow::Error>(Transferred {
            controller: arguments.cc.to_string(),
            bytes: report.received_bytes,
            duration_s: end,
            sent_packets: report.packets_sent,
            lost_packets: report.packets_lost,
            client_packets: client.map_or(0, |client| client.stats().sent as u64),
        })
    })??;
    println!("{}", serde_json::to_string(&transferred)?);
    Ok(())
}

/// Runs the part that is counted: both ends and the simulator between them.
#[inline(never)]
fn whole_transfer(simulation: &mut Simulation) -> Result<f64> {
    let limit = Duration::from_secs(3600);
    Ok(simulation.run_to_completion(limit)?.as_secs_f64())
}

/// Measure the speed of the simulator
///
/// Endless flows share one bottleneck of 50 Mbit/s, or of 1 Mbit/s for each flow if that is more.
/// Prints a line of JSON for each number of flows.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gallop-bench simulator --flows 1,500 --cc reno")]
pub struct Simulator {
    /// Numbers of flows
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 500])]
    flows: Vec<u32>,
    /// The controller of all flows
    #[arg(long, value_name = "NAME[:OPTIONS]", default_value = "reno")]
    cc: Selection,
    /// Simulated time
    #[arg(long, default_value = "20s")]
    duration: Span,
}

/// The speed of a simulation.
#[derive(Debug, Serialize)]
struct Speed {
    flows: u32,
    controller: String,
    rate_bps: u64,
    simulated_s: f64,
    /// QUIC packets of both ends.
    packets: u64,
    events: u64,
    cpu_s: f64,
    simulated_s_per_cpu_s: f64,
    packets_per_cpu_s: f64,
}

/// Runs the command.
///
/// # Errors
///
/// A simulation fails, or the kernel does not tell the CPU time.
pub fn simulator(arguments: &Simulator) -> Result<()> {
    for &flows in &arguments.flows {
        let speed = isolated(SEED, || speed(arguments, flows))??;
        println!("{}", serde_json::to_string(&speed)?);
    }
    Ok(())
}

fn speed(arguments: &Simulator, flows: u32) -> Result<Speed> {
    let mbit = u64::from(flows).max(50);
    let rate: Rate = format!("{mbit}mbit")
        .parse()
        .map_err(|error| anyhow!("{error}"))?;
    let buffer: Buffer = "100p".parse().map_err(|error| anyhow!("{error}"))?;
    let start = cpu::time_of_this_thread()?;
    let path = Dumbbell::new(rate, Duration::from_millis(100), buffer).build(flows as usize, SEED);
    let mut simulation = Simulation::new(path.topology)?;
    for flow in 0..flows {
        simulation.add_flow(Flow {
            acks: acks(),
            start: Duration::from_millis(10) * flow,
            ..Flow::new(Controller::named(arguments.cc.as_str()))
        })?;
    }
    simulation.run_until(arguments.duration.into())?;
    let cpu_s = (cpu::time_of_this_thread()? - start).as_secs_f64();
    let packets = (0..flows as usize)
        .flat_map(|flow| [Side::Client, Side::Server].map(|side| simulation.connection(flow, side)))
        .flatten()
        .map(|connection| connection.stats().sent as u64)
        .sum();
    let simulated_s = arguments.duration.duration().as_secs_f64();
    Ok(Speed {
        flows,
        controller: arguments.cc.to_string(),
        rate_bps: mbit * 1_000_000,
        simulated_s,
        packets,
        events: simulation.events(),
        cpu_s,
        simulated_s_per_cpu_s: simulated_s / cpu_s,
        packets_per_cpu_s: packets as f64 / cpu_s,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{Arguments, Command};

    #[test]
    fn the_last_of_a_repeated_flag_holds() {
        let line = "gallop-bench simulator --cc reno --duration 20s --cc vegas --duration 2min";
        match Arguments::try_parse_from(line.split(' ')).unwrap().command {
            Command::Simulator(arguments) => {
                assert_eq!(arguments.cc.name(), "vegas");
                assert_eq!(arguments.duration.duration(), Duration::from_secs(120));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn wrong_values_are_refused_at_their_flags() {
        for (flag, value, message) in [
            ("--cc", "vegass", "did you mean `vegas`?"),
            ("--rate", "100", "it has no unit"),
            ("--rtt", "20", "it has no unit"),
            ("--size", "1000", "it has no unit"),
        ] {
            let line = ["gallop-bench", "transfer", "--cc", "vegas", flag, value];
            let error = Arguments::try_parse_from(line).unwrap_err().to_string();
            assert!(error.contains(flag) && error.contains(message), "{error}");
        }
    }
}
