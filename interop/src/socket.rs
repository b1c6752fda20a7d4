//! UDP sockets with the kernel's services for a QUIC endpoint: many datagrams per call, the address
//! that a datagram came to, and, on request, departure times.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant, SystemTime};

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Type};

/// The size of a socket's buffers that is asked of the kernel, which may grant less
/// (`net.core.rmem_max`, `net.core.wmem_max` on Linux).
const BUFFER_BYTES: usize = 4 << 20;

/// The largest UDP datagram, and the most that the kernel joins to one read.
const MAX_DATAGRAM_BYTES: usize = 65_535;

/// Datagrams do not wait for longer than this to be read; who says so has set the clock.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// A bound UDP socket that never blocks.
#[derive(Debug)]
pub struct Socket {
    socket: mio::net::UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    joins: bool,
    #[cfg(target_os = "linux")]
    departure: Option<crate::txtime::Departure>,
}

/// Room for the datagrams of one read.
#[derive(Debug)]
pub struct ReceiveBuffers {
    bytes: Vec<u8>,
    meta: [RecvMeta; BATCH_SIZE],
}

impl Default for ReceiveBuffers {
    fn default() -> Self {
        ReceiveBuffers {
            bytes: vec![0; BATCH_SIZE * MAX_DATAGRAM_BYTES],
            meta: [RecvMeta::default(); BATCH_SIZE],
        }
    }
}

impl Socket {
    /// Binds a socket. One for `[::]` is for IPv6 only, so that there can be one for `0.0.0.0` too.
    ///
    /// # Errors
    ///
    /// The address is taken, or does not belong to this machine.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Socket::bind_with(address, |_| Ok(()))
    }

    /// Binds so many sockets to one address. The system gives each the packets of some peers
    /// (SO_REUSEPORT); those of one address and port of a peer come to the same.
    ///
    /// # Errors
    ///
    /// The address is taken, or does not belong to this machine; or the system has one socket for an
    /// address only.
    pub fn bind_several(address: SocketAddr, count: usize) -> io::Result<Vec<Self>> {
        // The first one finds out that the address is not another program's, who may share it too.
        let first = Socket::bind(address)?;
        if count > 1 {
            share(&socket2::SockRef::from(&first.socket))?;
        }
        let address = first.local;
        let others = (1..count).map(|_| Socket::bind_with(address, share));
        std::iter::once(Ok(first)).chain(others).collect()
    }

    fn bind_with(
        address: SocketAddr,
        prepare: impl Fn(&socket2::Socket) -> io::Result<()>,
    ) -> io::Result<Self> {
        let socket = socket2::Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_nonblocking(true)?;
        prepare(&socket)?;
        socket.bind(&address.into())?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // A smaller buffer than the requested one is not an error.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), BUFFER_BYTES);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), BUFFER_BYTES);
        let socket = mio::net::UdpSocket::from_std(socket.into());
        Ok(Socket {
            local: socket.local_addr()?,
            socket,
            state,
            joins: true,
            #[cfg(target_os = "linux")]
            departure: None,
        })
    }

    /// The address that the socket is bound to.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Lets the kernel hold packets back until they are due (SO_TXTIME), which the queueing
    /// discipline `fq` of the interface does.
    ///
    /// # Errors
    ///
    /// The system does not support it.
    pub fn enable_departure_times(&mut self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            self.departure = Some(crate::txtime::Departure::enable(&self.socket)?);
            Ok(())
        }
        #[cfg(not(target_os = "linux"))]
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Sends every datagram by a system call of its own from now on.
    pub fn disable_segmentation_offload(&mut self) {
        self.joins = false;
    }

    /// The number of datagrams that one [`Socket::send`] takes.
    pub fn max_segments(&self) -> usize {
        match self.joins {
            true => self.state.max_gso_segments(),
            false => 1,
        }
    }

    /// Reads what has come in one go, and gives each datagram to `each`, with the time at which it came
    /// to this host, as far as the system tells.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is nothing to read, or what the system says.
    pub fn receive(
        &self,
        buffers: &mut ReceiveBuffers,
        mut each: impl FnMut(&mut [u8], quiche::RecvInfo, Instant),
    ) -> io::Result<()> {
        let mut slices = buffers.bytes.chunks_mut(MAX_DATAGRAM_BYTES);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(slices.next().unwrap_or_default()));
        let received = self.state.recv(
            UdpSockRef::from(&self.socket),
            &mut slices,
            &mut buffers.meta,
        )?;
        let (now, clock) = (Instant::now(), SystemTime::now());
        for (slice, meta) in slices.iter_mut().zip(&buffers.meta).take(received) {
            let to = meta
                .dst_ip
                .map_or(self.local, |ip| SocketAddr::new(ip, self.local.port()));
            let from = meta.addr;
            let waited = meta
                .timestamp
                .map_or(Duration::ZERO, |came| wait(came, clock));
            let at = now.checked_sub(waited).unwrap_or(now);
            for datagram in slice[..meta.len].chunks_mut(meta.stride.max(1)) {
                each(datagram, quiche::RecvInfo { from, to }, at);
            }
        }
        Ok(())
    }

    /// Sends datagrams of `segment_bytes` each, of which the last may be shorter, to leave at
    /// `info.at` if the kernel has been asked to see to that, else at once.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the kernel's buffer is full, or what the system says.
    pub fn send(
        &self,
        datagrams: &[u8],
        segment_bytes: usize,
        info: &quiche::SendInfo,
    ) -> io::Result<()> {
        let source = Some(info.from.ip()).filter(|ip| !ip.is_unspecified());
        #[cfg(target_os = "linux")]
        if let Some(departure) = &self.departure
            && info.at > Instant::now()
        {
            return departure.send(&self.socket, datagrams, segment_bytes, source, info);
        }
        self.send_now(datagrams, segment_bytes, source, info.to)
    }

    fn send_now(
        &self,
        datagrams: &[u8],
        segment_bytes: usize,
        source: Option<IpAddr>,
        destination: SocketAddr,
    ) -> io::Result<()> {
        let send = |contents: &[u8], segment_size| {
            self.state.try_send(
                UdpSockRef::from(&self.socket),
                &Transmit {
                    destination,
                    ecn: None,
                    contents,
                    segment_size,
                    src_ip: source,
                },
            )
        };
        if datagrams.len() <= segment_bytes {
            return send(datagrams, None);
        }
        match send(datagrams, Some(segment_bytes)) {
            // An interface that cannot split: from now on quinn-udp says one segment.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock && self.max_segments() == 1 => {
                datagrams
                    .chunks(segment_bytes)
                    .try_for_each(|datagram| send(datagram, None))
            }
            result => result,
        }
    }
}

