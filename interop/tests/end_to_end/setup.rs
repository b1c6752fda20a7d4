//! A server and a client as processes, and a client that can misbehave.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use gallop_interop::transport::{self, H3};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::crowd;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server in a folder of its own.
pub struct Server {
    child: Child,
    logs: Receiver<String>,
    pub address: SocketAddr,
    pub metrics: Option<SocketAddr>,
    pub folder: TempDir,
}

pub fn server_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gallop-server"));
    command.args(arguments).env_remove("RUST_LOG");
    command
}

impl Server {
    /// Starts a server for `root/` in its folder, with more flags; `{}` stands for the folder.
    pub fn start(arguments: &[&str]) -> Server {
        let folder = tempfile::tempdir().unwrap();
        Server::start_in(folder, arguments)
    }

    /// The same under limits of the shell's `ulimit`.
    pub fn start_under(limits: &str, arguments: &[&str]) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-ec", &format!("ulimit {limits}; exec \"$@\""), "sh"])
            .arg(env!("CARGO_BIN_EXE_gallop-server"))
            .env_remove("RUST_LOG");
        Server::start_by(command, folder, arguments)
    }

    pub fn start_in(folder: TempDir, arguments: &[&str]) -> Server {
        Server::start_by(server_command(&[]), folder, arguments)
    }

    fn start_by(mut command: Command, folder: TempDir, arguments: &[&str]) -> Server {
        let place = folder.path().to_str().unwrap().to_owned();
        fs::create_dir_all(folder.path().join("root")).unwrap();
        if arguments.contains(&"{}/uploads") {
            fs::create_dir_all(folder.path().join("uploads")).unwrap();
        }
        if !arguments.contains(&"--cert") {
            command.args(["--cert-dir", &format!("{place}/certificates")]);
        }
        command
            .args(["--listen", "127.0.0.1:0", "--log", "json"])
            // Also on a machine with one core.
            .args(["--threads", "2"])
            .args(["--root", &format!("{place}/root")])
            .args(arguments.iter().map(|text| text.replace("{}", &place)))
            .stderr(Stdio::piped());
        let mut server = Server::spawn(command, folder);
        if arguments.contains(&"--metrics") {
            let url = server.log("metrics")["url"].as_str().unwrap().to_owned();
            let address = url.split('/').nth(2).unwrap();
            server.metrics = Some(address.parse().unwrap());
        }
        server
    }

    /// Starts a command whose logs are piped and JSON, and waits until it listens.
    pub fn spawn(mut command: Command, folder: TempDir) -> Server {
        let mut child = command.spawn().unwrap();
        let mut server = Server {
            logs: read(child.stderr.take().unwrap()),
            child,
            address: ([127, 0, 0, 1], 0).into(),
            metrics: None,
            folder,
        };
        server.address = server.log("listening")["address"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        server
    }

    /// The next log entry with this message.
    pub fn log(&mut self, message: &str) -> Value {
        loop {
            let line = self
                .logs
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("the server does not log {message:?}"));
            // One line is for people.
            let Ok(entry) = serde_json::from_str::<Value>(&line) else {
                continue;
            };
            if entry["message"] == message {
                return entry;
            }
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path("root").join(name), bytes).unwrap();
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    /// Runs a client that trusts the server; `{}` stands for the server's folder.
    pub fn client(&self, arguments: &[&str]) -> Output {
        let place = self.folder.path().to_str().unwrap();
        let mut command = client_command(&["--ca", &format!("{place}/certificates/cert.pem")]);
        command.args(arguments.iter().map(|text| text.replace("{}", place)));
        command.output().unwrap()
    }

    /// The report of a client, and its exit status.
    pub fn report(&self, arguments: &[&str]) -> (Value, i32) {
        let output = self.client(&[&["--json"], arguments].concat());
        // Shown if the test fails.
        println!("{}", text(&output.stderr));
        let report = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
        (report, output.status.code().unwrap())
    }

    pub fn scrape(&self) -> String {
        self.try_scrape().unwrap()
    }

    /// The metrics, if they are served.
    pub fn try_scrape(&self) -> Option<String> {
        let mut stream = TcpStream::connect(self.metrics.unwrap()).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
        std::io::Write::write_all(&mut stream, request).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// A figure of the metrics, summed over controllers.
    pub fn metric(&self, name: &str) -> usize {
        let scraped = self.scrape();
        let values = scraped.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            (series.split('{').next()? == name).then(|| value.parse::<usize>().unwrap())
        });
        values.sum()
    }

    /// Memory that it has, in bytes.
    pub fn resident_bytes(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
        1_024 * kilobytes.parse::<usize>().unwrap()
    }

    /// Files and sockets that it has open.
    pub fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id()))
            .unwrap()
            .count()
    }

    /// The files that it may have open, and how far it may raise that.
    pub fn open_files_limits(&self) -> (String, String) {
        let limits = fs::read_to_string(format!("/proc/{}/limits", self.child.id())).unwrap();
        let line = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max open files"));
        let mut values = line.unwrap().split_whitespace().map(str::to_owned);
        (values.next().unwrap(), values.next().unwrap())
    }

    /// CPU time that it has used.
    pub fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The name of the program may have blanks; the times are fields 14 and 15 (proc(5)).
        let fields = stat
            .rsplit_once(") ")
            .unwrap()
            .1
            .split(' ')
            .skip(11)
            .take(2);
        let ticks: u64 = fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        Duration::from_millis(10 * ticks)
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Waits for its end; returns its exit status.
    pub fn wait(&mut self) -> i32 {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap();
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("the server does not end");
    }

    /// Waits for the end of a server that was killed.
    pub fn wait_killed(&mut self) {
        self.child.wait().unwrap();
    }

    pub fn end(&mut self) -> i32 {
        self.signal(Signal::SIGTERM);
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn client_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gallop-client"));
    command.args(arguments).env_remove("RUST_LOG");
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .map(|entries| {
            entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect()
        })
        .unwrap_or_default();
    names.sort();
    names
}

