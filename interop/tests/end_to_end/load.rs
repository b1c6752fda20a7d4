//! A server under load and attack: it keeps its limits, loses no memory, and serves who means well.
//!
//! The tests are short forms of what `--ignored` runs at length, with figures.

use std::hash::{DefaultHasher, Hasher};
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use gallop_interop::transport::{H3, HQ};

use crate::crowd::{self, Crowd};
use crate::setup::{Server, names, soon};

const FILE_BYTES: usize = 1_000;

/// A server with a small file, that logs little.
fn serve(flags: &[&str]) -> Server {
    let quiet = [
        "--log-level",
        "gallop_server=info,gallop_interop=warn",
        "--metrics",
        "127.0.0.1:0",
    ];
    let server = Server::start(&[&quiet, flags].concat());
    server.write("small", &[7; FILE_BYTES]);
    server.write("large", &vec![7; 4 << 20]);
    server
}

fn http3(server: &Server) -> Crowd {
    Crowd::new(server.address, crowd::config(H3))
}

/// Everybody asks for the small file, and gets it whole.
fn ask_and_read(crowd: &mut Crowd, count: usize) {
    crowd.ask("/small", count);
    crowd.read_all();
    crowd.all(|member| {
        assert_eq!(member.body_bytes, member.answered * FILE_BYTES);
        true
    });
}

/// True if an honest client gets the file.
fn is_served(server: &Server) -> bool {
    let (_, status) = server.report(&["--connect-timeout", "2s", &server.url("/small")]);
    status == 0
}

/// Waits until the server has no connection left.
fn until_empty(server: &Server) {
    let is_empty = || server.metric("gallop_connections_open") == 0;
    assert!(soon(is_empty), "connections stay");
}

fn mebibytes(bytes: usize) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

/// So many connections at once, twice; half of them end without a word.
fn connections(count: usize, idle_timeout: &str) {
    // The allocator keeps what each thread has had; the waves could come to different ones.
    let server = serve(&["--idle-timeout", idle_timeout, "--threads", "1"]);
    let wave = |count| {
        let before = server.resident_bytes();
        let mut crowd = http3(&server);
        crowd.connect(count);
        ask_and_read(&mut crowd, 1);
        assert_eq!(server.metric("gallop_connections_open"), count);
        let open = server.resident_bytes();
        crowd.close(count / 2);
        crowd.vanish();
        until_empty(&server);
        let after = server.resident_bytes();
        println!(
            "{count} connections: {:.1} MiB before, {:.1} open ({:.1} KiB each), {:.1} after; {:?}",
            mebibytes(before),
            mebibytes(open),
            open.saturating_sub(before) as f64 / count as f64 / 1_024.0,
            mebibytes(after),
            server.cpu_time(),
        );
        open
    };
    let first = wave(count);
    let second = wave(count);
    assert!(second < first + first / 10, "{first} and {second} bytes");
}

/// So many requests, 100 on each connection.
fn requests(count: usize) {
    // A busy machine may leave all of it waiting for long.
    let server = serve(&["--idle-timeout", "600s"]);
    let mut sizes = Vec::new();
    let begun = Instant::now();
    let rounds = 10;
    for round in 0..rounds {
        let protocol = if round % 2 == 0 { H3 } else { HQ };
        let mut left = count / rounds / 100;
        while left > 0 {
            let mut crowd = Crowd::new(server.address, crowd::config(protocol));
            let batch = left.min(20);
            crowd.connect(batch);
            ask_and_read(&mut crowd, 100);
            crowd.close(batch);
            left -= batch;
        }
        until_empty(&server);
        sizes.push(server.resident_bytes());
        println!(
            "{} requests: {:.1} MiB, {} files, {:?} of CPU time, {:.0} s",
            count / rounds * (round + 1),
            mebibytes(server.resident_bytes()),
            server.open_files(),
            server.cpu_time(),
            begun.elapsed().as_secs_f64(),
        );
    }
    // The allocator's share settles in the first rounds.
    assert!(sizes[rounds - 1] < sizes[2] + (4 << 20), "{sizes:?} bytes");
}

