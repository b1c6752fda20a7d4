//! Addresses of the two ends, and the size of packets between them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The client, in a private range (RFC 1918 §3). The range for tests of networks (RFC 2544 §C.2.2)
/// will not do: s2n-quic's server takes no packets from a client that moves within it.
pub const CLIENT_IPV4: Ipv4Addr = Ipv4Addr::new(10, 18, 0, 100);
/// The client, as on the interop runner's network.
pub const CLIENT_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xcafe, 0xcafe, 0, 0, 0, 0, 0x100);
/// The server, in the same range.
pub const SERVER_IPV4: Ipv4Addr = Ipv4Addr::new(10, 18, 100, 100);
/// The server, as on the interop runner's network.
pub const SERVER_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xcafe, 0xcafe, 0x100, 0, 0, 0, 0x100);

/// The longest IP packet that fits.
pub const MTU_BYTES: u16 = 1500;

/// The client's address of either version of IP.
#[must_use]
pub fn client_address(ipv6: bool) -> IpAddr {
    match ipv6 {
        true => CLIENT_IPV6.into(),
        false => CLIENT_IPV4.into(),
    }
}

/// The server's address of either version of IP.
#[must_use]
pub fn server_address(ipv6: bool) -> IpAddr {
    match ipv6 {
        true => SERVER_IPV6.into(),
        false => SERVER_IPV4.into(),
    }
}
