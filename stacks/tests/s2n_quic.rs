//! The adapter to s2n-quic, called as s2n-quic calls it. Times are virtual.

use std::collections::VecDeque;
use std::time::Duration;

use gallop::Algorithm;
use gallop::catalog::CATALOG;
use gallop::controller::{
    Ack, CongestionMarks, Controller, Figure, Loss, MAXIMUM_WINDOW_PACKETS, MINIMUM_WINDOW_PACKETS,
    PacketInfo, PathConfig, SentPacket,
};
use gallop::stack::Factory;
use gallop::stack::s2n_quic::{Adapter, Sent};
use proptest::prelude::*;
use s2n_quic_core::event::builder::{BbrState, SlowStartExitCause};
use s2n_quic_core::inet::SocketAddress;
use s2n_quic_core::packet::number::PacketNumberSpace;
use s2n_quic_core::path::mtu;
use s2n_quic_core::random::Generator;
use s2n_quic_core::recovery::RttEstimator;
use s2n_quic_core::recovery::bandwidth::{Bandwidth, RateSample};
use s2n_quic_core::recovery::congestion_controller::{
    CongestionController, Endpoint, PathInfo, Publisher,
};
use s2n_quic_core::time::{Clock, NoopClock, Timestamp};
use s2n_quic_core::transport::parameters::MaxAckDelay;

/// Publishes nothing and draws nothing.
struct Nothing;

impl Publisher for Nothing {
    fn on_slow_start_exited(&mut self, _: SlowStartExitCause, _: u32) {}
    fn on_delivery_rate_sampled(&mut self, _: RateSample) {}
    fn on_pacing_rate_updated(&mut self, _: Bandwidth, _: u32, _: num_rational::Ratio<u64>) {}
    fn on_bbr_state_changed(&mut self, _: BbrState) {}
}

impl Generator for Nothing {
    fn public_random_fill(&mut self, out: &mut [u8]) {
        out.fill(0);
    }

    fn private_random_fill(&mut self, out: &mut [u8]) {
        out.fill(0);
    }
}

fn adapter(name: &str) -> (Adapter, usize) {
    let mut algorithm: Algorithm = name.parse().unwrap();
    let address = SocketAddress::default();
    let path = PathInfo::new(&mtu::Config::default(), &address);
    let datagram_bytes = path.max_datagram_size.into();
    (algorithm.new_congestion_controller(path), datagram_bytes)
}

fn at(time: Duration) -> Timestamp {
    NoopClock.get_time() + Duration::from_secs(1) + time
}

/// A datagram in flight: what the adapter said, and the times of sending and of its ACK.
struct InFlight {
    sent: Sent,
    at: Duration,
    acked_at: Option<Duration>,
}

/// A sender with endless data over 10 Mbit/s, 40 ms and so many packets of buffer; one ACK for two
/// datagrams. Returns the bytes delivered, the losses, and the largest time that an ACK took.
fn run(name: &str, buffer_packets: u32, duration: Duration) -> (usize, usize, Duration) {
    let (mut adapter, datagram_bytes) = adapter(name);
    let mut rtt = RttEstimator::new(Duration::from_millis(333));
    let service = Duration::from_nanos(datagram_bytes as u64 * 800);
    let propagation = Duration::from_millis(40);
    let (mut now, mut link_free) = (Duration::ZERO, Duration::ZERO);
    let mut in_flight: VecDeque<InFlight> = VecDeque::new();
    let (mut delivered, mut lost, mut longest) = (0, 0, Duration::ZERO);
    while now < duration {
        let next_ack = in_flight
            .iter()
            .filter(|packet| packet.acked_at.is_some())
            .nth(1);
        let next_ack = next_ack.and_then(|packet| packet.acked_at);
        let release = adapter.earliest_departure_time();
        let release = release.map_or(now, |release| {
            release.saturating_duration_since(at(Duration::ZERO))
        });
        if !adapter.is_congestion_limited() && next_ack.is_none_or(|ack| release <= ack) {
            now = now.max(release);
            let queued = link_free.saturating_sub(now);
            let is_full = queued > service * buffer_packets;
            link_free = if is_full {
                link_free
            } else {
                link_free.max(now) + service
            };
            let used = Some(false);
            let sent = adapter.on_packet_sent(at(now), datagram_bytes, used, &rtt, &mut Nothing);
            let acked_at = (!is_full).then_some(link_free + propagation);
            in_flight.push_back(InFlight {
                sent,
                at: now,
                acked_at,
            });
            assert!(adapter.bytes_in_flight() <= adapter.congestion_window());
            continue;
        }
        let Some(ack) = next_ack else {
            panic!("{name}: nothing is acknowledged")
        };
        now = now.max(ack);
        let newest = in_flight
            .iter()
            .position(|packet| packet.acked_at == Some(ack))
            .unwrap();
        let newest_sent = in_flight[newest].at;
        longest = longest.max(now - newest_sent);
        rtt.update_rtt(
            Duration::ZERO,
            now - newest_sent,
            at(now),
            true,
            PacketNumberSpace::ApplicationData,
        );
        adapter.on_rtt_update(at(newest_sent), at(now), &rtt, &mut Nothing);
        let acked: Vec<InFlight> = in_flight.drain(..=newest).collect();
        for packet in acked.iter().filter(|packet| packet.acked_at.is_none()) {
            lost += 1;
            let bytes = datagram_bytes as u32;
            adapter.on_packet_lost(
                bytes,
                packet.sent,
                false,
                true,
                &mut Nothing,
                at(now),
                &mut Nothing,
            );
        }
        let bytes = 2 * datagram_bytes;
        delivered += bytes;
        let newest = acked[newest].sent;
        adapter.on_ack(
            at(newest_sent),
            bytes,
            newest,
            &rtt,
            &mut Nothing,
            at(now),
            &mut Nothing,
        );
        let bytes = in_flight.len() * datagram_bytes;
        assert_eq!(adapter.bytes_in_flight() as usize, bytes, "{name}");
    }
    (delivered, lost, longest)
}

