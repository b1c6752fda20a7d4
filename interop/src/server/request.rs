//! Requests of clients over any version of HTTP.

use http::header;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method};
use quiche::h3::NameValue;

pub use crate::fields::Malformed;
use crate::fields::Section;

/// The pseudo-header fields of requests (RFC 9114 §4.3.1), without their colons.
const PSEUDO: [&str; 4] = ["method", "scheme", "authority", "path"];

/// The fields that answers depend on; others are not kept.
const KEPT: [HeaderName; 6] = [
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
];

/// A request without its body.
#[derive(Debug, Default)]
pub struct Request {
    /// The method, such as `GET`.
    pub method: String,
    /// The path with its query, percent-encoded as it came.
    pub path: String,
    /// The fields that the answer may depend on, with names in lower case.
    pub fields: Vec<(String, String)>,
    /// The length that its content is said to have, in bytes.
    pub content_length: Option<u64>,
}

impl Request {
    /// The request of an HTTP/3 header section.
    ///
    /// # Errors
    ///
    /// It is malformed (RFC 9114 §4.1.2).
    pub fn from_fields(list: &[impl NameValue]) -> Result<Request, Malformed> {
        let section = Section::parse(list, &PSEUDO)?;
        let method = section.pseudo("method").map(HeaderValue::as_bytes);
        let method = method
            .and_then(|method| Method::from_bytes(method).ok())
            .ok_or(Malformed("no :method"))?;
        check_authority(&section, &method)?;
        let path = match method {
            Method::CONNECT => String::new(),
            _ => path(&section, &method)?,
        };
        let kept = |name: &HeaderName| {
            let values = section.fields.get_all(name).iter();
            let values: Vec<_> = values
                .map(|value| String::from_utf8_lossy(value.as_bytes()))
                .collect();
            // Values of one name are a list (RFC 9110 §5.3).
            (!values.is_empty()).then(|| (name.as_str().to_owned(), values.join(", ")))
        };
        Ok(Request {
            method: method.as_str().to_owned(),
            path,
            fields: KEPT.iter().filter_map(kept).collect(),
            content_length: section.content_length()?,
        })
    }

    /// The request of a line of the interop runner's HTTP/0.9, `GET /path`; `None` if it is none.
    pub fn from_line(bytes: &[u8]) -> Option<Request> {
        let line = bytes.split(|byte| *byte == b'\n').next()?;
        let line = std::str::from_utf8(line).ok()?.trim_end();
        let path = line.strip_prefix("GET ")?;
        Some(Request {
            method: "GET".to_owned(),
            path: path.to_owned(),
            ..Request::default()
        })
    }

    /// The value of a field, by its name in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(field, _)| field == name)
            .map(|(_, value)| value.trim())
    }
}

/// Checks `:scheme`, `:authority` and `host` (RFC 9114 §4.3.1 and §4.4).
fn check_authority(section: &Section, method: &Method) -> Result<(), Malformed> {
    let mut hosts = section.fields.get_all(header::HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Malformed("host twice"));
    }
    let authority = section.pseudo("authority");
    if let (Some(authority), Some(host)) = (authority, host)
        && authority != host
    {
        return Err(Malformed(":authority and host differ"));
    }
    let is_sound = |value: &HeaderValue| {
        let parsed = Authority::try_from(value.as_bytes());
        // Without user information.
        parsed.is_ok() && !value.as_bytes().contains(&b'@')
    };
    let named = authority.or(host);
    if *method == Method::CONNECT {
        let is_whole = section.pseudo("scheme").is_none()
            && section.pseudo("path").is_none()
            && authority.is_some_and(is_sound);
        return match is_whole {
            true => Ok(()),
            false => Err(Malformed("CONNECT names an authority, and nothing else")),
        };
    }
    let scheme = section.pseudo("scheme").map(HeaderValue::as_bytes);
    let scheme = scheme
        .and_then(|scheme| Scheme::try_from(scheme).ok())
        .ok_or(Malformed("no :scheme"))?;
    let needs_authority = scheme == Scheme::HTTP || scheme == Scheme::HTTPS;
    match named {
        None if needs_authority => Err(Malformed("neither :authority nor host")),
        Some(named) if !is_sound(named) => Err(Malformed("no sound :authority or host")),
        _ => Ok(()),
    }
}

/// The path of a request that is not CONNECT.
fn path(section: &Section, method: &Method) -> Result<String, Malformed> {
    let wrong = Malformed("no sound :path");
    let path = section.pseudo("path").ok_or(wrong)?.as_bytes();
    let is_sound = match path.first() {
        Some(b'/') => PathAndQuery::try_from(path).is_ok() && !path.contains(&b'#'),
        Some(b'*') => path.len() == 1 && *method == Method::OPTIONS,
        _ => false,
    };
    match std::str::from_utf8(path) {
        Ok(path) if is_sound => Ok(path.to_owned()),
        _ => Err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let path = |text: &str| Request::from_line(text.as_bytes()).map(|request| request.path);
        assert_eq!(path("GET /a\r\n"), Some("/a".to_owned()));
        assert_eq!(path("GET /a"), Some("/a".to_owned()));
        assert_eq!(path("POST /a\r\n"), None);
        assert_eq!(path(""), None);
        assert!(Request::from_line(b"GET /\xff").is_none());
    }
}