/// True if the condition becomes true in time.
pub fn soon(is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > 2 * PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(50));
    }
    true
}

/// Reads lines, so that who writes them need not wait.
fn read(logs: ChildStderr) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(logs).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The type of the packet that a server sends first.
pub fn first_answer(server: SocketAddr) -> quiche::Type {
    let (mut connection, socket) = begin(server, H3);
    let mut buffer = [0; 1_500];
    let (length, info) = connection.send(&mut buffer).unwrap();
    socket.send_to(&buffer[..length], info.to).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let (length, _) = socket.recv_from(&mut buffer).unwrap();
    quiche::Header::from_slice(&mut buffer[..length], 0)
        .unwrap()
        .ty
}

fn begin(server: SocketAddr, protocol: &[u8]) -> (quiche::Connection, UdpSocket) {
    begin_with(server, &mut crowd::config(protocol))
}

fn begin_with(server: SocketAddr, config: &mut quiche::Config) -> (quiche::Connection, UdpSocket) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let id = transport::connection_id().unwrap();
    let local = socket.local_addr().unwrap();
    let connection = quiche::connect(None, &id, local, server, config).unwrap();
    (connection, socket)
}

/// A connection on which a test does what it likes.
pub struct Peer {
    pub connection: quiche::Connection,
    socket: UdpSocket,
    next_stream: u64,
}

impl Peer {
    /// A connection that has not sent anything.
    pub fn begin(server: SocketAddr, protocol: &[u8]) -> Peer {
        Peer::begin_with(server, &mut crowd::config(protocol))
    }

    fn begin_with(server: SocketAddr, config: &mut quiche::Config) -> Peer {
        let (connection, socket) = begin_with(server, config);
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        Peer {
            connection,
            socket,
            next_stream: 0,
        }
    }

