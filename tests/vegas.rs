//! Vegas clause by clause (Brakmo et al. 1994 §3) and on the events that a QUIC path brings.

use std::time::{Duration, Instant};

use gallop::controller::{
    Ack, CongestionMarks, Controller, Loss, PacketInfo, PathConfig, Phase, RttEstimate, SentPacket,
};
use gallop::gallop::StableGrowth;
use gallop::vegas::{Doubling, Options, SlowStart, Vegas};

const MDS: usize = 1200;
const BASE_RTT: Duration = Duration::from_millis(100);

/// A controller and the packets that are in flight under it.
struct Script<S> {
    vegas: Vegas<S>,
    now: Instant,
    next: u64,
    in_flight: Vec<PacketInfo>,
    ack_delay: Option<Duration>,
    measures_rtt: bool,
    max_ack_delay: Duration,
}

impl<S: SlowStart> Script<S> {
    fn new(options: &str, initial_window_packets: u64) -> Self {
        let config = PathConfig {
            max_datagram_size_bytes: MDS,
            initial_window_packets,
            pacing: true,
        };
        let options = Options::parse(options).expect("valid options");
        Script {
            vegas: Vegas::new(options, &config),
            now: Instant::now(),
            next: 0,
            in_flight: Vec::new(),
            ack_delay: None,
            measures_rtt: true,
            max_ack_delay: Duration::from_millis(25),
        }
    }

    fn wait(&mut self, duration: Duration) -> &mut Self {
        self.now += duration;
        self
    }

    fn send_sized(&mut self, size_bytes: usize) -> u64 {
        let packet = PacketInfo {
            packet_number: self.next,
            time_sent: self.now,
            size_bytes,
        };
        self.vegas.on_packet_sent(&SentPacket {
            packet_number: packet.packet_number,
            time_sent: packet.time_sent,
            size_bytes,
            bytes_in_flight: self.in_flight.iter().map(|packet| packet.size_bytes).sum(),
        });
        self.in_flight.push(packet);
        self.next += 1;
        packet.packet_number
    }

    /// Sends full datagrams until the window is full.
    fn fill(&mut self) -> &mut Self {
        while (self.in_flight.len() + 1) * MDS <= self.vegas.window_bytes() {
            self.send_sized(MDS);
        }
        self
    }

    fn take(&mut self, numbers: &[u64]) -> Vec<PacketInfo> {
        let wanted = |packet: &PacketInfo| numbers.contains(&packet.packet_number);
        let taken = self.in_flight.iter().copied().filter(wanted).collect();
        self.in_flight.retain(|packet| !wanted(packet));
        taken
    }

    /// One ACK frame for these packets.
    fn ack(&mut self, numbers: &[u64]) -> &mut Self {
        let packets = self.take(numbers);
        let ack = Ack {
            now: self.now,
            measures_rtt: self.measures_rtt,
            ack_delay: self.ack_delay,
            rtt: RttEstimate {
                smoothed: BASE_RTT,
                variation: Duration::ZERO,
                max_ack_delay: self.max_ack_delay,
            },
            bytes_in_flight: 0,
        };
        self.vegas.on_packets_acked(&ack, &packets);
        self
    }

    fn lose(&mut self, numbers: &[u64]) -> Vec<PacketInfo> {
        let packets = self.take(numbers);
        let loss = Loss {
            now: self.now,
            persistent_congestion: None,
        };
        self.vegas.on_packets_lost(&loss, &packets);
        packets
    }

    fn spurious(&mut self, packets: &[PacketInfo]) {
        self.vegas.on_spurious_loss(self.now, packets);
    }

    /// One round: the window is filled, and after `rtt` every packet is acknowledged by itself.
    fn round(&mut self, rtt: Duration) -> &mut Self {
        self.fill();
        self.wait(rtt);
        let numbers: Vec<u64> = self
            .in_flight
            .iter()
            .map(|packet| packet.packet_number)
            .collect();
        for number in numbers {
            self.ack(&[number]);
            self.fill();
        }
        self
    }

    fn rounds(&mut self, count: usize, rtt: Duration) -> &mut Self {
        for _ in 0..count {
            self.round(rtt);
        }
        self
    }

