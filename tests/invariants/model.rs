//! Statements about Vegas controllers that hold whatever happens to them.
//!
//! The model keeps as much of the connection as the statements need: what is in flight, which round
//! it is, which losses one decrease stands for. It predicts no window but bounds it; the
//! clause-by-clause tests say what a decision is.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gallop::controller::{
    Ack, Controller, Loss, MAXIMUM_WINDOW_PACKETS, MINIMUM_WINDOW_PACKETS, PacketInfo, PathConfig,
    Phase, RttEstimate, SentPacket,
};
use gallop::persistent_congestion::PersistentCongestion;
use gallop::vegas::{Options, SlowStart, State, Vegas};

use crate::life::{Event, Life, Selection, Span};

/// Packets that are in flight at most; more make no new situation.
const IN_FLIGHT_LIMIT: usize = 100;

/// Datagrams of this time may leave together, and wait in the host.
const HOST_TIME: Duration = Duration::from_micros(100);

/// Lives `life` under a controller with slow start `S` and checks it all along.
///
/// # Panics
///
/// If a statement does not hold.
pub fn check<S: SlowStart>(life: &Life) {
    let epoch = Instant::now();
    let mut connection = Connection::<S>::new(life, epoch);
    // The same life at another time: nothing may depend on the clock's reading or on chance.
    let mut again = Connection::<S>::new(life, epoch + Duration::from_secs(1_000_000));
    for event in &life.events {
        connection.happen(event);
        again.happen(event);
        assert_eq!(connection.controller.state(), again.controller.state());
        assert_eq!(connection.release_time(), again.release_time());
    }
}

struct Connection<S> {
    controller: Vegas<S>,
    options: Options<S>,
    pacing: bool,
    max_datagram_size_bytes: usize,
    epoch: Instant,
    now: Instant,
    next_packet_number: u64,
    in_flight: Vec<PacketInfo>,
    bytes_in_flight: usize,
    lost: Vec<PacketInfo>,
    rtt: Option<RttEstimate>,
    round: Round,
    /// The window that has been decided upon at most; growth towards it is spread over a round.
    decided_packets: u64,
    /// The same, one decision of slow start earlier.
    decided_before_packets: u64,
    a_round_has_ended: bool,
    decrease: Option<Decrease>,
    persistent_congestion: PersistentCongestion,
    samples: Samples,
    latest_release: Option<Instant>,
    /// One spacing interval after any packet, at the latest.
    latest_spaced: Option<Instant>,
}

/// The round in progress: from a packet's sending to the acknowledgment of it or of a later one.
#[derive(Default)]
struct Round {
    first: Option<u64>,
    used: bool,
    measured: bool,
}

/// The last decrease, and its undo.
struct Decrease {
    mark: u64,
    previous_mark: Option<u64>,
    in_recovery: bool,
    undo: Option<Undo>,
}

struct Undo {
    losses: u64,
    before: State,
    /// True if nothing but losses happened since.
    at_once: bool,
}

/// The valid RTT samples.
#[derive(Default)]
struct Samples {
    smallest_of_full: Option<Duration>,
    all: BTreeSet<Duration>,
}

