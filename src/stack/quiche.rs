//! The adapter to quiche, by the plug point of the patched package.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use ::quiche::{
    AckEvent, AckedPacket, CongestionController, CongestionControllerFactory, ControllerConfig,
    LossEvent, LostPacket, StartupExitReason,
};

pub use super::Factory;
use crate::catalog::{Algorithm, AlgorithmError, CATALOG, Entry, name_and_options};
use crate::controller::{
    Ack, Controller, Loss, PacketInfo, PathConfig, Phase, RttEstimate, SentPacket,
};

/// A controller that quiche has built in. It takes no options.
#[derive(Debug)]
pub struct BuiltIn {
    /// The name, as quiche has it.
    pub name: &'static str,
    /// One line about it.
    pub summary: &'static str,
}

/// The controllers that quiche has built in.
pub static BUILT_IN: [BuiltIn; 3] = [
    BuiltIn {
        name: "reno",
        summary: "quiche's NewReno, which does not pace",
    },
    BuiltIn {
        name: "cubic",
        summary: "quiche's CUBIC, which does not pace and takes back most of its reductions",
    },
    BuiltIn {
        name: "bbr2",
        summary: "quiche's BBRv2",
    },
];

/// A controller for quiche by name: of the [catalogue](CATALOG), with options after a colon, or
/// built in.
#[derive(Clone, Debug)]
pub struct Selection {
    text: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Catalogue(Arc<Algorithm>),
    BuiltIn(&'static BuiltIn),
    Own(Own),
}

/// A controller of the program's own.
#[derive(Clone, Copy, Debug)]
struct Own {
    name: &'static str,
    summary: &'static str,
    factory: Factory,
}

/// The controllers that [`register_own`] was given.
static OWN: RwLock<Vec<Own>> = RwLock::new(Vec::new());

impl Own {
    fn all() -> Vec<Own> {
        OWN.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Selection {
    /// Every name, in the order of `--help`.
    pub fn names() -> Vec<&'static str> {
        let ours = CATALOG.iter().map(|entry| entry.name);
        ours.chain(BUILT_IN.iter().map(|built_in| built_in.name))
            .chain(Own::all().into_iter().map(|own| own.name))
            .collect()
    }

    /// Every controller with its options, for the `--help` of a program.
    pub fn help() -> String {
        let ours = CATALOG.iter().map(Entry::help);
        let built_in = BUILT_IN.iter().map(|it| (it.name, it.summary));
        let own = Own::all().into_iter().map(|own| (own.name, own.summary));
        let others = built_in.chain(own);
        let others = others.map(|(name, summary)| format!("  {name:<16} {summary}\n"));
        let controllers: String = ours.chain(others).collect();
        format!(
            "Controllers, with options after a colon, as in vegas:alpha=2,beta=4:\n{controllers}"
        )
    }

    /// The text that the selection was read from: the name, and options as they were given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name without options.
    pub fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Catalogue(algorithm) => algorithm.name(),
            Kind::BuiltIn(built_in) => built_in.name,
            Kind::Own(own) => own.name,
        }
    }

    /// One line about the controller.
    pub fn summary(&self) -> &'static str {
        match &self.kind {
            Kind::Catalogue(algorithm) => algorithm.summary(),
            Kind::BuiltIn(built_in) => built_in.summary,
            Kind::Own(own) => own.summary,
        }
    }

    /// The algorithm of the catalogue; `None` if the controller is not in it.
    pub fn algorithm(&self) -> Option<&Arc<Algorithm>> {
        match &self.kind {
            Kind::Catalogue(algorithm) => Some(algorithm),
            Kind::BuiltIn(_) | Kind::Own(_) => None,
        }
    }

    /// True if quiche ships the controller.
    pub fn is_built_in(&self) -> bool {
        matches!(self.kind, Kind::BuiltIn(_))
    }

    /// Makes the connections of `config` use this controller.
    ///
    /// # Errors
    ///
    /// quiche refuses the name.
    pub fn configure(&self, config: &mut ::quiche::Config) -> ::quiche::Result<()> {
        match &self.kind {
            Kind::Catalogue(algorithm) => {
                config.set_cc_controller_factory(Arc::clone(algorithm) as _);
                Ok(())
            }
            Kind::BuiltIn(built_in) => config.set_cc_algorithm_name(built_in.name),
            Kind::Own(own) => {
                config.set_cc_controller_factory(Arc::new(own.factory));
                Ok(())
            }
        }
    }
}

impl FromStr for Selection {
    type Err = AlgorithmError;