    /// Rounds until stable growth is over, which none of these tests needs many for.
    fn leave_stable_growth(&mut self, rtt: Duration) {
        for _ in 0..100 {
            if self.phase() != Phase::SlowStart {
                return;
            }
            self.round(rtt);
        }
        panic!("stable growth goes on");
    }

    fn window(&self) -> u64 {
        self.vegas.state().window_packets
    }

    fn phase(&self) -> Phase {
        self.vegas.state().phase
    }

    /// A controller in congestion avoidance, by a loss in slow start that is over.
    ///
    /// The window is 3/4 of `before`, BaseRTT is 100 ms, and a round without backlog has begun.
    fn avoiding(options: &str, before: u64) -> Self {
        let mut script = Self::new(options, before);
        script.fill().wait(BASE_RTT).lose(&[0]);
        script.round(Duration::ZERO).round(BASE_RTT);
        assert_eq!(script.phase(), Phase::CongestionAvoidance);
        assert_eq!(script.window(), before * 3 / 4);
        script
    }
}

/// The RTT at which a window of this many packets has this backlog over BaseRTT.
fn rtt_for(window: u64, backlog: f64) -> Duration {
    // ∆ = W · (D − d) / D, so D = d · W / (W − ∆).
    BASE_RTT.mul_f64(window as f64 / (window as f64 - backlog))
}

// Brakmo et al. 1994 §3.1: accurate RTTs.

#[test]
fn every_packet_is_timed_by_itself() {
    let mut script = Script::<Doubling>::new("", 10);
    script.send_sized(MDS);
    script.wait(Duration::from_micros(400)).send_sized(MDS);
    script.wait(Duration::from_micros(1_234)).ack(&[0]);
    assert_eq!(
        script.vegas.state().base_rtt,
        Some(Duration::from_micros(1_634))
    );
    script.ack(&[1]);
    assert_eq!(
        script.vegas.state().base_rtt,
        Some(Duration::from_micros(1_234))
    );
}

#[test]
fn only_the_largest_packet_of_an_ack_is_timed() {
    let mut script = Script::<Doubling>::new("", 10);
    script.send_sized(MDS);
    script.wait(Duration::from_millis(50)).send_sized(MDS);
    script.wait(BASE_RTT).ack(&[0, 1]);
    assert_eq!(script.vegas.state().base_rtt, Some(BASE_RTT));
}

#[test]
fn an_ack_that_measures_no_rtt_is_not_timed() {
    let mut script = Script::<Doubling>::new("", 10);
    script.measures_rtt = false;
    script.send_sized(MDS);
    script.wait(BASE_RTT).ack(&[0]);
    assert_eq!(script.vegas.state().base_rtt, None);
}

#[test]
fn packets_that_elicit_no_ack_are_not_timed() {
    let mut script = Script::<Doubling>::new("", 10);
    script.send_sized(0);
    script.wait(Duration::from_millis(1)).ack(&[0]);
    assert_eq!(script.vegas.state().base_rtt, None);
    assert_eq!(script.window(), 10);
}

#[test]
fn base_rtt_is_of_full_datagrams_but_for_a_tenth() {
    let mut script = Script::<Doubling>::new("", 10);
    let mut base_after = |size_bytes, rtt_ms| {
        let number = script.send_sized(size_bytes);
        script.wait(Duration::from_millis(rtt_ms)).ack(&[number]);
        script.vegas.state().base_rtt
    };
    let ms = |ms| Some(Duration::from_millis(ms));
    assert_eq!(base_after(100, 80), ms(80), "there is no other yet");
    assert_eq!(base_after(MDS * 9 / 10, 110), ms(110));
    assert_eq!(base_after(MDS * 9 / 10 - 1, 90), ms(110));
    assert_eq!(base_after(MDS, 100), ms(100));
}

#[test]
fn the_peers_delay_is_taken_off_up_to_its_maximum() {
    for (delay_ms, counted_ms) in [(0, 130), (20, 110), (25, 105), (60, 105)] {
        let mut script = Script::<Doubling>::avoiding("", 20);
        script.ack_delay = Some(Duration::from_millis(delay_ms));
        script.rounds(2, Duration::from_millis(130));
        let rtt = script
            .vegas
            .state()
            .last_round
            .expect("a complete round")
            .rtt;
        assert_eq!(
            rtt,
            Duration::from_millis(counted_ms),
            "delay {delay_ms} ms"
        );
    }
}

