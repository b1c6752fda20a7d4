//! Clients that mean harm, and what the server loses by them: nothing.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

use boring::asn1::Asn1Time;
use boring::ec::{EcGroup, EcKey};
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::PKey;
use boring::x509::{X509, X509NameBuilder};
use gallop_interop::transport::{H3, HQ};
use nix::sys::signal::Signal;

use crate::crowd;
use crate::raw::{data, first_section, frame, headers, request, request_of_references};
use crate::setup::{Peer, Server, client_command, names, server_command, soon, text};

/// More than the server answers at a time.
const MANY: u64 = 300;

const MEBIBYTE: usize = 1 << 20;

fn serve(flags: &[&str]) -> Server {
    let usual = ["--metrics", "127.0.0.1:0", "--log-level", "info"];
    let server = Server::start(&[&usual, flags].concat());
    server.write("small", b"0123456789");
    server.write("large", &vec![7; 4 * MEBIBYTE]);
    server
}

/// Asks for as much as it may, and wants nothing of it in the same datagram.
fn ask_and_cancel(peer: &mut Peer, request: &[u8], count: u64) {
    for _ in 0..count {
        let stream = peer.open();
        peer.write(stream, request, true);
        let read = quiche::Shutdown::Read;
        peer.connection
            .stream_shutdown(stream, read, 0x10c)
            .unwrap();
        peer.send();
    }
}

#[test]
fn cancelled_requests_leave_nothing() {
    let mut server = serve(&["--shutdown-timeout", "1000s"]);
    let files = server.open_files();
    for (protocol, get) in [
        (H3, request("GET", "/small", &[])),
        (HQ, b"GET /small\r\n".to_vec()),
    ] {
        let mut peer = Peer::connect(server.address, protocol);
        ask_and_cancel(&mut peer, &get, MANY);
        let stream = peer.open();
        let answer = peer.exchange(stream, &get).unwrap();
        assert!(answer.ends_with(b"0123456789"));
        assert!(soon(|| server.open_files() == files), "files stay open");
        // Nor is the end waited for.
        ask_and_cancel(&mut peer, &get, 1);
        peer.connection.close(true, 0, b"").unwrap();
        peer.send();
    }
    let mut peer = Peer::connect(server.address, H3);
    ask_and_cancel(&mut peer, &request("GET", "/small", &[]), 1);
    let stream = peer.open();
    peer.exchange(stream, &request("GET", "/small", &[]))
        .unwrap();
    server.signal(Signal::SIGTERM);
    peer.until(|connection| connection.peer_error().is_some());
    assert_eq!(server.wait(), 0);
}

#[test]
fn a_reset_upload_leaves_nothing() {
    let server = serve(&["--upload-dir", "{}/uploads"]);
    let files = server.open_files();
    let mut peer = Peer::connect(server.address, H3);
    for _ in 0..MANY {
        let stream = peer.open();
        let begun = [request("PUT", "/sent", &[]), frame(0, &[7; 100])].concat();
        peer.write(stream, &begun, false);
        // In the same datagram, so that the data is reset before it is read.
        let write = quiche::Shutdown::Write;
        peer.send();
        peer.connection
            .stream_shutdown(stream, write, 0x10c)
            .unwrap();
        peer.send();
    }
    let stream = peer.open();
    peer.exchange(stream, &request("GET", "/small", &[]))
        .unwrap();
    assert!(soon(|| server.open_files() == files), "files stay open");
    assert_eq!(names(&server.path("uploads")), [""; 0]);
}

/// Header sections that are begun and reset: the connection holds no more after a thousand of them than
/// after some.
#[test]
fn requests_that_are_reset_are_forgotten() {
    let server = serve(&[]);
    let begun = &frame(1, &vec![0; 10_000])[..2_000];
    let mut peer = Peer::connect(server.address, H3);
    let held = [100, 1_000].map(|count| {
        for _ in 0..count {
            let stream = peer.open();
            peer.write(stream, begun, false);
            peer.send();
            let write = quiche::Shutdown::Write;
            // The server may have refused it already.
            let _ = peer.connection.stream_shutdown(stream, write, 0x10c);
            peer.send();
        }
        // All of them have been read when this is answered.
        let stream = peer.open();
        peer.exchange(stream, &request("GET", "/small", &[]))
            .unwrap();
        server.metric("gallop_connections_memory_bytes")
    });
    let more = held[1].saturating_sub(held[0]);
    assert!(more < 300_000, "{more} bytes");
}

