//! Servers that mean harm, and what the client makes of their answers.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gallop_interop::outbox::Pacing;
use gallop_interop::server::certificate::Certificate;
use gallop_interop::transport::{self, H3};
use quiche::h3::{self, NameValue};

use crate::raw::{data, frame, headers};
use crate::setup::{Server, client_command, names, text};

/// A server for one client at a time, whose answers are written by hand.
struct Hostile {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The bytes of a stream, and the code of its reset if it does not end in order.
type Answer = (Vec<u8>, Option<u64>);

impl Hostile {
    fn start(certificate: &Certificate, answer: fn(&str) -> Answer) -> Hostile {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let timeout = Some(Duration::from_millis(10));
        socket.set_read_timeout(timeout).unwrap();
        let address = socket.local_addr().unwrap();
        let tls = certificate.context().unwrap();
        let controller = "reno".parse().unwrap();
        let idle = Duration::from_secs(60);
        let mut config = transport::config(tls, &[H3], &controller, Pacing::Off, idle).unwrap();
        config.set_initial_max_streams_bidi(100);
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let thread = thread::spawn(move || {
            let mut served: Option<Served> = None;
            while !seen.load(Ordering::Relaxed) {
                let mut buffer = [0; 65_535];
                let received = socket.recv_from(&mut buffer);
                if let Ok((length, from)) = received {
                    let datagram = &mut buffer[..length];
                    let header = quiche::Header::from_slice(datagram, 16).unwrap();
                    let is_new = header.ty == quiche::Type::Initial
                        && served.as_ref().is_none_or(|served| served.from != from);
                    if is_new {
                        let id = transport::connection_id().unwrap();
                        let accepted = quiche::accept(&id, None, address, from, &mut config);
                        served = Some(Served {
                            connection: accepted.unwrap(),
                            h3: None,
                            from,
                        });
                    }
                    if let Some(served) = &mut served {
                        let info = quiche::RecvInfo { from, to: address };
                        let _ = served.connection.recv(datagram, info);
                    }
                }
                if let Some(served) = &mut served {
                    served.turn(&socket, answer, received.is_err());
                }
            }
        });
        Hostile {
            address,
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

struct Served {
    connection: quiche::Connection,
    h3: Option<h3::Connection>,
    from: SocketAddr,
}

impl Served {
    fn turn(&mut self, socket: &UdpSocket, answer: fn(&str) -> Answer, is_quiet: bool) {
        if is_quiet {
            self.connection.on_timeout();
        }
        if self.connection.is_established() && self.h3.is_none() {
            let config = h3::Config::new().unwrap();
            self.h3 = h3::Connection::with_transport(&mut self.connection, &config).ok();
        }
        while let Some(h3) = &mut self.h3
            && let Ok((stream, event)) = h3.poll(&mut self.connection)
        {
            if let h3::Event::Headers { list, .. } = event {
                let path = list.iter().find(|field| field.name() == b":path").unwrap();
                let (bytes, reset) = answer(&text(path.value()));
                let is_end = reset.is_none();
                let _ = self.connection.stream_send(stream, &bytes, is_end);
                if let Some(code) = reset {
                    self.flush(socket);
                    let write = quiche::Shutdown::Write;
                    let _ = self.connection.stream_shutdown(stream, write, code);
                }
            }
        }
        self.flush(socket);
    }

    fn flush(&mut self, socket: &UdpSocket) {
        let mut buffer = [0; 1_500];
        while let Ok((length, info)) = self.connection.send(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], info.to);
        }
    }
}

/// An answer by the path that was asked for.
fn answer(path: &str) -> Answer {
    let ok = (":status", "200");
    let ten = data(b"0123456789");
    let with = |fields: &[(&str, &str)]| [headers(fields), ten.clone()].concat();
    let bytes = match path {
        "/good" => with(&[ok, ("content-length", "10")]),
        "/interim" => [headers(&[(":status", "103")]), with(&[ok])].concat(),
        "/trailers" => [with(&[ok]), headers(&[("x", "y")])].concat(),
        "/after-trailers" => [with(&[ok]), headers(&[("x", "y")]), ten].concat(),
        "/before-header" => [ten, headers(&[ok])].concat(),
        "/short" => with(&[ok, ("content-length", "1000")]),
        "/long" => with(&[ok, ("content-length", "3")]),
        "/huge" => with(&[ok, ("content-length", "99999999999999999999999999")]),
        "/text" => with(&[ok, ("content-length", "abc")]),
        "/trailers-with-status" => [with(&[ok]), headers(&[(":status", "500")])].concat(),
        "/nothing" => with(&[("x", "y")]),
        "/escape" => with(&[(":status", "2\x1b[31m00")]),
        "/moved" => with(&[(":status", "302"), ("location", "https://example.org/")]),
        "/part" => with(&[(":status", "206"), ("content-range", "bytes 5-14/1000")]),
        "/newline" => with(&[ok, ("x", "a\nb")]),
        "/empty" => Vec::new(),
        // Inside a frame, without a content-length.
        "/cut" => {
            let mut bytes = with(&[ok]);
            bytes.truncate(bytes.len() - 3);
            bytes
        }
        "/reset" => return (with(&[ok]), Some(0x102)),
        // More is promised than may be kept.
        "/fields" => frame(1, &vec![0; 1 << 20]),
        _ => headers(&[(":status", "404")]),
    };
    (bytes, None)
}

#[test]
fn only_what_is_whole_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = Certificate::self_signed(&folder.path().join("certificates")).unwrap();
    let server = Hostile::start(&certificate, answer);
    let place = folder.path().join("got");
    let get = |path: &str, flags: &[&str]| {
        let url = format!("https://localhost:{}{path}", server.address.port());
        let chain = certificate.chain.to_str().unwrap();
        let output = client_command(&["--ca", chain, "--dir", place.to_str().unwrap(), &url])
            .args(["--timeout", "60s"])
            .args(flags)
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert!(!said.contains('\x1b'), "{said:?}");
        let kept = names(&place);
        for name in &kept {
            std::fs::remove_file(place.join(name)).unwrap();
        }
        (output.status.code().unwrap(), kept, said)
    };
    for good in ["/good", "/interim", "/trailers"] {
        let (status, kept, said) = get(good, &[]);
        assert_eq!((status, kept.len()), (0, 1), "{good}: {said}");
    }
    for wrong in [
        "/short",
        "/long",
        "/huge",
        "/text",
        "/trailers-with-status",
        "/nothing",
        "/escape",
        "/moved",
        "/part",
        "/newline",
        "/empty",
        "/reset",
        "/after-trailers",
        "/before-header",
    ] {
        let (status, kept, said) = get(wrong, &[]);
        assert_eq!((status, kept.len()), (1, 0), "{wrong}: {said}");
    }
    let (status, kept, said) = get("/part", &["-H", "range: bytes=5-14"]);
    assert_eq!((status, kept.len()), (0, 1), "{said}");
    // These end the connection.
    for wrong in ["/fields", "/cut"] {
        let (status, kept, said) = get(wrong, &[]);
        assert_eq!((status, kept.len()), (3, 0), "{wrong}: {said}");
    }
}

#[test]
fn who_trusts_anybody_is_told_so() {
    let server = Server::start(&[]);
    server.write("file", b"file");
    let said = |flags: &[&str]| {
        let output = client_command(flags)
            .args(["--quiet", &server.url("/file")])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let warning = "anybody can pretend to be the server";
    assert!(said(&["--insecure"]).contains(warning));
    let chain = server.path("certificates/cert.pem");
    assert!(!said(&["--ca", chain.to_str().unwrap()]).contains(warning));
}
