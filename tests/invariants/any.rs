//! Statements that hold of every controller of the catalogue, as it is behind an adapter.

use std::time::{Duration, Instant};

use gallop::catalog::CATALOG;
use gallop::controller::{
    Ack, CongestionMarks, Controller, Loss, MAXIMUM_WINDOW_PACKETS, MINIMUM_WINDOW_PACKETS,
    PacketInfo, PathConfig, RttEstimate, SentPacket, Unit,
};

use crate::life::{Event, Life, Selection, Span};

/// The document with the diagram of canter's phases.
const CANTER: &str = include_str!("../../docs/canter.md");

/// Lives `life` under every controller with its default options, and with the ones that lie far
/// from them.
///
/// # Panics
///
/// If a statement does not hold.
pub fn check(life: &Life) {
    let others = [
        "",
        "compete=on",
        "alpha=0.5,beta=0.5,loss=strict,initial_window=2",
        "delta=0.004,compete=on",
        "hystart=off",
    ];
    for entry in CATALOG {
        let algorithms = others.iter().filter_map(|text| entry.algorithm(text).ok());
        for algorithm in algorithms {
            let path = PathConfig {
                max_datagram_size_bytes: life.path.max_datagram_size_bytes.into(),
                initial_window_packets: life.path.initial_window_packets.into(),
                pacing: life.path.pacing,
            };
            let epoch = Instant::now();
            let mut connection = Connection::new(entry.name, algorithm.build(&path), &path, epoch);
            // The same life at another time: nothing may depend on the clock's reading.
            let elsewhere = epoch + Duration::from_secs(1_000_000);
            let mut again = Connection::new(entry.name, algorithm.build(&path), &path, elsewhere);
            for event in &life.events {
                connection.happen(event);
                again.happen(event);
                assert_eq!(connection.answers(), again.answers(), "{algorithm}");
            }
        }
    }
}

struct Connection {
    name: &'static str,
    controller: Box<dyn Controller>,
    max_datagram_size_bytes: usize,
    epoch: Instant,
    now: Instant,
    next_packet_number: u64,
    in_flight: Vec<PacketInfo>,
    lost: Vec<PacketInfo>,
    smoothed: Option<Duration>,
}

impl Connection {
    fn new(
        name: &'static str,
        controller: Box<dyn Controller>,
        path: &PathConfig,
        epoch: Instant,
    ) -> Connection {
        Connection {
            name,
            controller,
            max_datagram_size_bytes: path.max_datagram_size_bytes,
            epoch,
            now: epoch,
            next_packet_number: 0,
            in_flight: Vec::new(),
            lost: Vec::new(),
            smoothed: None,
        }
    }

    fn bytes_in_flight(&self) -> usize {
        self.in_flight.iter().map(|packet| packet.size_bytes).sum()
    }

    fn happen(&mut self, event: &Event) {
        let before = self.controller.phase_name();
        match *event {
            Event::Fill { datagrams, .. } => self.fill(datagrams.into()),
            Event::Send {
                size_bytes, gap, ..
            } => {
                self.next_packet_number += u64::from(gap);
                self.send(size_bytes.into());
            }
            Event::Wait(span) => self.now += span.duration(),
            Event::Ack {
                packets,
                measures_rtt,
                ack_delay,
                max_ack_delay,
            } => self.ack(packets, measures_rtt, Some(ack_delay), max_ack_delay),
            Event::Round { rtt } => {
                self.fill(100);
                self.now += rtt.duration();
                self.ack(Selection::ALL, true, None, Span::ZERO);
            }
            Event::Lose(packets) => self.lose(packets),
            Event::Spurious(packets) => {
                let packets = crate::model::take(&mut self.lost, packets);
                if !packets.is_empty() {
                    self.controller.on_spurious_loss(self.now, &packets);
                }
            }
            Event::Discard(packets) => {
                let packets = crate::model::take(&mut self.in_flight, packets);
                let bytes = packets.iter().map(|packet| packet.size_bytes).sum();
                self.controller.on_packets_discarded(bytes);
            }
            Event::Mtu(size_bytes) => {
                self.controller.on_mtu_update(size_bytes.into());
                if size_bytes > 0 {
                    self.max_datagram_size_bytes = size_bytes.into();
                }
            }
        }
        self.check();
        self.check_transition(before);
    }

    /// Canter's phases follow one another as its document draws it. Recovery may come in all of them.
    fn check_transition(&self, before: &'static str) {
        let after = self.controller.phase_name();
        if self.name == "canter" && before != after && ![before, after].contains(&"recovery") {
            let transition = format!("{before} --> {after}:");
            assert!(
                CANTER.contains(&transition),
                "{transition} {:?}",
                self.controller
            );
        }
    }

    fn fill(&mut self, datagrams: usize) {
        for _ in 0..datagrams {
            let room = self.controller.window_bytes()
                - self.controller.window_bytes().min(self.bytes_in_flight());
            if room < self.max_datagram_size_bytes || self.in_flight.len() >= 100 {
                self.controller.on_cwnd_limited(self.now);
                return;
            }
            self.send(self.max_datagram_size_bytes);
        }
    }