/// Unidirectional streams that are begun and end, or are reset: no more than some are open at a time, and
/// the connection holds no more after many than after some.
///
/// NOTE: quiche allows no new stream in place of one that ends after quiche has begun to ignore it.
/// Such a client gets no more in the end; its requests are answered.
#[test]
fn unidirectional_streams_are_limited_and_forgotten() {
    let server = serve(&[]);
    let get = request("GET", "/small", &[]);
    for (protocol, get) in [(H3, &get[..]), (HQ, b"GET /small\r\n")] {
        for (begun, is_end) in [
            (&b""[..], false),
            (b"\x40", false),
            (b"\x21some", false),
            (b"\x21some", true),
        ] {
            let mut peer = Peer::connect(server.address, protocol);
            let mut next = 2;
            let held = [100, 1_000].map(|count| {
                for _ in 0..count {
                    if peer.connection.peer_streams_left_uni() == 0 {
                        // All that was sent before is read when this is answered.
                        let stream = peer.open();
                        peer.exchange(stream, get).unwrap();
                    }
                    let left = peer.connection.peer_streams_left_uni();
                    assert!(left <= 16);
                    if left == 0 {
                        break;
                    }
                    peer.write(next, begun, is_end);
                    peer.send();
                    let write = quiche::Shutdown::Write;
                    let _ = peer.connection.stream_shutdown(next, write, 0x10c);
                    peer.send();
                    next += 4;
                }
                let stream = peer.open();
                peer.exchange(stream, get).unwrap();
                server.metric("gallop_connections_memory_bytes")
            });
            let more = held[1].saturating_sub(held[0]);
            assert!(more < 50_000, "{more} bytes after {begun:?}");
            peer.connection.close(true, 0x100, b"").unwrap();
            peer.send();
            assert!(soon(|| server.metric("gallop_connections_open") == 0));
        }
    }
}

/// Requests whose responses have no room fill the connection's streams; more are cancelled.
#[test]
fn requests_that_wait_do_not_pile_up() {
    let server = serve(&[]);
    for get in [request("GET", "/small", &[]), request_of_references(300)] {
        let mut config = crowd::config(H3);
        config.set_initial_max_stream_data_bidi_local(0);
        let mut peer = Peer::connect_with(server.address, &mut config);
        for _ in 0..50 {
            let stream = peer.open();
            let large = request("GET", "/large", &[]);
            peer.write(stream, &large, true);
        }
        ask_and_cancel(&mut peer, &get, 100);
        let before = server.resident_bytes();
        ask_and_cancel(&mut peer, &get, 1_500);
        let more = server.resident_bytes().saturating_sub(before);
        assert!(more < 2 * MEBIBYTE, "{more} bytes");
    }
}

/// Header sections without an end, as many as a client may begin; until it is closed.
fn begin_sections(peer: &mut Peer, bytes: usize) {
    let section = frame(1, &vec![0; 20_000]);
    for _ in 0..100 {
        let stream = peer.open();
        peer.write(stream, &section[..bytes], false);
        peer.send();
        if peer.connection.peer_error().is_some() {
            return;
        }
    }
}

#[test]
fn a_connection_has_its_share_of_memory() {
    // A connection may hold 1 MiB.
    let server = serve(&["--memory", "8mb"]);
    let mut honest = Peer::connect(server.address, H3);
    let mut peer = Peer::connect(server.address, H3);
    begin_sections(&mut peer, 19_000);
    peer.until(|connection| connection.peer_error().is_some());
    let error = peer.connection.peer_error().unwrap();
    assert_eq!((error.is_app, error.error_code), (true, 0x107));
    assert_eq!(server.metric("gallop_connections_shed_total"), 1);
    let answer = honest.exchange(0, &request("GET", "/small", &[])).unwrap();
    assert!(answer.ends_with(b"0123456789"));
}

#[test]
fn all_connections_share_the_memory() {
    let server = serve(&["--memory", "8mb"]);
    let before = server.resident_bytes();
    let mut honest = Peer::connect(server.address, H3);
    let mut peers: Vec<_> = (0..20)
        .map(|_| {
            let mut peer = Peer::connect(server.address, H3);
            begin_sections(&mut peer, 6_000);
            peer
        })
        .collect();
    assert!(server.metric("gallop_connections_shed_total") > 0);
    let held = server.metric("gallop_connections_memory_bytes");
    assert!(held <= 8 * MEBIBYTE, "{held} bytes");
    // The allocator has some of its own.
    let more = server.resident_bytes().saturating_sub(before);
    assert!(more < 16 * MEBIBYTE, "{more} bytes");
    let answer = honest.exchange(0, &request("GET", "/small", &[])).unwrap();
    assert!(answer.ends_with(b"0123456789"));
    for peer in peers.iter_mut().chain([&mut honest]) {
        let _ = peer.connection.close(true, 0x100, b"");
        peer.send();
    }
    let is_given_back = || server.metric("gallop_connections_memory_bytes") == 0;
    assert!(soon(is_given_back), "memory is not given back");
}