/// Handshakes that are begun and never go on.
fn half_open(count: usize, retry: bool) {
    let flags = [
        "--max-connections",
        "200",
        "--idle-timeout",
        "2s",
        "--retry",
    ];
    let server = serve(&flags[..flags.len() - usize::from(!retry)]);
    let before = server.resident_bytes();
    let mut crowd = http3(&server);
    for _ in 0..count {
        crowd.begin();
        crowd.flush();
        // Nobody answers.
        crowd.vanish();
        crowd.discard();
    }
    // Half of the room is for clients whose address is proven.
    assert!(is_served(&server));
    crowd.discard();
    println!(
        "{count} handshakes begun (retry: {retry}): {:.2} times as many bytes back, {} refused, \
         {:.1} MiB more, {:?}",
        crowd.received_bytes as f64 / crowd.sent_bytes as f64,
        server.metric("gallop_connections_refused_total"),
        mebibytes(server.resident_bytes().saturating_sub(before)),
        server.cpu_time(),
    );
    // RFC 9000 §8.1.
    assert!(crowd.received_bytes <= 3 * crowd.sent_bytes);
    until_empty(&server);
    assert!(is_served(&server));
}

fn noise(seed: u64) -> impl Iterator<Item = u8> {
    (0..).flat_map(move |place: u64| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(seed);
        hasher.write_u64(place);
        hasher.finish().to_le_bytes()
    })
}

