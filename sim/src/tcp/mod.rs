//! Bulk TCP at segment level, as the papers of the 1990s had it: the opponents that QUIC cannot
//! play, because it repairs losses by ranges and has no clock with coarse ticks. It is for the
//! papers' experiments, and no product.
//!
//! A [`Connection`] has a [`Sender`] and a [`Receiver`] at each end. All flavours share them and
//! differ in what a [`Flavour`] says. The bytes are zeros, so a segment carries only their number.
//! Connections are opened as in RFC 1122 §4.2.3, and never closed by segments.

mod clock;
mod connection;
mod flavour;
mod receiver;
mod segment;
mod sender;
#[cfg(test)]
mod tests;
mod vegas;

pub(crate) use connection::{Connection, Records};
pub(crate) use flavour::{Flavour, NAMES};
pub(crate) use segment::{HEADER_BYTES, Segment};
