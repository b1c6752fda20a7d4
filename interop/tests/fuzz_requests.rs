//! Hostile requests: each gets an answer that is true and well-formed, with nothing from outside
//! the folder that is served.

use std::path::Path;

use bolero::TypeGenerator;
use gallop_interop::server::files::Files;
use gallop_interop::server::request::Request;
use gallop_interop::server::respond::{Response, respond};
use quiche::h3::Header;

/// Content that may be read, and content that may not.
const INSIDE: &str = "0123456789";
const OUTSIDE: &str = "secret";

const METHODS: [&str; 4] = ["GET", "HEAD", "POST", ""];

const PATH_PIECES: [&str; 24] = [
    "/",
    "/",
    "/",
    "..",
    ".",
    "%2e",
    "%2f",
    "%5c",
    "\\",
    "%00",
    "%ff",
    "%",
    "?",
    "#",
    "sub",
    "ten.txt",
    "empty",
    "index.html",
    "out",
    "up",
    "secret",
    "\r\n",
    "\u{0}",
    "é",
];

const FIELDS: [&str; 16] = [
    "range",
    // Names that make a section malformed (RFC 9114 §4.2 and §4.3), some of them by their values.
    ":path",
    ":status",
    "Range",
    "",
    "a b",
    "connection",
    "transfer-encoding",
    "te",
    "host",
    "if-range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "content-length",
];

const VALUE_PIECES: [&str; 22] = [
    "bytes=",
    "-",
    "-",
    "0",
    "1",
    "9",
    "10",
    "18446744073709551615",
    "18446744073709551616",
    ",",
    "W/",
    "*",
    "\"",
    "TAG",
    "DATE",
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Thu, 01 Jan 1970 00:00:00 GMT",
    " ",
    "\n",
    "trailers",
    "localhost",
];

/// A client's message.
#[derive(Debug, TypeGenerator)]
enum Asked {
    /// A header section of HTTP/3.
    Section {
        #[generator(0..METHODS.len())]
        method: usize,
        path: Vec<Piece<24>>,
        fields: Vec<(Field, Vec<Piece<22>>)>,
    },
    /// The bytes of a stream of the interop runner's HTTP/0.9.
    Line {
        begins_well: bool,
        path: Vec<Piece<24>>,
        end: Vec<u8>,
    },
}

#[derive(Debug, TypeGenerator)]
struct Field(#[generator(0..FIELDS.len())] usize);

/// Something known, or any character.
#[derive(Debug, TypeGenerator)]
enum Piece<const COUNT: usize> {
    Known(#[generator(0..COUNT)] usize),
    Character(char),
}

fn join<const COUNT: usize>(pieces: &[Piece<COUNT>], known: &[&str; COUNT]) -> String {
    let text = |piece: &Piece<COUNT>| match piece {
        Piece::Known(index) => known[*index].to_owned(),
        Piece::Character(character) => character.to_string(),
    };
    pieces.iter().map(text).collect()
}

/// A folder with files and a way out, and a secret beside it.
fn site(parent: &Path) -> Files {
    let root = parent.join("root");
    std::fs::create_dir_all(root.join("sub")).expect("a new folder");
    std::fs::write(root.join("ten.txt"), INSIDE).expect("a new file");
    std::fs::write(root.join("sub/index.html"), INSIDE).expect("a new file");
    std::fs::write(root.join("empty"), "").expect("a new file");
    std::fs::write(parent.join("secret"), OUTSIDE).expect("a new file");
    std::os::unix::fs::symlink("../secret", root.join("out")).expect("a new link");
    std::os::unix::fs::symlink("../..", root.join("sub/up")).expect("a new link");
    Files::new(&root).expect("a folder")
}

fn field<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    let found = response.fields.iter().find(|(field, _)| *field == name);
    found.map(|(_, value)| value.as_str())
}

/// The request of a header section, which is one if it keeps the rules as they are stated here.
fn section(method: &str, path: &str, fields: &[(&str, String)]) -> Option<Request> {
    let path = format!("/{path}");
    let begin = [
        (":method", method),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path.as_str()),
    ];
    let rest = fields.iter().map(|(name, value)| (*name, value.as_str()));
    let list: Vec<_> = begin
        .into_iter()
        .chain(rest)
        .map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()))
        .collect();
    let request = Request::from_fields(&list);
    let is_sound = !method.is_empty() && is_path(&path) && are_fields(fields);
    assert_eq!(request.is_ok(), is_sound, "{list:?}: {request:?}");
    request.ok()
}