/// The status of the answer on a stream, or the code of its reset.
fn status(peer: &mut Peer, bytes: &[u8]) -> Result<String, u64> {
    let stream = peer.open();
    match peer.exchange(stream, bytes) {
        Err(quiche::Error::StreamReset(code)) => Err(code),
        Err(error) => panic!("{error}"),
        // Its first field is an entry of QPACK's static table: `:status: 200`.
        Ok(answer) => Ok(match first_section(&answer) {
            Some([0, 0, 0xd9, ..]) => "200".to_owned(),
            section => format!("{section:?}"),
        }),
    }
}

#[test]
fn malformed_requests_are_refused() {
    let server = serve(&["--upload-dir", "{}/uploads"]);
    let mut peer = Peer::connect(server.address, H3);
    let get = || request("GET", "/small", &[]);
    let put = |length: &str| request("PUT", "/sent", &[("content-length", length)]);
    for wrong in [
        headers(&[(":method", "GET"), (":path", "/small")]),
        request("GET", "/small", &[(":authority", "other")]),
        request("GET", "/small", &[("connection", "close")]),
        request("GET", "/small", &[("transfer-encoding", "chunked")]),
        request("GET", "/small", &[("te", "gzip")]),
        request("GET", "/small", &[("a b", "c")]),
        request("GET", "/small", &[("a", "b\r\nc")]),
        request("GET", "/small", &[("a", "b\0c")]),
        request("GET", "/small", &[("host", "other")]),
        request("GET", "/small", &[("content-length", "5")]),
        [get(), get()].concat(),
        [get(), data(b"x"), get()].concat(),
        [put("100"), data(b"0123456789")].concat(),
        [put("3"), data(b"0123456789")].concat(),
        [put("abc"), data(b"0123456789")].concat(),
    ] {
        assert_eq!(status(&mut peer, &wrong), Err(0x10e), "{}", text(&wrong));
    }
    for right in [
        [get(), headers(&[("x", "y")])].concat(),
        [get(), data(b"x"), headers(&[("x", "y")])].concat(),
        request(
            "GET",
            "/small",
            &[("te", "trailers"), ("host", "localhost")],
        ),
    ] {
        assert_eq!(status(&mut peer, &right), Ok("200".to_owned()));
    }
    assert_eq!(names(&server.path("uploads")), [""; 0]);
    // Nothing at all is no request either.
    assert_eq!(status(&mut peer, b""), Err(0x10d));
}

#[test]
fn an_upload_that_ends_inside_a_frame_is_not_kept() {
    let server = serve(&["--upload-dir", "{}/uploads"]);
    let mut peer = Peer::connect(server.address, H3);
    let mut cut = [request("PUT", "/sent", &[]), data(b"0123456789")].concat();
    cut.truncate(cut.len() - 3);
    let stream = peer.open();
    peer.write(stream, &cut, true);
    peer.until(|connection| connection.peer_error().is_some());
    // H3_FRAME_ERROR (RFC 9114 §7.1).
    let error = peer.connection.peer_error().unwrap();
    assert_eq!((error.is_app, error.error_code), (true, 0x106));
    assert_eq!(names(&server.path("uploads")), [""; 0]);
}

#[test]
fn a_retry_is_followed_when_it_is_needed_no_more() {
    let server = serve(&["--max-connections", "4"]);
    let mut others = [(); 2].map(|()| Peer::connect(server.address, H3));
    let mut peer = Peer::begin(server.address, H3);
    peer.send();
    // The Retry.
    peer.receive();
    for other in &mut others {
        other.connection.close(true, 0x100, b"").unwrap();
        other.send();
    }
    assert!(soon(|| server.metric("gallop_connections_open") == 0));
    peer.until(quiche::Connection::is_established);
}

#[test]
fn metrics_are_served_again_after_too_many_files() {
    let mut server = Server::start_under("-n 40", &["--metrics", "127.0.0.1:0"]);
    server.write("large", &vec![7; MEBIBYTE]);
    let files = server.open_files();
    let mut config = crowd::config(H3);
    config.set_initial_max_stream_data_bidi_local(0);
    let mut peer = Peer::connect_with(server.address, &mut config);
    for _ in 0..60 {
        let stream = peer.open();
        peer.write(stream, &request("GET", "/large", &[]), true);
    }
    peer.send();
    assert!(soon(|| server.open_files() > 35));
    // Requests may leave a few files: some systems need more than one to open another.
    let address = server.metrics.unwrap();
    let asking = [(); 8].map(|()| TcpStream::connect(address).unwrap());
    server.log("metrics cannot be served for a moment");
    peer.connection.close(true, 0x100, b"").unwrap();
    peer.send();
    drop(asking);
    assert!(soon(|| server.try_scrape().is_some()));
    assert!(soon(|| server.metric("gallop_connections_open") == 0));
    assert!(soon(|| server.open_files() == files));
}

