//! IP packets: what the path looks at and what it changes, checksums included.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use gallop_network::packet::Ecn;
use smoltcp::wire::{IpAddress, IpProtocol, Ipv4Packet, Ipv6Packet, UdpPacket};

/// The lowest two bits of the traffic class (RFC 3168 §5).
const ECN_MASK: u8 = 0b11;
/// ECT(0).
const ECN_CAPABLE_0: u8 = 0b10;
/// ECT(1).
const ECN_CAPABLE_1: u8 = 0b01;
/// CE.
const ECN_MARKED: u8 = 0b11;

/// The contents of a packet's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    protocol: IpProtocol,
    ecn: u8,
    /// The range of the IP payload.
    payload: (usize, usize),
    /// Part of a larger packet.
    fragment: bool,
}

/// The ends of a UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
}

impl Headers {
    /// Reads them; `None` if this is not an IP packet.
    pub(crate) fn parse(packet: &[u8]) -> Option<Headers> {
        match packet.first()? >> 4 {
            4 => {
                let ip = Ipv4Packet::new_checked(packet).ok()?;
                let begin = usize::from(ip.header_len());
                Some(Headers {
                    source: ip.src_addr().into(),
                    destination: ip.dst_addr().into(),
                    protocol: ip.next_header(),
                    ecn: ip.ecn(),
                    payload: (begin, usize::from(ip.total_len())),
                    fragment: ip.more_frags() || ip.frag_offset() != 0,
                })
            }
            6 => {
                let ip = Ipv6Packet::new_checked(packet).ok()?;
                Some(Headers {
                    source: ip.src_addr().into(),
                    destination: ip.dst_addr().into(),
                    protocol: ip.next_header(),
                    ecn: ip.traffic_class() & ECN_MASK,
                    payload: (ip.header_len(), ip.total_len()),
                    fragment: false,
                })
            }
            _ => None,
        }
    }

    /// True if a router would forward it: it would not forward multicast and link-local packets
    /// (RFC 4291 §2.5.6), which hosts send on their own.
    pub(crate) fn is_routed(&self) -> bool {
        let link_local = |address| match address {
            IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        let nobody = self.source.is_unspecified() || self.destination.is_multicast();
        !(nobody || link_local(self.source) || link_local(self.destination))
    }

    /// The ECN capability of the packet.
    pub(crate) fn ecn(&self) -> Ecn {
        match self.ecn {
            ECN_CAPABLE_0 | ECN_CAPABLE_1 => Ecn::Capable,
            ECN_MARKED => Ecn::Marked,
            _ => Ecn::NotCapable,
        }
    }

    /// A number for the packet's flow: the same for the same protocol, addresses and ports.
    pub(crate) fn flow(&self, packet: &[u8]) -> usize {
        let mut hasher = DefaultHasher::new();
        (self.source, self.destination, u8::from(self.protocol)).hash(&mut hasher);
        if matches!(self.protocol, IpProtocol::Udp | IpProtocol::Tcp) && !self.fragment {
            // Both begin with the ports.
            let (begin, end) = self.payload;
            packet.get(begin..end.min(begin + 4)).hash(&mut hasher);
        }
        hasher.finish() as usize
    }

    /// The ends of the UDP datagram that the packet is.
    pub(crate) fn udp_ends(&self, packet: &[u8]) -> Option<Ends> {
        let udp = UdpPacket::new_checked(self.udp(packet)?).ok()?;
        Some(Ends {
            source: (self.source, udp.src_port()).into(),
            destination: (self.destination, udp.dst_port()).into(),
        })
    }

    /// The payload of the UDP datagram that the packet is.
    pub(crate) fn udp_payload<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let udp = UdpPacket::new_checked(self.udp(packet)?).ok()?;
        Some(udp.payload())
    }

    /// Lets `edit` change the payload of a UDP datagram; the checksum is right afterwards. Does
    /// nothing to other packets.
    pub(crate) fn edit_udp_payload(&self, packet: &mut [u8], edit: impl FnOnce(&mut [u8])) {
        if let Some(mut udp) = self.udp_mut(packet) {
            edit(udp.payload_mut());
            udp.fill_checksum(&self.source.into(), &self.destination.into());
        }
    }

