//! Lives of a connection: what may happen to a controller, as values that are generated.

use std::time::Duration;

use bolero::TypeGenerator;
use proptest::prelude::*;

/// The start of a controller, and the events of its life.
#[derive(Clone, Debug, TypeGenerator)]
pub struct Life {
    pub tuning: Tuning,
    pub path: Path,
    #[generator(bolero::produce::<Vec<Event>>().with().len(0..=120usize))]
    pub events: Vec<Event>,
}

/// Every option, within its range.
#[derive(Clone, Debug, TypeGenerator)]
pub struct Tuning {
    #[generator(0..=10_000)]
    pub alpha_tenths: u32,
    #[generator(0..=10_000)]
    pub beta_tenths: u32,
    pub gamma: Option<Gamma>,
    #[generator(1..=9_999)]
    pub decrease_e4: u32,
    #[generator(0..=2)]
    pub measure: u8,
}

/// γ.
#[derive(Clone, Copy, Debug, TypeGenerator)]
pub struct Gamma {
    #[generator(0..=10_000)]
    pub tenths: u32,
}

impl Tuning {
    /// The options' text form.
    pub fn text(&self) -> String {
        let tenths = |value: u32| f64::from(value) / 10.0;
        let (alpha, beta) = (
            self.alpha_tenths.min(self.beta_tenths),
            self.alpha_tenths.max(self.beta_tenths),
        );
        let measure = ["mean", "min", "last"][usize::from(self.measure)];
        let mut text = format!(
            "alpha={},beta={},decrease={},rtt={measure}",
            tenths(alpha),
            tenths(beta),
            f64::from(self.decrease_e4) / 1e4,
        );
        if let Some(gamma) = self.gamma {
            text += &format!(",gamma={}", tenths(gamma.tenths));
        }
        text
    }
}

/// The facts about its path that the controller is told.
#[derive(Clone, Debug, TypeGenerator)]
pub struct Path {
    #[generator(1..=65_535)]
    pub max_datagram_size_bytes: u16,
    #[generator(0..=2_097_152)]
    pub initial_window_packets: u32,
    pub pacing: bool,
}

/// Something that happens.
#[derive(Clone, Debug, TypeGenerator)]
pub enum Event {
    /// The application has data for so many full datagrams, sent while the window has room; between
    /// them the sender waits for release times, or sends in advance what is then held back.
    Fill { datagrams: u8, waits: bool },
    /// One packet of this size, after a gap in the packet numbers; a probe ignores the window.
    Send {
        #[generator(0..=65_535)]
        size_bytes: u16,
        #[generator(0..=9)]
        gap: u8,
        probe: bool,
    },
    /// Time passes.
    Wait(Span),
    /// An ACK frame.
    Ack {
        packets: Selection,
        measures_rtt: bool,
        ack_delay: Span,
        max_ack_delay: Span,
    },
    /// A round of a bulk transfer: every packet in flight is acknowledged by itself after `rtt`,
    /// and the window is kept full.
    Round { rtt: Span },
    /// Packets are declared lost.
    Lose(Selection),
    /// Lost packets are acknowledged after all.
    Spurious(Selection),
    /// Packets are no longer tracked, as when the keys of the handshake are dropped.
    Discard(Selection),
    /// The path's maximum datagram size changes.
    Mtu(u16),
}

/// Packets by their place in the order of packet numbers.
#[derive(Clone, Copy, Debug, TypeGenerator)]
pub struct Selection {
    pub from_the_newest: bool,
    #[generator(0..=20)]
    pub skip: u8,
    pub count: u8,
    #[generator(1..=3)]
    pub step: u8,
}

impl Selection {
    /// Every packet.
    pub const ALL: Selection = Selection {
        from_the_newest: false,
        skip: 0,
        count: u8::MAX,
        step: 1,
    };

    /// The packet with the smallest number.
    pub const OLDEST: Selection = Selection {
        count: 1,
        ..Selection::ALL
    };