    fn from_str(text: &str) -> Result<Self, AlgorithmError> {
        let (name, options) = name_and_options(text);
        let built_in = BUILT_IN.iter().find(|built_in| built_in.name == name);
        let own = Own::all().into_iter().find(|own| own.name == name);
        let plain = built_in.map(Kind::BuiltIn).or(own.map(Kind::Own));
        let kind = match plain {
            Some(plain) if options.is_empty() => plain,
            Some(Kind::BuiltIn(&BuiltIn { name, .. }) | Kind::Own(Own { name, .. })) => {
                return Err(AlgorithmError::NoOptions {
                    name,
                    options: options.into(),
                });
            }
            _ => Kind::Catalogue(Arc::new(text.parse().map_err(|error| match error {
                AlgorithmError::Unknown { name, .. } => AlgorithmError::Unknown {
                    name,
                    known: Selection::names(),
                },
                error => error,
            })?)),
        };
        Ok(Selection {
            text: text.into(),
            kind,
        })
    }
}

/// The text that the selection was read from.
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Selection {
    fn eq(&self, other: &Selection) -> bool {
        (self.name(), self.algorithm()) == (other.name(), other.algorithm())
    }
}

/// Makes every controller of the [catalogue](CATALOG) known to quiche by name, in the whole process.
///
/// From then on `Config::set_cc_algorithm_name("gallop-vegas:alpha=1,beta=3")`, its variant for use
/// in the handshake, tokio-quiche's `cc_algorithm` and the C API select them. quiche logs why it
/// refuses a name or an option; parse an [`Algorithm`] to show a user the reason.
///
/// # Errors
///
/// [`quiche::Error::CongestionControl`] if quiche has a
/// built-in algorithm of that name.
pub fn register() -> ::quiche::Result<()> {
    for entry in CATALOG {
        ::quiche::register_cc_algorithm(entry.name, move |options| {
            Ok(Arc::new(entry.algorithm(options)?))
        })?;
    }
    Ok(())
}

/// Makes a controller that is not in the [catalogue](CATALOG) known by name, to quiche and to
/// [`Selection`], in the whole process. It takes no options.
///
/// # Errors
///
/// [`quiche::Error::CongestionControl`] if the name is taken by another controller.
pub fn register_own(
    name: &'static str,
    summary: &'static str,
    factory: Factory,
) -> ::quiche::Result<()> {
    if Selection::names().contains(&name) {
        return Err(::quiche::Error::CongestionControl);
    }
    ::quiche::register_cc_algorithm(name, move |options| match options {
        "" => Ok(Arc::new(factory)),
        _ => Err(Box::from(AlgorithmError::NoOptions {
            name,
            options: options.into(),
        })),
    })?;
    let mut own = OWN.write().unwrap_or_else(PoisonError::into_inner);
    own.push(Own {
        name,
        summary,
        factory,
    });
    Ok(())
}

impl From<&ControllerConfig> for PathConfig {
    fn from(config: &ControllerConfig) -> PathConfig {
        PathConfig {
            max_datagram_size_bytes: config.max_datagram_size,
            initial_window_packets: config.initial_congestion_window_packets as u64,
            pacing: config.pacing,
        }
    }
}

impl CongestionControllerFactory for Algorithm {
    fn build(&self, config: &ControllerConfig) -> Box<dyn CongestionController> {
        Box::new(Adapter::new(Algorithm::build(self, &config.into())))
    }
}

impl CongestionControllerFactory for Factory {
    fn build(&self, config: &ControllerConfig) -> Box<dyn CongestionController> {
        Box::new(Adapter::new(self.0(&config.into())))
    }
}

/// A controller behind quiche's plug point. quiche reports no ECN marks.
#[derive(Debug)]
struct Adapter {
    controller: Box<dyn Controller>,
    /// The packets of one event. Kept, so that no event allocates memory.
    packets: Vec<PacketInfo>,
}

impl Adapter {
    fn new(controller: Box<dyn Controller>) -> Adapter {
        Adapter {
            controller,
            packets: Vec::new(),
        }
    }

    /// Tells the controller of an event with packets.
    fn tell_of<P>(&mut self, packets: &[P], event: impl FnOnce(&mut dyn Controller, &[PacketInfo]))
    where
        for<'a> PacketInfo: From<&'a P>,
    {
        self.packets.clear();
        self.packets.extend(packets.iter().map(PacketInfo::from));
        event(&mut *self.controller, &self.packets);
    }
}

impl From<&AckedPacket> for PacketInfo {
    fn from(packet: &AckedPacket) -> Self {
        PacketInfo {
            packet_number: packet.pkt_num,
            time_sent: packet.time_sent,
            size_bytes: packet.size,
        }
    }
}

impl From<&LostPacket> for PacketInfo {
    fn from(packet: &LostPacket) -> Self {
        PacketInfo {
            packet_number: packet.pkt_num,
            time_sent: packet.time_sent,
            size_bytes: packet.size,
        }
    }
}

