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

const FIELDS: [&str; 11] = [
    "range",
    // Names that make a section malformed (RFC 9114 §4.1.2 and §4.3).
    ":path",
    ":status",
    "Range",
    "",
    "if-range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "content-length",
];

const VALUE_PIECES: [&str; 20] = [
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
];

/// A client's message.
#[derive(Debug, TypeGenerator)]
enum Asked {
    /// A header section of HTTP/3.
    Section {
        #[generator(0..METHODS.len())]
        method: usize,
        path: Vec<Piece<24>>,
        fields: Vec<(Field, Vec<Piece<20>>)>,
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

/// The request of a header section, which is one if every name is that of a field.
fn section(method: &str, path: &str, fields: &[(&str, String)]) -> Option<Request> {
    let path = format!("/{path}");
    let begin = [(":method", method), (":path", path.as_str())];
    let rest = fields.iter().map(|(name, value)| (*name, value.as_str()));
    let list: Vec<_> = begin
        .into_iter()
        .chain(rest)
        .map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()))
        .collect();
    let request = Request::from_fields(&list);
    let is_field = |name: &str| !name.is_empty() && !name.contains(':') && name != "Range";
    let is_sound = !method.is_empty() && fields.iter().all(|(name, _)| is_field(name));
    assert_eq!(request.is_some(), is_sound, "{list:?}");
    request
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
            fields: Vec::new(),
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
