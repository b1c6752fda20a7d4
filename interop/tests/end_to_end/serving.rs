//! HTTP over the wire, and clients that mean no good.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::symlink;

use gallop_interop::transport::{H3, HQ};

use crate::raw::{data, request};
use crate::setup::{Peer, Server, names, soon, text};

#[test]
fn heads_ranges_and_conditions() {
    let server = Server::start(&[]);
    server.write("ten.txt", b"0123456789");
    fs::create_dir(server.path("root/sub")).unwrap();
    let ask = |flags: &[&str], path: &str| {
        let url = server.url(path);
        let (report, _) = server.report(&[flags, &[&url]].concat());
        let transfer = &report["transfers"][0];
        let status = transfer["status"].as_u64().unwrap();
        (status, transfer["received_bytes"].as_u64().unwrap())
    };
    assert_eq!(ask(&[], "/ten.txt"), (200, 10));
    assert_eq!(ask(&["--head"], "/ten.txt"), (200, 0));
    assert_eq!(ask(&["-H", "range: bytes=2-4"], "/ten.txt"), (206, 3));
    assert_eq!(ask(&["-H", "range: bytes=99-"], "/ten.txt").0, 416);
    assert_eq!(ask(&["-H", "if-none-match: *"], "/ten.txt"), (304, 0));
    assert_eq!(ask(&["-H", "if-match: \"x\""], "/ten.txt").0, 412);
    assert_eq!(ask(&[], "/sub").0, 301);
    assert_eq!(ask(&[], "/sub/").0, 404);
    assert_eq!(ask(&[], "/none").0, 404);
    let (report, status) = server.report(&[&server.url("/none"), &server.url("/ten.txt")]);
    assert_eq!(status, 1, "{report:#}");
    let output = server.client(&["-H", "range: bytes=-3", "-o", "-", &server.url("/ten.txt")]);
    assert_eq!(output.stdout, b"789");
}

/// Packets without release times share system calls.
#[cfg(target_os = "linux")]
#[test]
fn a_system_call_sends_several_packets() {
    let server = Server::start(&["--cc", "cubic", "--metrics", "127.0.0.1:0"]);
    server.write("large", &vec![7; 5_000_000]);
    let (_, status) = server.report(&[&server.url("/large")]);
    assert_eq!(status, 0);
    assert!(soon(|| server.metric("gallop_connections_open") == 0));
    let calls = server.metric("gallop_send_calls_total");
    let packets = server.metric("gallop_sent_packets_total");
    // An ACK of two packets makes room for as many.
    assert!(
        packets * 2 > calls * 3,
        "{packets} packets in {calls} calls"
    );
}

#[test]
fn nothing_outside_of_the_root() {
    let server = Server::start(&[]);
    fs::write(server.path("secret"), "secret").unwrap();
    server.write("file", b"file");
    symlink("../secret", server.path("root/link")).unwrap();
    symlink("..", server.path("root/up")).unwrap();
    let mut peer = Peer::connect(server.address, HQ);
    let mut stream = 0;
    let mut get = |request: &[u8]| {
        stream += 4;
        peer.exchange(stream - 4, request)
    };
    assert_eq!(get(b"GET /file\r\n").unwrap(), b"file");
    for request in [
        &b"GET /../secret\r\n"[..],
        b"GET /%2e%2e/secret\r\n",
        b"GET //secret\r\n",
        b"GET /link\r\n",
        b"GET /up/secret\r\n",
        b"GET ../secret\r\n",
        b"GET /etc/passwd\r\n",
        b"GET /\0\r\n",
        b"GET \r\n",
        b"\xff\xfe\r\n",
        b"POST /file\r\n",
        b"",
        &[b'A'; 100_000],
    ] {
        assert!(get(request).is_err(), "{:?}", text(request));
    }
    assert_eq!(get(b"GET /file").unwrap(), b"file");
}

