//! Fetches a URL over HTTP/3, or uploads a file to it, with nothing but quiche and a UDP socket.

use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, anyhow, bail, ensure};
use clap::Parser;
use gallop::stack::quiche::Selection;
use mio::{Events, Interest, Poll, Token};
use quiche::h3::{self, Header, NameValue};
use quiche::{Config, ConnectionId, RecvInfo};
use url::Url;

/// Fetch a URL over HTTP/3 with quiche and write it to standard output, or upload a file to it
#[derive(Parser)]
#[command(version, args_override_self = true, after_help = Selection::help())]
struct Arguments {
    /// The URL: https://NAME/PATH, or https://NAME:PORT/PATH
    url: Url,

    /// Congestion controller of this end, which matters for uploads
    #[arg(long, default_value = "canter", value_name = "NAME[:OPTIONS]")]
    cc: Selection,

    /// Upload this file with POST, instead of GET
    #[arg(long, value_name = "FILE")]
    upload: Option<PathBuf>,

    /// Trust these certificates (PEM) besides the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<String>,
}

/// The flow control windows of the connection and of each stream.
const WINDOW_BYTES: u64 = 10_000_000;

/// A connection without packets ends after this time.
const IDLE_TIMEOUT_MS: u64 = 5_000;

/// A poll waits for whole milliseconds, which is too long between the packets of a paced sender.
const SHORTEST_POLL: Duration = Duration::from_millis(2);

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let url = &arguments.url;
    let name = url.domain().filter(|_| url.scheme() == "https");
    let name = name.with_context(|| format!("{url}: expected https://NAME[:PORT]/PATH"))?;
    let upload = match &arguments.upload {
        Some(path) => Some(fs::read(path).with_context(|| path.display().to_string())?),
        None => None,
    };

    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    arguments.cc.configure(&mut config)?;
    config.set_application_protos(h3::APPLICATION_PROTOCOL)?;
    config.verify_peer(true);
    if let Some(file) = &arguments.ca {
        let loaded = config.load_verify_locations_from_file(file);
        loaded.with_context(|| format!("--ca {file}: no certificates in PEM format"))?;
    }
    config.set_max_idle_timeout(IDLE_TIMEOUT_MS);
    config.set_initial_max_data(WINDOW_BYTES);
    config.set_initial_max_stream_data_bidi_local(WINDOW_BYTES);
    config.set_initial_max_stream_data_uni(WINDOW_BYTES);
    config.set_initial_max_streams_uni(3); // The server's control and QPACK streams.

    // The first address that answers.
    let mut connected = Err(anyhow!("{name} has no address"));
    for peer in url.socket_addrs(|| Some(443))? {
        connected = Link::connect(name, peer, &mut config).with_context(|| peer.to_string());
        if connected.is_ok() {
            break;
        }
    }
    exchange(connected?, url, upload.as_deref())
}

/// Sends the request and writes the body of the response to standard output.
fn exchange(mut link: Link, url: &Url, upload: Option<&[u8]>) -> anyhow::Result<()> {
    let mut http3 = h3::Connection::with_transport(&mut link.connection, &h3::Config::new()?)?;
    let request = [
        Header::new(b":method", if upload.is_some() { b"POST" } else { b"GET" }),
        Header::new(b":scheme", b"https"),
        Header::new(b":authority", url.authority().as_bytes()),
        Header::new(
            b":path",
            url[url::Position::BeforePath..url::Position::AfterQuery].as_bytes(),
        ),
    ];
    let mut rest = upload.unwrap_or_default();
    let stream = http3.send_request(&mut link.connection, &request, rest.is_empty())?;
    let mut status = None;
    let mut buffer = vec![0; 65_536];
    let mut output = io::stdout().lock();
    loop {
        while !rest.is_empty() {
            match http3.send_body(&mut link.connection, stream, rest, true) {
                Ok(sent) => rest = &rest[sent..],
                Err(h3::Error::Done) => break,
                Err(error) => return Err(error).context("upload"),
            }
        }
        match http3.poll(&mut link.connection) {
            Ok((_, h3::Event::Headers { list, .. })) if status.is_none() => {
                let field = list.iter().find(|header| header.name() == b":status");
                status = field.map(|field| String::from_utf8_lossy(field.value()).into_owned());
            }
            Ok((_, h3::Event::Data)) => {
                while let Ok(read) = http3.recv_body(&mut link.connection, stream, &mut buffer) {
                    output.write_all(&buffer[..read])?;
                }
            }
            Ok((_, h3::Event::Finished)) => break,
            Ok((_, h3::Event::Reset(code))) => bail!("the server reset the stream, code {code:#x}"),
            Ok(_) => {}
            Err(h3::Error::Done) => link.turn()?,
            Err(error) => return Err(error).context("HTTP/3"),
        }
    }
    output.flush()?;
    link.connection
        .close(true, h3::WireErrorCode::NoError as u64, b"")?;
    link.send()?;
    let status = status.context("a response without a status")?;
    ensure!(
        status.starts_with('2'),
        "{url}: the server answered with status {status}"
    );
    Ok(())
}

