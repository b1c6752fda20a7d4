//! What the path saw: the packets of a capture, as far as they can be read without keys.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use pcap_file::pcap::PcapReader;
use smoltcp::wire::{IpProtocol, IpVersion, Ipv4Packet, Ipv6Packet, UdpPacket};

/// The port of the server.
const SERVER_PORT: u16 = 443;

/// Connection IDs of the endpoints are unknown; those of short headers are not looked at.
const UNKNOWN_CONNECTION_ID_BYTES: usize = 0;

/// A UDP datagram that arrived.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// When.
    pub time: Duration,
    /// Whether it came from the server.
    pub is_from_server: bool,
    /// The client's address: behind a NAT, that before it in packets from the server.
    pub client: SocketAddr,
    /// The payload in bytes.
    pub length_bytes: usize,
    /// The ECN field of the IP header (RFC 3168 §5).
    pub ecn: u8,
    /// The first QUIC packet in it.
    pub first: First,
}

/// What the first packet of a datagram is.
#[derive(Clone, Debug, PartialEq)]
pub enum First {
    /// With a long header.
    Long {
        /// Its type.
        kind: quiche::Type,
        /// Its QUIC version.
        version: u32,
        /// Who sent it.
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
    /// Reads a pcap file of IP packets. What is not UDP of port 443 is skipped, and so is what
    /// comes after a record that is not whole.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or is no pcap file.
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

    /// Those of one direction.
    pub fn from(&self, is_server: bool) -> impl Iterator<Item = &Datagram> {
        self.datagrams
            .iter()
            .filter(move |datagram| datagram.is_from_server == is_server)
    }

    /// How many packets of a type one direction has first in a datagram.
    pub fn count(&self, is_server: bool, wanted: quiche::Type) -> usize {
        self.from(is_server)
            .filter(|datagram| matches!(datagram.first, First::Long { kind, .. } if kind == wanted))
            .count()
    }

    /// How many handshakes the server took part in: it chooses a connection ID for each.
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
