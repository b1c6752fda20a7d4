//! A server with one of our controllers and a client that answers as it pleases, over a bottleneck.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use gallop_sim::clock::Time;
use gallop_sim::{clock, isolated};
use quiche::{Config, Connection, ConnectionId, RecvInfo};

use crate::forger::{Forger, KeyLog};

/// Rate of the bottleneck.
pub const RATE_BPS: u64 = 10_000_000;
/// Propagation delay there and back.
pub const RTT: Duration = Duration::from_millis(40);
/// Packets that may wait, the one in service not counted.
pub const BUFFER_PACKETS: usize = 50;
/// UDP payload of a full datagram.
pub const DATAGRAM_BYTES: usize = 1350;
/// The client's knowledge at the time of a decision.
pub struct Seen {
    /// Now, since the end of the handshake.
    pub now: Duration,
    /// Packets that have arrived, by number and the time that they were sent, oldest first.
    pub arrived: Vec<(u64, Duration)>,
    /// The largest number that the server has used, which no honest client knows.
    pub largest_sent: u64,
}

/// An answer: frames, and the time at which they leave.
pub struct Answer {
    /// The time after which the client sends it.
    pub wait: Duration,
    /// The frames of one packet.
    pub frames: Vec<u8>,
}

impl Answer {
    /// An answer that is sent at once.
    pub fn now(frames: Vec<u8>) -> Answer {
        let wait = Duration::ZERO;
        Answer { wait, frames }
    }
}

/// The effects on a server.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Bytes of UDP payload that the path carried.
    pub carried_bytes: u64,
    /// Datagrams that the server sent.
    pub sent: u64,
    /// Datagrams that found the buffer full.
    pub dropped: u64,
    /// The largest and the last window, in datagrams.
    pub largest_window: usize,
    pub last_window: usize,
    /// The longest queue, in packets.
    pub longest_queue: usize,
    /// The mean time that packets waited in the second half.
    pub mean_wait: Duration,
    /// The time at which the connection was closed, and the error code.
    pub closed: Option<(Duration, u64)>,
    /// The time at which each datagram was sent.
    pub sent_at: Vec<Duration>,
}

impl Outcome {
    /// Datagrams that were sent after `time`.
    pub fn sent_after(&self, time: Duration) -> usize {
        self.sent_at.iter().filter(|&&sent| sent > time).count()
    }

    /// The share of the rate that was used, headers not counted.
    pub fn utilisation(&self, duration: Duration) -> f64 {
        8.0 * self.carried_bytes as f64 / (RATE_BPS as f64 * duration.as_secs_f64())
    }
}

/// The transport parameters and the duration of an encounter.
pub struct Setting {
    /// The server's controller.
    pub controller: &'static str,
    /// The client's max_ack_delay (RFC 9000 §18.2).
    pub max_ack_delay_ms: u64,
    /// The time for which the server sends.
    pub duration: Duration,
    /// The seed, which determines the packet numbers that are left out.
    pub seed: u64,
}

impl Setting {
    /// Ten seconds and the usual delay.
    pub fn new(controller: &'static str) -> Setting {
        Setting {
            controller,
            max_ack_delay_ms: 25,
            duration: Duration::from_secs(10),
            seed: 1,
        }
    }

    /// Lets a server meet a client that decides on every arrival, and every millisecond.
    pub fn meet(&self, decide: impl FnMut(&Seen) -> Vec<Answer> + Send) -> Outcome {
        isolated(self.seed, || {
            gallop::register().expect("names that quiche does not have");
            Encounter::new(self).run(decide)
        })
        .expect("clock and entropy are linked")
    }
}

const STREAM: u64 = 3;
const SERVER_ID: [u8; 16] = [2; 16];
const CLIENT_ID: [u8; 16] = [1; 16];
const SERVER: ([u8; 4], u16) = ([10, 0, 0, 2], 4433);
const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 50_000);

/// The interval at which the client looks around.
const TICK: Duration = Duration::from_millis(1);

