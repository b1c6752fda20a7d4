//! [quinn](quinn::Peer) and [noq](noq::Peer) connections that do no I/O, are told the time, and draw
//! all entropy from a seed: what the simulator and tests drive. TLS is rustls', as programs have it.

mod settings;
mod tls;

pub use settings::{Settings, SetupError, UnknownController};
pub use tls::{draw_seed, seed_entropy};

/// quinn's connections.
pub mod quinn {
    use gallop::stack::quinn::Adapter;
    use quinn_proto as proto;

    /// False: the stack never says that a loss was none.
    pub const TELLS_SPURIOUS_LOSSES: bool = false;

    /// The controllers that the stack ships.
    pub static BUILT_IN: [(&str, &str); 3] = [
        ("cubic", "quinn's CUBIC, its default"),
        ("new-reno", "quinn's NewReno"),
        ("bbr", "quinn's BBR, which it calls experimental"),
    ];

    fn built_in(name: &str) -> Option<Factory> {
        use proto::congestion::{BbrConfig, CubicConfig, NewRenoConfig};
        Some(match name {
            "cubic" => Arc::new(CubicConfig::default()),
            "new-reno" => Arc::new(NewRenoConfig::default()),
            "bbr" => Arc::new(BbrConfig::default()),
            _ => return None,
        })
    }

    fn endpoint(config: EndpointConfig, server: Option<Arc<ServerConfig>>) -> Endpoint {
        Endpoint::new(Arc::new(config), server, true, None)
    }

    fn set_ids(config: &mut EndpointConfig, ids: fn() -> Box<dyn ConnectionIdGenerator>) {
        config.cid_generator(ids);
    }

    fn from_peer(
        endpoint: &mut Endpoint,
        now: Instant,
        from: SocketAddr,
        ecn: Option<EcnCodepoint>,
        datagram: BytesMut,
        answer: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(now, from, None, ecn, datagram, answer)
    }

    fn next_transmit(
        connection: &mut Connection,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        connection.poll_transmit(now, MAX_BATCH.get(), out)
    }

    fn write_chunk(stream: &mut SendStream<'_>, chunk: Bytes) -> Result<usize, WriteError> {
        stream
            .write_chunks(&mut [chunk])
            .map(|written| written.bytes)
    }

    fn controller(connection: &Connection) -> Option<&dyn Controller> {
        Some(connection.congestion_state())
    }

    fn path(connection: &mut Connection) -> Path {
        let stats = connection.stats();
        Path {
            rtt: stats.path.rtt,
            min_rtt: Some(stats.path.min_rtt),
            sent_packets: stats.path.sent_packets,
            sent_bytes: stats.udp_tx.bytes,
            received_bytes: stats.udp_rx.bytes,
            lost_packets: stats.path.lost_packets,
            lost_bytes: stats.path.lost_bytes,
        }
    }

    include!("peer.rs");
}

/// noq's connections.
pub mod noq {
    use gallop::stack::noq::Adapter;
    use noq_proto as proto;
    use proto::{FourTuple, PathId};

    /// True: the stack says when a loss was none.
    pub const TELLS_SPURIOUS_LOSSES: bool = true;

    /// The controllers that the stack ships.
    pub static BUILT_IN: [(&str, &str); 3] = [
        ("cubic", "noq's CUBIC, its default"),
        ("new-reno", "noq's NewReno"),
        ("bbr3", "noq's BBRv3"),
    ];

    fn built_in(name: &str) -> Option<Factory> {
        use proto::congestion::{Bbr3Config, CubicConfig, NewRenoConfig};
        Some(match name {
            "cubic" => Arc::new(CubicConfig::default()),
            "new-reno" => Arc::new(NewRenoConfig::default()),
            "bbr3" => Arc::new(Bbr3Config::default()),
            _ => return None,
        })
    }

    fn endpoint(config: EndpointConfig, server: Option<Arc<ServerConfig>>) -> Endpoint {
        Endpoint::new(Arc::new(config), server, true)
    }

    fn set_ids(config: &mut EndpointConfig, ids: fn() -> Box<dyn ConnectionIdGenerator>) {
        config.cid_generator(Arc::new(ids));
    }

    fn from_peer(
        endpoint: &mut Endpoint,
        now: Instant,
        from: SocketAddr,
        ecn: Option<EcnCodepoint>,
        datagram: BytesMut,
        answer: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(now, FourTuple::new(from, None), ecn, datagram, answer)
    }

    fn next_transmit(
        connection: &mut Connection,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        connection.poll_transmit(now, MAX_BATCH, out)
    }

    fn write_chunk(stream: &mut SendStream<'_>, chunk: Bytes) -> Result<usize, WriteError> {
        stream.write_chunks(&mut &mut [chunk][..])
    }

    fn controller(connection: &Connection) -> Option<&dyn Controller> {
        connection.congestion_state(PathId::ZERO)
    }

    fn path(connection: &mut Connection) -> Path {
        let path = connection.path_stats(PathId::ZERO).unwrap_or_default();
        let stats = connection.stats();
        Path {
            rtt: path.rtt,
            min_rtt: None,
            sent_packets: stats.udp_tx.datagrams,
            sent_bytes: stats.udp_tx.bytes,
            received_bytes: stats.udp_rx.bytes,
            lost_packets: path.lost_packets,
            lost_bytes: path.lost_bytes,
        }
    }

    include!("peer.rs");
}
