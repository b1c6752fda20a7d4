//! A hostile server against the real client: whatever it answers, the client keeps what is whole and
//! nothing else, and ends.

#[path = "end_to_end/raw.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod raw;

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use bolero::TypeGenerator;
use clap::Parser;
use gallop_interop::client::{self, Arguments};
use gallop_interop::outbox::Pacing;
use gallop_interop::server::certificate::Certificate;
use gallop_interop::transport::{self, H3};
use quiche::Shutdown;

/// Requests of a client.
const REQUESTS: usize = 3;

/// Far more than an honest exchange takes.
const PATIENCE: &str = "30s";

/// The end of an exchange that will not come to its end.
const IMPATIENCE: &str = "200ms";

/// A server's life.
#[derive(Clone, Debug, TypeGenerator)]
struct Life {
    /// The answers to the requests.
    answers: [Answer; REQUESTS],
    /// The events on streams of the server's own.
    #[generator(bolero::produce_with::<Vec<Vec<Piece>>>().len(0..4_usize))]
    unidirectional: Vec<Vec<Piece>>,
    /// True if it ends the connection as soon as it has sent everything.
    closes: bool,
}

#[derive(Clone, Debug, TypeGenerator)]
struct Answer {
    #[generator(bolero::produce_with::<Vec<Piece>>().len(0..8_usize))]
    pieces: Vec<Piece>,
    /// Bytes that are missing at its end.
    #[generator(0..12_usize)]
    missing: usize,
    ending: Ending,
    /// Bytes that are written at a time.
    #[generator(1..2000_usize)]
    portion: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, TypeGenerator)]
enum Ending {
    End,
    /// Its end comes after everything else has been acknowledged.
    EndLater,
    Reset,
    None,
}

/// Bytes of a stream.
#[derive(Clone, Debug, TypeGenerator)]
enum Piece {
    Head(Status, Option<u8>),
    Data(u8),
    Trailers,
    /// A frame of a reserved type, which is to be ignored (RFC 9114 §7.2.8).
    Reserved(u8),
    /// A frame of any type.
    Frame(u8, Vec<u8>),
    Bytes(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, TypeGenerator)]
enum Status {
    Interim,
    Good,
    NoContent,
    Part,
    Moved,
    Missing,
    Wrong,
}

impl Status {
    fn text(self) -> &'static str {
        match self {
            Status::Interim => "103",
            Status::Good => "200",
            Status::NoContent => "204",
            Status::Part => "206",
            Status::Moved => "302",
            Status::Missing => "404",
            Status::Wrong => "2 0",
        }
    }
}

impl Piece {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Piece::Head(status, None) => raw::headers(&[(":status", status.text())]),
            Piece::Head(status, Some(length)) => {
                let length = length.to_string();
                raw::headers(&[(":status", status.text()), ("content-length", &length)])
            }
            Piece::Data(length) => raw::data(&content(*length)),
            Piece::Trailers => raw::headers(&[("x", "y")]),
            Piece::Reserved(length) => raw::frame(0x21, &content(*length)),
            Piece::Frame(kind, payload) => raw::frame((*kind).into(), payload),
            Piece::Bytes(bytes) => bytes.clone(),
        }
    }
}

fn content(length: u8) -> Vec<u8> {
    (0..length).collect()
}

fn join(pieces: &[Piece]) -> Vec<u8> {
    pieces.iter().flat_map(Piece::bytes).collect()
}

/// The meaning of an answer.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    /// The client keeps this.
    Whole(Vec<u8>),
    /// The client keeps nothing.
    Refused,
    /// It ends the connection (RFC 9114 §4.1 and §7.1), or may do so.
    Fatal,
    /// It does not end.
    Endless,
}

impl Answer {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = join(&self.pieces);
        bytes.truncate(bytes.len() - self.missing.min(bytes.len()));
        bytes
    }

    /// The meaning by RFC 9114 §4.1 and RFC 9110, of what is not random bytes.
    fn meaning(&self) -> Meaning {
        let is_random = |piece: &Piece| matches!(piece, Piece::Frame(..) | Piece::Bytes(_));
        if self.pieces.iter().any(is_random) || self.missing > 0 {
            return Meaning::Fatal;
        }
        match self.ending {
            Ending::None => return Meaning::Endless,
            Ending::Reset => return Meaning::Refused,
            Ending::End | Ending::EndLater => {}
        }
        let mut head = None;
        let mut body = Vec::new();
        let (mut has_trailers, mut is_refused) = (false, false);
        for piece in &self.pieces {
            match piece {
                Piece::Reserved(_) => {}
                // Nothing comes after trailers, and a body not before a header.
                Piece::Data(_) | Piece::Head(..) | Piece::Trailers if has_trailers => {
                    return Meaning::Fatal;
                }
                Piece::Data(_) if head.is_none() => return Meaning::Fatal,
                Piece::Data(length) => body.extend(content(*length)),
                Piece::Head(Status::Interim, _) if head.is_none() && body.is_empty() => {}
                Piece::Head(status, length) if head.is_none() => {
                    is_refused |= *status == Status::Wrong;
                    head = Some((*status, *length));
                }
                // A second header stands where trailers do.
                Piece::Head(..) | Piece::Trailers => {
                    is_refused |= head.is_none() || !matches!(piece, Piece::Trailers);
                    has_trailers = head.is_some();
                }
                Piece::Frame(..) | Piece::Bytes(_) => return Meaning::Fatal,
            }
        }
        let is_right = match head {
            Some((Status::Good, None)) => true,
            Some((Status::Good, Some(length))) => body.len() == usize::from(length),
            Some((Status::NoContent, _)) => body.is_empty(),
            _ => false,
        };
        match is_right && !is_refused {
            true => Meaning::Whole(body),
            false => Meaning::Refused,
        }
    }
}