#[test]
fn every_controller_fills_the_path_and_delay_based_ones_keep_the_queue_short() {
    for entry in CATALOG {
        let duration = Duration::from_secs(20);
        let (delivered, lost, longest) = run(entry.name, 50, duration);
        let rate_bps = delivered as f64 * 8.0 / duration.as_secs_f64();
        assert!(
            (0.85..=1.0).contains(&(rate_bps / 10e6)),
            "{}: {rate_bps} bit/s",
            entry.name
        );
        let is_loss_based = entry.name.contains("rfc");
        assert_eq!(
            lost > 0,
            is_loss_based,
            "{}: {lost} lost, {longest:?}",
            entry.name
        );
    }
}

/// A controller with a window of so many datagrams, which keeps the last acknowledgment delay.
#[derive(Clone, Debug)]
struct Fixed {
    window_packets: usize,
    datagram_bytes: usize,
    ack_delay: Option<Duration>,
}

/// An adapter with such a window, and the size of its datagrams.
fn fixed_adapter<const WINDOW_PACKETS: usize>() -> (Adapter, usize) {
    let address = SocketAddress::default();
    let path = PathInfo::new(&mtu::Config::default(), &address);
    let datagram_bytes = path.max_datagram_size.into();
    let build = |path: &PathConfig| -> Box<dyn Controller> {
        Box::new(Fixed {
            window_packets: WINDOW_PACKETS,
            datagram_bytes: path.max_datagram_size_bytes,
            ack_delay: None,
        })
    };
    (
        Factory(build).new_congestion_controller(path),
        datagram_bytes,
    )
}

impl Controller for Fixed {
    fn on_packet_sent(&mut self, _packet: &SentPacket) {}
    fn on_packets_acked(&mut self, ack: &Ack, _packets: &[PacketInfo]) {
        assert!(ack.measures_rtt || ack.ack_delay.is_none());
        self.ack_delay = ack.ack_delay;
    }
    fn on_packets_lost(&mut self, _loss: &Loss, _packets: &[PacketInfo]) {}
    fn on_congestion_marks(&mut self, _marks: &CongestionMarks) {}
    fn on_mtu_update(&mut self, _max_datagram_size_bytes: usize) {}
    fn window_bytes(&self) -> usize {
        self.window_packets * self.datagram_bytes
    }
    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        if let Some(delay) = self.ack_delay {
            sink(Figure::ms("ack_delay_ms", delay));
        }
    }
}