#[test]
fn scrapers_that_ask_nothing_take_little() {
    let server = Server::start(&["--metrics", "127.0.0.1:0"]);
    let files = server.open_files();
    let address = server.metrics.unwrap();
    let silent = [(); 60].map(|()| TcpStream::connect(address).unwrap());
    assert!(soon(|| server.open_files() > files));
    assert!(server.open_files() <= files + 9);
    drop(silent);
    let is_served = || {
        let text = server.try_scrape();
        text.is_some_and(|text| text.contains("gallop_"))
    };
    assert!(soon(is_served));
}

#[test]
fn a_killed_server_leaves_no_part_of_an_upload() {
    let server = serve(&["--upload-dir", "{}/uploads"]);
    let mut peer = Peer::connect(server.address, H3);
    let begun = [request("PUT", "/sent", &[]), data(b"begun")].concat();
    let stream = peer.open();
    peer.write(stream, &begun, false);
    // It has read the upload when it has answered what came after.
    assert_eq!(
        status(&mut peer, &request("GET", "/small", &[])),
        Ok("200".to_owned())
    );
    server.signal(Signal::SIGKILL);
    assert_eq!(names(&server.path("uploads")), [""; 0]);
}

#[test]
fn a_server_that_was_started_anew_ends_old_connections() {
    let mut server = serve(&[]);
    let mut peer = Peer::connect(server.address, H3);
    assert_eq!(
        status(&mut peer, &request("GET", "/small", &[])),
        Ok("200".to_owned())
    );
    let address = server.address.to_string();
    server.signal(Signal::SIGKILL);
    server.wait_killed();
    let folder = std::mem::replace(&mut server.folder, tempfile::tempdir().unwrap());
    let _server = Server::start_in(folder, &["--listen", &address]);
    let stream = peer.open();
    let get = request("GET", "/small", &[]);
    peer.write(stream, &get, true);
    // Long before the connection would be idle.
    peer.until(quiche::Connection::is_closed);
    assert!(!peer.connection.is_timed_out());
}

#[test]
fn who_opens_the_server_to_others_says_what_they_see() {
    let folder = tempfile::tempdir().unwrap();
    for flags in [
        &["--listen", "0.0.0.0:0"][..],
        &["--listen", "127.0.0.1:0", "--listen", "[::]:0"],
    ] {
        let output = server_command(flags)
            .args(["--cert-dir", folder.path().to_str().unwrap()])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("--root"));
    }
}

/// A certificate whose name is only its common name, and its key.
fn certificate_with_common_name(folder: &Path) -> (String, String) {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", "localhost").unwrap();
    let name = name.build();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    builder.set_subject_name(&name).unwrap();
    builder.set_issuer_name(&name).unwrap();
    builder.set_pubkey(&key).unwrap();
    let (from, until) = (Asn1Time::days_from_now(0), Asn1Time::days_from_now(9));
    builder.set_not_before(&from.unwrap()).unwrap();
    builder.set_not_after(&until.unwrap()).unwrap();
    builder.sign(&key, MessageDigest::sha256()).unwrap();
    let path = |name| folder.join(name).to_str().unwrap().to_owned();
    let (chain_path, key_path) = (path("other.pem"), path("other.key"));
    fs::write(&chain_path, builder.build().to_pem().unwrap()).unwrap();
    fs::write(&key_path, key.private_key_to_pem_pkcs8().unwrap()).unwrap();
    (chain_path, key_path)
}

#[test]
fn a_certificate_without_the_name_is_not_trusted() {
    let server = serve(&[]);
    let (chain, key) = certificate_with_common_name(server.folder.path());
    let folder = tempfile::tempdir().unwrap();
    let other = Server::start_in(folder, &["--cert", &chain, "--key", &key]);
    let output = client_command(&["--ca", &chain, &other.url("/")])
        .stdout(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
}

#[test]
fn an_upload_is_not_sent_in_early_data() {
    let server = serve(&["--upload-dir", "{}/uploads"]);
    fs::write(server.path("file"), "hello").unwrap();
    for name in ["/one", "/two"] {
        let (report, status) = server.report(&[
            "--session",
            "{}/session",
            "--early-data",
            "--upload",
            "{}/file",
            &server.url(name),
        ]);
        assert_eq!(status, 0, "{report}");
    }
    assert_eq!(names(&server.path("uploads")), ["one", "two"]);
}

#[test]
fn the_key_log_is_its_owners() {
    use std::os::unix::fs::PermissionsExt;

    let server = serve(&["--keylog", "{}/keys"]);
    let mode = fs::metadata(server.path("keys"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0);
}
