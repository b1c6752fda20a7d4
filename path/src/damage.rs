//! Damage to datagrams.

use gallop_network::random::Random;
use rand::RngExt;

use crate::ip::Headers;

/// The number of bytes at the start of a datagram that damage can hit: the header and some of the
/// protected payload, so that both are hit often.
const REACH_BYTES: usize = 50;

/// Changes a byte near the start of a UDP payload, and corrects the checksum.
pub(crate) fn damage(headers: &Headers, packet: &mut [u8], random: &mut Random) {
    headers.edit_udp_payload(packet, |payload| {
        let reach = payload.len().min(REACH_BYTES);
        if reach > 0 {
            let at = random.random_range(0..reach);
            payload[at] ^= random.random_range(1..=u8::MAX);
        }
    });
}

/// True if a UDP payload is a Version Negotiation packet (RFC 9000 §17.2.1).
pub(crate) fn is_version_negotiation(payload: &[u8]) -> bool {
    matches!(payload, [first, 0, 0, 0, 0, ..] if first & 0x80 != 0)
}

#[cfg(test)]
mod tests {
    use gallop_network::random;

    use super::*;
    use crate::ip::tests::{datagram, is_sound};

    #[test]
    fn one_byte_near_the_start_is_changed() {
        let mut random = random::stream(1, 1);
        for length in [0, 1, 20, 1200] {
            for _ in 0..100 {
                let whole = datagram("10.0.0.1:1", "10.0.1.1:2", &vec![7; length]);
                let mut packet = whole.clone();
                let headers = Headers::parse(&packet).expect("an IP packet");
                damage(&headers, &mut packet, &mut random);
                assert!(is_sound(&packet));
                let begin = packet.len() - length;
                let changed = (begin..packet.len()).filter(|&at| packet[at] != whole[at]);
                let changed: Vec<_> = changed.collect();
                assert_eq!(changed.len(), length.min(1));
                assert!(changed.iter().all(|at| at - begin < REACH_BYTES));
            }
        }
    }

    #[test]
    fn version_negotiation_is_known() {
        assert!(is_version_negotiation(&[0x80, 0, 0, 0, 0, 8]));
        for other in [
            &[0x80, 0, 0, 0, 1, 8][..],
            &[0x40, 0, 0, 0, 0, 8],
            &[0x80, 0],
        ] {
            assert!(!is_version_negotiation(other));
        }
    }
}