/// A window of two datagrams that is sent again and again, and the window that s2n-quic is told, in
/// datagrams, after ACKs with such RTTs and delays.
fn windows(samples: &[(Duration, Duration)], lost: Option<usize>) -> Vec<usize> {
    let (mut adapter, bytes) = fixed_adapter::<2>();
    let mut rtt = RttEstimator::new(Duration::from_millis(333));
    rtt.on_max_ack_delay(MaxAckDelay::RECOMMENDED);
    let mut now = Duration::ZERO;
    let mut windows = Vec::new();
    for (place, &(path_rtt, delay)) in samples.iter().enumerate() {
        let sent_at = at(now);
        let mut sent = Vec::new();
        while !adapter.is_congestion_limited() {
            let used = Some(false);
            sent.push(adapter.on_packet_sent(sent_at, bytes, used, &rtt, &mut Nothing));
        }
        let newest = *sent.last().unwrap();
        now += path_rtt + delay;
        let space = PacketNumberSpace::ApplicationData;
        rtt.update_rtt(delay / 8, path_rtt + delay, at(now), true, space);
        adapter.on_rtt_update(sent_at, at(now), &rtt, &mut Nothing);
        let mut acked = sent.len() * bytes;
        if lost == Some(place) {
            acked -= bytes;
            let lost = sent[sent.len() - 2];
            let (now, size) = (at(now), bytes as u32);
            adapter.on_packet_lost(size, lost, false, true, &mut Nothing, now, &mut Nothing);
        }
        adapter.on_ack(
            sent_at,
            acked,
            newest,
            &rtt,
            &mut Nothing,
            at(now),
            &mut Nothing,
        );
        windows.push(adapter.congestion_window() as usize / bytes);
    }
    windows
}

#[test]
fn a_window_that_waits_for_the_peer_and_not_for_the_path_is_lifted() {
    let (short, long) = (Duration::from_micros(100), Duration::from_millis(40));
    let delay = Duration::from_millis(25);
    let none = Duration::ZERO;
    let samples = [(short, none), (short, delay), (short, none), (long, none)];
    assert_eq!(windows(&samples, None), [2, 10, 10, 2]);
    assert_eq!(windows(&[(long, none), (long, delay)], None), [2, 2]);
}

#[test]
fn no_window_is_lifted_again_once_it_lost_a_packet() {
    let (rtt, delay) = (Duration::from_micros(100), Duration::from_millis(25));
    let samples = [
        (rtt, Duration::ZERO),
        (rtt, delay),
        (rtt, delay),
        (rtt, delay),
    ];
    assert_eq!(windows(&samples, Some(2)), [2, 10, 2, 2]);
    // A loss of the controller's own window says nothing about the lifted one.
    assert_eq!(windows(&samples, Some(1)), [2, 10, 10, 10]);
}

/// As s2n-quic takes it from an ACK frame: any peer can write any delay.
#[derive(Clone, Copy, Debug)]
struct RttSample {
    sample_us: u64,
    delay_us: u64,
    is_confirmed: bool,
}

impl RttSample {
    fn update(self, rtt: &mut RttEstimator, now: Timestamp) {
        rtt.update_rtt(
            Duration::from_micros(self.delay_us),
            Duration::from_micros(self.sample_us),
            now,
            self.is_confirmed,
            if self.is_confirmed {
                PacketNumberSpace::ApplicationData
            } else {
                PacketNumberSpace::Handshake
            },
        );
    }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Sent(u16, Option<bool>),
    Rtt(RttSample),
    Ack(u32),
    Lost(bool),
    Marks(u64),
    Mtu(u16),
    Discarded(u16),
}

fn rtt_sample() -> impl Strategy<Value = RttSample> {
    let time_us = || prop_oneof![Just(0), 0..300_000u64, 0..u64::from(u32::MAX)];
    (time_us(), time_us(), any::<bool>()).prop_map(|(sample_us, delay_us, is_confirmed)| {
        RttSample {
            sample_us,
            delay_us,
            is_confirmed,
        }
    })
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        6 => (any::<u16>(), any::<Option<bool>>()).prop_map(|(bytes, limited)| Call::Sent(bytes, limited)),
        3 => rtt_sample().prop_map(Call::Rtt),
        4 => (0..1_000_000u32).prop_map(Call::Ack),
        2 => any::<bool>().prop_map(Call::Lost),
        1 => any::<u64>().prop_map(Call::Marks),
        1 => any::<u16>().prop_map(Call::Mtu),
        1 => any::<u16>().prop_map(Call::Discarded),
    ]
}