/// Sends datagrams that look like the begin of a connection, with nothing behind.
fn forge(server: &Server, count: u64) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for seed in 0..count {
        let mut datagram: Vec<u8> = noise(seed).take(1_200).collect();
        datagram[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
        // The client's connection id, no token, and a length to the end.
        datagram[14] = 8;
        datagram[23..26].copy_from_slice(&[0, 0x44, 0x96]);
        socket.send_to(&datagram, server.address).unwrap();
        if seed % 32 == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn forged(count: u64) {
    let server = serve(&["--max-connections", "200"]);
    let before = server.resident_bytes();
    forge(&server, count);
    println!(
        "{count} forged Initials: {} refused, {:.1} MiB more, {:?}",
        server.metric("gallop_connections_refused_total"),
        mebibytes(server.resident_bytes().saturating_sub(before)),
        server.cpu_time(),
    );
    assert!(is_served(&server));
    assert_eq!(server.metric("gallop_connections_refused_total"), 0);
}

/// Datagrams of a connection's own, damaged, beside those of the connection, which goes on.
fn damaged(count: u64) {
    let server = serve(&[]);
    let mut crowd = http3(&server);
    crowd.connect(1);
    let mut stranger = http3(&server);
    let before = server.resident_bytes();
    for seed in 0..count {
        let mut bytes = noise(seed);
        let mut number = |below: usize| {
            let chosen: Vec<u8> = bytes.by_ref().take(8).collect();
            usize::from_le_bytes(chosen.try_into().unwrap()) % below
        };
        let mut datagram = match number(3) {
            // A connection of nobody.
            0 => stranger.begin_datagram(),
            // The last one of a connection that lives.
            1 => crowd.last.clone(),
            _ => vec![0; number(1_473)],
        };
        for _ in 0..number(8) {
            let place = number(datagram.len().max(1));
            if let Some(byte) = datagram.get_mut(place) {
                *byte = number(256) as u8;
            }
        }
        datagram.truncate(number(4 * datagram.len() + 1).max(1));
        crowd.send(&datagram);
        if seed % 32 == 0 {
            ask_and_read(&mut crowd, 1);
        }
    }
    println!(
        "{count} damaged datagrams: {:.1} MiB more, {:?}",
        mebibytes(server.resident_bytes().saturating_sub(before)),
        server.cpu_time(),
    );
    ask_and_read(&mut crowd, 1);
    assert!(is_served(&server));
}

/// Clients that ask for much, read nothing, and vanish.
fn slow_readers(connections: usize, requests: usize) {
    let server = serve(&["--idle-timeout", "2s"]);
    assert!(is_served(&server));
    let before = server.resident_bytes();
    let files = server.open_files();
    for protocol in [H3, HQ] {
        let mut crowd = Crowd::new(server.address, crowd::config(protocol));
        crowd.connect(connections);
        crowd.ask("/large", requests);
        crowd.wait(Duration::from_secs(1), false, |_| false);
        let more = server.resident_bytes().saturating_sub(before);
        let opened = server.open_files() - files;
        println!(
            "{connections} slow readers of {requests} responses: {:.1} MiB more, \
             {:.1} KiB for each reader, {opened} files, {:?}",
            mebibytes(more),
            more as f64 / connections as f64 / 1_024.0,
            server.cpu_time(),
        );
        // Each of the 100 responses of a reader has 16 KiB.
        assert!(opened <= 100 * connections, "{opened} files");
        assert!(more < (8 << 20) + (3 << 20) * connections, "{more} bytes");
        assert!(is_served(&server));
        crowd.vanish();
        until_empty(&server);
        // The connection that asked for the metrics has a file for a moment.
        assert!(soon(|| server.open_files() == files), "files stay open");
    }
}

#[test]
fn connections_cost_memory_while_they_are_open() {
    connections(200, "3s");
}

#[test]
#[ignore = "long"]
fn long_connections() {
    connections(5_000, "60s");
}

#[test]
fn requests_leave_nothing_behind() {
    requests(10_000);
}

#[test]
#[ignore = "long"]
fn long_requests() {
    requests(1_000_000);
}

#[test]
fn handshakes_that_never_go_on() {
    half_open(500, false);
    half_open(500, true);
}

#[test]
fn handshakes_that_take_too_long_lose_their_place() {
    let server = serve(&["--handshake-timeout", "1s", "--idle-timeout", "600s"]);
    let mut crowd = http3(&server);
    crowd.connect(1);
    let mut slow = http3(&server);
    slow.begin();
    slow.flush();
    assert!(soon(|| server.metric("gallop_connections_open") == 2));
    assert!(soon(|| server.metric("gallop_connections_open") == 1));
    // Whoever still waits is told: CONNECTION_REFUSED (RFC 9000 §20.1).
    slow.until(|slow| {
        let refused = |error: &quiche::ConnectionError| !error.is_app && error.error_code == 2;
        slow.all(|member| member.connection.peer_error().is_some_and(refused))
    });
    ask_and_read(&mut crowd, 1);
}

#[test]
#[ignore = "long"]
fn long_handshakes_that_never_go_on() {
    half_open(20_000, false);
    half_open(20_000, true);
}

#[test]
fn forged_initials_take_no_room() {
    forged(1_000);
}

#[test]
#[ignore = "long"]
fn long_forged_initials() {
    forged(100_000);
}

#[test]
fn slow_readers_cost_little() {
    slow_readers(5, 100);
}

#[test]
#[ignore = "long"]
fn long_slow_readers() {
    slow_readers(100, 100);
}

#[test]
fn damaged_datagrams_harm_nobody() {
    damaged(2_000);
}

#[test]
#[ignore = "long"]
fn long_damaged_datagrams() {
    damaged(300_000);
}

#[test]
fn a_place_is_free_when_a_connection_ends() {
    let server = serve(&["--max-connections", "4"]);
    let mut crowd = http3(&server);
    crowd.connect(4);
    assert!(!is_served(&server));
    // Those who are connected do not suffer.
    ask_and_read(&mut crowd, 1);
    crowd.close(1);
    assert!(is_served(&server));
    ask_and_read(&mut crowd, 1);
}

#[test]
fn forged_initials_leave_no_trace() {
    let server = serve(&["--qlog-dir", "{}/qlog"]);
    forge(&server, 10);
    assert!(is_served(&server));
    // Another thread may still be reading one.
    assert!(soon(|| names(&server.path("qlog")).len() == 1));
}

#[test]
fn the_limit_of_open_files_is_raised_as_far_as_it_may_be() {
    let server = Server::start_under("-S -n 40; ulimit -H -n 200", &[]);
    let (soft, hard) = server.open_files_limits();
    assert_eq!((soft.as_str(), hard.as_str()), ("200", "200"));
}

#[test]
fn too_many_open_files_are_said_to_be_so() {
    let server = Server::start_under("-n 40", &[]);
    server.write("small", &[7; FILE_BYTES]);
    server.write("large", &vec![7; 4 << 20]);
    assert!(is_served(&server));
    let mut crowd = http3(&server);
    crowd.connect(1);
    crowd.ask("/large", 60);
    crowd.wait(Duration::from_secs(1), false, |_| false);
    let (report, _) = server.report(&[&server.url("/small")]);
    assert_eq!(report["transfers"][0]["status"], 503);
    crowd.close(1);
    // Its files stay open while it drains (RFC 9000 §10.2).
    assert!(soon(|| is_served(&server)));
}
