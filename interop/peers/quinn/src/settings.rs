//! Settings of both roles.

use std::sync::Arc;

use anyhow::Result;
use quinn::{TransportConfig, VarInt};
use rustls::crypto::{CryptoProvider, ring};

use crate::contract;

/// The ALPN of a case.
pub fn protocol(case: &str) -> Vec<u8> {
    match case {
        "http3" | "upload" => b"h3".to_vec(),
        _ => b"hq-interop".to_vec(),
    }
}

/// The cipher suites of a case. QUIC's first packets need AES-128-GCM, whatever comes after them.
pub fn provider(case: &str) -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    if case == "chacha20" {
        provider
            .cipher_suites
            .retain(|suite| *suite == ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256);
    }
    Arc::new(provider)
}

/// The cipher suite of QUIC's first packets, which `provider` may be without.
pub fn initial_suite() -> Option<rustls::quic::Suite> {
    let rustls::SupportedCipherSuite::Tls13(suite) = ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    suite.quic_suite()
}

/// Limits of the transport; the runner allows at most 1000 streams.
///
/// If 30 % of the packets are lost, the first RTT sample can be seconds, and probes back off for
/// longer than the usual 30 s.
pub fn transport() -> Result<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(1000));
    transport.max_idle_timeout(Some(VarInt::from_u32(120_000).into()));
    if let Some(controller) = contract::controller()? {
        transport.congestion_controller_factory(Arc::new(controller));
    }
    Ok(transport)
}
