// One end of a connection, written once for quinn and for noq, which is quinn's fork: the module
// that includes this file names the stack `proto` and bridges where the two differ.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use gallop::controller::PathConfig;
use gallop::{Algorithm, AlgorithmError};
use gallop_network::packet::Ecn;
use proto::congestion::{Controller, ControllerFactory};
use proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use proto::{
    AckFrequencyConfig, ClientConfig, Connection, ConnectionHandle, ConnectionId,
    ConnectionIdGenerator, DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig, Event,
    SendStream, ServerConfig, StreamEvent, StreamId, Transmit, TransportConfig,
    ValidationTokenConfig, VarInt, WriteError,
};
use rand_core::Rng;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;

use crate::tls;
use crate::{Settings, SetupError, UnknownController};

/// A factory of controllers, as the stack's configuration takes it.
pub type Factory = Arc<dyn ControllerFactory + Send + Sync>;

/// Datagrams that are made at once, as the stacks' own drivers have it.
const MAX_BATCH: NonZeroUsize = NonZeroUsize::new(10).unwrap();

/// Bytes that are handed over and not acknowledged at most.
const SEND_WINDOW_BYTES: u64 = 1 << 26;

/// Streams that may be open at once.
const MAX_STREAMS: u32 = 60;

/// Streams of the server's that may be open at once.
const MAX_SERVER_STREAMS: u32 = 1000;

const ID_BYTES: usize = 8;

/// The factory of a controller by name: the stack's own, or of the catalogue with options after a
/// colon.
///
/// # Errors
///
/// There is no such controller, or it refuses its options.
pub fn factory(name: &str) -> Result<Factory, UnknownController> {
    match built_in(name) {
        Some(factory) => Ok(factory),
        None => Ok(Arc::new(algorithm(name)?)),
    }
}

/// The algorithm of the catalogue of that name.
fn algorithm(name: &str) -> Result<Algorithm, AlgorithmError> {
    name.parse().map_err(|error| match error {
        AlgorithmError::Unknown { name, mut known } => {
            known.extend(BUILT_IN.map(|(name, _)| name));
            AlgorithmError::Unknown { name, known }
        }
        error => error,
    })
}

/// The same as [`factory`], with that initial window for a controller of the catalogue.
///
/// # Errors
///
/// As there.
pub fn factory_with_window(
    name: &str,
    initial_window_packets: u64,
) -> Result<Factory, UnknownController> {
    Ok(match built_in(name) {
        Some(factory) => factory,
        None => Arc::new(Windowed {
            algorithm: algorithm(name)?,
            initial_window_packets,
        }),
    })
}

/// An algorithm that begins with a window of the simulation's choice.
struct Windowed {
    algorithm: Algorithm,
    initial_window_packets: u64,
}

impl ControllerFactory for Windowed {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let build = |path: &PathConfig| {
            self.algorithm.build(&PathConfig {
                initial_window_packets: self.initial_window_packets,
                ..*path
            })
        };
        Box::new(Adapter::new(build, now, current_mtu))
    }
}

/// The factory of one of the stack's own controllers.
///
/// # Errors
///
/// It has none of that name.
pub fn own_factory(name: &str) -> Result<Factory, UnknownController> {
    built_in(name).ok_or_else(|| UnknownController::BuiltIn {
        stack: module_path!().rsplit("::").next().unwrap_or_default(),
        name: name.into(),
        known: BUILT_IN.map(|(name, _)| name).join(", "),
    })
}

/// The state of the path in use.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// The smoothed RTT; before the first sample, the one that is assumed.
    pub rtt: Duration,
    /// The least RTT, if the stack tells it.
    pub min_rtt: Option<Duration>,
    /// Packets sent; of noq, datagrams.
    pub sent_packets: u64,
    /// Bytes of the datagrams sent.
    pub sent_bytes: u64,
    /// Bytes of the datagrams received.
    pub received_bytes: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Bytes declared lost.
    pub lost_bytes: u64,
}

/// One end of a connection.
pub struct Peer {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    other: SocketAddr,
    /// Streams that may have something to read.
    readable: BTreeSet<u64>,
    is_established: bool,
    lost: Option<String>,
    batch: Vec<u8>,
}

/// Connection ids by a seed.
struct Ids(SplitMix64);

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; ID_BYTES];
        self.0.fill_bytes(&mut id);
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

fn ids() -> Box<dyn ConnectionIdGenerator> {
    let mut seed = [0; 8];
    tls::fill(&mut seed);
    Box::new(Ids(SplitMix64::from_seed(seed)))
}

fn transport(settings: &Settings<Factory>) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(Arc::clone(&settings.factory))
        .max_idle_timeout(None)
        .stream_receive_window(VarInt::MAX)
        .receive_window(VarInt::MAX)
        .send_window(SEND_WINDOW_BYTES)
        .max_concurrent_bidi_streams(MAX_STREAMS.into())
        .max_concurrent_uni_streams(MAX_SERVER_STREAMS.into())
        .initial_mtu(settings.datagram_bytes)
        .min_mtu(settings.datagram_bytes)
        .mtu_discovery_config(None)
        .allow_spin(false);
    if let Some((every, max_delay)) = settings.acks {
        let mut acks = AckFrequencyConfig::default();
        acks.ack_eliciting_threshold(every.saturating_sub(1).into())
            .max_ack_delay(Some(max_delay));
        transport.ack_frequency_config(Some(acks));
    }
    Arc::new(transport)
}