fn config() -> Config {
    let tls = Path::new(env!("CARGO_MANIFEST_DIR")).join("tls");
    let file = |name: &str| tls.join(name).to_string_lossy().into_owned();
    let mut config = Config::new(quiche::PROTOCOL_VERSION).expect("a configuration");
    config
        .load_cert_chain_from_pem_file(&file("cert.pem"))
        .expect("a certificate");
    config
        .load_priv_key_from_pem_file(&file("key.pem"))
        .expect("a key");
    config
        .set_application_protos(&[b"test"])
        .expect("a protocol");
    config.verify_peer(false);
    config.log_keys();
    config.set_initial_max_data(1 << 40);
    config.set_initial_max_stream_data_uni(1 << 40);
    config.set_initial_max_streams_uni(10);
    config.set_max_send_udp_payload_size(DATAGRAM_BYTES);
    config.set_max_recv_udp_payload_size(DATAGRAM_BYTES);
    config
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet of the server, sent at this time, is at the client.
    Arrival(u64, Duration),
    /// A packet of the client is at the server.
    Answer(Vec<u8>),
    /// The client looks around.
    Tick,
}

struct Encounter {
    duration: Duration,
    server: Connection,
    forger: Forger,
    start: Time,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    sequence: u64,
    /// The times at which the packets at the bottleneck leave it.
    departures: VecDeque<Duration>,
    largest_sent: u64,
    waits: (Duration, u32),
    outcome: Outcome,
}

fn info(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> RecvInfo {
    RecvInfo {
        from: SocketAddr::from(from),
        to: SocketAddr::from(to),
    }
}

fn send_all(connection: &mut Connection) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut buffer = [0; 1500];
    while let Ok((length, _)) = connection.send(&mut buffer) {
        all.push(buffer[..length].to_vec());
    }
    all
}

impl Encounter {
    fn new(setting: &Setting) -> Encounter {
        let mut client_config = config();
        client_config.set_max_ack_delay(setting.max_ack_delay_ms);
        let mut server_config = config();
        server_config
            .set_cc_algorithm_name(setting.controller)
            .expect("a controller");
        let log = KeyLog::default();
        let (client_id, server_id) = (
            ConnectionId::from_ref(&CLIENT_ID),
            ConnectionId::from_ref(&SERVER_ID),
        );
        let mut client = quiche::connect(
            None,
            &client_id,
            CLIENT.into(),
            SERVER.into(),
            &mut client_config,
        )
        .expect("a client");
        let mut server = quiche::accept(
            &server_id,
            None,
            SERVER.into(),
            CLIENT.into(),
            &mut server_config,
        )
        .expect("a server");
        client.set_keylog(Box::new(log.clone()));
        for _ in 0..10 {
            for mut datagram in send_all(&mut client) {
                let _unreadable = server.recv(&mut datagram, info(CLIENT, SERVER));
            }
            pass(RTT / 2);
            for mut datagram in send_all(&mut server) {
                let _unreadable = client.recv(&mut datagram, info(SERVER, CLIENT));
            }
            pass(RTT / 2);
        }
        assert!(client.is_established() && server.is_established());
        Encounter {
            duration: setting.duration,
            server,
            forger: Forger::new(&log, &SERVER_ID, CLIENT_ID.len()),
            start: clock::now().expect("virtual time"),
            events: BinaryHeap::new(),
            sequence: 0,
            departures: VecDeque::new(),
            largest_sent: 0,
            waits: (Duration::ZERO, 0),
            outcome: Outcome::default(),
        }
    }

    fn now(&self) -> Duration {
        clock::now().expect("virtual time") - self.start
    }

