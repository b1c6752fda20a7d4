//! Stateless resets (RFC 9000 §10.3): a client of a server that was started anew learns at once that
//! its connection is gone.

use std::path::Path;

use boring::hash::hmac_sha256;
use boring::pkey::PKey;
use quiche::ConnectionId;

/// The shortest and the longest reset: as long as a packet that carries little. It is shorter than
/// the packet that it answers, so that two servers do not answer each other for ever.
const MIN_BYTES: usize = 21;
const MAX_BYTES: usize = 43;

const TOKEN_BYTES: usize = 16;

/// Makes tokens and resets. The key comes from the certificate's private key, and is the same after a
/// restart; tokens depend on the port, so that a server on another port does not give them away.
#[derive(Clone, Debug)]
pub(super) struct Resets {
    key: [u8; 32],
}

impl Resets {
    /// The resets of a server with this private key (PEM).
    ///
    /// # Errors
    ///
    /// The file has no key.
    pub(super) fn new(private_key: &Path) -> quiche::Result<Self> {
        let der = std::fs::read(private_key)
            .ok()
            .and_then(|pem| PKey::private_key_from_pem(&pem).ok())
            .and_then(|key| key.private_key_to_der_pkcs8().ok())
            .ok_or(quiche::Error::TlsFail)?;
        let key = hmac_sha256(&der, b"gallop stateless reset").map_err(|_| FAILED)?;
        Ok(Resets { key })
    }

    /// The token of a connection ID, with which only this server can end the connection.
    ///
    /// # Errors
    ///
    /// BoringSSL's.
    pub(super) fn token(&self, id: &ConnectionId<'_>, port: u16) -> quiche::Result<u128> {
        let text = [&port.to_be_bytes()[..], id].concat();
        let mac = hmac_sha256(&self.key, &text).map_err(|_| FAILED)?;
        let mut token = [0; TOKEN_BYTES];
        token.copy_from_slice(&mac[..TOKEN_BYTES]);
        Ok(u128::from_be_bytes(token))
    }

    /// The answer to a packet for an unknown connection, if the packet is long enough for one.
    ///
    /// # Errors
    ///
    /// BoringSSL's.
    pub(super) fn answer(
        &self,
        id: &ConnectionId<'_>,
        port: u16,
        packet_bytes: usize,
    ) -> quiche::Result<Option<Vec<u8>>> {
        let bytes = packet_bytes.saturating_sub(1).min(MAX_BYTES);
        if bytes < MIN_BYTES {
            return Ok(None);
        }
        let mut reset = vec![0; bytes];
        boring::rand::rand_bytes(&mut reset).map_err(|_| FAILED)?;
        // As a packet with a short header.
        reset[0] = reset[0] & 0x3f | 0x40;
        let token = self.token(id, port)?.to_be_bytes();
        reset[bytes - TOKEN_BYTES..].copy_from_slice(&token);
        Ok(Some(reset))
    }
}

const FAILED: quiche::Error = quiche::Error::CryptoFail;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::certificate::Certificate;

    #[test]
    fn tokens_outlive_the_server_but_not_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let resets = |name: &str| {
            let made = Certificate::self_signed(&folder.path().join(name)).unwrap();
            Resets::new(&made.key).unwrap()
        };
        let id = ConnectionId::from_ref(b"some id");
        let token = resets("one").token(&id, 1).unwrap();
        assert_eq!(resets("one").token(&id, 1).unwrap(), token);
        assert_ne!(resets("one").token(&id, 2).unwrap(), token);
        assert_ne!(resets("two").token(&id, 1).unwrap(), token);
        let other = ConnectionId::from_ref(b"other");
        assert_ne!(resets("one").token(&other, 1).unwrap(), token);
    }

    #[test]
    fn a_reset_is_shorter_than_its_cause() {
        let folder = tempfile::tempdir().unwrap();
        let made = Certificate::self_signed(folder.path()).unwrap();
        let resets = Resets::new(&made.key).unwrap();
        let id = ConnectionId::from_ref(b"some id");
        let token = resets.token(&id, 1).unwrap().to_be_bytes();
        for bytes in 0..1_500 {
            match resets.answer(&id, 1, bytes).unwrap() {
                None => assert!(bytes <= MIN_BYTES),
                Some(reset) => {
                    assert!(reset.len() < bytes && reset.len() <= MAX_BYTES);
                    assert_eq!(reset[0] & 0xc0, 0x40);
                    assert!(reset.ends_with(&token));
                }
            }
        }
    }
}
