//! Many connections from one socket, each of which does what a test says.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use boring::ssl::{SslContextBuilder, SslMethod};
use gallop_interop::outbox::Pacing;
use gallop_interop::transport::{self, CONNECTION_ID_BYTES, H3};
use quiche::h3;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// The size of the socket's receive buffer that is asked for; the system may grant less.
const BUFFER_BYTES: usize = 4 << 20;

/// Handshakes under way at most: what the sockets' buffers hold in any case.
const HANDSHAKES: usize = 16;

/// The interval at which timers are checked.
const TICK: Duration = Duration::from_millis(20);

/// Settings of a client that trusts everybody.
pub fn config(protocol: &[u8]) -> quiche::Config {
    let tls = SslContextBuilder::new(SslMethod::tls()).unwrap();
    let controller = "reno".parse().unwrap();
    let mut config =
        transport::config(tls, &[protocol], &controller, Pacing::Off, PATIENCE).unwrap();
    config.verify_peer(false);
    config
}

/// A client.
pub struct Member {
    pub connection: quiche::Connection,
    h3: Option<h3::Connection>,
    /// Responses that came to their end.
    pub answered: usize,
    /// Bytes of responses.
    pub body_bytes: usize,
    asked: usize,
}

/// Clients that share a socket.
pub struct Crowd {
    config: quiche::Config,
    server: SocketAddr,
    socket: UdpSocket,
    members: HashMap<Vec<u8>, Member>,
    ticked: Instant,
    /// The datagram that was sent last.
    pub last: Vec<u8>,
    /// UDP payload.
    pub sent_bytes: usize,
    /// UDP payload.
    pub received_bytes: usize,
}

