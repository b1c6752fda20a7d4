//! TLS of the simulated connections: a self-signed EC P-256 certificate for tests, loaded from
//! memory.

use std::sync::OnceLock;

use boring::error::ErrorStack;
use boring::pkey::{PKey, Private};
use boring::ssl::{SslContextBuilder, SslMethod};
use boring::x509::X509;

use crate::entropy;

static CERTIFICATE: &[u8] = include_bytes!("../../tls/cert.pem");
static KEY: &[u8] = include_bytes!("../../tls/key.pem");

/// Certificate and key, read once, since there may be thousands of connections.
static READ: OnceLock<(X509, PKey<Private>)> = OnceLock::new();

/// A context with the test certificate, for either side.
pub(crate) fn context() -> Result<SslContextBuilder, ErrorStack> {
    let (certificate, key) = match READ.get() {
        Some(read) => read,
        None => {
            let read = (
                X509::from_pem(CERTIFICATE)?,
                PKey::private_key_from_pem(KEY)?,
            );
            READ.get_or_init(|| read)
        }
    };
    let mut context = SslContextBuilder::new(SslMethod::tls())?;
    context.set_certificate(certificate)?;
    context.set_private_key(key)?;
    entropy::pin_cipher(&mut context);
    Ok(context)
}
