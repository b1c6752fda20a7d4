//! `gallop-bench controllers`: drives controllers over a modelled path, for callgrind to count what
//! they execute.
//!
//! All work of a case is done in [`measure`], whose parts are [`ask`], [`send`] and
//! [`acknowledge`]. callgrind is told to count in `measure` alone and to dump what it has when
//! `measure` returns: dump number n is of the n-th case that is printed.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use gallop::canter::{self, Canter};
use gallop::controller::{Controller, PathConfig};
use gallop::gallop::StableGrowth;
use gallop::vegas::{Doubling, Options, SlowStart, Vegas};
use quiche::harness::Path;
use serde::Serialize;

use crate::subject::{Alone, DATAGRAM_BYTES, Subject};

/// Drive controllers over a modelled path, to be run under callgrind
///
/// The path has a bottleneck that holds the given window. After a first loss, which ends slow
/// start, and a round to settle, one window of packets is measured, at least 1000. Prints a line of
/// JSON for each case.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  valgrind --tool=callgrind --collect-atstart=no --dump-line=no '--toggle-collect=*measure*' \\
      '--dump-after=*measure*' gallop-bench controllers --windows 10,1000 --acks 1,2")]
pub struct Arguments {
    /// Windows of the path, in packets
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 1000, 10_000])]
    windows: Vec<u64>,
    /// Packets that each ACK acknowledges
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 10])]
    acks: Vec<usize>,
}

/// The RTT of the path, without queue.
const RTT: Duration = Duration::from_millis(100);

/// The least number of packets that are measured.
const LEAST_PACKETS: u64 = 1000;

/// The number of ACKs for the rest of the first window after the loss.
const ACKS_AFTER_LOSS: usize = 10;

/// The part of the first window that is lost. quiche's CUBIC takes a decrease back if less than a
/// fifth was lost.
const LOST: f64 = 0.3;

/// The number of packets after lost ones that are acknowledged together, which shows the loss (RFC
/// 9002 §6.1.1).
const AFTER_LOSS: usize = 4;

/// The controllers, each with the part of the window that a loss leaves. The first window is larger
/// in proportion, so that about the path's window is left.
const CONTROLLERS: [(&str, f64); 6] = [
    ("reno", 0.5),
    ("cubic", 0.7),
    ("bbr2", 1.0),
    ("vegas", 0.75),
    ("gallop-vegas", 0.75),
    ("canter", 1.0),
];

/// A case, with the numbers of packets and ACKs that were measured.
#[derive(Debug, Serialize)]
struct Case {
    controller: &'static str,
    /// True without quiche around the controller.
    alone: bool,
    window_packets: u64,
    packets_per_ack: usize,
    sent_packets: u64,
    acks: u64,
}

