//! Set-up of the connections of a flow.

use std::sync::Arc;
use std::time::Duration;

use quiche::{CongestionControllerFactory, h3};

use super::tls;
use crate::traffic::conversation::Protocol;

/// A congestion controller.
#[derive(Clone, Debug)]
pub enum Controller {
    /// A controller that quiche has or that is registered with it, by name; options follow after a
    /// colon.
    Named(String),
    /// A factory of instances.
    Factory(Arc<dyn CongestionControllerFactory>),
}

impl Controller {
    /// The controller that quiche knows as `name`.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Controller {
        Controller::Named(name.into())
    }

    /// Checks that quiche knows the controller and takes its options.
    ///
    /// # Errors
    /// Names the controller that quiche refuses.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.configure(&mut quiche::Config::new(quiche::PROTOCOL_VERSION)?)
    }

    fn configure(&self, config: &mut quiche::Config) -> Result<(), ConfigError> {
        match self {
            Controller::Named(name) => config
                .set_cc_algorithm_name(name)
                .map_err(|_| ConfigError::Controller(name.clone())),
            Controller::Factory(factory) => {
                config.set_cc_controller_factory(Arc::clone(factory));
                Ok(())
            }
        }
    }
}

/// Settings of a connection that both ends share.
#[derive(Clone, Debug)]
pub(crate) struct Settings<'a> {
    pub(crate) controller: &'a Controller,
    pub(crate) datagram_bytes: usize,
    pub(crate) initial_window_packets: usize,
    pub(crate) hystart: bool,
    pub(crate) pacing: bool,
    pub(crate) discovers_mtu: bool,
    pub(crate) moves: bool,
    pub(crate) max_ack_delay: Duration,
    pub(crate) protocol: Protocol,
    /// True if the server opens a stream for each frame.
    pub(crate) live: bool,
}

/// Flow control that never limits.
const WIDE_WINDOW_BYTES: u64 = 1 << 50;

/// Connection ids of a client that moves and of its server: those of the old and the new address,
/// and spare ones (RFC 9000 §9.5).
const CONNECTION_IDS_OF_A_MOVER: u64 = 4;

/// The number of exchanges that can be under way at once; more wait.
const MAX_STREAMS: u64 = 60;

/// The number of frames that can be under way at once; more wait.
const MAX_FRAMES: u64 = 1000;

/// A reason for which a connection cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The certificate or its key.
    #[error("TLS context: {0}")]
    Tls(#[from] boring::error::ErrorStack),
    /// quiche's own settings.
    #[error("quiche's configuration: {0}")]
    Quiche(#[from] quiche::Error),
    /// Another stack's reason.
    #[error("{0}")]
    Other(String),
    /// The controller's name.
    #[error("quiche knows no congestion controller \"{0}\" or refuses its options")]
    Controller(String),
}

impl Settings<'_> {
    /// quiche's configuration, as shipped except for grease (off, so that packets carry nothing
    /// that the comparison does not need), flow control (wide), the idle timeout (none) and the
    /// settings of the flow.
    pub(crate) fn config(&self) -> Result<quiche::Config, ConfigError> {
        let mut config =
            quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls::context()?)?;
        config.set_application_protos(match self.protocol {
            Protocol::Http3 => h3::APPLICATION_PROTOCOL,
            Protocol::Streams => &[b"gallop-sim"],
        })?;
        config.verify_peer(false);
        config.grease(false);
        config.discover_pmtu(self.discovers_mtu);
        if self.moves {
            config.set_active_connection_id_limit(CONNECTION_IDS_OF_A_MOVER);
        }
        config.set_max_idle_timeout(0);
        config.set_max_send_udp_payload_size(self.datagram_bytes);
        config.set_max_recv_udp_payload_size(self.datagram_bytes);
        config.set_initial_max_data(WIDE_WINDOW_BYTES);
        config.set_initial_max_stream_data_bidi_local(WIDE_WINDOW_BYTES);
        config.set_initial_max_stream_data_bidi_remote(WIDE_WINDOW_BYTES);
        config.set_initial_max_streams_bidi(MAX_STREAMS);
        if self.protocol == Protocol::Http3 {
            // Control, QPACK encoder and decoder streams (RFC 9114 §6.2), and a grease stream.
            config.set_initial_max_streams_uni(4);
            config.set_initial_max_stream_data_uni(WIDE_WINDOW_BYTES);
        }
        if self.live {
            config.set_initial_max_streams_uni(MAX_FRAMES);
            config.set_initial_max_stream_data_uni(WIDE_WINDOW_BYTES);
        }
        config.set_max_connection_window(WIDE_WINDOW_BYTES);
        config.set_max_stream_window(WIDE_WINDOW_BYTES);
        config.set_initial_congestion_window_packets(self.initial_window_packets);
        config.enable_hystart(self.hystart);
        config.enable_pacing(self.pacing);
        let ack_delay_ms = self.max_ack_delay.as_nanos().div_ceil(1_000_000);
        config.set_max_ack_delay(u64::try_from(ack_delay_ms).unwrap_or(u64::MAX));
        self.controller.configure(&mut config)?;
        Ok(config)
    }
}