// Brakmo et al. 1994 §3.3: one decrease per congested window.

#[test]
fn a_loss_leaves_three_quarters_of_the_window() {
    for (options, left) in [("", 15), ("decrease=0.5", 10), ("decrease=0.875", 17)] {
        let mut script = Script::<Doubling>::new(options, 20);
        script.fill().wait(BASE_RTT).lose(&[3]);
        assert_eq!(
            (script.window(), script.phase()),
            (left, Phase::Recovery),
            "{options}"
        );
        assert_eq!(
            script.vegas.state().ssthresh_bytes,
            Some(left as usize * MDS)
        );
    }
}

#[test]
fn losses_from_before_the_decrease_do_not_decrease_again() {
    let mut script = Script::<Doubling>::new("", 20);
    script.fill().wait(BASE_RTT);
    script.lose(&[0, 1, 2]);
    script.ack(&[4]).lose(&[3, 5]);
    script.ack(&[6, 7, 8]).lose(&[9]);
    // The last one that was sent before it.
    script.lose(&[19]);
    assert_eq!(script.window(), 15);
}

#[test]
fn a_loss_of_a_packet_sent_after_the_decrease_decreases_again() {
    let mut script = Script::<Doubling>::new("", 20);
    script.fill().wait(BASE_RTT);
    script.lose(&[0]);
    script.ack(&[1, 2, 3, 4, 5, 6]);
    let after = script.send_sized(MDS);
    script.wait(BASE_RTT).lose(&[after]);
    assert_eq!(script.window(), 11);
}

#[test]
fn recovery_lasts_until_a_packet_sent_after_the_decrease_is_acknowledged() {
    let mut script = Script::<Doubling>::new("", 20);
    script.fill().wait(BASE_RTT);
    script.lose(&[0]);
    let before: Vec<u64> = (1..20).collect();
    script.ack(&before);
    assert_eq!(script.phase(), Phase::Recovery);
    assert_eq!(script.window(), 15, "no growth in recovery");
    let after = script.send_sized(MDS);
    script.wait(BASE_RTT).ack(&[after]);
    assert_eq!(script.phase(), Phase::CongestionAvoidance);
}

#[test]
fn a_spurious_loss_restores_the_state() {
    let mut script = Script::<StableGrowth>::new("", 2);
    script.rounds(5, BASE_RTT).fill();
    let before = script.vegas.state();
    let first = script.in_flight[0].packet_number;
    let lost = script.lose(&[first, first + 1]);
    assert_eq!(script.phase(), Phase::Recovery);
    script.spurious(&lost[..1]);
    assert_eq!(script.phase(), Phase::Recovery, "one loss is still real");
    script.spurious(&lost[1..]);
    assert_eq!(script.vegas.state(), before);
}

#[test]
fn after_an_undo_a_real_loss_of_the_same_window_counts() {
    let mut script = Script::<Doubling>::new("", 20);
    script.fill().wait(BASE_RTT);
    let lost = script.lose(&[0]);
    script.spurious(&lost);
    assert_eq!(script.window(), 20);
    script.lose(&[1]);
    assert_eq!(script.window(), 15);
}

#[test]
fn an_undo_after_the_datagram_size_changed_restores_the_bytes() {
    let mut script = Script::<Doubling>::avoiding("", 40);
    script.fill();
    let before = script.vegas.window_bytes();
    let first = script.in_flight[0].packet_number;
    let lost = script.lose(&[first]);
    script.vegas.on_mtu_update(4 * MDS);
    script.spurious(&lost);
    let after = script.vegas.window_bytes();
    assert!(
        after <= before && after + 4 * MDS > before,
        "{before} {after}"
    );
    let ssthresh = script.vegas.state().ssthresh_bytes;
    assert!(ssthresh <= Some(before), "{ssthresh:?}");
}

