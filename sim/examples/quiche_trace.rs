//! Sends bytes from a server to a client over quiche, with any controller; both write a qlog.
//!
//! ```text
//! quiche_trace server ADDRESS QLOG CONTROLLER CERT.pem KEY.pem BYTES
//! quiche_trace client ADDRESS QLOG
//! ```
//!
//! Each prints what its connection reports of itself.

use std::error::Error;
use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The server's stream.
const STREAM: u64 = 3;

fn main() -> Outcome<()> {
    gallop::register()?;
    let arguments: Vec<String> = std::env::args().collect();
    let address: SocketAddr = arguments[2].parse()?;
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[b"trace"])?;
    config.verify_peer(false);
    config.set_max_idle_timeout(5000);
    config.set_initial_max_data(1 << 30);
    config.set_initial_max_stream_data_uni(1 << 30);
    config.set_initial_max_streams_uni(1);
    config.set_max_send_udp_payload_size(1350);
    if arguments[1] == "server" {
        config.set_cc_algorithm_name(&arguments[4])?;
        config.load_cert_chain_from_pem_file(&arguments[5])?;
        config.load_priv_key_from_pem_file(&arguments[6])?;
        let socket = UdpSocket::bind(address)?;
        let mut first = [0; 65535];
        let (length, peer) = socket.recv_from(&mut first)?;
        let id = quiche::ConnectionId::from_ref(&[7; 16]);
        let connection = quiche::accept(&id, None, address, peer, &mut config)?;
        let end = End::new(connection, socket, peer, &arguments[3])?;
        end.run(Some(&mut first[..length]), arguments[7].parse()?)
    } else {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let id = quiche::ConnectionId::from_ref(&[5; 16]);
        let local = socket.local_addr()?;
        let connection = quiche::connect(Some("localhost"), &id, local, address, &mut config)?;
        End::new(connection, socket, address, &arguments[3])?.run(None, 0)
    }
}

struct End {
    connection: quiche::Connection,
    socket: UdpSocket,
    peer: SocketAddr,
}

impl End {
    fn new(
        mut connection: quiche::Connection,
        socket: UdpSocket,
        peer: SocketAddr,
        qlog: &str,
    ) -> Outcome<End> {
        let file = Box::new(File::create(qlog)?);
        connection.set_qlog(file, "quiche".to_owned(), "a transfer over UDP".to_owned());
        Ok(End { connection, socket, peer })
    }

    /// Sends `bytes` if there are any, else receives; until the connection is closed.
    fn run(mut self, first: Option<&mut [u8]>, mut bytes: usize) -> Outcome<()> {
        let local = self.socket.local_addr()?;
        let info = quiche::RecvInfo { from: self.peer, to: local };
        if let Some(datagram) = first {
            self.connection.recv(datagram, info)?;
        }
        let start = Instant::now();
        let mut buffer = [0; 65535];
        let mut received = 0;
        while !self.connection.is_closed() {
            if bytes > 0 && self.connection.is_established() {
                match self.connection.stream_send(STREAM, &vec![0; bytes], true) {
                    Ok(written) => bytes -= written,
                    Err(quiche::Error::Done) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            while let Ok((length, end)) = self.connection.stream_recv(STREAM, &mut buffer) {
                received += length;
                if end {
                    println!("{received} bytes in {:?}", start.elapsed());
                    self.connection.close(true, 0, b"")?;
                }
            }
            let released = self.send(&mut buffer)?;
            let wait = [self.connection.timeout(), released, Some(Duration::from_secs(1))];
            let wait = wait.into_iter().flatten().min().unwrap_or_default();
            self.socket.set_read_timeout(Some(wait.max(Duration::from_micros(100))))?;
            match self.socket.recv_from(&mut buffer) {
                Ok((length, _)) => drop(self.connection.recv(&mut buffer[..length], info)),
                Err(_) if self.connection.timeout() == Some(Duration::ZERO) => {
                    self.connection.on_timeout();
                }
                Err(_) => {}
            }
        }
        println!("{:?}", self.connection.stats());
        for path in self.connection.path_stats() {
            println!("{path:?}");
        }
        Ok(())
    }

    /// Sends all that may go now; how long to wait when pacing holds the next packet back.
    fn send(&mut self, buffer: &mut [u8]) -> Outcome<Option<Duration>> {
        loop {
            let now = Instant::now();
            if let Some(at) = self.connection.get_next_release_time().and_then(|d| d.time(now)) {
                return Ok(Some(at - now));
            }
            match self.connection.send(buffer) {
                Ok((length, _)) => drop(self.socket.send_to(&buffer[..length], self.peer)?),
                Err(quiche::Error::Done) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
