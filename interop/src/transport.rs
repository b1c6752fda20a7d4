//! QUIC settings that server and client share.

use std::time::Duration;

use boring::ssl::SslContextBuilder;
use gallop::stack::quiche::Selection;

use crate::outbox::Pacing;

/// HTTP/3 (RFC 9114).
pub const H3: &[u8] = b"h3";

/// The raw requests of the QUIC interop runner: `GET /path`, answered by the bytes of the file.
pub const HQ: &[u8] = b"hq-interop";

/// The length of this crate's connection IDs.
pub const CONNECTION_ID_BYTES: usize = 16;

/// The largest UDP payload that is sent; it fits into 1500 bytes with IPv6 and a tunnel.
const DATAGRAM_BYTES: usize = 1_350;

/// The bytes that a peer may send before they are read, per stream and in total.
const STREAM_WINDOW_BYTES: u64 = 16 << 20;
const CONNECTION_WINDOW_BYTES: u64 = 64 << 20;

/// The bytes that a peer may send before the first update; quiche grows these windows.
const INITIAL_STREAM_WINDOW_BYTES: u64 = 1 << 20;
const INITIAL_CONNECTION_WINDOW_BYTES: u64 = 10 << 20;

/// Requests that a client may have open, as RFC 9114 §6.1 advises: each takes memory, and may have a
/// file open.
pub const REQUESTS: u64 = 100;

/// Unidirectional streams that a peer may have open; HTTP/3 needs three.
const UNIDIRECTIONAL_STREAMS: u64 = 16;

/// quiche's configuration for either end.
///
/// # Errors
///
/// quiche or BoringSSL refuse a setting.
pub fn config(
    tls: SslContextBuilder,
    protocols: &[&[u8]],
    congestion_control: &Selection,
    pacing: Pacing,
    idle_timeout: Duration,
) -> quiche::Result<quiche::Config> {
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls)?;
    config.set_application_protos(protocols)?;
    let idle_ms = u64::try_from(idle_timeout.as_millis()).unwrap_or(u64::MAX);
    config.set_max_idle_timeout(idle_ms.min((1 << 62) - 1));
    config.set_max_send_udp_payload_size(DATAGRAM_BYTES);
    config.set_max_recv_udp_payload_size(65_527);
    config.set_initial_max_data(INITIAL_CONNECTION_WINDOW_BYTES);
    config.set_initial_max_stream_data_bidi_local(INITIAL_STREAM_WINDOW_BYTES);
    config.set_initial_max_stream_data_bidi_remote(INITIAL_STREAM_WINDOW_BYTES);
    config.set_initial_max_stream_data_uni(INITIAL_STREAM_WINDOW_BYTES);
    config.set_max_connection_window(CONNECTION_WINDOW_BYTES);
    config.set_max_stream_window(STREAM_WINDOW_BYTES);
    // Only clients open streams of both directions (RFC 9114 §6.1): the server allows them some.
    config.set_initial_max_streams_bidi(0);
    config.set_initial_max_streams_uni(UNIDIRECTIONAL_STREAMS);
    config.set_active_connection_id_limit(8);
    config.enable_early_data();
    config.enable_pacing(pacing != Pacing::Off);
    congestion_control.configure(&mut config)?;
    Ok(config)
}

/// A connection id that nobody can guess.
///
/// # Errors
///
/// BoringSSL has no random numbers.
pub fn connection_id() -> quiche::Result<quiche::ConnectionId<'static>> {
    let mut id = vec![0; CONNECTION_ID_BYTES];
    boring::rand::rand_bytes(&mut id).map_err(|_| quiche::Error::CryptoFail)?;
    Ok(quiche::ConnectionId::from_vec(id))
}

/// A token of a stateless reset that nobody can guess.
///
/// # Errors
///
/// BoringSSL has no random numbers.
pub fn random_token() -> quiche::Result<u128> {
    let mut token = [0; 16];
    boring::rand::rand_bytes(&mut token).map_err(|_| quiche::Error::CryptoFail)?;
    Ok(u128::from_be_bytes(token))
}

/// Gives the peer as many of our connection ids as it takes, with their tokens, so that it can
/// migrate.
///
/// # Errors
///
/// quiche's or BoringSSL's.
pub fn issue_connection_ids(
    connection: &mut quiche::Connection,
    make: impl Fn() -> quiche::Result<quiche::ConnectionId<'static>>,
    token: impl Fn(&quiche::ConnectionId<'_>) -> quiche::Result<u128>,
    mut issued: impl FnMut(quiche::ConnectionId<'static>),
) -> quiche::Result<()> {
    while connection.scids_left() > 0 {
        let id = make()?;
        connection.new_scid(&id, token(&id)?, false)?;
        issued(id);
    }
    Ok(())
}
