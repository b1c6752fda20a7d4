//! One connection of the client.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use boring::error::ErrorStack;
use boring::x509::X509;
use quiche::{Config, Connection};
use serde::Serialize;
use url::Host;

use crate::client::exchange::Exchange;
use crate::client::failure::Failure;
use crate::client::session::{self, Conditions, Unusable};
use crate::client::settings::Settings;
use crate::outbox::{Outbox, Turn};
use crate::socket::{ReceiveBuffers, Socket};
use crate::trace::KeyLog;
use crate::transport::{self, H3};

/// The number of times that one turn refills a connection before others get theirs.
const FILLS_PER_TURN: usize = 16;

/// A connection to a server.
pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) exchange: Option<Exchange>,
    pub(super) server: usize,
    /// One socket, bound to one address.
    pub(super) socket: [Socket; 1],
    pub(super) is_readable: bool,
    host: Host<String>,
    peer: SocketAddr,
    outbox: Outbox,
    begun: Instant,
    established: Option<Instant>,
    failure: Option<Failure>,
    turn: Turn,
}

/// The report about a connection.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The server's address.
    pub peer: SocketAddr,
    /// The congestion controller of this end.
    pub congestion_control: String,
    /// From the first packet to the end of the handshake.
    pub handshake_s: Option<f64>,
    /// True if a session was resumed.
    pub resumed: bool,
    /// Smoothed RTT.
    pub rtt_s: f64,
    /// The smallest RTT.
    pub min_rtt_s: Option<f64>,
    /// Congestion window.
    pub window_bytes: usize,
    /// UDP payload sent.
    pub sent_bytes: u64,
    /// UDP payload received.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent_packets: usize,
    /// Packets declared lost.
    pub lost_packets: usize,
    /// Stream data sent again.
    pub retransmitted_bytes: u64,
}

/// The address from which packets to `peer` go out.
fn source(peer: SocketAddr) -> io::Result<IpAddr> {
    let any: SocketAddr = match peer {
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0; 16], 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(peer)?;
    Ok(socket.local_addr()?.ip())
}

impl Link {
    pub(super) fn connect(
        config: &mut Config,
        settings: &Settings,
        server: usize,
        host: &Host<String>,
        peer: SocketAddr,
    ) -> Result<Self, Failure> {
        let unreachable = |error: io::Error| Failure::Connect(format!("{peer}: {error}"));
        let local = SocketAddr::new(source(peer).map_err(unreachable)?, 0);
        let mut socket = Socket::bind(local).map_err(unreachable)?;
        if settings.no_gso {
            socket.disable_segmentation_offload();
        }
        if settings.pacing == crate::outbox::Pacing::Txtime {
            socket
                .enable_departure_times()
                .map_err(|error| Failure::Local(format!("--pacing txtime: {error}")))?;
        }
        let begin = |config: &mut Config| -> quiche::Result<Connection> {
            let id = transport::connection_id()?;
            // An address is no server name (RFC 6066 §3); it is checked after the handshake.
            let name = match host {
                Host::Domain(name) => Some(name.as_str()),
                Host::Ipv4(_) | Host::Ipv6(_) => None,
            };
            quiche::connect(name, &id, socket.local_address(), peer, config)
        };
        let mut connection =
            begin(config).map_err(|error| Failure::Connect(format!("{peer}: {error}")))?;
        if let Some(keylog) = settings.keylog.as_ref().map(KeyLog::writer) {
            connection.set_keylog(keylog.map_err(|error| Failure::Local(error.to_string()))?);
        }
        if let Some(traces) = &settings.traces {
            traces.begin(
                &mut connection,
                "client",
                settings.congestion_control.as_str(),
            );
        }
        if let Some(path) = &settings.session {
            let conditions = Conditions::new(host, peer.port(), &settings.trust);
            match session::read(path, &conditions) {
                Ok(session) => {
                    if let Err(error) = connection.set_session(&session) {
                        tracing::warn!(%error, "the session cannot be resumed");
                    }
                }
                Err(Unusable::Absent) => {}
                Err(reason) => {
                    tracing::warn!(path = %path.display(), %reason, "the session is not resumed");
                }
            }
        }
        Ok(Link {
            connection,
            exchange: None,
            server,
            socket: [socket],
            is_readable: true,
            host: host.clone(),
            peer,
            outbox: Outbox::new(settings.pacing),
            begun: Instant::now(),
            established: None,
            failure: None,
            turn: Turn::More,
        })
    }