/// The time for which a datagram that came at `came`, since 1970, has waited to be read.
fn wait(came: Duration, now: SystemTime) -> Duration {
    now.duration_since(SystemTime::UNIX_EPOCH + came)
        .ok()
        .filter(|wait| *wait < MAX_WAIT)
        .unwrap_or_default()
}

/// Lets sockets have the same address.
#[cfg(target_os = "linux")]
fn share(socket: &socket2::Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

#[cfg(not(target_os = "linux"))]
fn share(_socket: &socket2::Socket) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

impl mio::event::Source for Socket {
    fn register(
        &mut self,
        registry: &mio::Registry,
        token: mio::Token,
        interests: mio::Interest,
    ) -> io::Result<()> {
        self.socket.register(registry, token, interests)
    }

    fn reregister(
        &mut self,
        registry: &mio::Registry,
        token: mio::Token,
        interests: mio::Interest,
    ) -> io::Result<()> {
        self.socket.reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &mio::Registry) -> io::Result<()> {
        self.socket.deregister(registry)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::thread;

    use super::*;

    const WAIT: Duration = Duration::from_millis(20);

    #[test]
    #[cfg(target_os = "linux")]
    fn a_datagram_came_before_it_is_read() {
        let socket = Socket::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"early", socket.local_address()).unwrap();
        let after = Instant::now();
        thread::sleep(WAIT);
        let mut times = Vec::new();
        let mut buffers = ReceiveBuffers::default();
        socket
            .receive(&mut buffers, |_, _, at| times.push(at))
            .unwrap();
        // Two clocks are read one after the other.
        assert!(times.len() == 1 && times[0] < after + WAIT / 2);
    }

    #[test]
    fn a_clock_that_was_set_tells_no_wait() {
        let now = SystemTime::now();
        let since_1970 = now.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(wait(since_1970.saturating_sub(WAIT), now), WAIT);
        let hour = Duration::from_secs(3_600);
        assert_eq!(wait(since_1970 + hour, now), Duration::ZERO);
        assert_eq!(wait(since_1970.saturating_sub(hour), now), Duration::ZERO);
    }
}
