//! Departure times of packets by SO_TXTIME (Linux).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg, setsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};

/// Tells the kernel the departure times of packets.
#[derive(Debug)]
pub(crate) struct Departure {
    /// The same moment on both clocks. `Instant` is CLOCK_MONOTONIC, but does not say its value.
    origin: (Instant, Duration),
}

impl Departure {
    /// Asks for departure times on `socket`, by the monotonic clock, which `fq` uses.
    pub(crate) fn enable(socket: &impl AsFd) -> io::Result<Self> {
        let config = nix::libc::sock_txtime {
            clockid: nix::libc::CLOCK_MONOTONIC,
            flags: 0,
        };
        setsockopt(socket, sockopt::TxTime, &config)?;
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
        Ok(Departure {
            origin: (Instant::now(), Duration::from(now)),
        })
    }

    /// Sends datagrams of `segment_bytes` each, to leave at `info.at`.
    pub(crate) fn send(
        &self,
        socket: &(impl AsFd + AsRawFd),
        datagrams: &[u8],
        segment_bytes: usize,
        source: Option<IpAddr>,
        info: &quiche::SendInfo,
    ) -> io::Result<()> {
        let at = self.origin.1 + info.at.saturating_duration_since(self.origin.0);
        let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        let segment = u16::try_from(segment_bytes).map_err(io::Error::other)?;
        let mut control = vec![ControlMessage::TxTime(&at)];
        if datagrams.len() > segment_bytes {
            control.push(ControlMessage::UdpGsoSegments(&segment));
        }
        let (v4, v6);
        match source {
            Some(IpAddr::V4(ip)) => {
                v4 = nix::libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: nix::libc::in_addr {
                        s_addr: u32::from_ne_bytes(ip.octets()),
                    },
                    ipi_addr: nix::libc::in_addr { s_addr: 0 },
                };
                control.push(ControlMessage::Ipv4PacketInfo(&v4));
            }
            Some(IpAddr::V6(ip)) => {
                v6 = nix::libc::in6_pktinfo {
                    ipi6_ifindex: 0,
                    ipi6_addr: nix::libc::in6_addr {
                        s6_addr: ip.octets(),
                    },
                };
                control.push(ControlMessage::Ipv6PacketInfo(&v6));
            }
            None => {}
        }
        let to = destination(info.to);
        sendmsg(
            socket.as_raw_fd(),
            &[io::IoSlice::new(datagrams)],
            &control,
            MsgFlags::empty(),
            Some(&to),
        )?;
        Ok(())
    }
}

fn destination(address: SocketAddr) -> SockaddrStorage {
    SockaddrStorage::from(address)
}
