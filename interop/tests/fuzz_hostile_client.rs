//! A hostile client against the real server: whatever it sends in its life, nobody else suffers, and
//! nothing of it is left in memory, in slots or in open files.

#[path = "end_to_end/raw.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod raw;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bolero::TypeGenerator;
use boring::ssl::{SslContextBuilder, SslMethod};
use clap::Parser;
use gallop_interop::outbox::Pacing;
use gallop_interop::server::metrics::Metrics;
use gallop_interop::server::{Arguments, Server};
use gallop_interop::transport::{self, H3, HQ};
use quiche::Shutdown;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Lives after which the server is looked at.
const LIVES: usize = 20;

/// A client's life.
#[derive(Debug, TypeGenerator)]
struct Life {
    is_http3: bool,
    /// The bytes that the server may send on a stream before the client reads.
    #[generator(0..4_usize)]
    window: usize,
    #[generator(bolero::produce_with::<Vec<Action>>().len(0..40_usize))]
    actions: Vec<Action>,
    /// False if it is gone without a word.
    closes: bool,
}

const WINDOWS: [u64; 4] = [0, 10, 1_000, 1 << 20];

#[derive(Debug, TypeGenerator)]
enum Action {
    /// Sends on a new stream.
    Open(Vec<Piece>, Ending),
    /// Sends more on a stream that was opened.
    More(u8, Vec<Piece>, Ending),
    /// Sends on a new unidirectional stream.
    Unidirectional(Vec<Piece>, Ending),
    /// Exchanges datagrams, and reads what has come.
    Read,
    /// Exchanges datagrams, and reads nothing.
    Wait,
}

#[derive(Debug, TypeGenerator)]
enum Ending {
    None,
    End,
    EndAndStop,
    Stop,
    Reset,
    ResetAndStop,
}

/// Bytes of a stream.
#[derive(Debug, TypeGenerator)]
enum Piece {
    Get,
    GetLarge,
    Put,
    PutOfLength(u8),
    References(u8),
    Trailers,
    Pseudo,
    Line,
    Data(u8),
    /// A frame of any type.
    Frame(u8, Vec<u8>),
    /// The begin of a frame that is longer.
    Begin(u8, u16),
    Bytes(Vec<u8>),
}

impl Piece {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Piece::Get => raw::request("GET", "/small", &[]),
            Piece::GetLarge => raw::request("GET", "/large", &[]),
            Piece::Put => raw::request("PUT", "/sent", &[]),
            Piece::PutOfLength(length) => {
                let length = length.to_string();
                raw::request("PUT", "/sent", &[("content-length", length.as_str())])
            }
            Piece::References(count) => raw::request_of_references((*count).into()),
            Piece::Trailers => raw::headers(&[("x", "y")]),
            Piece::Pseudo => raw::headers(&[(":status", "200")]),
            Piece::Line => b"GET /large\r\n".to_vec(),
            Piece::Data(length) => raw::data(&vec![7; (*length).into()]),
            Piece::Frame(kind, payload) => raw::frame((*kind).into(), payload),
            Piece::Begin(kind, length) => {
                let mut frame = raw::frame((*kind).into(), &vec![0; (*length).into()]);
                frame.truncate(frame.len() / 2);
                frame
            }
            Piece::Bytes(bytes) => bytes.clone(),
        }
    }
}

fn join(pieces: &[Piece]) -> Vec<u8> {
    pieces.iter().flat_map(Piece::bytes).collect()
}

/// The client of a life.
struct Client {
    connection: quiche::Connection,
    socket: UdpSocket,
    streams: Vec<u64>,
    next: u64,
    next_unidirectional: u64,
}

impl Client {
    fn connect(server: SocketAddr, protocol: &[u8], window: u64) -> Client {
        let tls = SslContextBuilder::new(SslMethod::tls()).expect("BoringSSL");
        let controller = "reno".parse().expect("a controller");
        let mut config = transport::config(tls, &[protocol], &controller, Pacing::Off, PATIENCE)
            .expect("settings");
        config.verify_peer(false);
        config.set_initial_max_stream_data_bidi_local(window);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket
            .set_read_timeout(Some(Duration::from_millis(1)))
            .expect("a timeout");
        let local = socket.local_addr().expect("an address");
        let id = transport::connection_id().expect("an id");
        let connection =
            quiche::connect(None, &id, local, server, &mut config).expect("a connection");
        let mut client = Client {
            connection,
            socket,
            streams: Vec::new(),
            next: 0,
            next_unidirectional: 2,
        };
        let begun = Instant::now();
        while !client.connection.is_established() {
            assert!(begun.elapsed() < PATIENCE, "no connection");
            client.exchange();
        }
        client
    }

    fn send(&mut self) {
        let mut buffer = [0; 1_500];
        while let Ok((length, info)) = self.connection.send(&mut buffer) {
            // A full buffer is a lost packet.
            let _ = self.socket.send_to(&buffer[..length], info.to);
        }
    }

    /// Sends what there is, and receives what has come.
    fn exchange(&mut self) {
        self.send();
        let mut buffer = [0; 65_535];
        let to = self.socket.local_addr().expect("an address");
        let mut is_quiet = true;
        while let Ok((length, from)) = self.socket.recv_from(&mut buffer) {
            is_quiet = false;
            let info = quiche::RecvInfo { from, to };
            let _ = self.connection.recv(&mut buffer[..length], info);
            self.send();
        }
        if is_quiet {
            self.connection.on_timeout();
        }
    }

    fn read(&mut self) {
        let mut buffer = [0; 65_535];
        for stream in self.connection.readable().collect::<Vec<_>>() {
            while let Ok((_, false)) = self.connection.stream_recv(stream, &mut buffer) {}
        }
    }