#[test]
fn an_old_spurious_loss_does_not_undo_a_later_decrease() {
    let mut script = Script::<Doubling>::avoiding("", 20);
    let window = script.window();
    let number = script.send_sized(MDS);
    script.wait(BASE_RTT).lose(&[number]);
    let decreased = script.window();
    assert!(decreased < window);
    let old = PacketInfo {
        packet_number: 0,
        time_sent: script.now,
        size_bytes: MDS,
    };
    script.spurious(&[old]);
    assert_eq!(script.window(), decreased);
}

#[test]
fn a_spurious_loss_of_the_last_packet_before_a_decrease_is_not_the_next_ones() {
    let mut script = Script::<Doubling>::new("", 20);
    script.fill().wait(BASE_RTT);
    let old = script.lose(&[19]);
    let number = script.send_sized(MDS);
    script.wait(BASE_RTT).lose(&[number]);
    let decreased = script.window();
    assert!(decreased < 15);
    script.spurious(&old);
    assert_eq!(script.window(), decreased);
}

// Brakmo et al. 1994 §3.4: spike suppression.

#[test]
fn two_datagrams_per_interval_in_congestion_avoidance() {
    let mut script = Script::<Doubling>::avoiding("", 14);
    script.in_flight.clear();
    script.wait(BASE_RTT);
    let start = script.now;
    // RTT · MSS / cwnd with the smoothed RTT of 100 ms.
    assert_eq!(script.vegas.burst_bytes(), Some(2 * MDS));
    let spacing = BASE_RTT / script.window() as u32;
    let mut times = Vec::new();
    for _ in 0..6 {
        script.now = script
            .now
            .max(script.vegas.next_release_time().unwrap_or(script.now));
        script.send_sized(MDS);
        times.push(script.now - start);
    }
    let expected = [0, 0, 1, 1, 2, 2].map(|intervals| spacing * intervals);
    assert_eq!(times, expected);
    assert!(script.vegas.pacing_rate_bps().is_some());
}

#[test]
fn no_spike_suppression_in_slow_start_or_without_pacing() {
    let mut script = Script::<Doubling>::new("", 10);
    script.rounds(2, BASE_RTT).fill();
    assert_eq!(script.vegas.next_release_time(), None);

    let config = PathConfig {
        max_datagram_size_bytes: MDS,
        initial_window_packets: 10,
        pacing: false,
    };
    let mut script = Script::<Doubling>::avoiding("", 20);
    script.vegas = Vegas::new(Options::parse("").expect("defaults"), &config);
    script.in_flight.clear();
    script.fill().wait(BASE_RTT);
    let first = script.in_flight[0].packet_number;
    script.lose(&[first]);
    script.ack(&[first + 1, first + 2, first + 3]).fill();
    assert_eq!(script.phase(), Phase::Recovery);
    assert_eq!(script.vegas.next_release_time(), None);
}

// Brakmo et al. 1994 §3.5: congestion detection and avoidance.

#[test]
fn packets_that_elicit_no_ack_do_not_grow_the_window() {
    let mut script = Script::<Doubling>::avoiding("", 16);
    script.fill().wait(BASE_RTT);
    let datagrams: Vec<u64> = script
        .in_flight
        .iter()
        .map(|packet| packet.packet_number)
        .collect();
    // A controller is not told of them until they are acknowledged.
    let empty: Vec<u64> = (script.next..).take(20).collect();
    script
        .in_flight
        .extend(empty.iter().map(|number| PacketInfo {
            packet_number: *number,
            time_sent: script.now,
            size_bytes: 0,
        }));
    script.next += 20;
    // The first ends a round without backlog: one datagram more is decided, for the next.
    script.ack(&datagrams[..1]);
    let decided_at = script.window();
    script.ack(&empty);
    assert_eq!(script.window(), decided_at);
    script.ack(&datagrams[1..]);
    assert_eq!(script.window(), decided_at + 1);
}

