//! Rates, times and buffers, written as tc(8) writes them.
//!
//! | quantity | units |
//! |---|---|
//! | [`Rate`] | bit, kbit, mbit, gbit, tbit (bits per second, powers of 1000), kibit … (powers of 1024); bps, kbps … and kibps … (bytes per second) |
//! | [`LinkRate`] | those of a rate, or pps (full datagrams per second) |
//! | [`Span`] | ns, us, ms, s, min, h |
//! | [`Buffer`], [`Size`] | p (packets); b, k or kb, m or mb, g or gb (bytes, powers of 1024) |
//!
//! Numbers may have a fraction and an exponent ("1.5gbit") and are exact to 15 digits; units are
//! not case sensitive.
//! NOTE: tc takes a number without a unit as bits per second, microseconds or bytes, and knows
//! neither minutes nor hours; here a unit is required.

mod rate;
mod size;
mod span;
mod text;

pub use rate::{LinkRate, Rate};
pub use size::{Buffer, Size};
pub use span::Span;
pub use text::UnitError;

/// Bytes that a link serialises beside the UDP payload: 20 of the IPv4 header (RFC 791 §3.1) and 8
/// of the UDP header (RFC 768).
pub const WIRE_OVERHEAD_BYTES: usize = 28;

/// Bytes of a full datagram that are not stream data: the short header with a connection ID of 16
/// bytes and a packet number of two (19, RFC 9000 §17.3.1), the AEAD's tag (16, RFC 9001 §5.3), and
/// the header of a STREAM frame with an offset between 2^14 and 2^30 (8, RFC 9000 §19.8).
const PACKET_OVERHEAD_BYTES: u64 = 19 + 16 + 8;

/// The stream bytes that a datagram of full size carries, which is what "a packet" of an
/// application means. The exact number depends a little on packet number and offset.
#[must_use]
pub fn stream_bytes_per_packet(datagram_bytes: usize) -> u64 {
    (datagram_bytes as u64)
        .saturating_sub(PACKET_OVERHEAD_BYTES)
        .max(1)
}