impl Crowd {
    pub fn new(server: SocketAddr, config: quiche::Config) -> Crowd {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket2::SockRef::from(&socket)
            .set_recv_buffer_size(BUFFER_BYTES)
            .unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(1)))
            .unwrap();
        Crowd {
            config,
            server,
            socket,
            members: HashMap::new(),
            ticked: Instant::now(),
            last: Vec::new(),
            sent_bytes: 0,
            received_bytes: 0,
        }
    }

    /// Begins a connection; nothing is sent yet.
    pub fn begin(&mut self) -> Vec<u8> {
        let id = transport::connection_id().unwrap();
        let local = self.socket.local_addr().unwrap();
        let connection = quiche::connect(None, &id, local, self.server, &mut self.config).unwrap();
        let member = Member {
            connection,
            h3: None,
            answered: 0,
            body_bytes: 0,
            asked: 0,
        };
        self.members.insert(id.to_vec(), member);
        id.to_vec()
    }

    /// The first datagram of a connection that does not go on.
    pub fn begin_datagram(&mut self) -> Vec<u8> {
        let id = self.begin();
        let mut member = self.members.remove(&id).unwrap();
        let mut buffer = vec![0; 1_500];
        let (length, _) = member.connection.send(&mut buffer).unwrap();
        buffer.truncate(length);
        buffer
    }

    /// Sends a datagram of nobody.
    pub fn send(&mut self, datagram: &[u8]) {
        self.sent_bytes += datagram.len();
        self.socket.send_to(datagram, self.server).unwrap();
    }

    /// Connects so many more, a few at a time.
    pub fn connect(&mut self, count: usize) {
        let mut left = count;
        while left > 0 {
            let batch = left.min(HANDSHAKES);
            let ids: Vec<_> = (0..batch).map(|_| self.begin()).collect();
            self.until(|crowd| {
                let mut new = ids.iter().map(|id| &crowd.members[id].connection);
                new.all(quiche::Connection::is_established)
            });
            left -= batch;
        }
    }

    pub fn all(&self, is_so: impl Fn(&Member) -> bool) -> bool {
        self.members.values().all(is_so)
    }

    /// Asks every member's server for a path, `count` times.
    pub fn ask(&mut self, path: &str, count: usize) {
        for member in self.members.values_mut() {
            for _ in 0..count {
                member.ask(path);
            }
        }
    }

    /// Reads what is asked for to its end.
    pub fn read_all(&mut self) {
        self.until(|crowd| crowd.all(|member| member.answered == member.asked));
    }

    /// Sends what there is to send.
    pub fn flush(&mut self) {
        for id in self.members.keys().cloned().collect::<Vec<_>>() {
            self.flush_member(&id);
        }
    }

    fn flush_member(&mut self, id: &[u8]) {
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        let mut buffer = [0; 1_500];
        while let Ok((length, info)) = member.connection.send(&mut buffer) {
            self.sent_bytes += length;
            self.last = buffer[..length].to_vec();
            // A server that is gone is noticed elsewhere.
            let _ = self.socket.send_to(&self.last, info.to);
        }
    }

    /// Goes on until something is so; every member reads all that comes.
    pub fn until(&mut self, is_so: impl Fn(&Crowd) -> bool) {
        if !self.wait(PATIENCE, true, is_so) {
            for member in self.members.values() {
                let connection = &member.connection;
                println!(
                    "{} of {} answered, {:?}, {:?}, {:?}",
                    member.answered,
                    member.asked,
                    connection.stats(),
                    connection.is_timed_out(),
                    connection.peer_error(),
                );
            }
            panic!("it never is");
        }
    }

    /// Goes on for a while or until something is so, and says whether it is; who does not read
    /// leaves what comes in streams.
    pub fn wait(
        &mut self,
        patience: Duration,
        reads: bool,
        is_so: impl Fn(&Crowd) -> bool,
    ) -> bool {
        let begun = Instant::now();
        self.flush();
        while !is_so(self) {
            if begun.elapsed() > patience {
                return false;
            }
            self.receive(reads);
            if self.ticked.elapsed() > TICK {
                self.on_timeouts();
            }
        }
        self.flush();
        true
    }

    fn on_timeouts(&mut self) {
        self.ticked = Instant::now();
        let mut due = Vec::new();
        for (id, member) in &mut self.members {
            let timeout = member.connection.timeout_instant();
            if timeout.is_some_and(|timeout| timeout <= self.ticked) {
                member.connection.on_timeout();
                due.push(id.clone());
            }
        }
        for id in due {
            self.flush_member(&id);
        }
    }

    /// Reads datagrams until there is none for a moment.
    fn receive(&mut self, reads: bool) {
        let mut buffer = [0; 65_535];
        let to = self.socket.local_addr().unwrap();
        loop {
            let (length, from) = match self.socket.recv_from(&mut buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                Err(_) => return,
            };
            self.received_bytes += length;
            let datagram = &mut buffer[..length];
            let Ok(header) = quiche::Header::from_slice(datagram, CONNECTION_ID_BYTES) else {
                continue;
            };
            let id = header.dcid.to_vec();
            let Some(member) = self.members.get_mut(&id) else {
                continue;
            };
            let _ = member
                .connection
                .recv(datagram, quiche::RecvInfo { from, to });
            if reads && member.connection.is_established() {
                member.read();
            }
            self.flush_member(&id);
            if self.ticked.elapsed() > TICK {
                return;
            }
        }
    }

    /// Counts what has come, and throws it away.
    pub fn discard(&mut self) {
        let mut buffer = [0; 65_535];
        self.socket.set_nonblocking(true).unwrap();
        while let Ok((length, _)) = self.socket.recv_from(&mut buffer) {
            self.received_bytes += length;
        }
        self.socket.set_nonblocking(false).unwrap();
    }

    /// Ends some connections in order.
    pub fn close(&mut self, count: usize) {
        let ids: Vec<_> = self.members.keys().take(count).cloned().collect();
        for id in &ids {
            let member = self.members.get_mut(id).unwrap();
            member.connection.close(true, 0x100, b"").unwrap();
        }
        self.flush();
        self.members.retain(|id, _| !ids.contains(id));
    }

    /// All members are gone, without a word.
    pub fn vanish(&mut self) {
        self.members.clear();
    }
}

impl Member {
    fn ask(&mut self, path: &str) {
        let stream = 4 * self.asked as u64;
        if let Some(h3) = &mut self.h3 {
            let head = [
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "localhost"),
                (":path", path),
            ]
            .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()));
            h3.send_request(&mut self.connection, &head, true).unwrap();
        } else {
            let line = format!("GET {path}\r\n");
            self.connection
                .stream_send(stream, line.as_bytes(), true)
                .unwrap();
        }
        self.asked += 1;
    }

    fn read(&mut self) {
        if self.h3.is_none() && self.connection.application_proto() == H3 {
            let config = h3::Config::new().unwrap();
            self.h3 = h3::Connection::with_transport(&mut self.connection, &config).ok();
        }
        let mut buffer = [0; 65_535];
        let Some(h3) = &mut self.h3 else {
            for stream in self.connection.readable().collect::<Vec<_>>() {
                while let Ok((length, end)) = self.connection.stream_recv(stream, &mut buffer) {
                    self.body_bytes += length;
                    if end {
                        self.answered += 1;
                        break;
                    }
                }
            }
            return;
        };
        loop {
            match h3.poll(&mut self.connection) {
                Ok((stream, h3::Event::Data)) => {
                    let connection = &mut self.connection;
                    while let Ok(length) = h3.recv_body(connection, stream, &mut buffer) {
                        self.body_bytes += length;
                    }
                }
                Ok((_, h3::Event::Finished)) => self.answered += 1,
                Ok((_, h3::Event::Reset(code))) => panic!("reset with {code:#x}"),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}