#[test]
fn the_window_moves_by_one_at_the_thresholds() {
    // ∆ is rounded to nearest: α = 2 and β = 4 act below 1.5 and from 4.5 on.
    for (backlog, change) in [
        (0.0, 1),
        (1.4, 1),
        (1.6, 0),
        (2.0, 0),
        (4.0, 0),
        (4.4, 0),
        (4.6, -1),
        (9.0, -1),
    ] {
        let mut script = Script::<Doubling>::avoiding("", 40);
        // The round in progress had no backlog and gains one.
        let window = script.window() + 1;
        script.round(rtt_for(window, backlog)).round(BASE_RTT);
        let measured = script.vegas.state().last_round.expect("a complete round");
        assert!(
            (measured.backlog_packets - backlog).abs() < 0.01,
            "{measured:?}"
        );
        assert_eq!(
            script.window() as i64 - window as i64,
            change,
            "∆ = {backlog}"
        );
    }
}

#[test]
fn a_tenth_of_a_millisecond_may_be_the_hosts() {
    // At 30 packets a millisecond a tenth is hardly three datagrams.
    for (host, backlog, change) in [
        ("allow", 2.6, 0),
        ("allow", 2.4, 1),
        ("allow", 5.4, 0),
        ("allow", 5.6, -1),
        ("strict", 2.4, 0),
        ("strict", 5.4, -1),
    ] {
        let mut script = Script::<Doubling>::avoiding(&format!("host={host}"), 4000);
        let window = script.window() + 1;
        script.round(rtt_for(window, backlog)).round(BASE_RTT);
        let moved = script.window() as i64 - window as i64;
        assert_eq!(moved, change, "{host}, ∆ = {backlog}");
    }
}

#[test]
fn expected_and_actual_rate_of_a_round() {
    let mut script = Script::<Doubling>::avoiding("", 40);
    let window_bits = ((script.window() as usize + 1) * MDS * 8) as f64;
    script.round(Duration::from_millis(104)).round(BASE_RTT);
    let round = script.vegas.state().last_round.expect("a complete round");
    assert_eq!(round.expected_bps, window_bits / 0.1);
    assert_eq!(round.actual_bps, window_bits / 0.104);
    assert_eq!(round.rtt, Duration::from_millis(104));
}

#[test]
fn alpha_equal_to_beta_between_two_whole_numbers() {
    for (backlog, change) in [(1.0, 1), (2.0, -1)] {
        let mut script = Script::<Doubling>::avoiding("alpha=1.5,beta=1.5", 40);
        let window = script.window() + 1;
        script.round(rtt_for(window, backlog)).round(BASE_RTT);
        assert_eq!(
            script.window() as i64 - window as i64,
            change,
            "∆ = {backlog}"
        );
    }
}

#[test]
fn the_window_never_falls_below_two_datagrams() {
    let mut script = Script::<Doubling>::avoiding("alpha=0,beta=0", 20);
    script.rounds(60, BASE_RTT * 100);
    assert_eq!(script.window(), 2);
    for _ in 0..5 {
        let number = script.next - 1;
        script.lose(&[number]);
        script.fill();
    }
    assert_eq!(script.window(), 2);
}

#[test]
fn slow_start_ends_above_gamma_and_gives_an_eighth_back() {
    for (backlog, phase, window) in [
        (1.4, Phase::SlowStart, 64),
        (1.6, Phase::CongestionAvoidance, 28),
    ] {
        let mut script = Script::<Doubling>::new("gamma=1", 32);
        let number = script.send_sized(MDS);
        script.wait(BASE_RTT).ack(&[number]);
        script.round(rtt_for(32, backlog)).round(BASE_RTT);
        assert_eq!(
            (script.phase(), script.window()),
            (phase, window),
            "∆ = {backlog}"
        );
    }
}

// Ho et al. 2006 §III: the first decision after stable growth, and the retransmission timeout.

#[test]
fn the_first_decision_after_a_cut_is_left_out() {
    let mut script = Script::<StableGrowth>::new("", 50);
    script.rounds(3, BASE_RTT);
    let long = rtt_for(script.window(), 8.0);
    script.leave_stable_growth(long);
    let window = script.window();
    assert_eq!(script.vegas.state().status, Some(2));
    script.round(long);
    assert_eq!(
        (script.window(), script.vegas.state().status),
        (window, Some(0))
    );
    script.round(long);
    assert_eq!(script.window(), window - 1);
}

