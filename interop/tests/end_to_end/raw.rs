//! Frames of HTTP/3, written by hand.

/// A variable-length integer (RFC 9000 §16).
fn varint(value: usize) -> Vec<u8> {
    match value {
        0..=63 => vec![value as u8],
        64..=16_383 => (value as u16 | 0x4000).to_be_bytes().to_vec(),
        _ => (value as u32 | 0x8000_0000).to_be_bytes().to_vec(),
    }
}

pub fn frame(kind: usize, payload: &[u8]) -> Vec<u8> {
    [varint(kind), varint(payload.len()), payload.to_vec()].concat()
}

pub fn data(payload: &[u8]) -> Vec<u8> {
    frame(0, payload)
}

/// An integer of QPACK (RFC 9204 §4.1.1) with a prefix of so many bits, after other bits.
fn integer(bits: u8, value: usize, first: u8) -> Vec<u8> {
    let most = (1 << bits) - 1;
    if value < most {
        return vec![first | value as u8];
    }
    let mut bytes = vec![first | most as u8];
    let mut left = value - most;
    while left >= 128 {
        bytes.push((left % 128 + 128) as u8);
        left /= 128;
    }
    bytes.push(left as u8);
    bytes
}

/// A HEADERS frame whose fields are all spelt out.
pub fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        section.extend(integer(3, name.len(), 0x20));
        section.extend(name.as_bytes());
        section.extend(integer(7, value.len(), 0));
        section.extend(value.as_bytes());
    }
    frame(1, &section)
}

/// A request's HEADERS frame with more fields.
pub fn request(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let usual = [
        (":method", method),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path),
    ];
    headers(&[&usual, more].concat())
}

/// GET /x with as many more fields as `count` bytes can name: each is an entry of QPACK's static
/// table (RFC 9204 appendix A).
pub fn request_of_references(count: usize) -> Vec<u8> {
    let mut section = vec![0, 0, 0xc0 | 17, 0xc0 | 23];
    for (entry, value) in [(0, "localhost"), (1, "/x")] {
        section.extend(integer(4, entry, 0x50));
        section.extend(integer(7, value.len(), 0));
        section.extend(value.as_bytes());
    }
    section.extend(vec![0xc0 | 29; count]);
    frame(1, &section)
}

/// The payload of the first HEADERS frame among some frames.
pub fn first_section(bytes: &[u8]) -> Option<&[u8]> {
    let (kind, rest) = read_varint(bytes)?;
    let (length, rest) = read_varint(rest)?;
    let (payload, rest) = rest.split_at_checked(length)?;
    match kind {
        1 => Some(payload),
        _ => first_section(rest),
    }
}

fn read_varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let length = 1 << (bytes.first()? >> 6);
    let (number, rest) = bytes.split_at_checked(length)?;
    let value = number
        .iter()
        .fold(0_usize, |value, byte| value << 8 | usize::from(*byte));
    Some((value & ((1 << (8 * length - 2)) - 1), rest))
}