/// A connection and its socket.
struct Link {
    connection: quiche::Connection,
    socket: mio::net::UdpSocket,
    local: SocketAddr,
    peer: SocketAddr,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
}

impl Link {
    /// Connects to `peer`, which has to prove that it is `name`.
    fn connect(name: &str, peer: SocketAddr, config: &mut Config) -> anyhow::Result<Self> {
        let any = if peer.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(peer)?;
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        let mut socket = mio::net::UdpSocket::from_std(socket);
        let poll = Poll::new()?;
        poll.registry()
            .register(&mut socket, Token(0), Interest::READABLE)?;

        let mut id = [0; quiche::MAX_CONN_ID_LEN];
        boring::rand::rand_bytes(&mut id)?;
        let id = ConnectionId::from_ref(&id);
        let connection = quiche::connect(Some(name), &id, local, peer, config)?;
        let mut link = Link {
            connection,
            socket,
            local,
            peer,
            poll,
            events: Events::with_capacity(1),
            buffer: vec![0; 65_536],
        };
        while !link.connection.is_established() {
            link.turn()?;
        }
        Ok(link)
    }

    /// Sends all packets that may leave, then waits for others, for a timer or for the time at
    /// which the next packet may leave.
    fn turn(&mut self) -> anyhow::Result<()> {
        let release = self.send()?;
        let deadline = [release, self.connection.timeout_instant()]
            .into_iter()
            .flatten()
            .min();
        let wait = deadline.map(|time| time.saturating_duration_since(Instant::now()));
        match wait {
            Some(wait) if wait < SHORTEST_POLL => thread::sleep(wait),
            _ => match self.poll.poll(&mut self.events, wait) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    return Err(error.into());
                }
                _ => {}
            },
        }
        self.receive()?;
        self.connection.on_timeout();
        if self.connection.is_closed() {
            match self
                .connection
                .peer_error()
                .or(self.connection.local_error())
            {
                // Codes from 0x100 on are TLS alerts (RFC 9000 §20.1).
                Some(error) => bail!(
                    "the connection was closed with code {:#x}",
                    error.error_code
                ),
                None => bail!("no answer"),
            }
        }
        Ok(())
    }

    /// Sends all packets that may leave; returns the time at which the next one may.
    fn send(&mut self) -> anyhow::Result<Option<Instant>> {
        loop {
            // A packet that waited after it was made would look like one that a queue delayed: so
            // it is made at its release time, and `SendInfo::at` of each has come when it is sent.
            let release = self.connection.get_next_release_time();
            if let Some(time) = release.and_then(|release| release.time(Instant::now())) {
                return Ok(Some(time));
            }
            match self.connection.send(&mut self.buffer) {
                Ok((bytes, _)) => match self.socket.send(&self.buffer[..bytes]) {
                    // The packet is lost, as in any full queue.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                    Err(error) => return Err(error.into()),
                    Ok(_) => {}
                },
                Err(quiche::Error::Done) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        let info = RecvInfo {
            from: self.peer,
            to: self.local,
        };
        loop {
            match self.socket.recv(&mut self.buffer) {
                // A packet that is not of this connection is no reason to end it.
                Ok(bytes) => drop(self.connection.recv(&mut self.buffer[..bytes], info)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