#[test]
fn persistent_congestion_starts_anew() {
    let mut script = Script::<StableGrowth>::new("", 2);
    script.rounds(9, BASE_RTT);
    let grown = script.vegas.state();
    assert!(grown.incr_packets > Some(5));
    script.in_flight.clear();
    // 3 · (100 + max(0, 1) + 25) ms = 378 ms.
    let first = script.send_sized(MDS);
    let second = script.wait(Duration::from_millis(378)).send_sized(MDS);
    let probe = script.wait(Duration::from_millis(1)).send_sized(MDS);
    script.wait(BASE_RTT).lose(&[first, second]);
    assert!(
        script.window() > 2,
        "only an acknowledgment tells (RFC 9002 §7.6.2)"
    );
    script.ack(&[probe]);
    let state = script.vegas.state();
    assert_eq!((state.window_packets, state.phase), (2, Phase::SlowStart));
    assert_eq!((state.incr_packets, state.status), (Some(0), Some(0)));
    assert_eq!(state.base_rtt, grown.base_rtt);
    // Slow start goes as far as the threshold that the losses set.
    let ssthresh = (grown.window_packets * 3 / 4) as usize * MDS;
    assert_eq!(state.ssthresh_bytes, Some(ssthresh));
    script.in_flight.clear();
    script.leave_stable_growth(BASE_RTT);
    assert!(script.vegas.window_bytes() >= ssthresh);
}

// Applications.

#[test]
fn rounds_that_leave_the_window_unused_change_nothing() {
    let mut script = Script::<Doubling>::avoiding("", 40);
    script.in_flight.clear();
    let window = script.window();
    for _ in 0..20 {
        let number = script.send_sized(MDS);
        script.wait(BASE_RTT).ack(&[number]);
    }
    assert_eq!(script.window(), window);
    // Nor does a long RTT that another flow's queue made.
    for _ in 0..20 {
        let number = script.send_sized(MDS);
        script.wait(BASE_RTT * 5).ack(&[number]);
    }
    assert_eq!(script.window(), window);
}

#[test]
fn the_window_is_used_when_no_datagram_more_has_room() {
    for (unsent, grows) in [(1, false), (0, true)] {
        let mut script = Script::<Doubling>::avoiding("", 40);
        script.in_flight.clear();
        let window = script.window();
        for _ in 0..3 {
            let numbers: Vec<u64> = (unsent..window).map(|_| script.send_sized(MDS)).collect();
            script.wait(BASE_RTT).ack(&numbers);
        }
        assert_eq!(script.window() > window, grows, "{unsent} unsent");
    }
}

#[test]
fn the_round_before_an_idle_period_is_dropped() {
    let mut script = Script::<Doubling>::avoiding("", 40);
    let window = script.window();
    // A round with a long queue is under way when the application stops.
    script.fill().wait(rtt_for(window, 9.0));
    let numbers: Vec<u64> = script
        .in_flight
        .iter()
        .map(|packet| packet.packet_number)
        .collect();
    let (last, others) = numbers.split_last().expect("packets in flight");
    for number in others {
        script.ack(&[*number]);
    }
    script.lose(&[*last]);
    let decreased = script.window();
    script.wait(Duration::from_secs(60));
    assert_eq!(
        script.vegas.state().base_rtt,
        Some(BASE_RTT),
        "kept over idle periods"
    );
    script.rounds(3, BASE_RTT);
    assert!(
        script.window() > decreased,
        "the old queue no longer counts"
    );
}

// Networks.

#[test]
fn one_ack_for_a_whole_window_is_one_round() {
    let mut script = Script::<StableGrowth>::new("", 2);
    let mut windows = Vec::new();
    for _ in 0..8 {
        script.fill().wait(BASE_RTT);
        let numbers: Vec<u64> = script
            .in_flight
            .iter()
            .map(|packet| packet.packet_number)
            .collect();
        script.ack(&numbers);
        windows.push(script.window());
    }
    assert_eq!(
        windows,
        [2, 3, 5, 8, 12, 17, 23, 30],
        "as in Ho et al. 2006 Table 3"
    );
}

