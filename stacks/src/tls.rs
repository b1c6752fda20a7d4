//! rustls with seeded entropy. The certificate is of Ed25519, whose signatures are of one length and
//! drawn from nothing.

use std::cell::RefCell;
use std::sync::Arc;

use rand_core::Rng;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret,
    SupportedKxGroup, WebPkiSupportedAlgorithms, ring, verify_tls12_signature,
    verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, NamedGroup, SignatureScheme};
use x25519_dalek::{PublicKey, StaticSecret};

use crate::settings::SetupError;

static CERTIFICATE: &[u8] = include_bytes!("../tls/cert.der");
static KEY: &[u8] = include_bytes!("../tls/key.der");

/// The name in the certificate.
pub(crate) const SERVER_NAME: &str = "server.example";

const PROTOCOL: &[u8] = b"gallop-stacks";

thread_local! {
    static SOURCE: RefCell<SplitMix64> = RefCell::new(SplitMix64::seed_from_u64(0));
}

/// Starts the entropy of this thread's handshakes anew.
pub fn seed_entropy(seed: u64) {
    SOURCE.set(SplitMix64::seed_from_u64(seed));
}

/// A seed from this thread's entropy.
#[must_use]
pub fn draw_seed() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Fills `out` from this thread's entropy.
pub(crate) fn fill(out: &mut [u8]) {
    SOURCE.with_borrow_mut(|source| source.fill_bytes(out));
}

#[derive(Debug)]
struct Seeded;

impl SecureRandom for Seeded {
    fn fill(&self, out: &mut [u8]) -> Result<(), GetRandomFailed> {
        fill(out);
        Ok(())
    }
}

/// X25519 with a seeded secret; ring takes its own from the operating system.
#[derive(Debug)]
struct X25519;

struct Exchange {
    secret: StaticSecret,
    public: PublicKey,
}

impl SupportedKxGroup for X25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut bytes = [0; 32];
        fill(&mut bytes);
        let secret = StaticSecret::from(bytes);
        let public = PublicKey::from(&secret);
        Ok(Box::new(Exchange { secret, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer: [u8; 32] = peer
            .try_into()
            .map_err(|_| Error::from(rustls::PeerMisbehaved::InvalidKeyShare))?;
        let shared = self.secret.diffie_hellman(&PublicKey::from(peer));
        Ok(SharedSecret::from(&shared.as_bytes()[..]))
    }

    fn pub_key(&self) -> &[u8] {
        self.public.as_bytes()
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        kx_groups: vec![&X25519],
        secure_random: &Seeded,
        ..ring::default_provider()
    })
}

/// The server's side.
pub(crate) fn server() -> Result<rustls::ServerConfig, SetupError> {
    let chain = vec![CertificateDer::from(CERTIFICATE)];
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, PrivatePkcs8KeyDer::from(KEY).into())?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

/// The client's side, which knows the server's certificate.
pub(crate) fn client() -> Result<rustls::ClientConfig, SetupError> {
    let provider = provider();
    let pinned = Pinned(provider.signature_verification_algorithms);
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

/// Trusts the one certificate that there is.
#[derive(Debug)]
struct Pinned(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match certificate.as_ref() == CERTIFICATE {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
