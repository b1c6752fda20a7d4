//! Tokens by which a client proves its address (RFC 9000 §8.1.2).

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use boring::hash::hmac_sha256;
use boring::memcmp;
use quiche::ConnectionId;

/// The validity of a token: a client answers a Retry at once.
const LIFETIME: Duration = Duration::from_secs(30);

const MAC_BYTES: usize = 32;
const TIME_BYTES: usize = 8;

/// Makes and checks tokens.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    key: [u8; 32],
}

impl Tokens {
    pub(super) fn new() -> quiche::Result<Self> {
        let mut key = [0; 32];
        boring::rand::rand_bytes(&mut key).map_err(|_| quiche::Error::CryptoFail)?;
        Ok(Tokens { key })
    }

    /// A token for the client at `peer` that chose `original`, and is asked to use `retry`.
    pub(super) fn make(
        &self,
        peer: SocketAddr,
        original: &ConnectionId<'_>,
        retry: &ConnectionId<'_>,
        now: SystemTime,
    ) -> quiche::Result<Vec<u8>> {
        let seconds = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
            .to_be_bytes();
        let mac = self.mac(peer, &seconds, original, retry)?;
        Ok([&mac[..], &seconds, original].concat())
    }

    /// The connection ID that the client chose first, if the token is ours, fresh and for this
    /// client.
    pub(super) fn check<'a>(
        &self,
        token: &'a [u8],
        peer: SocketAddr,
        retry: &ConnectionId<'_>,
        now: SystemTime,
    ) -> Option<ConnectionId<'a>> {
        let (mac, rest) = token.split_at_checked(MAC_BYTES)?;
        let (seconds, original) = rest.split_at_checked(TIME_BYTES)?;
        if original.len() > quiche::MAX_CONN_ID_LEN {
            return None;
        }
        let original = ConnectionId::from_ref(original);
        let expected = self.mac(peer, seconds, &original, retry).ok()?;
        if !memcmp::eq(mac, &expected) {
            return None;
        }
        let made = Duration::from_secs(u64::from_be_bytes(seconds.try_into().ok()?));
        let age = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .ok()?
            .saturating_sub(made);
        (age <= LIFETIME).then_some(original)
    }

    fn mac(
        &self,
        peer: SocketAddr,
        seconds: &[u8],
        original: &ConnectionId<'_>,
        retry: &ConnectionId<'_>,
    ) -> quiche::Result<[u8; MAC_BYTES]> {
        let ip = match peer.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let lengths = [original.len() as u8, retry.len() as u8];
        let port = peer.port().to_be_bytes();
        let text = [&ip.octets()[..], &port, seconds, &lengths, original, retry].concat();
        hmac_sha256(&self.key, &text).map_err(|_| quiche::Error::CryptoFail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_one_client_and_a_while() {
        let tokens = Tokens::new().unwrap();
        let peer: SocketAddr = "192.0.2.1:1000".parse().unwrap();
        let other: SocketAddr = "192.0.2.2:1000".parse().unwrap();
        let original = ConnectionId::from_ref(b"original");
        let retry = ConnectionId::from_ref(b"retry");
        let now = SystemTime::now();
        let token = tokens.make(peer, &original, &retry, now).unwrap();
        let check = |token: &[u8], peer, retry, now| {
            tokens.check(token, peer, retry, now).map(|id| id.to_vec())
        };
        assert_eq!(check(&token, peer, &retry, now), Some(original.to_vec()));
        assert_eq!(check(&token, other, &retry, now), None);
        assert_eq!(check(&token, peer, &original, now), None);
        assert_eq!(check(&token, peer, &retry, now + 2 * LIFETIME), None);
        assert_eq!(check(&token[..40], peer, &retry, now), None);
        assert_eq!(check(b"", peer, &retry, now), None);
        let mut forged = token;
        forged[MAC_BYTES + TIME_BYTES] ^= 1;
        assert_eq!(check(&forged, peer, &retry, now), None);
    }
}