#[test]
fn late_and_compressed_acks_do_not_end_rounds_early() {
    let mut script = Script::<Doubling>::avoiding("", 40);
    let window = script.window();
    script.fill();
    // Every ACK of two windows arrives at once: still one datagram of growth per round.
    for _ in 0..2 {
        script.wait(BASE_RTT);
        let numbers: Vec<u64> = script
            .in_flight
            .iter()
            .map(|packet| packet.packet_number)
            .collect();
        for chunk in numbers.chunks(10) {
            script.ack(chunk);
        }
        script.fill();
    }
    assert!(
        script.window() - window <= 2,
        "{} from {window}",
        script.window()
    );
}

#[test]
fn gaps_in_the_packet_numbers_do_not_hold_a_round_up() {
    let mut script = Script::<Doubling>::avoiding("", 40);
    script.in_flight.clear();
    let window = script.window();
    for _ in 0..3 {
        // quiche skips numbers to detect optimistic ACKs.
        script.next += 7;
        script.round(BASE_RTT);
    }
    assert!(script.window() > window);
}

#[test]
fn a_first_sample_that_is_too_high_is_corrected() {
    let mut script = Script::<Doubling>::new("", 10);
    script.round(BASE_RTT * 4);
    assert_eq!(script.vegas.state().base_rtt, Some(BASE_RTT * 4));
    script.round(BASE_RTT);
    assert_eq!(script.vegas.state().base_rtt, Some(BASE_RTT));
}

#[test]
fn an_rtt_of_zero_and_a_clock_that_stands_still() {
    let mut script = Script::<StableGrowth>::new("", 2);
    script.rounds(10, Duration::ZERO);
    let state = script.vegas.state();
    assert_eq!(state.base_rtt, None);
    assert_eq!(state.last_round.expect("rounds end").backlog_packets, 0.0);
    assert!(state.window_packets > 2);
    // A clock of one millisecond reads 0 or 1 ms for the same path.
    script
        .rounds(1, Duration::from_millis(1))
        .rounds(3, Duration::ZERO);
    assert_eq!(
        script.vegas.state().base_rtt,
        Some(Duration::from_millis(1))
    );
    assert_eq!(
        script
            .vegas
            .state()
            .last_round
            .expect("a round")
            .backlog_packets,
        0.0
    );
}

#[test]
fn the_backlog_does_not_overflow_at_100_gbit_over_10_s() {
    let mut script = Script::<Doubling>::new("alpha=1000,beta=1000,gamma=1000", 1 << 20);
    script.measures_rtt = true;
    let first = script.send_sized(MDS);
    script.wait(Duration::from_secs(10)).ack(&[first]);
    let second = script.send_sized(script.vegas.window_bytes());
    script.wait(Duration::from_secs(100)).ack(&[second]);
    let third = script.send_sized(script.vegas.window_bytes());
    script.wait(Duration::from_secs(100)).ack(&[third]);
    let round = script.vegas.state().last_round.expect("a round");
    let expected = (1u64 << 20) as f64 * 0.9;
    assert!((round.backlog_packets - expected).abs() < 1.0, "{round:?}");
    assert!(round.expected_bps.is_finite() && round.actual_bps.is_finite());
}

#[test]
fn nothing_overflows_at_1_tbit_over_100_s() {
    // The largest window that there is, of the largest datagrams: 550 Gbit. The path holds 100
    // Tbit.
    const LARGEST: usize = 65_535;
    let mut script = Script::<Doubling>::new("initial_window=1048576", 10);
    script.vegas.on_mtu_update(LARGEST);
    let window_bytes = script.vegas.window_bytes();
    assert_eq!(window_bytes, LARGEST << 20);
    for _ in 0..10 {
        let number = script.send_sized(window_bytes);
        script.wait(Duration::from_secs(100)).ack(&[number]);
    }
    assert_eq!(script.vegas.window_bytes(), window_bytes);
    let round = script.vegas.state().last_round.expect("a round");
    assert_eq!(round.backlog_packets, 0.0);
    assert_eq!(round.actual_bps, window_bytes as f64 * 8.0 / 100.0);
    // A queue as long as the path: half of the window.
    let number = script.send_sized(window_bytes);
    script.wait(Duration::from_secs(200)).ack(&[number]);
    let number = script.send_sized(window_bytes);
    script.wait(Duration::from_secs(200)).ack(&[number]);
    let state = script.vegas.state();
    let round = state.last_round.expect("a round");
    assert_eq!(round.backlog_packets, f64::from(1 << 19));
    assert_eq!(state.phase, Phase::CongestionAvoidance);
    assert!(script.vegas.pacing_rate_bps().is_some_and(f64::is_finite));
}

