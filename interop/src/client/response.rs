//! Header sections of responses.

use http::HeaderValue;
use quiche::h3::NameValue;

use crate::fields::{Malformed, Section};

/// The part of a response's header section that the client needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// The length of the content, if the section says so.
    pub(super) content_length: Option<u64>,
}

impl Head {
    /// The section of a response to a request with this method.
    ///
    /// # Errors
    ///
    /// It is malformed (RFC 9114 §4.1.2 and §4.3.2).
    pub(super) fn from_fields(list: &[impl NameValue], method: &str) -> Result<Head, Malformed> {
        let section = Section::parse(list, &["status"])?;
        let status = section.pseudo("status").map(HeaderValue::as_bytes);
        let status = status
            .and_then(|status| http::StatusCode::from_bytes(status).ok())
            // HTTP/3 has no change of protocols (RFC 9114 §4.5).
            .filter(|status| *status != http::StatusCode::SWITCHING_PROTOCOLS)
            .ok_or(Malformed("no sound :status"))?
            .as_u16();
        let content_length = section.content_length()?;
        // These have no content, whatever their fields say (RFC 9110 §6.4.1).
        let is_empty = method == "HEAD" || matches!(status, 204 | 304);
        Ok(Head {
            status,
            content_length: if is_empty { Some(0) } else { content_length },
        })
    }
}

#[cfg(test)]
mod tests {
    use quiche::h3::Header;

    use super::*;

    fn head(fields: &[(&str, &str)], method: &str) -> Option<(u16, Option<u64>)> {
        let list: Vec<_> = fields
            .iter()
            .map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()))
            .collect();
        let head = Head::from_fields(&list, method).ok()?;
        Some((head.status, head.content_length))
    }

    #[test]
    fn a_status_and_a_length() {
        let ok = (":status", "200");
        assert_eq!(head(&[ok], "GET"), Some((200, None)));
        let length = ("content-length", "5");
        assert_eq!(head(&[ok, length], "GET"), Some((200, Some(5))));
        assert_eq!(head(&[ok, length], "HEAD"), Some((200, Some(0))));
        assert_eq!(
            head(&[(":status", "304"), length], "GET"),
            Some((304, Some(0)))
        );
    }

    #[test]
    fn malformed_sections() {
        let ok = (":status", "200");
        for wrong in [
            &[][..],
            &[("x", "y")],
            &[(":status", "20")],
            &[(":status", "101")],
            &[(":status", "+20")],
            &[(":status", "2\x1b[31m00")],
            &[ok, ok],
            &[("x", "y"), ok],
            &[ok, (":path", "/")],
            &[ok, ("content-length", "abc")],
            &[ok, ("content-length", "99999999999999999999999999")],
            &[ok, ("content-length", "1"), ("content-length", "1")],
            &[ok, ("connection", "close")],
            &[ok, ("x", "a\nb")],
        ] {
            assert_eq!(head(wrong, "GET"), None, "{wrong:?}");
        }
    }
}