#[test]
fn garbage_harms_nobody_else() {
    let server = Server::start(&[]);
    server.write("file", b"file");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in [0, 1, 7, 20, 1_200, 1_472] {
        for first in [0x00, 0x40, 0x80, 0xc0, 0xd0, 0xff] {
            let mut datagram = vec![0xaa; length];
            if let Some(byte) = datagram.first_mut() {
                *byte = first;
            }
            socket.send_to(&datagram, server.address).unwrap();
        }
    }
    // Frames that HTTP/3 forbids there: DATA before HEADERS, and a length beyond all bounds.
    for bytes in [
        &[0x00, 0x01, 0x00][..],
        &[0xff; 64],
        &[0x01, 0x02, 0xff, 0xff],
    ] {
        let mut peer = Peer::connect(server.address, H3);
        peer.connection.stream_send(0, bytes, true).unwrap();
        peer.until(|connection| {
            connection.is_closed() || connection.is_draining() || connection.stream_readable(0)
        });
    }
    assert_eq!(
        server.client(&["-o", "-", &server.url("/file")]).stdout,
        b"file"
    );
}

#[test]
fn an_unknown_version_is_answered() {
    let server = Server::start(&[]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut datagram = vec![0; 1_200];
    datagram[..7].copy_from_slice(&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 0x08, 0x01]);
    socket.send_to(&datagram, server.address).unwrap();
    let mut answer = [0; 1_500];
    let (length, _) = socket.recv_from(&mut answer).unwrap();
    assert_eq!(answer[1..5], [0; 4]);
    assert!(answer[..length].ends_with(&quiche::PROTOCOL_VERSION.to_be_bytes()));
}

#[test]
fn a_first_connection_id_has_eight_bytes() {
    // So an answer needs no more than the header (RFC 9000 §17.2.2) and the size.
    let server = Server::start(&["--retry"]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in [0, 1, 7, 8] {
        let mut header = vec![0xc0, 0, 0, 0, 1, length];
        header.extend(vec![0xaa; length.into()]);
        // The client's own id, by which an answer is known; no token, and a length to the end.
        header.extend([1, length, 0, 0x44, 0x80]);
        header.resize(1_200, 0);
        socket.send_to(&header, server.address).unwrap();
    }
    let mut answer = [0; 1_500];
    let (length, _) = socket.recv_from(&mut answer).unwrap();
    let retry = quiche::Header::from_slice(&mut answer[..length], 0).unwrap();
    assert_eq!(retry.ty, quiche::Type::Retry);
    assert_eq!(retry.dcid.as_ref(), [8]);
}

#[test]
fn uploads_have_limits() {
    let server = Server::start(&["--upload-dir", "{}", "--upload-limit", "1000b"]);
    fs::write(server.path("small"), [1; 1_000]).unwrap();
    fs::write(server.path("large"), [1; 300_000]).unwrap();
    let send = |file: &str, path: &str| {
        let file = server.path(file);
        let (report, status) = server.report(&[
            "--method",
            "post",
            "--upload",
            file.to_str().unwrap(),
            &server.url(path),
        ]);
        (report["transfers"][0]["status"].as_u64(), status)
    };
    assert_eq!(send("small", "/a/sent"), (Some(201), 0));
    assert_eq!(fs::read(server.path("sent")).unwrap(), [1; 1_000]);
    assert_eq!(send("large", "/too-large"), (Some(413), 1));
    assert_eq!(send("small", "/a/"), (Some(400), 1));
    assert_eq!(
        names(server.folder.path()),
        ["certificates", "large", "root", "sent", "small"]
    );
}

#[test]
fn requests_at_a_time_are_limited() {
    let server = Server::start(&[]);
    let mut peer = Peer::connect(server.address, H3);
    let begun = request("PUT", "/x", &[]);
    let streams: Vec<_> = (0..100).map(|_| peer.open()).collect::<Vec<_>>();
    for stream in &streams {
        peer.connection.stream_send(*stream, &begun, false).unwrap();
    }
    assert_eq!(peer.connection.peer_streams_left_bidi(), 0);
    // One that has ended leaves room for another.
    peer.exchange(streams[50], &data(b"x")).unwrap();
    let another = peer.open();
    peer.exchange(another, &begun).unwrap();
}

#[test]
fn too_many_connections_are_not_answered() {
    let server = Server::start(&["--max-connections", "0", "--metrics", "127.0.0.1:0"]);
    let (_, status) = server.report(&["--connect-timeout", "200ms", &server.url("/")]);
    assert_eq!(status, 3);
    let scraped = server.scrape();
    assert!(scraped.contains("gallop_connections_refused_total"));
    assert!(!scraped.contains("gallop_connections_refused_total 0"));
}
