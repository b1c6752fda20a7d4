//! Answers to requests of any version of HTTP (RFC 9110).

use std::time::{Duration, SystemTime};

use crate::body::Body;
use crate::server::files::{Files, Found, Resource};
use crate::server::request::Request;

/// A response.
#[derive(Debug)]
pub struct Response {
    /// The status code (RFC 9110 §15).
    pub status: u16,
    /// Names in lower case.
    pub fields: Vec<(&'static str, String)>,
    /// The body.
    pub body: Body,
}

impl Response {
    /// A response with a status and a line of text.
    pub fn text(status: u16, text: &str) -> Self {
        let body = Body::text(text);
        Response {
            status,
            fields: vec![
                ("date", httpdate::fmt_http_date(SystemTime::now())),
                ("content-type", "text/plain; charset=utf-8".to_owned()),
                ("content-length", body.left_bytes().to_string()),
            ],
            body,
        }
    }

    /// The same with one more header field.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// The same as an answer to HEAD.
    fn without_body(mut self) -> Self {
        self.body = Body::empty();
        self
    }
}

/// Answers GET and HEAD.
pub fn respond(files: &Files, request: &Request) -> Response {
    let response = match files.find(&request.path) {
        Found::File(resource) => file(resource, request),
        Found::Folder => {
            let path = request.path.split(['?', '#']).next().unwrap_or_default();
            Response::text(301, "a folder: its path ends in a slash\n")
                .with("location", format!("{path}/"))
        }
        Found::Nothing => Response::text(404, "not found\n"),
        Found::Unavailable => Response::text(503, "too many files are open\n"),
    };
    if request.method == "HEAD" {
        return response.without_body();
    }
    response
}

fn file(resource: Resource, request: &Request) -> Response {
    let tag = resource.entity_tag();
    let length = resource.length_bytes;
    let mut fields = vec![
        ("date", httpdate::fmt_http_date(SystemTime::now())),
        ("etag", tag.clone()),
        ("accept-ranges", "bytes".to_owned()),
    ];
    if let Some(modified) = resource.modified {
        fields.push(("last-modified", httpdate::fmt_http_date(modified)));
    }
    let empty = |status, fields| Response {
        status,
        fields,
        body: Body::empty(),
    };
    match precondition(request, &tag, resource.modified) {
        Precondition::Holds => {}
        Precondition::NotModified => return empty(304, fields),
        Precondition::Failed => return Response::text(412, "precondition failed\n"),
    }
    let (status, start, count) = match range(request, &tag, resource.modified, length) {
        Range::Whole => (200, 0, length),
        Range::Part { first, last } => {
            fields.push(("content-range", format!("bytes {first}-{last}/{length}")));
            (206, first, last - first + 1)
        }
        Range::Outside => {
            return Response::text(416, "the range is outside of the file\n")
                .with("content-range", format!("bytes */{length}"));
        }
    };
    fields.push(("content-type", resource.content_type.clone()));
    fields.push(("content-length", count.to_string()));
    match resource.into_reader(start, count) {
        Ok(reader) => Response {
            status,
            fields,
            body: Body::reader(Box::new(reader), count),
        },
        Err(error) => {
            tracing::warn!(path = request.path, %error, "cannot be read");
            Response::text(500, "the file cannot be read\n")
        }
    }
}

enum Precondition {
    Holds,
    NotModified,
    Failed,
}

/// Evaluates preconditions of GET and HEAD (RFC 9110 §13.2.2).
fn precondition(request: &Request, tag: &str, modified: Option<SystemTime>) -> Precondition {
    // HTTP dates are in seconds.
    let changed_after = |date: &str| {
        let date = httpdate::parse_http_date(date).ok()?;
        Some(modified? >= date + Duration::from_secs(1))
    };
    if let Some(tags) = request.field("if-match") {
        if !lists(tags, tag, false) {
            return Precondition::Failed;
        }
    } else if request.field("if-unmodified-since").and_then(changed_after) == Some(true) {
        return Precondition::Failed;
    }
    if let Some(tags) = request.field("if-none-match") {
        if lists(tags, tag, true) {
            return Precondition::NotModified;
        }
    } else if request.field("if-modified-since").and_then(changed_after) == Some(false) {
        return Precondition::NotModified;
    }
    Precondition::Holds
}

/// True if a list of entity tags has this one; a weak one counts if `weak`. Our tags have no comma.
fn lists(tags: &str, tag: &str, weak: bool) -> bool {
    tags.split(',').map(str::trim).any(|listed| {
        let listed = if weak {
            listed.trim_start_matches("W/")
        } else {
            listed
        };
        listed == "*" || listed == tag
    })
}

enum Range {
    Whole,
    Part { first: u64, last: u64 },
    Outside,
}

/// RFC 9110 §14.2. Of several ranges none is served, as a server may choose: the whole is.
fn range(request: &Request, tag: &str, modified: Option<SystemTime>, length: u64) -> Range {
    let Some(set) = request
        .field("range")
        .filter(|_| request.method == "GET")
        .and_then(|range| range.strip_prefix("bytes="))
    else {
        return Range::Whole;
    };
    if let Some(condition) = request.field("if-range") {
        let date = modified.map(httpdate::fmt_http_date);
        if condition != tag && date.as_deref() != Some(condition) {
            return Range::Whole;
        }
    }
    let Some((first, last)) = set.split_once('-') else {
        return Range::Whole;
    };
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (first, last) = match (number(first), last, number(last)) {
        (Some(first), "", _) => (first, u64::MAX),
        (Some(first), _, Some(last)) if first <= last => (first, last),
        (None, _, Some(count)) if first.is_empty() => {
            if count == 0 {
                return Range::Outside;
            }
            (length.saturating_sub(count), u64::MAX)
        }
        _ => return Range::Whole,
    };
    if first >= length {
        return Range::Outside;
    }
    Range::Part {
        first,
        last: last.min(length - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Site {
        _folder: tempfile::TempDir,
        files: Files,
    }

    fn site() -> Site {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ten.txt"), "0123456789").unwrap();
        std::fs::write(folder.path().join("empty"), "").unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        Site {
            files: Files::new(folder.path()).unwrap(),
            _folder: folder,
        }
    }

    fn ask(site: &Site, method: &str, path: &str, fields: &[(&str, &str)]) -> (Response, String) {
        let request = Request {
            method: method.to_owned(),
            path: path.to_owned(),
            fields: fields
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
            content_length: None,
        };
        let mut response = respond(&site.files, &request);
        let mut text = String::new();
        while response.body.left_bytes() > 0 {
            let (next, _) = response.body.peek().unwrap();
            let count = next.len().min(3);
            text.push_str(std::str::from_utf8(&next[..count]).unwrap());
            response.body.advance(count);
        }
        (response, text)
    }

    fn field<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
        let found = response.fields.iter().find(|(field, _)| *field == name);
        found.map(|(_, value)| value.as_str())
    }

    #[test]
    fn whole_files_and_their_heads() {
        let site = site();
        let (response, text) = ask(&site, "GET", "/ten.txt", &[]);
        assert_eq!((response.status, text.as_str()), (200, "0123456789"));
        assert_eq!(field(&response, "content-length"), Some("10"));
        assert_eq!(
            field(&response, "content-type"),
            Some("text/plain; charset=utf-8")
        );
        assert!(field(&response, "date").is_some());
        let (response, text) = ask(&site, "HEAD", "/ten.txt", &[]);
        assert_eq!((response.status, text.as_str()), (200, ""));
        assert_eq!(field(&response, "content-length"), Some("10"));
        let (response, text) = ask(&site, "GET", "/empty", &[]);
        assert_eq!((response.status, text.as_str()), (200, ""));
        assert_eq!(ask(&site, "GET", "/none", &[]).0.status, 404);
        assert_eq!(ask(&site, "HEAD", "/none", &[]).1, "");
        for path in ["/sub?x", "/sub#x\r\n"] {
            let (response, _) = ask(&site, "GET", path, &[]);
            assert_eq!(response.status, 301);
            assert_eq!(field(&response, "location"), Some("/sub/"));
        }
    }

    #[test]
    fn ranges() {
        let site = site();
        for (range, status, text) in [
            ("bytes=0-0", 206, "0"),
            ("bytes=2-4", 206, "234"),
            ("bytes=7-", 206, "789"),
            ("bytes=7-99", 206, "789"),
            ("bytes=-3", 206, "789"),
            ("bytes=-99", 206, "0123456789"),
            ("bytes=0-99999999999999999999999", 206, "0123456789"),
            ("bytes=4-2", 200, "0123456789"),
            ("bytes=0-1,3-4", 200, "0123456789"),
            ("bytes=a-b", 200, "0123456789"),
            ("bytes=+1-2", 200, "0123456789"),
            ("lines=0-1", 200, "0123456789"),
        ] {
            let (response, body) = ask(&site, "GET", "/ten.txt", &[("range", range)]);
            assert_eq!((response.status, body.as_str()), (status, text), "{range}");
        }
        for range in ["bytes=10-", "bytes=-0"] {
            let (response, _) = ask(&site, "GET", "/ten.txt", &[("range", range)]);
            assert_eq!(response.status, 416, "{range}");
            assert_eq!(field(&response, "content-range"), Some("bytes */10"));
        }
        let (response, _) = ask(&site, "GET", "/ten.txt", &[("range", "bytes=2-4")]);
        assert_eq!(field(&response, "content-range"), Some("bytes 2-4/10"));
        assert_eq!(field(&response, "content-length"), Some("3"));
    }

    #[test]
    fn conditions() {
        let site = site();
        let (response, _) = ask(&site, "GET", "/ten.txt", &[]);
        let tag = field(&response, "etag").unwrap().to_owned();
        let date = field(&response, "last-modified").unwrap().to_owned();
        let weak = format!("W/{tag}, \"other\"");
        let old = "Sun, 06 Nov 1994 08:49:37 GMT";
        let status = |fields: &[(&str, &str)]| ask(&site, "GET", "/ten.txt", fields).0.status;
        assert_eq!(status(&[("if-none-match", &tag)]), 304);
        assert_eq!(status(&[("if-none-match", &weak)]), 304);
        assert_eq!(status(&[("if-none-match", "\"other\"")]), 200);
        assert_eq!(status(&[("if-modified-since", &date)]), 304);
        assert_eq!(status(&[("if-modified-since", old)]), 200);
        assert_eq!(status(&[("if-modified-since", "yesterday")]), 200);
        assert_eq!(status(&[("if-match", "\"other\"")]), 412);
        assert_eq!(status(&[("if-match", &weak)]), 412);
        assert_eq!(status(&[("if-match", "*")]), 200);
        assert_eq!(status(&[("if-unmodified-since", old)]), 412);
        assert_eq!(status(&[("if-unmodified-since", &date)]), 200);
        let part = ("range", "bytes=0-0");
        assert_eq!(status(&[part, ("if-range", &tag)]), 206);
        assert_eq!(status(&[part, ("if-range", &date)]), 206);
        assert_eq!(status(&[part, ("if-range", "\"other\"")]), 200);
    }
}