    /// Reads received datagrams.
    pub(super) fn receive(&mut self, buffers: &mut ReceiveBuffers) {
        let connection = &mut self.connection;
        let received = self.socket[0].receive(buffers, |datagram, info, at| {
            if let Err(error) = connection.recv_at(datagram, info, at) {
                tracing::debug!(%error, "packet");
            }
        });
        if let Err(error) = received {
            self.is_readable = error.kind() != io::ErrorKind::WouldBlock;
            if self.is_readable {
                tracing::debug!(%error, "receive");
            }
        }
        self.issue_connection_ids();
    }

    /// Keeps the server supplied with connection IDs: some servers need a new one for a new path,
    /// even for one that a NAT makes (RFC 9000 §9.5), and otherwise stay on the old path.
    fn issue_connection_ids(&mut self) {
        if !self.connection.is_established() {
            return;
        }
        if let Err(error) = transport::issue_connection_ids(
            &mut self.connection,
            transport::connection_id,
            |_| transport::random_token(),
            |_| {},
        ) {
            tracing::debug!(%error, "no more connection ids");
        }
        while self.connection.retired_scid_next().is_some() {}
    }

    /// Begins an exchange once the connection can carry requests; true if it did.
    pub(super) fn begin(&mut self, settings: &Settings, now: Instant) -> bool {
        let is_established = self.connection.is_established();
        if is_established && self.established.is_none() {
            self.established = Some(now);
            if let Err(failure) = self.check_name(settings) {
                self.failure = Some(failure);
                // TLS alert bad_certificate.
                let _ = self.connection.close(false, 0x12a, b"");
                return false;
            }
        }
        let is_early = settings.early_data
            && self.connection.is_in_early_data()
            && matches!(self.host, Host::Domain(_));
        if self.exchange.is_some() || self.is_closing() || !(is_established || is_early) {
            return false;
        }
        if settings.protocol != H3 {
            self.exchange = Some(Exchange::hq());
            return true;
        }
        match Exchange::http3(&mut self.connection) {
            Ok(exchange) => self.exchange = Some(exchange),
            Err(error) => self.fail(Failure::Connect(format!("HTTP/3 cannot begin: {error}"))),
        }
        self.exchange.is_some()
    }

    /// The conditions under which this connection's session can be resumed.
    pub(super) fn session_conditions(&self, settings: &Settings) -> Conditions {
        Conditions::new(&self.host, self.peer.port(), &settings.trust)
    }

    /// Checks what BoringSSL does not: an address, and that a name is one of the certificate's
    /// alternative names. Its common name does not count (RFC 9110 §4.3.4).
    fn check_name(&self, settings: &Settings) -> Result<(), Failure> {
        if settings.insecure {
            return Ok(());
        }
        let is_for = |certificate: &[u8]| {
            let certificate = X509::from_der(certificate)?;
            match &self.host {
                Host::Ipv4(ip) => certificate.check_ip_asc(&ip.to_string()),
                Host::Ipv6(ip) => certificate.check_ip_asc(&ip.to_string()),
                // BoringSSL has compared the names, if there are any.
                Host::Domain(_) => Ok(certificate
                    .subject_alt_names()
                    .is_some_and(|names| names.iter().any(|name| name.dnsname().is_some()))),
            }
        };
        match self.connection.peer_cert().map(is_for) {
            Some(Ok::<_, ErrorStack>(true)) => Ok(()),
            // A resumed session was checked when it began.
            None if self.connection.is_resumed() => Ok(()),
            _ => Err(Failure::Certificate(format!(
                "the server's certificate is not for {}",
                self.host
            ))),
        }
    }