    /// Gives a UDP datagram other ends, and checksums that are right. Does nothing to other
    /// packets, or if the ends are of another version of IP.
    pub(crate) fn set_udp_ends(&self, packet: &mut [u8], ends: Ends) {
        let (source, destination) = (ends.source.ip(), ends.destination.ip());
        match (self.source, source, destination) {
            (IpAddr::V4(_), IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut ip = Ipv4Packet::new_unchecked(&mut *packet);
                ip.set_src_addr(source);
                ip.set_dst_addr(destination);
                ip.fill_checksum();
            }
            (IpAddr::V6(_), IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut ip = Ipv6Packet::new_unchecked(&mut *packet);
                ip.set_src_addr(source);
                ip.set_dst_addr(destination);
            }
            _ => return,
        }
        if let Some(mut udp) = self.udp_mut(packet) {
            udp.set_src_port(ends.source.port());
            udp.set_dst_port(ends.destination.port());
            let [source, destination] = [source, destination].map(IpAddress::from);
            udp.fill_checksum(&source, &destination);
        }
    }

    /// Marks the packet: CE.
    pub(crate) fn mark(&self, packet: &mut [u8]) {
        match self.source {
            IpAddr::V4(_) => {
                let mut ip = Ipv4Packet::new_unchecked(packet);
                ip.set_ecn(ECN_MARKED);
                ip.fill_checksum();
            }
            IpAddr::V6(_) => {
                let mut ip = Ipv6Packet::new_unchecked(packet);
                ip.set_traffic_class(ip.traffic_class() | ECN_MARKED);
            }
        }
    }

    fn is_whole_udp(&self) -> bool {
        self.protocol == IpProtocol::Udp && !self.fragment
    }