impl<S: SlowStart> Connection<S> {
    fn new(life: &Life, epoch: Instant) -> Self {
        let path = PathConfig {
            max_datagram_size_bytes: life.path.max_datagram_size_bytes.into(),
            initial_window_packets: life.path.initial_window_packets.into(),
            pacing: life.path.pacing,
        };
        let options = Options::parse(&life.tuning.text()).expect("options within their ranges");
        let controller = Vegas::new(options, &path);
        let window_packets = controller.state().window_packets;
        let connection = Connection {
            controller,
            options,
            pacing: path.pacing,
            max_datagram_size_bytes: path.max_datagram_size_bytes,
            epoch,
            now: epoch,
            next_packet_number: 0,
            in_flight: Vec::new(),
            bytes_in_flight: 0,
            lost: Vec::new(),
            rtt: None,
            round: Round::default(),
            decided_packets: window_packets,
            decided_before_packets: window_packets,
            a_round_has_ended: false,
            decrease: None,
            persistent_congestion: PersistentCongestion::default(),
            samples: Samples::default(),
            latest_release: None,
            latest_spaced: None,
        };
        connection.check_state();
        connection
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Fill { datagrams, waits } => self.fill(datagrams.into(), waits),
            Event::Send {
                size_bytes,
                gap,
                probe,
            } => {
                self.next_packet_number += u64::from(gap);
                let size_bytes = usize::from(size_bytes);
                if probe || self.has_room(size_bytes) {
                    self.send(size_bytes, self.now);
                }
            }
            Event::Wait(span) => self.now += span.duration(),
            Event::Ack {
                packets,
                measures_rtt,
                ack_delay,
                max_ack_delay,
            } => {
                let acked = self.take_in_flight(packets);
                self.ack(&acked, measures_rtt, ack_delay, max_ack_delay);
            }
            Event::Round { rtt } => {
                self.fill(IN_FLIGHT_LIMIT, true);
                self.now += rtt.duration();
                for _ in 0..self.in_flight.len() {
                    let acked = self.take_in_flight(Selection::OLDEST);
                    self.ack(&acked, true, Span::ZERO, Span::ZERO);
                    self.fill(IN_FLIGHT_LIMIT, false);
                }
            }
            Event::Lose(packets) => self.lose(packets),
            Event::Spurious(packets) => self.spurious(packets),
            Event::Discard(packets) => drop(self.take_in_flight(packets)),
            Event::Mtu(size_bytes) => self.mtu(size_bytes.into()),
        }
    }

    fn take_in_flight(&mut self, selection: Selection) -> Vec<PacketInfo> {
        let taken = take(&mut self.in_flight, selection);
        self.bytes_in_flight -= taken.iter().map(|packet| packet.size_bytes).sum::<usize>();
        taken
    }

    fn has_room(&self, size_bytes: usize) -> bool {
        self.in_flight.len() < IN_FLIGHT_LIMIT
            && self.bytes_in_flight + size_bytes <= self.controller.window_bytes()
    }

    fn fill(&mut self, datagrams: usize, waits: bool) {
        for _ in 0..datagrams {
            if !self.has_room(self.max_datagram_size_bytes) {
                return;
            }
            let release = self.controller.next_release_time();
            let time_sent = release.map_or(self.now, |release| release.max(self.now));
            if waits {
                self.now = time_sent;
            }
            self.send(self.max_datagram_size_bytes, time_sent);
        }
    }

    fn send(&mut self, size_bytes: usize, time_sent: Instant) {
        let before = self.controller.state();
        let packet = PacketInfo {
            packet_number: self.next_packet_number,
            time_sent,
            size_bytes,
        };
        let bytes_in_flight = self.bytes_in_flight;
        self.controller.on_packet_sent(&SentPacket {
            packet_number: packet.packet_number,
            time_sent,
            size_bytes,
            bytes_in_flight,
        });
        self.next_packet_number += 1;
        self.in_flight.push(packet);
        self.bytes_in_flight += size_bytes;

        assert_eq!(self.controller.state(), before, "sending decides nothing");
        if bytes_in_flight == 0 {
            self.round = Round::default();
            self.decided_packets = before.window_packets;
        }
        self.round.first.get_or_insert(packet.packet_number);
        let next = bytes_in_flight + size_bytes + self.max_datagram_size_bytes;
        self.round.used |= next > self.controller.window_bytes();
        if let Some(rtt) = self.rtt {
            let spacing = rtt.smoothed / before.window_packets as u32;
            let spaced = time_sent + spacing.max(HOST_TIME);
            self.latest_spaced = self.latest_spaced.max(Some(spaced));
        }
        self.check_state();
    }

    fn ack(
        &mut self,
        packets: &[PacketInfo],
        measures_rtt: bool,
        ack_delay: Span,
        max_ack_delay: Span,
    ) {
        let Some(largest) = packets.last() else {
            return;
        };
        let before = self.controller.state();
        let measured = self.now.saturating_duration_since(largest.time_sent);
        let rtt = self.estimate(measured, max_ack_delay.duration());
        let ack = Ack {
            now: self.now,
            measures_rtt,
            ack_delay: Some(ack_delay.duration()),
            rtt,
            bytes_in_flight: self.bytes_in_flight,
        };
        self.controller.on_packets_acked(&ack, packets);
        if let Some(undo) = self.undo() {
            undo.at_once = false;
        }

        for packet in packets {
            self.persistent_congestion.on_packet_acked(packet);
        }
        let sampled = measures_rtt && largest.size_bytes > 0;
        if sampled {
            self.persistent_congestion.on_rtt_sample(self.now);
            self.samples
                .add(measured, largest.size_bytes, self.max_datagram_size_bytes);
        }
        if self.persistent_congestion.take(&rtt) {
            self.check_start_anew();
        } else {
            self.check_growth(&before, largest.packet_number, sampled);
        }
        self.check_state();
    }

    /// RFC 9002 §5.3, but for the peer's delay.
    fn estimate(&mut self, measured: Duration, max_ack_delay: Duration) -> RttEstimate {
        let rtt = match self.rtt {
            None => RttEstimate {
                smoothed: measured,
                variation: measured / 2,
                max_ack_delay,
            },
            Some(rtt) => RttEstimate {
                smoothed: (rtt.smoothed * 7 + measured) / 8,
                variation: (rtt.variation * 3 + rtt.smoothed.abs_diff(measured)) / 4,
                max_ack_delay,
            },
        };
        self.rtt = Some(rtt);
        rtt
    }

    fn undo(&mut self) -> Option<&mut Undo> {
        self.decrease.as_mut()?.undo.as_mut()
    }

    /// Persistent congestion leaves the minimum window and slow start from its beginning.
    fn check_start_anew(&mut self) {
        let state = self.controller.state();
        assert_eq!(
            (state.window_packets, state.phase),
            (MINIMUM_WINDOW_PACKETS, Phase::SlowStart)
        );
        assert_eq!(
            (state.incr_packets, state.status),
            (state.incr_packets.and(Some(0)), state.status.and(Some(0)))
        );
        self.round = Round::default();
        self.decided_packets = MINIMUM_WINDOW_PACKETS;
        self.decided_before_packets = MINIMUM_WINDOW_PACKETS;
        if let Some(decrease) = &mut self.decrease {
            decrease.in_recovery = false;
            decrease.undo = None;
        }
    }

    /// The window grows only as decided, and only by a round that used the window.
    fn check_growth(&mut self, before: &State, largest_acked: u64, sampled: bool) {
        let after = self.controller.state();
        let window = after.window_packets;
        let was_in_recovery = self.decrease.as_ref().is_some_and(|last| last.in_recovery);
        if let Some(decrease) = &mut self.decrease {
            decrease.in_recovery &= largest_acked <= decrease.mark;
            assert_eq!(after.phase == Phase::Recovery, decrease.in_recovery);
        }

        let ends = self.round.first.is_some_and(|first| largest_acked >= first);
        if !ends {
            self.round.measured |= sampled;
            assert!(
                (before.window_packets..=self.decided_packets).contains(&window),
                "{before:?} became {after:?} with {} decided, amid a round",
                self.decided_packets
            );
            return;
        }
        self.a_round_has_ended = true;
        let had_sample = self.round.measured;
        let round = std::mem::take(&mut self.round);
        self.round.measured = had_sample && sampled;
        let decides = !was_in_recovery && round.used && (had_sample || sampled);
        if !decides {
            // Recovery, or a round that was limited by the application or not measured.
            assert!(
                (before.window_packets..=self.decided_packets).contains(&window),
                "{before:?} became {after:?} with {} decided, without a decision",
                self.decided_packets
            );
            self.decided_packets = window;
            return;
        }

        let decided = self.decided_packets;
        let most = match before.phase {
            Phase::SlowStart => match before.incr_packets {
                None => (2 * decided).min((2 * self.decided_before_packets).max(decided + 1)),
                Some(incr) => (decided + incr.max(1)).min(2 * decided),
            },
            Phase::CongestionAvoidance | Phase::Recovery => decided + 1,
        };
        assert!(
            window <= most,
            "{before:?} became {after:?} with {decided} decided, above {most}"
        );
        let measured = after.last_round.expect("a round ended");
        let backlog = measured.backlog_packets.round();
        if before.phase == Phase::SlowStart {
            if after.phase == Phase::SlowStart {
                assert!(
                    window >= before.window_packets,
                    "slow start does not shrink"
                );
            } else {
                assert!(after.ssthresh_bytes.is_some());
            }
        } else {
            assert_ne!(after.phase, Phase::SlowStart, "slow start is over");
            assert!(
                window + 1 >= before.window_packets,
                "one datagram per round"
            );
            if backlog < self.options.thresholds().alpha {
                assert!(window >= before.window_packets, "below α nothing shrinks");
            }
        }
        // Twice what waits in the host is no more than β, within the rounding of ∆.
        let base_rtt = after.base_rtt.unwrap_or(measured.rtt);
        let queueing = measured.rtt.saturating_sub(base_rtt);
        let is_queue = queueing > 2 * HOST_TIME + measured.rtt / window as u32;
        self.decided_before_packets = decided;
        self.decided_packets = match after.phase {
            Phase::CongestionAvoidance if backlog > self.options.thresholds().beta && is_queue => {
                window
            }
            Phase::CongestionAvoidance => most.min(window + 1),
            _ => most,
        };
    }

    fn lose(&mut self, packets: Selection) {
        let packets = self.take_in_flight(packets);
        let before = self.controller.state();
        if packets.is_empty() {
            return;
        }
        let loss = Loss {
            now: self.now,
            persistent_congestion: None,
        };
        self.controller.on_packets_lost(&loss, &packets);
        let after = self.controller.state();

        self.persistent_congestion.on_packets_lost(&loss, &packets);
        let largest_sent = self.next_packet_number.saturating_sub(1);
        let mut decreases = 0;
        for packet in &packets {
            let mark = self.decrease.as_ref().map(|decrease| decrease.mark);
            if mark.is_none_or(|mark| packet.packet_number > mark) {
                decreases += 1;
                self.decrease = Some(Decrease {
                    mark: largest_sent,
                    previous_mark: mark,
                    in_recovery: true,
                    undo: Some(Undo {
                        losses: 0,
                        before,
                        at_once: true,
                    }),
                });
            }
            let number = packet.packet_number;
            if let Some(decrease) = &mut self.decrease
                && decrease.previous_mark.is_none_or(|mark| number > mark)
                && let Some(undo) = &mut decrease.undo
            {
                undo.losses += 1;
            }
        }
        self.lost.extend(packets);
        self.lost.sort_by_key(|packet| packet.packet_number);
        assert!(decreases <= 1, "one decrease per window of losses");
        if decreases == 0 {
            assert_eq!(after, before, "the decrease for these losses has been");
            return;
        }
        let left = (before.window_packets as f64 * self.options.decrease()) as u64;
        assert_eq!(
            (after.window_packets, after.phase),
            (left.max(MINIMUM_WINDOW_PACKETS), Phase::Recovery)
        );
        assert_eq!(after.ssthresh_bytes, Some(self.controller.window_bytes()));
        self.round = Round::default();
        self.decided_packets = after.window_packets;
        self.decided_before_packets = after.window_packets;
        self.check_state();
    }

    fn spurious(&mut self, packets: Selection) {
        let packets = take(&mut self.lost, packets);
        let before = self.controller.state();
        self.controller.on_spurious_loss(self.now, &packets);
        let after = self.controller.state();

        let previous_mark = self.decrease.as_ref().and_then(|last| last.previous_mark);
        let mark = self.decrease.as_ref().map(|last| last.mark);
        let covered = |packet: &&PacketInfo| {
            mark.is_some_and(|mark| packet.packet_number <= mark)
                && previous_mark.is_none_or(|mark| packet.packet_number > mark)
        };
        let covered = packets.iter().filter(covered).count() as u64;
        let undone = self.undo().and_then(|undo| {
            undo.losses -= covered;
            (undo.losses == 0).then_some((undo.before, undo.at_once))
        });
        let Some((origin, at_once)) = undone else {
            assert_eq!(after, before, "a loss that is left is real");
            return;
        };
        // The acknowledgment that proves the loss spurious also ends an earlier recovery.
        let phase = match origin.phase {
            Phase::Recovery => Phase::CongestionAvoidance,
            phase => phase,
        };
        let window_packets = origin.window_packets.max(before.window_packets);
        assert_eq!(
            (after.window_packets, after.ssthresh_bytes, after.phase),
            (window_packets, origin.ssthresh_bytes, phase)
        );
        if at_once {
            assert_eq!(after, State { phase, ..origin });
        }
        self.decrease = previous_mark.map(|mark| Decrease {
            mark,
            previous_mark: None,
            in_recovery: false,
            undo: None,
        });
        self.round = Round::default();
        self.decided_packets = window_packets;
        self.decided_before_packets = window_packets;
        self.check_state();
    }

    fn mtu(&mut self, size_bytes: usize) {
        let before = self.controller.state();
        self.controller.on_mtu_update(size_bytes);
        let after = self.controller.state();
        let old_bytes = self.max_datagram_size_bytes;
        if size_bytes == 0 || size_bytes == old_bytes {
            assert_eq!(after, before);
            return;
        }
        self.max_datagram_size_bytes = size_bytes;
        let convert = |packets: u64| {
            let packets = packets * old_bytes as u64 / size_bytes as u64;
            packets.clamp(MINIMUM_WINDOW_PACKETS, MAXIMUM_WINDOW_PACKETS)
        };
        if !self.a_round_has_ended {
            assert_eq!(after.window_packets, before.window_packets);
        } else {
            assert_eq!(after.window_packets, convert(before.window_packets));
        }
        self.decided_packets = after.window_packets;
        self.decided_before_packets = after.window_packets;
        let keeps_bytes = self.a_round_has_ended;
        if let Some(undo) = self.undo() {
            undo.at_once = false;
            let convert = |packets| {
                if keeps_bytes {
                    convert(packets)
                } else {
                    packets
                }
            };
            undo.before.window_packets = convert(undo.before.window_packets);
            undo.before.ssthresh_bytes = undo
                .before
                .ssthresh_bytes
                .map(|bytes| convert((bytes / old_bytes) as u64) as usize * size_bytes);
        }
        self.check_state();
    }

    /// The statements that hold at any time.
    fn check_state(&self) {
        let state = self.controller.state();
        let window_bytes = self.controller.window_bytes();
        assert!(
            (MINIMUM_WINDOW_PACKETS..=MAXIMUM_WINDOW_PACKETS).contains(&state.window_packets),
            "{state:?}"
        );
        assert_eq!(
            window_bytes,
            state.window_packets as usize * self.max_datagram_size_bytes
        );
        self.samples.check(state.base_rtt);
        if let Some(round) = state.last_round {
            let limit = MAXIMUM_WINDOW_PACKETS as f64;
            assert!((0.0..=limit).contains(&round.backlog_packets), "{round:?}");
            assert!(round.expected_bps.is_finite() && round.expected_bps >= 0.0);
            assert!(round.actual_bps.is_finite() && round.actual_bps >= 0.0);
        }
        let spaces = self.pacing
            && self.rtt.is_some()
            && matches!(state.phase, Phase::CongestionAvoidance | Phase::Recovery);
        if let Some(rate) = self.controller.pacing_rate_bps() {
            assert!(spaces && rate.is_finite() && rate > 0.0, "{state:?}");
        }
    }

    /// The release time, counted from the epoch, after a look at it.
    fn release_time(&mut self) -> Option<Duration> {
        let release = self.controller.next_release_time()?;
        let phase = self.controller.state().phase;
        assert!(self.pacing && phase != Phase::SlowStart, "{phase:?}");
        assert!(
            self.latest_release.is_none_or(|latest| release >= latest),
            "release times never go back"
        );
        assert!(
            Some(release) <= self.latest_spaced,
            "no wait is longer than one interval"
        );
        self.latest_release = Some(release);
        Some(release - self.epoch)
    }
}

impl Samples {
    fn add(&mut self, rtt: Duration, size_bytes: usize, max_datagram_size_bytes: usize) {
        // A clock that did not advance measured nothing.
        if rtt.is_zero() {
            return;
        }
        if size_bytes >= max_datagram_size_bytes {
            let smallest = self.smallest_of_full.map_or(rtt, |least| least.min(rtt));
            self.smallest_of_full = Some(smallest);
        }
        self.all.insert(rtt);
    }

    /// BaseRTT is one of the samples, and none of a full datagram is below it.
    fn check(&self, base_rtt: Option<Duration>) {
        assert_eq!(base_rtt.is_some(), !self.all.is_empty());
        let Some(base_rtt) = base_rtt else { return };
        assert!(
            self.all.contains(&base_rtt),
            "{base_rtt:?} was not measured"
        );
        assert!(self.smallest_of_full.is_none_or(|full| base_rtt <= full));
    }
}

/// Takes the selected packets out.
pub fn take(packets: &mut Vec<PacketInfo>, selection: Selection) -> Vec<PacketInfo> {
    let places = selection.places(packets.len());
    let taken = places.iter().map(|&place| packets[place]).collect();
    for place in places.into_iter().rev() {
        packets.remove(place);
    }
    taken
}