    fn write(&mut self, stream: u64, bytes: &[u8], ending: &Ending) {
        let (is_end, is_stop, is_reset) = match ending {
            Ending::None => (false, false, false),
            Ending::End => (true, false, false),
            Ending::EndAndStop => (true, true, false),
            Ending::Stop => (false, true, false),
            Ending::Reset => (false, false, true),
            Ending::ResetAndStop => (false, true, true),
        };
        // quiche refuses what the server would take for an error of the transport.
        let _ = self.connection.stream_send(stream, bytes, is_end);
        if is_reset {
            self.send();
            let _ = self
                .connection
                .stream_shutdown(stream, Shutdown::Write, 0x10c);
        }
        if is_stop {
            let _ = self
                .connection
                .stream_shutdown(stream, Shutdown::Read, 0x10c);
        }
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Open(pieces, ending) => {
                if self.connection.peer_streams_left_bidi() > 0 {
                    self.write(self.next, &join(pieces), ending);
                    self.streams.push(self.next);
                    self.next += 4;
                }
            }
            Action::More(place, pieces, ending) => {
                if !self.streams.is_empty() {
                    let stream = self.streams[usize::from(*place) % self.streams.len()];
                    self.write(stream, &join(pieces), ending);
                }
            }
            Action::Unidirectional(pieces, ending) => {
                if self.connection.peer_streams_left_uni() > 0 {
                    self.write(self.next_unidirectional, &join(pieces), ending);
                    self.next_unidirectional += 4;
                }
            }
            Action::Read => {
                self.exchange();
                self.read();
            }
            Action::Wait => self.exchange(),
        }
    }
}

/// The server, and what it had when nobody was there.
struct Served {
    address: SocketAddr,
    metrics: Metrics,
    files: usize,
    folder: PathBuf,
    lives: usize,
}

/// The sockets of this process, and its files in a folder. libFuzzer has others open while it merges.
fn open_files(folder: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").expect("the files");
    links
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter(|link| link.starts_with(folder) || link.to_string_lossy().starts_with("socket:"))
        .count()
}

impl Served {
    fn start(folder: &Path) -> Served {
        let root = folder.join("root");
        fs::create_dir_all(folder.join("uploads")).expect("a folder");
        fs::create_dir_all(&root).expect("a folder");
        fs::write(root.join("small"), "0123456789").expect("a file");
        fs::write(root.join("large"), vec![7; 300_000]).expect("a file");
        let path = |name: &str| folder.join(name).to_str().expect("a name").to_owned();
        let (root, certificates) = (path("root"), path("certificates"));
        let arguments = Arguments::parse_from([
            "gallop-server",
            "--listen",
            "127.0.0.1:0",
            "--root",
            &root,
            "--cert-dir",
            &certificates,
            "--upload-dir",
            &path("uploads"),
            "--idle-timeout",
            "300ms",
            "--memory",
            "64mb",
        ]);
        let server = Server::start(&arguments).expect("a server");
        let address = server.addresses().next().expect("an address");
        let metrics = server.metrics();
        thread::spawn(move || server.run().expect("a server that goes on"));
        Served {
            address,
            metrics,
            files: open_files(folder),
            folder: folder.to_owned(),
            lives: 0,
        }
    }

    /// The sum of a metric over its labels.
    fn metric(&self, name: &str) -> u64 {
        let text = self.metrics.text().expect("metrics");
        let values = text.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            (series.split('{').next()? == name).then(|| value.parse::<u64>().expect("a number"))
        });
        values.sum()
    }

    /// An honest client is served, and nothing is left of the others.
    fn check(&self, uploads: &Path) {
        let mut honest = Client::connect(self.address, HQ, 1_000);
        honest.write(0, b"GET /small\r\n", &Ending::End);
        let begun = Instant::now();
        let mut buffer = [0; 100];
        loop {
            match honest.connection.stream_recv(0, &mut buffer) {
                Ok((length, is_end)) => {
                    assert_eq!((&buffer[..length], is_end), (&b"0123456789"[..], true));
                    break;
                }
                Err(_) => honest.exchange(),
            }
            assert!(begun.elapsed() < PATIENCE, "an honest client gets nothing");
        }
        let _ = honest.connection.close(true, 0, b"");
        honest.send();
        drop(honest);
        let begun = Instant::now();
        loop {
            let left = [
                self.metric("gallop_connections_open"),
                self.metric("gallop_connections_memory_bytes"),
                open_files(&self.folder).abs_diff(self.files) as u64,
            ];
            if left == [0; 3] {
                break;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{left:?} connections, bytes and files are left"
            );
            thread::sleep(Duration::from_millis(5));
        }
        for upload in fs::read_dir(uploads).expect("a folder") {
            let upload = upload.expect("a file");
            assert_eq!(upload.file_name(), "sent");
            fs::remove_file(upload.path()).expect("a file");
        }
    }
}

#[test]
fn fuzz_hostile_client() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let served = Mutex::new(Served::start(folder.path()));
    let uploads = folder.path().join("uploads");
    let live = |life: &Life| {
        let mut served = served.lock().unwrap_or_else(PoisonError::into_inner);
        let protocol = if life.is_http3 { H3 } else { HQ };
        let mut client = Client::connect(served.address, protocol, WINDOWS[life.window]);
        for action in &life.actions {
            client.act(action);
        }
        client.exchange();
        if life.closes {
            let _ = client.connection.close(true, 0x100, b"");
            client.send();
        }
        // Its socket counts among the files.
        drop(client);
        served.lives += 1;
        if served.lives.is_multiple_of(LIVES) {
            served.check(&uploads);
        }
    };
    gallop_fuzz::check("hostile_client", 200, live);
    let served = served.lock().unwrap_or_else(PoisonError::into_inner);
    served.check(&uploads);
}