/// Runs the command.
///
/// # Errors
///
/// quiche refuses a setting or an ACK.
pub fn run(arguments: &Arguments) -> Result<()> {
    for &window in &arguments.windows {
        for &packets_per_ack in &arguments.acks {
            for (controller, kept) in CONTROLLERS {
                let initial = (window as f64 / kept).round() as u64;
                let mut case = Case {
                    controller,
                    alone: false,
                    window_packets: window,
                    packets_per_ack,
                    sent_packets: 0,
                    acks: 0,
                };
                let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
                config.set_max_send_udp_payload_size(DATAGRAM_BYTES);
                config.set_initial_congestion_window_packets(initial as usize);
                config.set_cc_algorithm_name(controller)?;
                drive(Path::new(&config), &mut case)?;
                case.alone = true;
                match controller {
                    "vegas" => drive(alone(vegas::<Doubling>(initial)?), &mut case)?,
                    "gallop-vegas" => drive(alone(vegas::<StableGrowth>(initial)?), &mut case)?,
                    "canter" => drive(alone(canter(initial)?), &mut case)?,
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

/// A controller whose type is known to the compiler, so that nothing but the controller is counted.
fn alone<C: Controller>(controller: C) -> Alone<C> {
    Alone::new(controller, RTT)
}

fn vegas<S: SlowStart>(initial_window_packets: u64) -> Result<Vegas<S>> {
    let options = Options::parse("")?;
    Ok(Vegas::new(options, &path(initial_window_packets)))
}

fn canter(initial_window_packets: u64) -> Result<Canter> {
    let options = canter::Options::parse("")?;
    Ok(Canter::new(options, &path(initial_window_packets)))
}

fn path(initial_window_packets: u64) -> PathConfig {
    PathConfig {
        max_datagram_size_bytes: DATAGRAM_BYTES,
        initial_window_packets,
        pacing: true,
    }
}

/// Settles a subject, measures it and prints the case.
fn drive(subject: impl Subject, case: &mut Case) -> Result<()> {
    let mut connection = Connection {
        subject,
        now: Instant::now(),
        next_number: 0,
        spacing: RTT / u32::try_from(case.window_packets)?.max(1),
        under_way: VecDeque::new(),
        packets_per_ack: case.packets_per_ack,
        acks: 0,
    };
    connection.start()?;
    connection.send_packets(case.window_packets.max(LEAST_PACKETS / 10))?;
    let (sent, acks) = (connection.next_number, connection.acks);
    measure(&mut connection, case.window_packets.max(LEAST_PACKETS))?;
    case.sent_packets = connection.next_number - sent;
    case.acks = connection.acks - acks;
    println!("{}", serde_json::to_string(case)?);
    Ok(())
}

/// A sender with its path.
struct Connection<S> {
    subject: S,
    now: Instant,
    next_number: u64,
    /// The time from one packet to the next at the bottleneck.
    spacing: Duration,
    /// Packets that are not acknowledged, each with the earliest time of its acknowledgment.
    under_way: VecDeque<(u64, Instant)>,
    packets_per_ack: usize,
    acks: u64,
}

impl<S: Subject> Connection<S> {
    /// Fills the first window and loses its first packets.
    fn start(&mut self) -> Result<()> {
        while let Some(at) = ask(&mut self.subject, self.now) {
            self.send(at);
        }
        let lost = (self.under_way.len() as f64 * LOST) as usize;
        self.under_way.drain(..lost);
        self.acknowledge(AFTER_LOSS)?;
        // The rest is acknowledged by few ACKs, since quiche looks through the lost packets at
        // every ACK of the next RTT.
        let at_once = self.under_way.len().div_ceil(ACKS_AFTER_LOSS);
        while !self.under_way.is_empty() {
            self.acknowledge(at_once.min(self.under_way.len()))?;
        }
        Ok(())
    }

    /// Goes on until this many more packets have been sent.
    fn send_packets(&mut self, packets: u64) -> Result<()> {
        let end = self.next_number + packets;
        while self.next_number < end {
            let send_at = ask(&mut self.subject, self.now);
            // The last packets of a window are acknowledged by an ACK that the receiver had
            // delayed.
            let acked = self.packets_per_ack.min(self.under_way.len());
            let ack_at = acked
                .checked_sub(1)
                .filter(|_| acked == self.packets_per_ack || send_at.is_none())
                .and_then(|last| self.under_way.get(last))
                .map(|(_, at)| *at);
            match (send_at, ack_at) {
                (Some(send_at), Some(ack_at)) if ack_at < send_at => self.acknowledge(acked)?,
                (Some(send_at), _) => self.send(send_at),
                (None, _) => self.acknowledge(acked)?,
            }
        }
        Ok(())
    }

    fn send(&mut self, at: Instant) {
        self.now = at;
        send(&mut self.subject, self.next_number, at);
        let served = self
            .under_way
            .back()
            .map_or(at, |(_, last)| *last + self.spacing);
        self.under_way
            .push_back((self.next_number, served.max(at + RTT)));
        self.next_number += 1;
    }

    fn acknowledge(&mut self, packets: usize) -> Result<()> {
        let mut range = self.next_number..self.next_number;
        for (number, at) in self.under_way.drain(..packets) {
            range = range.start.min(number)..number + 1;
            self.now = self.now.max(at);
        }
        self.acks += 1;
        acknowledge(&mut self.subject, range, self.now)
    }
}

/// Runs the part that is counted.
#[inline(never)]
fn measure<S: Subject>(connection: &mut Connection<S>, packets: u64) -> Result<()> {
    black_box(connection).send_packets(black_box(packets))
}

/// Asks for the time at which the next packet may leave.
#[inline(never)]
fn ask<S: Subject>(subject: &mut S, now: Instant) -> Option<Instant> {
    black_box(subject).may_send(now)
}

/// Tells the subject of a packet that leaves.
#[inline(never)]
fn send<S: Subject>(subject: &mut S, number: u64, now: Instant) {
    black_box(subject).send(number, now);
}

/// Tells the subject of an ACK.
#[inline(never)]
fn acknowledge<S: Subject>(
    subject: &mut S,
    packets: std::ops::Range<u64>,
    now: Instant,
) -> Result<()> {
    black_box(subject).acknowledge(packets, now)
}
