//! Streams of HTTP/3 that end inside a frame (RFC 9114 §7.1).

use quiche::h3::{self, Event, Header};
use quiche::Shutdown;

use crate::pair::{config, in_virtual_time, Pair};

/// H3_FRAME_ERROR (RFC 9114 §8.1).
const FRAME_ERROR: u64 = 0x106;

/// The stream of the request.
const REQUEST: u64 = 0;

/// Frames after a header section: content, one that is unknown, empty content, and again some. The
/// numbers are the places between them.
const FRAMES: &[u8] = b"\x00\x0512345\x21\x03abc\x00\x00\x00\x4020";
const BETWEEN: [usize; 4] = [0, 7, 12, 14];

/// Both ends of HTTP/3, after a request without an end.
struct Exchange {
    pair: Pair,
    client: h3::Connection,
    server: h3::Connection,
}

fn http3() -> quiche::Config {
    let mut config = config();
    config
        .set_application_protos(h3::APPLICATION_PROTOCOL)
        .unwrap();
    config.set_initial_max_data(10_000);
    config.set_initial_max_stream_data_bidi_local(1_000);
    config.set_initial_max_stream_data_bidi_remote(1_000);
    config.set_initial_max_stream_data_uni(1_000);
    config.set_initial_max_streams_bidi(10);
    config.set_initial_max_streams_uni(10);
    config
}

impl Exchange {
    fn begin() -> Exchange {
        let mut pair = Pair::connected(&mut http3(), &mut http3());
        let settings = h3::Config::new().unwrap();
        let mut client = h3::Connection::with_transport(&mut pair.client, &settings).unwrap();
        let server = h3::Connection::with_transport(&mut pair.server, &settings).unwrap();
        let fields = [
            Header::new(b":method", b"POST"),
            Header::new(b":scheme", b"https"),
            Header::new(b":authority", b"localhost"),
            Header::new(b":path", b"/"),
        ];
        let stream = client.send_request(&mut pair.client, &fields, false);
        assert_eq!(stream, Ok(REQUEST));
        pair.settle();
        Exchange {
            pair,
            client,
            server,
        }
    }
}

/// Reads everything; true if the request or response ends, an error if there is one.
fn read(h3: &mut h3::Connection, connection: &mut quiche::Connection) -> h3::Result<bool> {
    let mut has_ended = false;
    loop {
        match h3.poll(connection) {
            Ok((REQUEST, Event::Data)) => loop {
                match h3.recv_body(connection, REQUEST, &mut [0; 3]) {
                    Ok(_) => {}
                    Err(h3::Error::Done) => break,
                    Err(error) => return Err(error),
                }
            },
            Ok((REQUEST, Event::Finished)) => has_ended = true,
            Ok(_) => {}
            Err(h3::Error::Done) => return Ok(has_ended),
            Err(error) => return Err(error),
        }
    }
}

fn check(connection: &quiche::Connection, result: h3::Result<bool>, sent: usize) {
    let code = connection
        .local_error()
        .map(|error| (error.is_app, error.error_code));
    if BETWEEN.contains(&sent) {
        assert_eq!((result, code), (Ok(true), None), "after {sent} bytes");
    } else {
        let expected = (Err(h3::Error::FrameError), Some((true, FRAME_ERROR)));
        assert_eq!((result, code), expected, "after {sent} bytes");
    }
}

/// `apart` is true if the end comes in a datagram of its own, when all else has been read.
fn send_request(sent: usize, apart: bool) {
    let Exchange {
        mut pair,
        mut server,
        ..
    } = Exchange::begin();
    pair.client
        .stream_send(REQUEST, &FRAMES[..sent], !apart)
        .unwrap();
    pair.settle();
    let mut result = read(&mut server, &mut pair.server);
    if apart {
        assert_eq!(result, Ok(false));
        pair.client.stream_send(REQUEST, b"", true).unwrap();
        pair.settle();
        result = read(&mut server, &mut pair.server);
    }
    check(&pair.server, result, sent);
}

#[test]
fn a_request_ends_between_frames() {
    for sent in 0..FRAMES.len() {
        in_virtual_time(|| send_request(sent, false));
        in_virtual_time(|| send_request(sent, true));
    }
}

#[test]
fn a_response_ends_between_frames() {
    for sent in 0..FRAMES.len() {
        in_virtual_time(|| {
            let Exchange {
                mut pair,
                mut client,
                mut server,
            } = Exchange::begin();
            assert_eq!(read(&mut server, &mut pair.server), Ok(false));
            let fields = [Header::new(b":status", b"200")];
            server
                .send_response(&mut pair.server, REQUEST, &fields, false)
                .unwrap();
            pair.server
                .stream_send(REQUEST, &FRAMES[..sent], true)
                .unwrap();
            pair.settle();
            let result = read(&mut client, &mut pair.client);
            check(&pair.client, result, sent);
        });
    }
}

#[test]
fn a_stream_that_is_shut_down_ends_anywhere() {
    in_virtual_time(|| {
        let Exchange {
            mut pair,
            mut server,
            ..
        } = Exchange::begin();
        pair.client
            .stream_send(REQUEST, &FRAMES[..3], false)
            .unwrap();
        pair.settle();
        assert_eq!(read(&mut server, &mut pair.server), Ok(false));
        // What is sent after this is not read.
        pair.server
            .stream_shutdown(REQUEST, Shutdown::Read, 0)
            .unwrap();
        pair.client
            .stream_send(REQUEST, &FRAMES[3..5], true)
            .unwrap();
        pair.settle();
        assert!(read(&mut server, &mut pair.server).is_ok());
        assert_eq!(pair.server.local_error(), None);
    });
}

#[test]
fn a_stream_that_is_reset_ends_anywhere() {
    in_virtual_time(|| {
        let Exchange {
            mut pair,
            mut server,
            ..
        } = Exchange::begin();
        pair.client
            .stream_send(REQUEST, &FRAMES[..3], false)
            .unwrap();
        pair.settle();
        assert_eq!(read(&mut server, &mut pair.server), Ok(false));
        pair.client
            .stream_shutdown(REQUEST, Shutdown::Write, 7)
            .unwrap();
        pair.settle();
        let events: Vec<_> = std::iter::from_fn(|| server.poll(&mut pair.server).ok()).collect();
        assert!(events.contains(&(REQUEST, Event::Reset(7))), "{events:?}");
        assert!(!events.contains(&(REQUEST, Event::Finished)), "{events:?}");
        assert_eq!(pair.server.local_error(), None);
    });
}