/// A path and a query as URIs have them (RFC 3986 §3.3 and §3.4), with characters beside that are
/// often sent as they are.
fn is_path(path: &str) -> bool {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let is_plain = |text: &str, but: &str| {
        text.chars()
            .all(|letter| !letter.is_ascii() || letter.is_ascii_graphic() && !but.contains(letter))
    };
    is_plain(path, "#<>`") && is_plain(query, "#<>\"")
}

/// RFC 9114 §4.2: names are tokens in lower case (RFC 9110 §5.6.2), none is about the connection, and
/// no value has a control character but the tab (RFC 9110 §5.5).
fn are_fields(fields: &[(&str, String)]) -> bool {
    let is_token = |letter: char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || "!#$%&'*+-.^_`|~".contains(letter)
    };
    let blank = [' ', '\t'];
    let is_field = |(name, value): &(&str, String)| {
        let is_named = !name.is_empty() && name.chars().all(is_token);
        let is_text = value
            .trim_matches(blank)
            .bytes()
            .all(|byte| byte == b'\t' || byte >= b' ' && byte != 0x7f);
        let value = value.trim_matches(blank);
        let is_allowed = match *name {
            "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => {
                false
            }
            "te" => value.eq_ignore_ascii_case("trailers"),
            "host" => value == "localhost",
            _ => true,
        };
        is_named && is_text && is_allowed
    };
    let count = |wanted: &str| fields.iter().filter(|(name, _)| *name == wanted).count();
    let length = fields.iter().find(|(name, _)| *name == "content-length");
    let is_length = |value: &str| {
        !value.is_empty()
            && value.bytes().all(|byte| byte.is_ascii_digit())
            && value.parse::<u64>().is_ok()
    };
    fields.iter().all(is_field)
        && count("host") <= 1
        && count("content-length") <= 1
        && length.is_none_or(|(_, value)| is_length(value.trim_matches(blank)))
}

fn check(files: &Files, request: &Request) {
    let mut response = respond(files, request);
    for (name, value) in &response.fields {
        let is_clean = value.chars().all(|character| !character.is_control());
        assert!(is_clean, "{name}: {value:?} in answer to {request:?}");
    }
    let promised = field(&response, "content-length").map(|length| length.parse::<u64>());
    let mut body = Vec::new();
    while response.body.left_bytes() > 0 {
        let (bytes, _) = response.body.peek().expect("the file is there");
        body.extend_from_slice(bytes);
        let read = bytes.len();
        response.body.advance(read);
    }
    let body = String::from_utf8(body).expect("all files are text");
    assert!(!body.contains(OUTSIDE), "{request:?}");
    if request.method == "HEAD" {
        assert_eq!(body, "");
    } else if let Some(promised) = promised {
        assert_eq!(promised, Ok(body.len() as u64));
    }
    match response.status {
        200 => {}
        206 => {
            let range = field(&response, "content-range").expect("says which part");
            let of = range
                .strip_prefix("bytes ")
                .and_then(|range| range.strip_suffix("/10"));
            let (first, last) = of.and_then(|of| of.split_once('-')).expect("first-last");
            let place = |text: &str| text.parse::<usize>().expect("a place in the file");
            assert_eq!(body, INSIDE[place(first)..=place(last)]);
        }
        301 => {
            let location = field(&response, "location").expect("says where to");
            assert!(
                location.starts_with('/') && location.ends_with('/'),
                "{location}"
            );
        }
        304 | 404 | 412 | 416 => {}
        status => panic!("{status} in answer to {request:?}"),
    }
}

#[test]
fn fuzz_requests() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = site(folder.path());
    let head = respond(
        &files,
        &Request {
            method: "HEAD".to_owned(),
            path: "/ten.txt".to_owned(),
            ..Request::default()
        },
    );
    let tag = field(&head, "etag").expect("a tag").to_owned();
    let date = field(&head, "last-modified").expect("a date").to_owned();
    let value = |pieces: &Vec<_>| {
        join(pieces, &VALUE_PIECES)
            .replace("TAG", &tag)
            .replace("DATE", &date)
    };
    gallop_fuzz::check("requests", 5000, |asked| {
        let request = match asked {
            Asked::Section {
                method,
                path,
                fields,
            } => {
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(name, pieces)| (FIELDS[name.0], value(pieces)))
                    .collect();
                section(METHODS[*method], &join(path, &PATH_PIECES), &fields)
            }
            Asked::Line {
                begins_well,
                path,
                end,
            } => {
                let begin = if *begins_well { "GET /" } else { "" };
                let path = join(path, &PATH_PIECES);
                Request::from_line(&[begin.as_bytes(), path.as_bytes(), end].concat())
            }
        };
        if let Some(request) = request {
            check(&files, &request);
        }
    });
}
