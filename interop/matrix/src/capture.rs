//! The packets of a capture, as far as they can be read without keys.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use pcap_file::pcap::{PcapReader, PcapWriter};
use smoltcp::wire::{IPV6_HEADER_LEN, IpProtocol, IpVersion, Ipv4Packet, Ipv6Packet, UdpPacket};

/// The port of the server.
const SERVER_PORT: u16 = 443;

/// Connection IDs of the endpoints are unknown; those of short headers are not looked at.
const UNKNOWN_CONNECTION_ID_BYTES: usize = 0;

/// A UDP datagram that arrived.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// The time of its arrival.
    pub time: Duration,
    /// True if it came from the server.
    pub is_from_server: bool,
    /// The client's address; in packets from the server, the one on the server's side of a NAT.
    pub client: SocketAddr,
    /// The payload in bytes.
    pub length_bytes: usize,
    /// The ECN field of the IP header (RFC 3168 §5).
    pub ecn: u8,
    /// The first QUIC packet in it.
    pub first: First,
}

/// The first packet of a datagram.
#[derive(Clone, Debug, PartialEq)]
pub enum First {
    /// With a long header.
    Long {
        /// Its type.
        kind: quiche::Type,
        /// Its QUIC version.
        version: u32,
        /// The sender's connection ID.
        source: Vec<u8>,
        /// The token of an Initial packet or a Retry.
        token: Vec<u8>,
    },
    /// With a short header.
    Short,
    /// Not QUIC.
    Unknown,
}

/// The datagrams of a capture, in order.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// All of them.
    pub datagrams: Vec<Datagram>,
}

impl Capture {
    /// Reads a pcap file of IP packets. Packets other than UDP of port 443 are skipped, and so is
    /// everything after an incomplete record.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or is not a pcap file.
    pub fn read(path: &Path) -> Result<Self> {
        let place = || format!("capture {}", path.display());
        let file = File::open(path).with_context(place)?;
        let mut reader = PcapReader::new(BufReader::new(file)).with_context(place)?;
        let mut capture = Capture::default();
        while let Some(Ok(packet)) = reader.next_packet() {
            if let Some(datagram) = datagram(packet.timestamp, &packet.data) {
                capture.datagrams.push(datagram);
            }
        }
        Ok(capture)
    }

    /// The datagrams of one direction.
    pub fn from(&self, is_server: bool) -> impl Iterator<Item = &Datagram> {
        self.datagrams
            .iter()
            .filter(move |datagram| datagram.is_from_server == is_server)
    }

    /// The number of one direction's datagrams that begin with a packet of this type.
    pub fn count(&self, is_server: bool, wanted: quiche::Type) -> usize {
        self.from(is_server)
            .filter(|datagram| matches!(datagram.first, First::Long { kind, .. } if kind == wanted))
            .count()
    }

    /// The number of the server's handshakes: it chooses a connection ID for each.
    pub fn handshakes(&self) -> usize {
        let sources: BTreeSet<&[u8]> = self
            .from(true)
            .filter_map(|datagram| match &datagram.first {
                First::Long {
                    kind: quiche::Type::Initial,
                    source,
                    ..
                } => Some(source.as_slice()),
                _ => None,
            })
            .collect();
        sources.len()
    }

    /// The client's addresses that the server heard of.
    pub fn clients(&self) -> BTreeSet<SocketAddr> {
        self.from(false).map(|datagram| datagram.client).collect()
    }

    /// The time from the first to the last packet with a short header from one end, if there are
    /// two.
    pub fn transfer_time(&self, is_server: bool) -> Option<Duration> {
        let mut times = self
            .from(is_server)
            .filter(|datagram| datagram.first == First::Short)
            .map(|datagram| datagram.time);
        let first = times.next()?;
        let last = times.last()?;
        Some(last - first)
    }
}

/// Copies a capture without the zeros that quiche puts behind the last packet of a datagram to make
/// it large. tshark takes them for a packet with a short header, and at times for the next key
/// phase: then it reads nothing more of that connection.
///
/// # Errors
///
/// One of the files cannot be opened, or the second not be written.
pub fn copy_without_padding(from: &Path, to: &Path) -> Result<()> {
    let place = || format!("capture {}", from.display());
    let file = File::open(from).with_context(place)?;
    let mut reader = PcapReader::new(BufReader::new(file)).with_context(place)?;
    let place = || format!("cannot write {}", to.display());
    let file = BufWriter::new(File::create(to).with_context(place)?);
    let mut writer = PcapWriter::with_header(file, reader.header()).with_context(place)?;
    while let Some(Ok(mut packet)) = reader.next_packet() {
        let zeros = packet.data.iter().rev().take_while(|&&byte| byte == 0);
        let padding = zeros.count();
        if padding >= PADDING_BYTES {
            packet.data = shortened(packet.data.into_owned(), padding).into();
            packet.orig_len = u32::try_from(packet.data.len())?;
        }
        writer.write_packet(&packet).with_context(place)?;
    }
    Ok(())
}