    fn at(&mut self, time: Duration, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence, event)));
    }

    fn run(mut self, mut decide: impl FnMut(&Seen) -> Vec<Answer>) -> Outcome {
        self.at(TICK, Event::Tick);
        while self.now() < self.duration && self.outcome.closed.is_none() {
            let release = self.send();
            let timeout = self.server.timeout().map(|timeout| self.now() + timeout);
            let event = self.events.peek().map(|Reverse((time, ..))| *time);
            let next = [release, timeout, event].into_iter().flatten().min();
            let next = next.unwrap_or(self.duration).min(self.duration);
            clock::set(self.start + next);
            if timeout.is_some_and(|timeout| timeout <= next) {
                self.server.on_timeout();
            }
            let mut arrived = Vec::new();
            let mut looks = false;
            while let Some(event) = self.due(next) {
                match event {
                    Event::Arrival(number, sent) => {
                        arrived.push((number, sent));
                        looks = true;
                    }
                    Event::Tick => {
                        self.at(next + TICK, Event::Tick);
                        looks = true;
                    }
                    Event::Answer(mut packet) => {
                        let _refused = self.server.recv(&mut packet, info(CLIENT, SERVER));
                    }
                }
            }
            if looks {
                let seen = Seen {
                    now: next,
                    arrived,
                    largest_sent: self.largest_sent,
                };
                for Answer { wait, frames } in decide(&seen) {
                    let packet = self.forger.packet(&frames);
                    self.at(next + wait + RTT / 2, Event::Answer(packet));
                }
            }
            self.look();
        }
        let (wait, count) = self.waits;
        self.outcome.mean_wait = wait / count.max(1);
        self.outcome
    }

    fn due(&mut self, now: Duration) -> Option<Event> {
        let Reverse((time, ..)) = self.events.peek()?;
        if *time > now {
            return None;
        }
        self.events.pop().map(|Reverse((_, _, event))| event)
    }

    /// Lets the server send all packets that it may; returns the time at which it may send more.
    fn send(&mut self) -> Option<Duration> {
        static PIECE: [u8; 1 << 16] = [0; 1 << 16];
        let mut buffer = [0; 1500];
        loop {
            let now = Instant::now();
            let release = self
                .server
                .get_next_release_time()
                .and_then(|decision| decision.time(now));
            if let Some(release) = release {
                return Some(self.now() + (release - now));
            }
            let _full = self.server.stream_send(STREAM, &PIECE, false);
            match self.server.send(&mut buffer) {
                Ok((length, _)) => self.enqueue(&buffer[..length]),
                Err(_) => return None,
            }
        }
    }

    /// Puts a datagram into the queue of the bottleneck.
    fn enqueue(&mut self, datagram: &[u8]) {
        let now = self.now();
        self.outcome.sent += 1;
        self.outcome.sent_at.push(now);
        let Some(number) = self.forger.number(datagram) else {
            return;
        };
        self.largest_sent = self.largest_sent.max(number);
        while self.departures.front().is_some_and(|&time| time <= now) {
            self.departures.pop_front();
        }
        let queue = self.departures.len().saturating_sub(1);
        self.outcome.longest_queue = self.outcome.longest_queue.max(queue);
        if queue >= BUFFER_PACKETS && !self.departures.is_empty() {
            self.outcome.dropped += 1;
            return;
        }
        let begins = self.departures.back().copied().unwrap_or(now);
        let bits = 8 * datagram.len() as u64;
        let departs = begins + Duration::from_nanos(bits * 1_000_000_000 / RATE_BPS);
        self.departures.push_back(departs);
        self.outcome.carried_bytes += datagram.len() as u64;
        if now > self.duration / 2 {
            self.waits.0 += begins - now;
            self.waits.1 += 1;
        }
        self.at(departs + RTT / 2, Event::Arrival(number, now));
    }

    fn look(&mut self) {
        let window = self.server.path_stats().find(|path| path.active);
        let window = window.map_or(0, |path| path.cwnd / DATAGRAM_BYTES);
        assert!((2..=1 << 20).contains(&window), "{window} datagrams");
        self.outcome.last_window = window;
        self.outcome.largest_window = self.outcome.largest_window.max(window);
        if let Some(controller) = self.server.congestion_controller() {
            controller.metrics(&mut |name, value| {
                assert!(value.is_finite() && value >= 0.0, "{name} is {value}");
            });
        }
        if let Some(error) = self.server.local_error() {
            self.outcome.closed = Some((self.now(), error.error_code));
        }
    }
}

fn pass(time: Duration) {
    clock::set(clock::now().expect("virtual time") + time);
}