/// A server for one client at a time.
struct Server {
    address: SocketAddr,
    life: Arc<Mutex<Option<Life>>>,
}

impl Server {
    fn start(certificate: &Certificate) -> Server {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let timeout = Some(Duration::from_millis(1));
        socket.set_read_timeout(timeout).expect("a timeout");
        let address = socket.local_addr().expect("an address");
        let tls = certificate.context().expect("a certificate");
        let controller = "reno".parse().expect("a controller");
        let idle = Duration::from_secs(60);
        let mut config =
            transport::config(tls, &[H3], &controller, Pacing::Off, idle).expect("settings");
        config.set_initial_max_streams_bidi(100);
        let life: Arc<Mutex<Option<Life>>> = Arc::default();
        let shared = life.clone();
        thread::spawn(move || {
            let mut served: Option<Served> = None;
            let mut buffer = [0; 65_535];
            loop {
                let received = socket.recv_from(&mut buffer);
                if let Ok((length, from)) = received {
                    let datagram = &mut buffer[..length];
                    let Ok(header) = quiche::Header::from_slice(datagram, 16) else {
                        continue;
                    };
                    if header.ty == quiche::Type::Initial
                        && served.as_ref().is_none_or(|served| served.from != from)
                    {
                        let mut life = shared.lock().unwrap_or_else(PoisonError::into_inner);
                        if let Some(life) = life.take() {
                            served = Served::begin(life, from, address, &mut config);
                        }
                    }
                    if let Some(served) = &mut served
                        && served.from == from
                    {
                        let info = quiche::RecvInfo { from, to: address };
                        let _ = served.connection.recv(datagram, info);
                    }
                }
                if let Some(served) = &mut served {
                    served.turn(&socket, received.is_err());
                }
            }
        });
        Server { address, life }
    }
}

struct Served {
    connection: quiche::Connection,
    from: SocketAddr,
    life: Life,
    /// The bytes that are still to be written, by stream.
    left: BTreeMap<u64, (Vec<u8>, Ending)>,
    has_begun: bool,
}

impl Served {
    fn begin(
        life: Life,
        from: SocketAddr,
        address: SocketAddr,
        config: &mut quiche::Config,
    ) -> Option<Served> {
        let id = transport::connection_id().ok()?;
        let connection = quiche::accept(&id, None, address, from, config).ok()?;
        Some(Served {
            connection,
            from,
            life,
            left: BTreeMap::new(),
            has_begun: false,
        })
    }

    fn turn(&mut self, socket: &UdpSocket, is_quiet: bool) {
        if is_quiet {
            self.connection.on_timeout();
        }
        if self.connection.is_established() && !self.has_begun {
            self.has_begun = true;
            for (number, pieces) in (0..).zip(&self.life.unidirectional) {
                let _ = self
                    .connection
                    .stream_send(3 + 4 * number, &join(pieces), false);
            }
        }
        for stream in self.connection.readable().collect::<Vec<_>>() {
            let mut buffer = [0; 4 << 10];
            while let Ok((_, is_end)) = self.connection.stream_recv(stream, &mut buffer) {
                // Of each request the end alone matters.
                if is_end
                    && stream.is_multiple_of(4)
                    && let Some(answer) = self.life.answers.get(stream as usize / 4)
                {
                    self.left.insert(stream, (answer.bytes(), answer.ending));
                }
            }
        }
        self.write(socket);
        self.flush(socket);
    }