    pub fn connect(server: SocketAddr, protocol: &[u8]) -> Peer {
        Peer::connect_with(server, &mut crowd::config(protocol))
    }

    pub fn connect_with(server: SocketAddr, config: &mut quiche::Config) -> Peer {
        let mut peer = Peer::begin_with(server, config);
        peer.until(|connection| connection.is_established());
        peer
    }

    /// The next stream for a request, which is to be written to at once; waits until the server
    /// allows one.
    pub fn open(&mut self) -> u64 {
        self.until(|connection| connection.peer_streams_left_bidi() > 0 || connection.is_closed());
        self.next_stream += 4;
        self.next_stream - 4
    }

    /// Writes to a stream, as soon as there is room.
    pub fn write(&mut self, stream: u64, bytes: &[u8], is_end: bool) {
        let mut left = bytes;
        loop {
            match self.connection.stream_send(stream, left, is_end) {
                Ok(sent) => left = &left[sent..],
                Err(quiche::Error::Done) => {}
                // It is closed, or not wanted any more.
                Err(_) => return,
            }
            if left.is_empty() || self.connection.peer_error().is_some() {
                return;
            }
            self.step();
        }
    }

    pub fn send(&mut self) {
        let mut buffer = [0; 1_500];
        while let Ok((length, info)) = self.connection.send(&mut buffer) {
            self.socket.send_to(&buffer[..length], info.to).unwrap();
        }
    }

    /// Goes on until something is so.
    pub fn until(&mut self, is_so: impl Fn(&quiche::Connection) -> bool) {
        let begun = Instant::now();
        while !is_so(&self.connection) {
            assert!(
                begun.elapsed() < PATIENCE,
                "it never is; {:?}, {:?}",
                self.connection.stats(),
                self.connection.path_stats().collect::<Vec<_>>()
            );
            self.step();
        }
        self.send();
    }

    /// Sends what there is to send, and receives a datagram if one comes.
    pub fn step(&mut self) {
        self.send();
        self.receive();
    }

    /// Receives a datagram if one comes.
    pub fn receive(&mut self) {
        let mut buffer = [0; 65_535];
        match self.socket.recv_from(&mut buffer) {
            Ok((length, from)) => {
                let to = self.socket.local_addr().unwrap();
                let info = quiche::RecvInfo { from, to };
                let _ = self.connection.recv(&mut buffer[..length], info);
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(_) => self.connection.on_timeout(),
        }
    }

    /// Goes on from another port, with another connection ID of the server's (RFC 9000 §9).
    pub fn migrate(&mut self) {
        transport::issue_connection_ids(
            &mut self.connection,
            transport::connection_id,
            |_| transport::random_token(),
            |_| {},
        )
        .unwrap();
        while self.connection.retired_scid_next().is_some() {}
        self.until(|connection| connection.available_dcids() > 0);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let patience = self.socket.read_timeout().unwrap();
        socket.set_read_timeout(patience).unwrap();
        let local = socket.local_addr().unwrap();
        self.socket = socket;
        self.connection.migrate_source(local).unwrap();
    }

    /// Writes to a stream and reads it to its end, or to its reset.
    pub fn exchange(&mut self, stream: u64, bytes: &[u8]) -> Result<Vec<u8>, quiche::Error> {
        self.connection.stream_send(stream, bytes, true).unwrap();
        self.read(stream, usize::MAX)
    }

    /// Reads a stream to its end, or until there is enough.
    pub fn read(&mut self, stream: u64, enough: usize) -> Result<Vec<u8>, quiche::Error> {
        let mut read = Vec::new();
        let mut buffer = [0; 4_096];
        while read.len() < enough {
            self.until(|connection| connection.stream_readable(stream) || connection.is_closed());
            match self.connection.stream_recv(stream, &mut buffer) {
                Ok((length, end)) => {
                    read.extend_from_slice(&buffer[..length]);
                    if end {
                        break;
                    }
                }
                Err(quiche::Error::Done) if !self.connection.is_closed() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }
}