    /// Sends all packets that may leave.
    pub(super) fn send(&mut self, scratch: &mut [u8]) {
        for _ in 0..FILLS_PER_TURN {
            self.turn = match self
                .outbox
                .send(&mut self.connection, &self.socket, scratch)
            {
                Ok(turn) => turn,
                Err(error) => {
                    self.fail(Failure::Connect(error.to_string()));
                    Turn::Done
                }
            };
            let is_filled = self.turn == Turn::Done
                && self
                    .exchange
                    .as_mut()
                    .is_some_and(|exchange| exchange.write(&mut self.connection));
            if !is_filled {
                return;
            }
        }
        self.turn = Turn::More;
    }

    /// Closes the connection for this reason.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
        let _ = self.connection.close(false, 0x1, b"");
    }

    /// The time at which it wakes next.
    pub(super) fn wake(&self) -> Option<Instant> {
        let release = match self.turn {
            Turn::Until(time) => Some(time),
            Turn::More => Some(Instant::now()),
            Turn::Done | Turn::Blocked => None,
        };
        self.connection
            .timeout_instant()
            .into_iter()
            .chain(release)
            .min()
    }

    /// True if no more requests can be sent.
    pub(super) fn is_closing(&self) -> bool {
        self.connection.is_closed()
            || self.connection.is_draining()
            || self.connection.local_error().is_some()
    }

    pub(super) fn is_established(&self) -> bool {
        self.established.is_some()
    }

    /// The time since the handshake began.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begun)
    }

    /// The time by which the handshake has to be complete.
    pub(super) fn handshake_deadline(&self, timeout: Duration) -> Option<Instant> {
        match self.established {
            Some(_) => None,
            None => self.begun.checked_add(timeout),
        }
    }

    /// The reason why it ended.
    pub(super) fn failure(&self) -> Failure {
        if let Some(failure) = &self.failure {
            return failure.clone();
        }
        let peer = self.peer;
        let failure = if self.connection.is_timed_out() {
            format!("{peer} is silent")
        } else if let Some(error) = self.connection.local_error() {
            return match (error.is_app, tls_alert(error.error_code)) {
                (false, Some(42..=48)) => Failure::Certificate(format!(
                    "the certificate of {peer} is not trusted; give its issuer with --ca, or \
                     --insecure"
                )),
                (false, Some(alert)) => Failure::Connect(format!("TLS with {peer}: alert {alert}")),
                (_, None) | (true, _) => Failure::Connect(format!(
                    "connection to {peer} given up with code {:#x}",
                    error.error_code
                )),
            };
        } else if let Some(error) = self.connection.peer_error() {
            match tls_alert(error.error_code).filter(|_| !error.is_app) {
                Some(120) => format!("{peer} does not speak this protocol (ALPN)"),
                Some(alert) => format!("TLS with {peer}: it sent alert {alert}"),
                None => format!(
                    "{peer} closed the connection with code {:#x}",
                    error.error_code
                ),
            }
        } else {
            format!("the connection to {peer} ended")
        };
        Failure::Connect(failure)
    }

    pub(super) fn summary(&self, settings: &Settings) -> Summary {
        let stats = self.connection.stats();
        let path = self.connection.path_stats().find(|path| path.active);
        Summary {
            peer: self.peer,
            congestion_control: settings.congestion_control.as_str().to_owned(),
            handshake_s: self
                .established
                .map(|time| time.saturating_duration_since(self.begun).as_secs_f64()),
            resumed: self.connection.is_resumed(),
            rtt_s: path.as_ref().map_or(0.0, |path| path.rtt.as_secs_f64()),
            min_rtt_s: path
                .as_ref()
                .and_then(|path| path.min_rtt)
                .map(|rtt| rtt.as_secs_f64()),
            window_bytes: path.map_or(0, |path| path.cwnd),
            sent_bytes: stats.sent_bytes,
            received_bytes: stats.recv_bytes,
            sent_packets: stats.sent,
            lost_packets: stats.lost,
            retransmitted_bytes: stats.stream_retrans_bytes,
        }
    }
}

/// The TLS alert of a connection error (RFC 9001 §4.8).
fn tls_alert(code: u64) -> Option<u64> {
    (0x100..0x200).contains(&code).then(|| code - 0x100)
}