#[test]
fn the_initial_window_follows_the_datagram_size_and_a_later_one_keeps_its_bytes() {
    let mut script = Script::<Doubling>::new("", 10);
    script.vegas.on_mtu_update(1400);
    assert_eq!(script.vegas.window_bytes(), 14_000);
    script.vegas.on_mtu_update(MDS);

    script.rounds(3, BASE_RTT);
    let before = script.vegas.window_bytes();
    script.vegas.on_mtu_update(1400);
    let after = script.vegas.window_bytes();
    assert!(
        after <= before && after + 1400 > before && after.is_multiple_of(1400),
        "{before} {after}"
    );

    script.vegas.on_mtu_update(60_000);
    assert_eq!(
        script.vegas.window_bytes(),
        120_000,
        "never below two datagrams"
    );
    script.vegas.on_mtu_update(0);
    assert_eq!(script.vegas.window_bytes(), 120_000, "no size");
}

#[test]
fn only_stable_growth_has_an_increment_and_a_status() {
    let vegas = Script::<Doubling>::new("", 10).vegas.state();
    assert_eq!((vegas.incr_packets, vegas.status), (None, None));
    let gallop = Script::<StableGrowth>::new("", 10).vegas.state();
    assert_eq!((gallop.incr_packets, gallop.status), (Some(0), Some(0)));
}

#[test]
fn the_initial_window_is_an_option() {
    let script = Script::<Doubling>::new("initial_window=32", 10);
    assert_eq!(script.window(), 32);
}

// Events that some stacks have and others lack.

#[test]
fn a_stack_that_looks_for_persistent_congestion_is_believed() {
    for (persistent_congestion, window) in [(Some(false), 15), (Some(true), 2)] {
        let mut script = Script::<Doubling>::new("", 20);
        script.fill().wait(BASE_RTT);
        let packets = script.take(&[0]);
        let loss = Loss {
            now: script.now,
            persistent_congestion,
        };
        script.vegas.on_packets_lost(&loss, &packets);
        assert_eq!(script.window(), window);
    }
}

#[test]
fn a_mark_decreases_the_window_once_in_a_round_and_is_not_undone() {
    let mut script = Script::<Doubling>::new("", 20);
    script.fill().wait(BASE_RTT);
    let mark = |script: &mut Script<Doubling>, largest_acked| {
        script.vegas.on_congestion_marks(&CongestionMarks {
            now: script.now,
            packets: 1,
            largest_acked,
        });
        script.window()
    };
    assert_eq!(mark(&mut script, 0), 15);
    assert_eq!(mark(&mut script, 5), 15, "sent before the decrease");
    let mut script = Script::<Doubling>::new("", 20);
    script.fill().wait(BASE_RTT);
    let lost = script.lose(&[0]);
    mark(&mut script, 5);
    script.spurious(&lost);
    assert_eq!(script.window(), 15, "the mark was real");
}

#[test]
fn a_sender_that_is_limited_by_the_window_says_so() {
    for (says_so, grows) in [(false, false), (true, true)] {
        let mut script = Script::<Doubling>::avoiding("", 40);
        script.in_flight.clear();
        let window = script.window();
        for _ in 0..3 {
            let number = script.send_sized(MDS);
            if says_so {
                script.vegas.on_cwnd_limited(script.now);
            }
            script.wait(BASE_RTT).ack(&[number]);
        }
        assert_eq!(script.window() > window, grows);
    }
}

#[test]
fn a_copy_goes_its_own_way() {
    let mut script = Script::<Doubling>::avoiding("", 40);
    let original: Box<dyn Controller> = Box::new(script.vegas.clone());
    let mut copy = original.clone();
    copy.on_packets_lost(
        &Loss {
            now: script.now,
            persistent_congestion: None,
        },
        &[PacketInfo {
            packet_number: script.send_sized(MDS),
            time_sent: script.now,
            size_bytes: MDS,
        }],
    );
    assert!(copy.window_bytes() < original.window_bytes());
}