/// Makes the calls at times that go back too, and checks the adapter after each, with the size of
/// its datagrams.
fn make(
    mut adapter: Adapter,
    mut datagram_bytes: usize,
    calls: &[(u64, Call)],
    check: impl Fn(&Adapter, usize) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let nobody = &mut Nothing;
    let mut rtt = RttEstimator::new(Duration::from_millis(333));
    rtt.on_max_ack_delay(MaxAckDelay::RECOMMENDED);
    let start = at(Duration::ZERO);
    let first = adapter.on_packet_sent(start, 1200, None, &rtt, nobody);
    let (mut last, mut sent_at) = (first, start);
    for &(at_us, call) in calls {
        let now = at(Duration::from_micros(at_us));
        match call {
            Call::Sent(bytes, limited) => {
                last = adapter.on_packet_sent(now, bytes.into(), limited, &rtt, nobody);
                sent_at = now;
            }
            Call::Rtt(sample) => {
                sample.update(&mut rtt, now);
                adapter.on_rtt_update(sent_at, now, &rtt, nobody);
            }
            Call::Ack(bytes) => {
                let random = &mut Nothing;
                adapter.on_ack(sent_at, bytes as usize, last, &rtt, random, now, nobody);
            }
            Call::Lost(persistent) => {
                let random = &mut Nothing;
                adapter.on_packet_lost(1200, last, persistent, true, random, now, nobody);
            }
            Call::Marks(count) => adapter.on_explicit_congestion(count, now, nobody),
            Call::Mtu(bytes) => {
                adapter.on_mtu_update(bytes, nobody);
                datagram_bytes = if bytes > 0 {
                    bytes.into()
                } else {
                    datagram_bytes
                };
            }
            Call::Discarded(bytes) => adapter.on_packet_discarded(bytes.into(), nobody),
        }
        check(&adapter, datagram_bytes)?;
        let _ = (adapter.earliest_departure_time(), adapter.send_quantum());
        adapter = adapter.clone();
    }
    Ok(())
}

proptest! {
    /// The field of the ACK frame counts eight microseconds, and s2n-quic takes it for microseconds.
    #[test]
    fn the_peers_acknowledgment_delay_is_told(
        samples in proptest::collection::vec((10..300_000u64, 0..25_000u64), 2..50),
    ) {
        let (mut adapter, _) = fixed_adapter::<2>();
        let mut rtt = RttEstimator::new(Duration::from_millis(333));
        rtt.on_max_ack_delay(MaxAckDelay::RECOMMENDED);
        let mut now = Duration::ZERO;
        for (place, &(rtt_us, delay_us)) in samples.iter().enumerate() {
            // The first sample is the smallest RTT: s2n-quic takes nothing off below that.
            let (rtt_us, delay_us) = match place {
                0 => (5, 0),
                _ => (rtt_us, delay_us / 8 * 8),
            };
            let sample = Duration::from_micros(rtt_us + delay_us);
            let limited = Some(false);
            let sent = adapter.on_packet_sent(at(now), 1200, limited, &rtt, &mut Nothing);
            let sent_at = at(now);
            now += sample;
            rtt.update_rtt(
                Duration::from_micros(delay_us / 8),
                sample,
                at(now),
                true,
                PacketNumberSpace::ApplicationData,
            );
            adapter.on_rtt_update(sent_at, at(now), &rtt, &mut Nothing);
            adapter.on_ack(sent_at, 1200, sent, &rtt, &mut Nothing, at(now), &mut Nothing);
            let mut told = None;
            adapter.controller().figures(&mut |figure| told = Some(figure.value));
            prop_assert_eq!(told.is_some(), place > 0);
            let error_us = told.unwrap_or_default() * 1e3 - delay_us as f64;
            prop_assert!(error_us.abs() < 0.064, "{told:?} ms, not {delay_us} us");
        }
    }

    #[test]
    fn any_calls_in_any_order_leave_a_window_within_its_limits(
        calls in proptest::collection::vec((0..200_000u64, call()), 0..80),
    ) {
        for entry in CATALOG {
            let (adapter, datagram_bytes) = adapter(entry.name);
            make(adapter, datagram_bytes, &calls, |adapter, datagram_bytes| {
                let window = u64::from(adapter.congestion_window()) / datagram_bytes as u64;
                prop_assert!(window >= MINIMUM_WINDOW_PACKETS, "{}: {adapter:?}", entry.name);
                prop_assert!(window <= MAXIMUM_WINDOW_PACKETS, "{}: {adapter:?}", entry.name);
                Ok(())
            })?;
        }
    }

    /// The catalogue's controllers never have such a window; one of one's own may.
    #[test]
    fn a_window_of_zero_bytes_holds_every_packet_back(
        calls in proptest::collection::vec((0..200_000u64, call()), 0..80),
    ) {
        // A lifted window is not the controller's.
        let calls: Vec<_> = calls
            .into_iter()
            .filter(|(_, call)| !matches!(call, Call::Sent(_, Some(false))))
            .collect();
        let (adapter, datagram_bytes) = fixed_adapter::<0>();
        make(adapter, datagram_bytes, &calls, |adapter, _| {
            prop_assert_eq!(adapter.congestion_window(), 0);
            prop_assert!(adapter.is_congestion_limited());
            Ok(())
        })?;
    }
}