/// So many zeros are padding: what is encrypted does not end with them.
const PADDING_BYTES: usize = 8;

/// An IP packet without its last bytes, if it is UDP.
fn shortened(mut packet: Vec<u8>, bytes: usize) -> Vec<u8> {
    let length = packet.len() - bytes;
    let rest = |header: usize| u16::try_from(length.checked_sub(header)?).ok();
    let udp = match IpVersion::of_packet(&packet) {
        Ok(IpVersion::Ipv4) => Ipv4Packet::new_checked(&mut packet)
            .ok()
            .filter(|ip| ip.next_header() == IpProtocol::Udp)
            .and_then(|mut ip| {
                ip.set_total_len(rest(0)?);
                Some(usize::from(ip.header_len()))
            }),
        Ok(IpVersion::Ipv6) => Ipv6Packet::new_checked(&mut packet)
            .ok()
            .filter(|ip| ip.next_header() == IpProtocol::Udp)
            .and_then(|mut ip| {
                ip.set_payload_len(rest(IPV6_HEADER_LEN)?);
                Some(IPV6_HEADER_LEN)
            }),
        Err(_) => None,
    };
    if let Some(header) = udp
        && let Some(udp_length) = rest(header)
    {
        UdpPacket::new_unchecked(&mut packet[header..]).set_len(udp_length);
        packet.truncate(length);
    }
    packet
}

fn datagram(time: Duration, packet: &[u8]) -> Option<Datagram> {
    let (source, destination, class, payload): (IpAddr, IpAddr, u8, &[u8]) =
        match IpVersion::of_packet(packet).ok()? {
            IpVersion::Ipv4 => {
                let ip = Ipv4Packet::new_checked(packet).ok()?;
                if ip.next_header() != IpProtocol::Udp {
                    return None;
                }
                let (source, destination) = (ip.src_addr().into(), ip.dst_addr().into());
                (source, destination, ip.ecn(), ip.payload())
            }
            IpVersion::Ipv6 => {
                let ip = Ipv6Packet::new_checked(packet).ok()?;
                if ip.next_header() != IpProtocol::Udp {
                    return None;
                }
                let (source, destination) = (ip.src_addr().into(), ip.dst_addr().into());
                let class = ip.traffic_class() & 0b11;
                (source, destination, class, ip.payload())
            }
        };
    let udp = UdpPacket::new_checked(payload).ok()?;
    let is_from_server = udp.src_port() == SERVER_PORT;
    let client = match is_from_server {
        true => SocketAddr::new(destination, udp.dst_port()),
        false if udp.dst_port() == SERVER_PORT => SocketAddr::new(source, udp.src_port()),
        false => return None,
    };
    Some(Datagram {
        time,
        is_from_server,
        client,
        length_bytes: udp.payload().len(),
        ecn: class,
        first: first(udp.payload()),
    })
}

fn first(payload: &[u8]) -> First {
    // quiche decodes in place.
    let mut payload = payload.to_vec();
    match quiche::Header::from_slice(&mut payload, UNKNOWN_CONNECTION_ID_BYTES) {
        Ok(header) if header.ty == quiche::Type::Short => First::Short,
        Ok(header) => First::Long {
            kind: header.ty,
            version: header.version,
            source: header.scid.to_vec(),
            token: header.token.unwrap_or_default(),
        },
        Err(_) => First::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UDP_BYTES: usize = 8;

    /// A packet of IPv4 (20 bytes) or IPv6 (40 bytes) with this payload.
    fn packet(header: usize, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; header + UDP_BYTES];
        packet.extend_from_slice(payload);
        let length = u16::try_from(packet.len()).unwrap();
        if header == IPV6_HEADER_LEN {
            let mut ip = Ipv6Packet::new_unchecked(&mut packet);
            ip.set_version(6);
            ip.set_next_header(IpProtocol::Udp);
            ip.set_payload_len(length - header as u16);
        } else {
            let mut ip = Ipv4Packet::new_unchecked(&mut packet);
            ip.set_version(4);
            ip.set_header_len(header as u8);
            ip.set_next_header(IpProtocol::Udp);
            ip.set_total_len(length);
        }
        UdpPacket::new_unchecked(&mut packet[header..]).set_len(length - header as u16);
        packet
    }

    #[test]
    fn padding_behind_packets_is_left_out() {
        let padded = [&[0xc0, 1, 2, 3][..], &[0; 30]].concat();
        for header in [20, IPV6_HEADER_LEN] {
            let whole = packet(header, &padded);
            assert_eq!(shortened(whole, 30), packet(header, &padded[..4]));
        }
    }

    #[test]
    fn what_is_not_udp_stays_as_it_is() {
        let mut tcp = packet(20, &[0; 30]);
        Ipv4Packet::new_unchecked(&mut tcp).set_next_header(IpProtocol::Tcp);
        assert_eq!(shortened(tcp.clone(), 30), tcp);
        assert_eq!(shortened(vec![0; 40], 30), vec![0; 40]);
    }
}