    fn udp<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let (begin, end) = self.payload;
        self.is_whole_udp().then(|| packet.get(begin..end))?
    }

    fn udp_mut<'a>(&self, packet: &'a mut [u8]) -> Option<UdpPacket<&'a mut [u8]>> {
        let (begin, end) = self.payload;
        let udp = self.is_whole_udp().then(|| packet.get_mut(begin..end))?;
        UdpPacket::new_checked(udp?).ok()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use gallop_network::random::stream;
    use rand::RngExt;

    use super::*;

    /// A UDP datagram between these ends.
    pub(crate) fn datagram(source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
        let source: SocketAddr = source.parse().expect("an end");
        let destination: SocketAddr = destination.parse().expect("an end");
        let length = 8 + payload.len();
        let mut packet = match source {
            SocketAddr::V4(_) => {
                let mut packet = vec![0; 20 + length];
                let mut ip = Ipv4Packet::new_unchecked(&mut packet);
                ip.set_version(4);
                ip.set_header_len(20);
                ip.set_total_len((20 + length) as u16);
                ip.set_next_header(IpProtocol::Udp);
                packet
            }
            SocketAddr::V6(_) => {
                let mut packet = vec![0; 40 + length];
                let mut ip = Ipv6Packet::new_unchecked(&mut packet);
                ip.set_version(6);
                ip.set_payload_len(length as u16);
                ip.set_next_header(IpProtocol::Udp);
                packet
            }
        };
        let begin = packet.len() - length;
        let mut udp = UdpPacket::new_unchecked(&mut packet[begin..]);
        udp.set_len(length as u16);
        udp.payload_mut().copy_from_slice(payload);
        let unaddressed = Headers::parse(&packet).expect("an IP packet");
        let ends = Ends {
            source,
            destination,
        };
        unaddressed.set_udp_ends(&mut packet, ends);
        packet
    }

    /// All checksums are right.
    pub(crate) fn is_sound(packet: &[u8]) -> bool {
        let headers = Headers::parse(packet).expect("an IP packet");
        let udp = UdpPacket::new_checked(headers.udp(packet).expect("a datagram"));
        let (source, destination) = (headers.source.into(), headers.destination.into());
        let udp = udp
            .expect("a datagram")
            .verify_checksum(&source, &destination);
        udp && match headers.source {
            IpAddr::V4(_) => Ipv4Packet::new_unchecked(packet).verify_checksum(),
            IpAddr::V6(_) => true,
        }
    }

    const ENDS: [(&str, &str); 2] = [
        ("10.18.0.100:4000", "10.18.100.100:443"),
        (
            "[fd00:cafe:cafe:0::100]:4000",
            "[fd00:cafe:cafe:100::100]:443",
        ),
    ];

    #[test]
    fn edited_datagrams_are_sound() {
        for (source, destination) in ENDS {
            let mut packet = datagram(source, destination, b"payload");
            assert!(is_sound(&packet));
            let headers = Headers::parse(&packet).expect("an IP packet");
            assert!(headers.is_routed());
            headers.edit_udp_payload(&mut packet, |payload| payload[0] = b'P');
            assert!(is_sound(&packet) && packet.ends_with(b"Payload"));

            let mut ends = headers.udp_ends(&packet).expect("a datagram");
            assert_eq!(
                ends.source.to_string(),
                SocketAddr::to_string(&source.parse().unwrap())
            );
            std::mem::swap(&mut ends.source, &mut ends.destination);
            headers.set_udp_ends(&mut packet, ends);
            assert!(is_sound(&packet));
            let headers = Headers::parse(&packet).expect("an IP packet");
            assert_eq!(headers.udp_ends(&packet), Some(ends));

            assert_eq!(headers.ecn(), Ecn::NotCapable);
            headers.mark(&mut packet);
            assert!(is_sound(&packet));
            let headers = Headers::parse(&packet).expect("an IP packet");
            assert_eq!(headers.ecn(), Ecn::Marked);
        }
    }

    #[test]
    fn flows_have_numbers_of_their_own() {
        for (source, destination) in ENDS {
            let number = |source: &str, payload| {
                let packet = datagram(source, destination, payload);
                Headers::parse(&packet).expect("an IP packet").flow(&packet)
            };
            assert_eq!(number(source, b"one"), number(source, b"other"));
            let elsewhere = source.replace(":4000", ":4001");
            assert_ne!(number(source, b"one"), number(&elsewhere, b"one"));
        }
    }

    #[test]
    fn what_no_router_passes_on_is_known() {
        for (source, destination) in [
            ("[fe80::1]:1", "[ff02::2]:1"),
            ("[::]:1", "[fd00::1]:1"),
            ("10.0.0.1:1", "224.0.0.251:5353"),
            ("10.0.0.1:1", "255.255.255.255:67"),
        ] {
            let packet = datagram(source, destination, b"");
            assert!(!Headers::parse(&packet).expect("an IP packet").is_routed());
        }
    }

    #[test]
    fn nothing_that_hosts_send_is_too_odd() {
        let mut random = stream(1, 1);
        let mut parsed = 0;
        for _ in 0..100_000 {
            let mut packet = vec![0; random.random_range(0..120)];
            random.fill(&mut packet[..]);
            // Versions, lengths and protocols that get further than others.
            for (at, values) in [
                (0, &[0x45, 0x46, 0x4f, 0x40, 0x60][..]),
                (2, &[0]),
                (4, &[0]),
            ] {
                if let Some(byte) = packet.get_mut(at) {
                    *byte = values[random.random_range(0..values.len())];
                }
            }
            for at in [6, 9] {
                if let Some(byte) = packet.get_mut(at).filter(|byte| **byte < 128) {
                    *byte = IpProtocol::Udp.into();
                }
            }
            let Some(headers) = Headers::parse(&packet) else {
                continue;
            };
            parsed += 1;
            let _ = (headers.is_routed(), headers.ecn(), headers.flow(&packet));
            headers.edit_udp_payload(&mut packet, |payload| payload.fill(0));
            if let Some(ends) = headers.udp_ends(&packet) {
                headers.set_udp_ends(&mut packet, ends);
            }
            headers.mark(&mut packet);
        }
        assert!(parsed > 5_000, "{parsed}");
    }

    #[test]
    fn no_packet_is_too_short_to_be_looked_at() {
        for (source, destination) in ENDS {
            let whole = datagram(source, destination, b"payload");
            for length in 0..whole.len() {
                let mut packet = whole[..length].to_vec();
                assert_eq!(Headers::parse(&packet), None);
                // A length that is said to be shorter than it must be.
                packet = whole.clone();
                let at = if packet[0] >> 4 == 4 { 2 } else { 4 };
                packet[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
                if let Some(headers) = Headers::parse(&packet) {
                    headers.edit_udp_payload(&mut packet, |payload| payload.fill(0));
                    let _ = headers.udp_ends(&packet);
                    headers.flow(&packet);
                }
            }
        }
    }
}