    fn write(&mut self, socket: &UdpSocket) {
        let streams: Vec<u64> = self.left.keys().copied().collect();
        for stream in streams {
            let portion = self.life.answers[stream as usize / 4].portion;
            let Some((bytes, ending)) = self.left.get_mut(&stream) else {
                continue;
            };
            let (ending, size) = (*ending, portion.min(bytes.len()));
            let is_last = size == bytes.len();
            let is_end = is_last && ending == Ending::End;
            let sent = self.connection.stream_send(stream, &bytes[..size], is_end);
            match sent {
                Ok(sent) => drop(bytes.drain(..sent)),
                Err(quiche::Error::Done) => continue,
                // The client wants no more.
                Err(_) => bytes.clear(),
            }
            if !bytes.is_empty() {
                continue;
            }
            match ending {
                Ending::EndLater => {
                    self.flush(socket);
                    let _ = self.connection.stream_send(stream, b"", true);
                }
                Ending::Reset => {
                    self.flush(socket);
                    let _ = self
                        .connection
                        .stream_shutdown(stream, Shutdown::Write, 0x102);
                }
                Ending::End | Ending::None => {}
            }
            self.left.remove(&stream);
            if self.life.closes && self.left.is_empty() {
                self.flush(socket);
                let _ = self.connection.close(true, 0x100, b"");
            }
        }
    }

    fn flush(&mut self, socket: &UdpSocket) {
        let mut buffer = [0; 1_500];
        while let Ok((length, info)) = self.connection.send(&mut buffer) {
            // A full buffer is a lost packet.
            let _ = socket.send_to(&buffer[..length], info.to);
        }
    }
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").expect("the files").count()
}

/// The files of a folder with their content; the folder is empty afterwards.
fn take(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let Ok(entries) = fs::read_dir(folder) else {
        return BTreeMap::new();
    };
    entries
        .map(|entry| {
            let path = entry.expect("a file").path();
            let content = fs::read(&path).expect("a file");
            fs::remove_file(&path).expect("a file");
            let name = path.file_name().expect("a name").to_string_lossy();
            (name.into_owned(), content)
        })
        .collect()
}

#[test]
fn fuzz_hostile_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let certificate =
        Certificate::self_signed(&folder.path().join("certificates")).expect("a certificate");
    let server = Server::start(&certificate);
    let place = folder.path().join("got");
    let live = |life: &Life| {
        let files = open_files();
        let meanings: Vec<Meaning> = life.answers.iter().map(Answer::meaning).collect();
        let is_calm = life.unidirectional.is_empty()
            && meanings.iter().all(|meaning| match meaning {
                Meaning::Whole(_) | Meaning::Refused => true,
                Meaning::Fatal | Meaning::Endless => false,
            });
        let timeout = if is_calm { PATIENCE } else { IMPATIENCE };
        let chain = certificate.chain.to_str().expect("a name");
        let mut flags = vec![
            "gallop-client",
            "--quiet",
            "--ca",
            chain,
            "--timeout",
            timeout,
        ];
        flags.extend(["--connect-timeout", PATIENCE, "--dir"]);
        flags.push(place.to_str().expect("a name"));
        let urls: Vec<String> = (0..REQUESTS)
            .map(|number| format!("https://localhost:{}/{number}", server.address.port()))
            .collect();
        flags.extend(urls.iter().map(String::as_str));
        *server.life.lock().unwrap_or_else(PoisonError::into_inner) = Some(life.clone());
        let (report, result) = client::run(&Arguments::parse_from(flags));

        assert_eq!(report.transfers.len(), REQUESTS, "each has an outcome");
        let kept = take(&place);
        for (number, meaning) in meanings.iter().enumerate() {
            let url = &urls[number];
            let name = number.to_string();
            let outcome = report.transfers.iter().find(|outcome| outcome.url == *url);
            let error = &outcome.expect("an outcome").error;
            let file = kept.get(&name);
            assert_eq!(error.is_none(), file.is_some(), "{number}: {error:?}");
            match meaning {
                Meaning::Whole(body) => {
                    assert!(file.is_none_or(|file| file == body), "{number}");
                    let must = is_calm && !life.closes;
                    assert!(!must || file.is_some(), "{number}: {error:?}");
                }
                Meaning::Refused | Meaning::Endless => assert!(file.is_none(), "{number}"),
                // Random bytes have no meaning here.
                Meaning::Fatal => {}
            }
            // These are certain to break the rules.
            let is_plain = |piece: &Piece| !matches!(piece, Piece::Frame(..) | Piece::Bytes(_));
            let answer = &life.answers[number];
            let is_known = answer.pieces.iter().all(is_plain) && answer.missing == 0;
            if *meaning == Meaning::Fatal && is_known {
                assert!(file.is_none(), "{number}");
            }
        }
        let is_success = report
            .transfers
            .iter()
            .all(|outcome| outcome.error.is_none());
        assert!(result.is_err() || is_success, "{result:?}");
        assert!(kept.len() <= REQUESTS, "{:?}", kept.keys());
        // The thread that waits for signals may take a moment to end.
        let mut waits = 0;
        while open_files() > files && waits < 10_000 {
            thread::sleep(Duration::from_millis(1));
            waits += 1;
        }
        assert!(open_files() <= files, "files are left open");
    };
    gallop_fuzz::check("hostile_server", 200, live);
}
