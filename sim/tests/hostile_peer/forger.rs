//! Packets that no QUIC stack would send, made with a client's keys.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use boring::hash::hmac_sha256;
use boring::symm::{self, Cipher};

/// The key log of a TLS stack.
#[derive(Clone, Debug, Default)]
pub struct KeyLog(Arc<Mutex<Vec<u8>>>);

impl Write for KeyLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl KeyLog {
    /// The secret of that name.
    fn secret(&self, name: &str) -> Vec<u8> {
        let log = String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("text");
        let line = log.lines().find(|line| line.starts_with(name));
        let secret = line
            .and_then(|line| line.split(' ').nth(2))
            .expect("a secret");
        (0..secret.len() / 2)
            .map(|byte| u8::from_str_radix(&secret[2 * byte..2 * byte + 2], 16).expect("hex"))
            .collect()
    }
}

/// Keys of one direction (RFC 9001 §5.1), of TLS_AES_128_GCM_SHA256.
struct Keys {
    key: Vec<u8>,
    iv: Vec<u8>,
    header: Vec<u8>,
}

impl Keys {
    fn new(secret: &[u8]) -> Keys {
        assert_eq!(secret.len(), 32, "a secret for AES-128 and SHA-256");
        Keys {
            key: expand(secret, "quic key", 16),
            iv: expand(secret, "quic iv", 12),
            header: expand(secret, "quic hp", 16),
        }
    }

    /// The mask of a header from a sample of the ciphertext (RFC 9001 §5.4.3).
    fn mask(&self, sample: &[u8]) -> Vec<u8> {
        symm::encrypt(Cipher::aes_128_ecb(), &self.header, None, sample).expect("AES")
    }
}

/// HKDF-Expand-Label with an empty context (RFC 8446 §7.1), up to one block.
fn expand(secret: &[u8], label: &str, length: u8) -> Vec<u8> {
    let label = format!("tls13 {label}");
    let mut info = vec![0, length, label.len() as u8];
    info.extend_from_slice(label.as_bytes());
    info.extend_from_slice(&[0, 1]);
    let block = hmac_sha256(secret, &info).expect("HMAC");
    block[..usize::from(length)].to_vec()
}

/// An attacker with a client's keys.
pub struct Forger {
    client: Keys,
    server: Keys,
    server_id: Vec<u8>,
    client_id_bytes: usize,
    next_number: u32,
    /// The largest packet number seen of the server.
    largest_seen: u64,
}

/// A packet number above that of any packet that the client itself has sent.
const FIRST_NUMBER: u32 = 1 << 20;

impl Forger {
    /// The forger of a client that is connected, from what it has logged.
    pub fn new(log: &KeyLog, server_id: &[u8], client_id_bytes: usize) -> Forger {
        Forger {
            client: Keys::new(&log.secret("CLIENT_TRAFFIC_SECRET_0")),
            server: Keys::new(&log.secret("SERVER_TRAFFIC_SECRET_0")),
            server_id: server_id.to_vec(),
            client_id_bytes,
            next_number: FIRST_NUMBER,
            largest_seen: 0,
        }
    }

    /// A 1-RTT packet with these frames (RFC 9000 §17.3.1).
    pub fn packet(&mut self, frames: &[u8]) -> Vec<u8> {
        let number = self.next_number.to_be_bytes();
        self.next_number += 1;
        // A short header and a packet number of four bytes.
        let mut packet = vec![0x43];
        packet.extend_from_slice(&self.server_id);
        packet.extend_from_slice(&number);
        let mut nonce = self.client.iv.clone();
        for (byte, number) in nonce[8..].iter_mut().zip(number) {
            *byte ^= number;
        }
        let mut tag = [0; 16];
        let cipher = Cipher::aes_128_gcm();
        let sealed = symm::encrypt_aead(
            cipher,
            &self.client.key,
            Some(&nonce),
            &packet,
            frames,
            &mut tag,
        );
        let at = 1 + self.server_id.len();
        packet.extend(sealed.expect("AES-GCM"));
        packet.extend_from_slice(&tag);
        let mask = self.client.mask(&packet[at + 4..at + 20]);
        packet[0] ^= mask[0] & 0x1f;
        for (byte, mask) in packet[at..at + 4].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
        }
        packet
    }

    /// The number of a 1-RTT packet of the server (RFC 9000 §17.1, §A.3); `None` for another
    /// packet.
    pub fn number(&mut self, packet: &[u8]) -> Option<u64> {
        let at = 1 + self.client_id_bytes;
        let mask = self.server.mask(packet.get(at + 4..at + 20)?);
        let first = *packet.first()?;
        if first & 0x80 != 0 {
            return None;
        }
        let length = usize::from((first ^ mask[0]) & 3) + 1;
        let bytes = packet[at..at + length].iter().zip(&mask[1..]);
        let truncated = bytes.fold(0, |number, (byte, mask)| {
            number << 8 | u64::from(byte ^ mask)
        });
        // Packets are looked at in the order in which they are sent.
        let window = 1 << (8 * length);
        let expected = self.largest_seen + 1;
        let mut number = expected & !(window - 1) | truncated;
        if number + window / 2 <= expected {
            number += window;
        }
        self.largest_seen = number;
        Some(number)
    }
}

/// An integer of variable length (RFC 9000 §16), in the longest form.
fn varint(value: u64) -> [u8; 8] {
    assert!(value < 1 << 62, "{value} does not fit");
    (value | 3 << 62).to_be_bytes()
}

/// The largest `ack_delay` that a frame can carry, before it is scaled.
pub const LARGEST_DELAY: u64 = (1 << 62) - 1;

/// An ACK frame (RFC 9000 §19.3) of the packets from `first` to `last`, with a delay in the units
/// that the connection has agreed on.
pub fn ack(first: u64, last: u64, delay: u64) -> Vec<u8> {
    let mut frame = vec![0x02];
    for value in [last, delay, 0, last - first] {
        frame.extend_from_slice(&varint(value));
    }
    frame
}
