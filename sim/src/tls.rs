//! TLS of the simulated connections: a self-signed EC P-256 certificate for
//! tests, loaded from memory.

use boring::error::ErrorStack;
use boring::pkey::PKey;
use boring::ssl::{SslContextBuilder, SslMethod};
use boring::x509::X509;

static CERTIFICATE: &[u8] = include_bytes!("../tls/cert.pem");
static KEY: &[u8] = include_bytes!("../tls/key.pem");

/// A context with the test certificate, for either side.
pub(crate) fn context() -> Result<SslContextBuilder, ErrorStack> {
    let mut context = SslContextBuilder::new(SslMethod::tls())?;
    context.set_certificate(&*X509::from_pem(CERTIFICATE)?)?;
    context.set_private_key(&*PKey::private_key_from_pem(KEY)?)?;
    Ok(context)
}
