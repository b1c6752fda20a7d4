//! Segments on the wire.

/// The bytes of a segment's header. A full segment is as long as a full QUIC packet of the same
/// datagram size, so that both count alike.
pub(crate) const HEADER_BYTES: usize = 43;

/// The ranges that a segment can name (RFC 2018 §3 has three beside a time stamp).
pub(crate) const MOST_RANGES: usize = 3;

const SYN: u8 = 1;
const ACK: u8 = 2;

/// A segment. Sequence numbers count bytes from 0; opening takes none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) opens: bool,
    /// The next byte that is expected, except in a client's first segment.
    pub(crate) ack: Option<u64>,
    pub(crate) sequence: u64,
    pub(crate) bytes: u64,
    /// Ranges that have come beyond `ack`, as first and end.
    pub(crate) ranges: Vec<(u64, u64)>,
}

impl Segment {
    /// Its length, in bytes of UDP payload.
    pub(crate) fn length(&self) -> usize {
        HEADER_BYTES + self.bytes as usize
    }

    /// Writes the header to the start of `out`.
    pub(crate) fn write(&self, out: &mut [u8]) {
        out.fill(0);
        out[0] = SYN * u8::from(self.opens) + ACK * u8::from(self.ack.is_some());
        let ack = self.ack.unwrap_or(0);
        out[1..9].copy_from_slice(&self.sequence.to_be_bytes());
        out[9..17].copy_from_slice(&ack.to_be_bytes());
        let ranges = self.ranges.iter().take(MOST_RANGES);
        out[17] = ranges.len() as u8;
        for (place, &(first, end)) in out[18..].chunks_exact_mut(8).zip(ranges) {
            place[..4].copy_from_slice(&((first - ack) as u32).to_be_bytes());
            place[4..].copy_from_slice(&((end - first) as u32).to_be_bytes());
        }
    }

    /// Reads a payload; `None` if it is none of a segment.
    pub(crate) fn read(payload: &[u8]) -> Option<Segment> {
        let long = |at: usize| -> Option<u64> {
            Some(u64::from_be_bytes(
                payload.get(at..at + 8)?.try_into().ok()?,
            ))
        };
        let word = |at: usize| -> Option<u64> {
            let bytes = payload.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_be_bytes(bytes).into())
        };
        let flags = *payload.first()?;
        let ack = long(9)?;
        let count = usize::from(*payload.get(17)?).min(MOST_RANGES);
        let range = |number: usize| {
            let first = ack.checked_add(word(18 + 8 * number)?)?;
            Some((first, first.checked_add(word(22 + 8 * number)?)?))
        };
        Some(Segment {
            opens: flags & SYN != 0,
            ack: (flags & ACK != 0).then_some(ack),
            sequence: long(1)?,
            bytes: payload.len().checked_sub(HEADER_BYTES)? as u64,
            ranges: (0..count).map(range).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn segments_are_read_as_they_were_written(
            opens: bool,
            ack in proptest::option::of(0_u64..1 << 40),
            sequence in 0_u64..1 << 40,
            bytes in 0_u64..2000,
            ranges in proptest::collection::vec((0_u64..1 << 30, 1_u64..1 << 30), 0..=3),
        ) {
            let ranges = ranges.into_iter().map(|(first, length)| {
                let first = ack.unwrap_or(0) + first;
                (first, first + length)
            });
            let segment = Segment { opens, ack, sequence, bytes, ranges: ranges.collect() };
            let mut payload = vec![7; segment.length()];
            segment.write(&mut payload);
            prop_assert_eq!(Segment::read(&payload), Some(segment));
        }

        #[test]
        fn any_payload_is_read_or_refused(payload in proptest::collection::vec(any::<u8>(), 0..100)) {
            let segment = Segment::read(&payload);
            prop_assert!(segment.is_none() || payload.len() >= HEADER_BYTES);
        }
    }
}
