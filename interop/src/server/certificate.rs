//! The server's certificate: the operator's, or one that is made here for trying out.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use boring::asn1::Asn1Time;
use boring::bn::{BigNum, MsbOption};
use boring::ec::{EcGroup, EcKey};
use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{PKey, Private};
use boring::ssl::{SslContextBuilder, SslFiletype, SslMethod};
use boring::x509::extension::{BasicConstraints, ExtendedKeyUsage, SubjectAlternativeName};
use boring::x509::{X509, X509NameBuilder};

/// A certificate chain and its key, both PEM.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// The chain, the server's own first.
    pub chain: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// A certificate or key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read or written.
    #[error("{what} {path}: {error}")]
    File {
        /// The purpose of the file.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A file is not in PEM format.
    #[error("{what} {path}: not in PEM format, or damaged ({error})")]
    Format {
        /// The purpose of the file.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// BoringSSL's errors.
        error: ErrorStack,
    },
    /// Certificate and key do not belong together.
    #[error("key {key} does not belong to certificate {chain}")]
    Mismatch {
        /// The certificate.
        chain: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// BoringSSL cannot make a certificate.
    #[error("no certificate can be made: {0}")]
    Make(#[from] ErrorStack),
    /// There is no home directory to keep a made certificate in.
    #[error(
        "nowhere to keep a certificate: neither XDG_DATA_HOME nor HOME is set; give --cert and --key, or --cert-dir"
    )]
    NoHome,
}

/// The validity of a made certificate, and the rest of it at which a new one is made.
const VALID_DAYS: u32 = 90;
const RENEW_DAYS: u32 = 7;

/// The names that a made certificate is for.
const NAME: &str = "localhost";
const ADDRESSES: [&str; 2] = ["127.0.0.1", "::1"];

impl Certificate {
    /// The files in `folder`, made now unless they are there and good for some days more.
    ///
    /// # Errors
    ///
    /// [`CertificateError`].
    pub fn self_signed(folder: &Path) -> Result<Self, CertificateError> {
        let certificate = Certificate {
            chain: folder.join("cert.pem"),
            key: folder.join("key.pem"),
        };
        let at = |what, path: &Path| {
            let path = path.to_owned();
            move |error| CertificateError::File { what, path, error }
        };
        fs::create_dir_all(folder).map_err(at("certificate folder", folder))?;
        // Of servers that start at the same time, one makes it.
        let lock = lock(folder);
        if certificate.is_fresh() {
            return Ok(certificate);
        }
        let _lock = lock.map_err(at("certificate folder", folder))?;
        let (chain, key) = make()?;
        // The key first: a certificate without its key is never there.
        gallop_files::write_private(&certificate.key, &key.private_key_to_pem_pkcs8()?)
            .map_err(at("key", &certificate.key))?;
        gallop_files::write_private(&certificate.chain, &chain.to_pem()?)
            .map_err(at("certificate", &certificate.chain))?;
        Ok(certificate)
    }

    fn is_fresh(&self) -> bool {
        let Ok(pem) = fs::read(&self.chain) else {
            return false;
        };
        let is_good = |pem: &[u8]| -> Result<bool, ErrorStack> {
            let soon = Asn1Time::days_from_now(RENEW_DAYS)?;
            Ok(X509::from_pem(pem)?.not_after() > &*soon)
        };
        is_good(&pem).unwrap_or(false) && self.context().is_ok()
    }

    /// A TLS context with the certificate.
    ///
    /// # Errors
    ///
    /// [`CertificateError`] names the file.
    pub fn context(&self) -> Result<SslContextBuilder, CertificateError> {
        let (chain, key) = (&self.chain, &self.key);
        for (what, path) in [("certificate", chain), ("key", key)] {
            fs::File::open(path).map_err(|error| CertificateError::File {
                what,
                path: path.clone(),
                error,
            })?;
        }
        let mut context = SslContextBuilder::new(SslMethod::tls())?;
        let format = |what, path: &Path| {
            let path = path.to_owned();
            move |error| CertificateError::Format { what, path, error }
        };
        context
            .set_certificate_chain_file(chain)
            .map_err(format("certificate", chain))?;
        let mismatch = |_| CertificateError::Mismatch {
            chain: chain.clone(),
            key: key.clone(),
        };
        let pem = fs::read(key).map_err(|error| CertificateError::File {
            what: "key",
            path: key.clone(),
            error,
        })?;
        PKey::private_key_from_pem(&pem).map_err(format("key", key))?;
        context
            .set_private_key_file(key, SslFiletype::PEM)
            .map_err(mismatch)?;
        context.check_private_key().map_err(mismatch)?;
        Ok(context)
    }
}

