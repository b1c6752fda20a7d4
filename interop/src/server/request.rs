//! Requests of clients over any version of HTTP.

use quiche::h3::NameValue;

/// A request without its body.
#[derive(Debug, Default)]
pub struct Request {
    /// The method, such as `GET`.
    pub method: String,
    /// The path with its query, percent-encoded as it came.
    pub path: String,
    /// Names in lower case.
    pub fields: Vec<(String, String)>,
}

impl Request {
    /// The request of an HTTP/3 header section; `None` if it is malformed (RFC 9114 §4.1.2).
    pub fn from_fields(list: &[impl NameValue]) -> Option<Request> {
        let mut request = Request::default();
        let mut is_begun = false;
        for header in list {
            let name = std::str::from_utf8(header.name()).ok()?;
            let value = String::from_utf8_lossy(header.value()).into_owned();
            if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
                return None;
            }
            match name {
                ":method" if request.method.is_empty() && !is_begun => request.method = value,
                ":path" if request.path.is_empty() && !is_begun => request.path = value,
                ":scheme" | ":authority" if !is_begun => {}
                name if name.starts_with(':') || name.is_empty() => return None,
                name => {
                    is_begun = true;
                    request.fields.push((name.to_owned(), value));
                }
            }
        }
        let is_complete = !request.method.is_empty() && !request.path.is_empty();
        is_complete.then_some(request)
    }

    /// The request of a line of the interop runner's HTTP/0.9, `GET /path`; `None` if it is none.
    pub fn from_line(bytes: &[u8]) -> Option<Request> {
        let line = bytes.split(|byte| *byte == b'\n').next()?;
        let line = std::str::from_utf8(line).ok()?.trim_end();
        let path = line.strip_prefix("GET ")?;
        Some(Request {
            method: "GET".to_owned(),
            path: path.to_owned(),
            fields: Vec::new(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::h3::Header;

    fn request(fields: &[(&str, &str)]) -> Option<Request> {
        let list: Vec<_> = fields
            .iter()
            .map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()))
            .collect();
        Request::from_fields(&list)
    }

    #[test]
    fn malformed_requests_are_refused() {
        let good = [(":method", "GET"), (":path", "/"), ("range", "bytes=0-1")];
        assert_eq!(request(&good).unwrap().fields.len(), 1);
        for bad in [
            &[][..],
            &[(":method", "GET")],
            &[(":path", "/")],
            &[(":method", "GET"), (":path", "")],
            &[(":method", "GET"), (":method", "GET"), (":path", "/")],
            &[(":method", "GET"), ("a", "b"), (":path", "/")],
            &[(":method", "GET"), (":path", "/"), ("Range", "bytes=0-1")],
            &[(":method", "GET"), (":path", "/"), (":other", "x")],
        ] {
            assert!(request(bad).is_none(), "{bad:?}");
        }
    }

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