    /// The selected places among `len`, in increasing order.
    pub fn places(self, len: usize) -> Vec<usize> {
        let count = if self.count == u8::MAX {
            usize::MAX
        } else {
            usize::from(self.count)
        };
        let mut places: Vec<usize> = (0..len)
            .skip(self.skip.into())
            .step_by(self.step.into())
            .take(count)
            .collect();
        if self.from_the_newest {
            places
                .iter_mut()
                .for_each(|place| *place = len - 1 - *place);
            places.reverse();
        }
        places
    }
}

/// A duration from zero to 18 hours.
#[derive(Clone, Copy, Debug, TypeGenerator)]
pub struct Span {
    pub count: u16,
    #[generator(0..=3)]
    pub unit: u8,
}

impl Span {
    pub const ZERO: Span = Span { count: 0, unit: 0 };

    pub fn duration(self) -> Duration {
        let unit = [
            Duration::from_nanos(1),
            Duration::from_micros(1),
            Duration::from_millis(1),
            Duration::from_secs(1),
        ];
        unit[usize::from(self.unit)] * self.count.into()
    }
}

/// Lives as paths of today have them: few datagrams of backlog, RTTs of milliseconds, packets of an
/// Ethernet's size, mostly in order and mostly delivered.
pub fn likely() -> impl Strategy<Value = Life> {
    let tuning = (
        0..60u32,
        0..60u32,
        proptest::option::of((0..60u32).prop_map(|tenths| Gamma { tenths })),
        5_000..9_000u32,
        0..=2u8,
    )
        .prop_map(
            |(alpha_tenths, beta_tenths, gamma, decrease_e4, measure)| Tuning {
                alpha_tenths,
                beta_tenths,
                gamma,
                decrease_e4,
                measure,
            },
        );
    let path = (1200..1500u16, 2..40u32, any::<bool>()).prop_map(
        |(max_datagram_size_bytes, initial_window_packets, pacing)| Path {
            max_datagram_size_bytes,
            initial_window_packets,
            pacing,
        },
    );
    (tuning, path, proptest::collection::vec(event(), 0..120)).prop_map(|(tuning, path, events)| {
        Life {
            tuning,
            path,
            events,
        }
    })
}

fn event() -> impl Strategy<Value = Event> {
    let milliseconds =
        |range: std::ops::Range<u16>| range.prop_map(|count| Span { count, unit: 2 });
    let selection = || {
        (any::<bool>(), 0..3u8, 1..12u8, 1..=2u8).prop_map(
            |(from_the_newest, skip, count, step)| Selection {
                from_the_newest,
                skip,
                count,
                step,
            },
        )
    };
    prop_oneof![
        8 => milliseconds(100..110).prop_map(|rtt| Event::Round { rtt }),
        4 => milliseconds(100..200).prop_map(|rtt| Event::Round { rtt }),
        4 => (1..40u8, any::<bool>()).prop_map(|(datagrams, waits)| Event::Fill { datagrams, waits }),
        2 => (0..1500u16, 0..3u8, any::<bool>())
            .prop_map(|(size_bytes, gap, probe)| Event::Send { size_bytes, gap, probe }),
        4 => milliseconds(0..150).prop_map(Event::Wait),
        1 => (0..3600u16).prop_map(|count| Event::Wait(Span { count, unit: 3 })),
        6 => (selection(), proptest::bool::weighted(0.9), milliseconds(0..30)).prop_map(
            |(packets, measures_rtt, ack_delay)| Event::Ack {
                packets,
                measures_rtt,
                ack_delay,
                max_ack_delay: Span { count: 25, unit: 2 },
            }
        ),
        2 => selection().prop_map(Event::Lose),
        1 => selection().prop_map(Event::Spurious),
        1 => Just(Event::Spurious(Selection::ALL)),
        1 => selection().prop_map(Event::Discard),
        1 => (1200..1500u16).prop_map(Event::Mtu),
    ]
}