/// The folder for certificates that are made: of the user's data.
///
/// # Errors
///
/// The environment names none.
pub fn default_folder() -> Result<PathBuf, CertificateError> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    set("XDG_DATA_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".local/share")))
        .map(|data| data.join("gallop"))
        .ok_or(CertificateError::NoHome)
}

/// A lock that other servers with this folder wait for. Its file stays.
#[cfg(target_os = "linux")]
fn lock(folder: &Path) -> io::Result<impl Drop> {
    use nix::fcntl::{Flock, FlockArg};

    let file = fs::File::create(folder.join("lock"))?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error.into())
}

#[cfg(not(target_os = "linux"))]
fn lock(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// A certificate for this machine alone, with an EC P-256 key as the interop runner's have.
fn make() -> Result<(X509, PKey<Private>), ErrorStack> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    let key = PKey::from_ec_key(EcKey::generate(&group)?)?;
    let mut name = X509NameBuilder::new()?;
    name.append_entry_by_text("CN", NAME)?;
    let name = name.build();
    let mut serial = BigNum::new()?;
    serial.rand(127, MsbOption::MAYBE_ZERO, false)?;
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    let serial = serial.to_asn1_integer()?;
    builder.set_serial_number(&serial)?;
    builder.set_subject_name(&name)?;
    builder.set_issuer_name(&name)?;
    builder.set_pubkey(&key)?;
    let from = Asn1Time::days_from_now(0)?;
    let until = Asn1Time::days_from_now(VALID_DAYS)?;
    builder.set_not_before(&from)?;
    builder.set_not_after(&until)?;
    // Not an authority: who trusts it trusts nothing that its key signs. It names no usage of the key:
    // BoringSSL takes a certificate that signs itself for such only if that is among its usages.
    let constraints = BasicConstraints::new().critical().build()?;
    builder.append_extension(&constraints)?;
    let extended = ExtendedKeyUsage::new().server_auth().build()?;
    builder.append_extension(&extended)?;
    let mut names = SubjectAlternativeName::new();
    names.dns(NAME);
    for address in ADDRESSES {
        names.ip(address);
    }
    let names = names.build(&builder.x509v3_context(None, None))?;
    builder.append_extension(&names)?;
    builder.sign(&key, MessageDigest::sha256())?;
    Ok((builder.build(), key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_pair_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("below");
        let made = Certificate::self_signed(&below).unwrap();
        made.context().unwrap();
        let key = fs::read(&made.key).unwrap();
        let mode = fs::metadata(&made.key).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
        assert_eq!(Certificate::self_signed(&below).unwrap(), made);
        assert_eq!(fs::read(&made.key).unwrap(), key);
        fs::write(&made.chain, "damaged").unwrap();
        Certificate::self_signed(&below).unwrap().context().unwrap();
        assert_ne!(fs::read(&made.key).unwrap(), key);
    }

    #[test]
    fn servers_that_start_together_share_one() {
        for _ in 0..10 {
            let folder = tempfile::tempdir().unwrap();
            std::thread::scope(|scope| {
                for _ in 0..6 {
                    scope.spawn(|| {
                        let made = Certificate::self_signed(folder.path()).unwrap();
                        made.context().map(drop).unwrap();
                    });
                }
            });
        }
    }

    #[test]
    fn it_is_no_authority() {
        let (certificate, _) = make().unwrap();
        let der = certificate.to_der().unwrap();
        let has = |bytes: &[u8]| der.windows(bytes.len()).any(|window| window == bytes);
        // Basic constraints, critical and empty (RFC 5280 §4.2.1.9).
        assert!(has(b"\x55\x1d\x13\x01\x01\xff\x04\x02\x30\x00"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let one = Certificate::self_signed(&folder.path().join("one")).unwrap();
        let two = Certificate::self_signed(&folder.path().join("two")).unwrap();
        let text = folder.path().join("text");
        fs::write(&text, "hello").unwrap();
        let error = |chain: &Path, key: &Path| {
            let (chain, key) = (chain.to_owned(), key.to_owned());
            Certificate { chain, key }
                .context()
                .err()
                .map(|error| error.to_string())
        };
        let none = folder.path().join("none");
        assert!(error(&none, &one.key).unwrap().contains("certificate"));
        assert!(error(&one.chain, &none).unwrap().starts_with("key"));
        assert!(error(&text, &one.key).unwrap().contains("PEM"));
        assert!(error(&one.chain, &text).unwrap().contains("PEM"));
        assert!(
            error(&one.chain, &two.key)
                .unwrap()
                .contains("does not belong")
        );
    }
}