    fn send(&mut self, size_bytes: usize) {
        let answers = self.answers_but_release();
        let release = self.controller.next_release_time();
        let packet = PacketInfo {
            packet_number: self.next_packet_number,
            time_sent: release.map_or(self.now, |release| release.max(self.now)),
            size_bytes,
        };
        self.controller.on_packet_sent(&SentPacket {
            packet_number: packet.packet_number,
            time_sent: packet.time_sent,
            size_bytes,
            bytes_in_flight: self.bytes_in_flight(),
        });
        assert_eq!(
            self.answers_but_release(),
            answers,
            "sending decides nothing"
        );
        self.next_packet_number += 1;
        self.in_flight.push(packet);
    }

    fn ack(
        &mut self,
        packets: Selection,
        measures_rtt: bool,
        ack_delay: Option<Span>,
        max_ack_delay: Span,
    ) {
        let bytes_in_flight = self.bytes_in_flight();
        let packets = crate::model::take(&mut self.in_flight, packets);
        let Some(largest) = packets.last() else {
            return;
        };
        let measured = self.now.saturating_duration_since(largest.time_sent);
        let smoothed = match self.smoothed {
            Some(smoothed) => (smoothed * 7 + measured) / 8,
            None => measured,
        };
        self.smoothed = Some(smoothed);
        let ack = Ack {
            now: self.now,
            measures_rtt,
            ack_delay: ack_delay.map(Span::duration),
            rtt: RttEstimate {
                smoothed,
                variation: smoothed / 4,
                max_ack_delay: max_ack_delay.duration(),
            },
            bytes_in_flight,
        };
        let (phase, window) = self.phase();
        self.controller.on_packets_acked(&ack, &packets);
        self.check_phases((phase, window), packets.len() as f64);
    }

    /// The phase, and the window in datagrams.
    fn phase(&self) -> (&'static str, f64) {
        let window = self.controller.window_bytes() / self.max_datagram_size_bytes;
        (self.controller.phase_name(), window as f64)
    }

    /// Canter's phases hold the window to these limits when `acked` packets are acknowledged.
    fn check_phases(&self, before: (&str, f64), acked: f64) {
        if self.name != "canter" {
            return;
        }
        let (phase, window) = self.phase();
        // Windows are whole here, and may be of a part of a packet more inside.
        let whole = 1.0;
        let most = match (before.0, phase) {
            ("startup", "startup") => before.1 + 2.0 * acked + whole,
            ("check", "check") | ("recovery", "recovery") => before.1,
            ("cruise" | "probe", "check") => (before.1 / 2.0 + whole).max(4.0),
            ("cruise" | "probe", "probe") => 1.5 * before.1 + whole,
            _ => f64::INFINITY,
        };
        assert!(
            window <= most,
            "{before:?}, then {phase} {window}: {:?}",
            self.controller
        );
    }

    /// Loses packets, or has some of them marked.
    fn lose(&mut self, selection: Selection) {
        let largest_acked = self.next_packet_number.saturating_sub(1);
        if selection.skip == 20 {
            self.controller.on_congestion_marks(&CongestionMarks {
                now: self.now,
                packets: 1,
                largest_acked,
            });
            return;
        }
        let packets = crate::model::take(&mut self.in_flight, selection);
        if packets.is_empty() {
            return;
        }
        let window = self.controller.window_bytes();
        let loss = Loss {
            now: self.now,
            persistent_congestion: match selection.step {
                1 => None,
                2 => Some(false),
                _ => Some(true),
            },
        };
        self.controller.on_packets_lost(&loss, &packets);
        assert!(
            self.controller.window_bytes() <= window,
            "a loss grows nothing"
        );
        if loss.persistent_congestion == Some(true) {
            let least = MINIMUM_WINDOW_PACKETS as usize * self.max_datagram_size_bytes;
            assert_eq!(self.controller.window_bytes(), least, "RFC 9002 §7.6.2");
        }
        self.lost.extend(packets);
        self.lost.sort_by_key(|packet| packet.packet_number);
    }

    fn check(&self) {
        let window = self.controller.window_bytes();
        let datagram = self.max_datagram_size_bytes;
        assert_eq!(window % datagram, 0, "{:?}", self.controller);
        let packets = (window / datagram) as u64;
        let limits = MINIMUM_WINDOW_PACKETS..=MAXIMUM_WINDOW_PACKETS;
        assert!(limits.contains(&packets), "{:?}", self.controller);
        let rate = self.controller.pacing_rate_bps();
        assert!(rate.is_none_or(|rate| rate.is_finite() && rate >= 0.0));
        self.controller.figures(&mut |figure| {
            assert!(figure.value.is_finite(), "{figure:?}");
            assert!(figure.name.ends_with(figure.unit.suffix()), "{figure:?}");
            if figure.unit == Unit::One {
                let units = [Unit::Milliseconds, Unit::BitsPerSecond, Unit::Packets];
                assert!(
                    units
                        .iter()
                        .all(|unit| !figure.name.ends_with(unit.suffix()))
                );
            }
        });
    }

    /// Every answer, with times counted from the epoch.
    fn answers(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let release = self.controller.next_release_time();
        (
            release.map(|at| at.saturating_duration_since(self.epoch)),
            self.answers_but_release(),
        )
    }

    fn answers_but_release(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let mut figures = Vec::new();
        self.controller.figures(&mut |figure| figures.push(figure));
        (
            self.controller.window_bytes(),
            self.controller.ssthresh_bytes(),
            self.controller.pacing_rate_bps(),
            self.controller.burst_bytes(),
            self.controller.phase_name(),
            figures,
        )
    }
}