impl From<&AckEvent<'_>> for Ack {
    fn from(event: &AckEvent<'_>) -> Self {
        Ack {
            now: event.now,
            measures_rtt: event.rtt_updated,
            ack_delay: Some(event.ack_delay),
            rtt: RttEstimate {
                smoothed: event.rtt.rtt(),
                variation: event.rtt.rttvar(),
                max_ack_delay: event.rtt.max_ack_delay(),
            },
            bytes_in_flight: event.bytes_in_flight,
        }
    }
}

impl CongestionController for Adapter {
    fn congestion_window(&self) -> usize {
        self.controller.window_bytes()
    }

    fn on_packet_sent(&mut self, packet: &::quiche::SentPacket) {
        self.controller.on_packet_sent(&SentPacket {
            packet_number: packet.pkt_num,
            time_sent: packet.time_sent,
            size_bytes: packet.size,
            bytes_in_flight: packet.bytes_in_flight,
        });
    }

    fn on_packets_acked(&mut self, event: &AckEvent<'_>) {
        let ack = event.into();
        self.tell_of(event.packets, |controller, packets| {
            controller.on_packets_acked(&ack, packets);
        });
    }

    /// quiche does not look for persistent congestion.
    fn on_packets_lost(&mut self, event: &LossEvent<'_>) {
        let loss = Loss {
            now: event.now,
            persistent_congestion: None,
        };
        self.tell_of(event.packets, |controller, packets| {
            controller.on_packets_lost(&loss, packets);
        });
    }

    fn on_spurious_loss(&mut self, now: Instant, packets: &[LostPacket]) {
        self.tell_of(packets, |controller, packets| {
            controller.on_spurious_loss(now, packets);
        });
    }

    fn on_packets_discarded(&mut self, _now: Instant, bytes: usize) {
        self.controller.on_packets_discarded(bytes);
    }

    fn on_mtu_update(&mut self, max_datagram_size: usize) {
        self.controller.on_mtu_update(max_datagram_size);
    }

    fn ssthresh(&self) -> Option<usize> {
        self.controller.ssthresh_bytes()
    }

    fn startup_exit_reason(&self) -> StartupExitReason {
        match self.controller.phase() {
            Phase::Recovery => StartupExitReason::Loss,
            _ => StartupExitReason::PersistentQueue,
        }
    }

    /// While datagrams are spaced, a batch is what may leave at one time.
    fn send_quantum(&self) -> Option<usize> {
        self.controller.burst_bytes()
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.controller
            .pacing_rate_bps()
            .map(|bps| (bps / 8.0) as u64)
    }

    fn next_release_time(&self) -> Option<Instant> {
        self.controller.next_release_time()
    }

    /// The papers' packets are of one size, and the window is counted in them.
    fn whole_datagrams(&self) -> bool {
        true
    }

    fn state_str(&self, _now: Instant) -> &'static str {
        self.controller.phase_name()
    }

    fn metrics(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        self.controller
            .figures(&mut |figure| sink(figure.name, figure.value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::listed;

    #[test]
    fn quiche_takes_every_controller() {
        for name in Selection::names() {
            let selection: Selection = name.parse().unwrap();
            assert_eq!(
                (selection.name(), selection.to_string()),
                (name, name.into())
            );
            let mut config = ::quiche::Config::new(::quiche::PROTOCOL_VERSION).unwrap();
            selection.configure(&mut config).unwrap();
        }
    }

    #[test]
    fn names_are_registered_with_their_options() {
        register().unwrap();
        let mut config = ::quiche::Config::new(::quiche::PROTOCOL_VERSION).unwrap();
        config
            .set_cc_algorithm_name("gallop-vegas:alpha=1,beta=3")
            .unwrap();
        config.set_cc_algorithm_name("vegas:alpha=x").unwrap_err();
    }

    #[test]
    fn errors_name_quiches_controllers_too() {
        let error = |text: &str| text.parse::<Selection>().unwrap_err().to_string();
        let known = format!("the controllers are {}", listed(&Selection::names(), "and"));
        assert_eq!(
            error("bbr"),
            format!("unknown congestion controller `bbr`: did you mean `bbr2`? {known}")
        );
        assert_eq!(
            error("reno:alpha=1"),
            "reno is built into quiche and takes no options, but `alpha=1` was given"
        );
        assert_eq!(
            error("vegas:alpha=x"),
            "vegas: option `alpha` cannot be `x`: it must be a number of datagrams from 0 to 1000"
        );
    }

    #[test]
    fn help_shows_every_controller_and_option() {
        let help = Selection::help();
        for name in Selection::names() {
            assert!(help.contains(&format!("\n  {name} ")), "{help}");
        }
        for option in CATALOG.iter().flat_map(|entry| entry.options) {
            assert!(help.contains(&format!("      {} ", option.name)), "{help}");
        }
    }
}