fn endpoint_config(seed: u64) -> EndpointConfig {
    let mut bytes = [0; 32];
    SplitMix64::seed_from_u64(seed).fill_bytes(&mut bytes);
    let reset_key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &bytes);
    let mut config = EndpointConfig::new(Arc::new(reset_key));
    config.rng_seed(Some(bytes));
    set_ids(&mut config, ids);
    config
}

impl Peer {
    /// A client, which connects at once.
    ///
    /// # Errors
    ///
    /// TLS, or the stack, refuses.
    pub fn client(settings: &Settings<Factory>, now: Instant) -> Result<Peer, SetupError> {
        let tls = QuicClientConfig::try_from(tls::client()?);
        let tls = tls.map_err(|_| SetupError::NoInitialSuite)?;
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(transport(settings));
        config.initial_dst_cid_provider(Arc::new(|| ids().generate_cid()));
        let mut peer = Peer::new(endpoint(endpoint_config(settings.seed), None));
        let connected = peer
            .endpoint
            .connect(now, config, peer.other, tls::SERVER_NAME)
            .map_err(|error| SetupError::Connect(error.to_string()))?;
        peer.connection = Some(connected);
        Ok(peer)
    }

    /// A server, which waits.
    ///
    /// # Errors
    ///
    /// TLS refuses.
    pub fn server(settings: &Settings<Factory>) -> Result<Peer, SetupError> {
        let tls = QuicServerConfig::try_from(tls::server()?);
        let tls = tls.map_err(|_| SetupError::NoInitialSuite)?;
        let mut config = ServerConfig::with_crypto(Arc::new(tls));
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        config
            .transport_config(transport(settings))
            .validation_token_config(tokens);
        let seed = settings.seed.wrapping_add(1 << 32);
        Ok(Peer::new(endpoint(
            endpoint_config(seed),
            Some(Arc::new(config)),
        )))
    }

    fn new(endpoint: Endpoint) -> Peer {
        Peer {
            endpoint,
            connection: None,
            other: SocketAddr::from((Ipv4Addr::LOCALHOST, 4433)),
            readable: BTreeSet::new(),
            is_established: false,
            lost: None,
            batch: Vec::new(),
        }
    }

    fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut().map(|(_, connection)| connection)
    }

    /// Takes a datagram in, with what the network says of it.
    pub fn receive(&mut self, datagram: &[u8], ecn: Ecn, now: Instant) {
        let mut answer = Vec::new();
        let ecn = match ecn {
            Ecn::NotCapable => None,
            Ecn::Capable => Some(EcnCodepoint::Ect0),
            Ecn::Marked => Some(EcnCodepoint::Ce),
        };
        let event = from_peer(
            &mut self.endpoint,
            now,
            self.other,
            ecn,
            datagram.into(),
            &mut answer,
        );
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some(connection) = self.connection() {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                match self.endpoint.accept(incoming, now, &mut answer, None) {
                    Ok(accepted) => self.connection = Some(accepted),
                    Err(error) => self.lost = Some(error.cause.to_string()),
                }
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
        self.settle();
    }

    /// Handles what the connection and its endpoint have for each other and for the application.
    fn settle(&mut self) {
        let Some((handle, connection)) = &mut self.connection else {
            return;
        };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => self.is_established = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason.to_string()),
                Event::Stream(StreamEvent::Readable { id }) => {
                    self.readable.insert(id.into());
                }
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = connection.streams().accept(dir) {
                        self.readable.insert(id.into());
                    }
                }
                _ => {}
            }
        }
    }

    /// Makes the datagrams that may leave now, a batch at a time, until there is none.
    pub fn transmit(&mut self, now: Instant, mut out: impl FnMut(&[u8])) {
        let Some((_, connection)) = &mut self.connection else {
            return;
        };
        loop {
            self.batch.clear();
            let Some(transmit) = next_transmit(connection, now, &mut self.batch) else {
                break;
            };
            let datagrams = &self.batch[..transmit.size];
            let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
            datagrams.chunks(segment).for_each(&mut out);
        }
        self.settle();
    }

    /// The time at which [`on_timeout`](Self::on_timeout) is to be called.
    pub fn timeout(&mut self) -> Option<Instant> {
        self.connection()?.poll_timeout()
    }

    /// The connection's timer has expired.
    pub fn on_timeout(&mut self, now: Instant) {
        if let Some(connection) = self.connection() {
            connection.handle_timeout(now);
        }
        self.settle();
    }

    /// True once the handshake is done.
    pub fn is_established(&self) -> bool {
        self.is_established
    }

    /// The reason for which the connection is gone, if it is.
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Closes the connection; returns false if there is none, or it was closed before.
    pub fn close(&mut self, now: Instant, code: u32) -> bool {
        let open = self
            .connection()
            .filter(|connection| !connection.is_closed());
        let Some(connection) = open else {
            return false;
        };
        connection.close(now, code.into(), Bytes::new());
        self.settle();
        true
    }

    /// True if nothing is left of the connection.
    pub fn is_drained(&self) -> bool {
        self.connection
            .as_ref()
            .is_some_and(|(_, connection)| connection.is_drained())
    }

    /// Opens a stream for a request and its answer; `None` if there is none now.
    pub fn open(&mut self) -> Option<u64> {
        Some(self.connection()?.streams().open(Dir::Bi)?.into())
    }

    /// Opens a stream that goes one way, of which the one that was opened first is sent first; `None`
    /// if there is none now.
    ///
    /// # Errors
    ///
    /// The stream is closed.
    pub fn open_in_turn(&mut self) -> Result<Option<u64>, String> {
        let Some(connection) = self.connection() else {
            return Ok(None);
        };
        let Some(id) = connection.streams().open(Dir::Uni) else {
            return Ok(None);
        };
        let priority = i32::try_from(id.index()).map_or(i32::MIN, |index| -index);
        let mut stream = connection.send_stream(id);
        stream
            .set_priority(priority)
            .map_err(|error| error.to_string())?;
        Ok(Some(id.into()))
    }

    /// Takes no data from now on while so many bytes are not acknowledged.
    pub fn hold_at_most(&mut self, bytes: u64) {
        if let Some(connection) = self.connection() {
            connection.set_send_window(bytes);
        }
    }

    /// Hands `data` over, and the end of the stream with it if it is the last; returns the bytes that
    /// were taken, which are none when the send window is full.
    ///
    /// # Errors
    ///
    /// The stream is closed.
    pub fn write(&mut self, stream: u64, data: Bytes, last: bool) -> Result<usize, String> {
        let Some(connection) = self.connection() else {
            return Ok(0);
        };
        let mut stream = connection.send_stream(stream_id(stream));
        let length = data.len();
        let written = match write_chunk(&mut stream, data) {
            Ok(written) => written,
            Err(WriteError::Blocked) => 0,
            Err(error) => return Err(error.to_string()),
        };
        if last && written == length {
            stream.finish().map_err(|error| error.to_string())?;
        }
        Ok(written)
    }

    /// A stream that may have something to read, and each only once until there is more.
    pub fn next_readable(&mut self) -> Option<u64> {
        self.readable.pop_first()
    }

    /// Reads all that is there, and forgets it; returns the number of bytes, and true at the end.
    ///
    /// # Errors
    ///
    /// The stream was reset.
    pub fn discard(&mut self, stream: u64) -> Result<(u64, bool), String> {
        let Some(connection) = self.connection() else {
            return Ok((0, false));
        };
        let mut stream = connection.recv_stream(stream_id(stream));
        // A stream that was read to its end is closed.
        let Ok(mut chunks) = stream.read(true) else {
            return Ok((0, false));
        };
        let mut bytes = 0;
        let ended = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => bytes += chunk.bytes.len() as u64,
                Ok(None) => break true,
                Err(proto::ReadError::Blocked) => break false,
                Err(error) => return Err(error.to_string()),
            }
        };
        let _ = chunks.finalize();
        Ok((bytes, ended))
    }

    /// The path's state; `None` before there is a connection.
    pub fn path(&mut self) -> Option<Path> {
        self.connection().map(path)
    }

    /// The congestion window.
    pub fn window_bytes(&self) -> Option<u64> {
        let (_, connection) = self.connection.as_ref()?;
        Some(controller(connection)?.metrics().congestion_window)
    }

    /// The phase of a controller of the catalogue. Of the stack's own, those with a slow start
    /// threshold are in slow start below it, and of others nothing is known.
    pub fn phase_name(&self) -> Option<&'static str> {
        let (_, connection) = self.connection.as_ref()?;
        let controller = controller(connection)?;
        match controller.clone_box().into_any().downcast::<Adapter>() {
            Ok(adapter) => Some(adapter.controller().phase_name()),
            Err(_) => {
                let metrics = controller.metrics();
                Some(match metrics.congestion_window < metrics.ssthresh? {
                    true => "slow_start",
                    false => "congestion_avoidance",
                })
            }
        }
    }

    /// A figure of a controller of the catalogue.
    pub fn figure(&self, name: &str) -> Option<f64> {
        let (_, connection) = self.connection.as_ref()?;
        let copy = controller(connection)?.clone_box().into_any();
        let adapter = copy.downcast::<Adapter>().ok()?;
        let mut found = None;
        adapter.controller().figures(&mut |figure| {
            if figure.name == name {
                found = Some(figure.value);
            }
        });
        found
    }
}

fn stream_id(stream: u64) -> StreamId {
    VarInt::from_u64(stream).unwrap_or(VarInt::MAX).into()
}
