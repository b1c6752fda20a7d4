//! TLS by rustls, for the one case in which ChaCha20 alone is offered.

use std::sync::Arc;

use anyhow::Result;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, KeyLogFile, RootCertStore};
use s2n_quic::provider::tls::rustls::Client;

use crate::contract;
use crate::session::PROTOCOL;

/// TLS of the client, which trusts the server's own certificate.
pub fn client() -> Result<Client> {
    let provider = CryptoProvider {
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256],
        ..aws_lc_rs::default_provider()
    };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(contract::CHAIN)?)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.key_log = Arc::new(KeyLogFile::new());
    Ok(Client::from(config))
}
