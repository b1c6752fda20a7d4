//! The rules for header and trailer sections of HTTP/3 (RFC 9114 §4.2 and §4.3), for both ends.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use quiche::h3::NameValue;

/// A message that breaks the rules (RFC 9114 §4.1.2), with the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub(crate) &'static str);

/// Fields about a connection, which HTTP/3 has no use for (RFC 9114 §4.2, RFC 9110 §7.6.1).
const OF_CONNECTIONS: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

/// A header or trailer section that keeps the rules.
#[derive(Debug, Default)]
pub(crate) struct Section {
    pseudo: Vec<(&'static str, HeaderValue)>,
    pub(crate) fields: HeaderMap,
}

impl Section {
    /// A section that may have these pseudo-header fields, named without their colon.
    ///
    /// # Errors
    ///
    /// The rule that it breaks.
    pub(crate) fn parse(
        list: &[impl NameValue],
        pseudo: &[&'static str],
    ) -> Result<Self, Malformed> {
        let mut section = Section::default();
        for field in list {
            // White space around a value is no part of it (RFC 9110 §5.5).
            let value = HeaderValue::from_bytes(trim(field.value()))
                .map_err(|_| Malformed("a value has characters that no field may have"))?;
            match field.name().strip_prefix(b":") {
                Some(name) => section.add_pseudo(name, value, pseudo)?,
                None => section.add(field.name(), value)?,
            }
        }
        Ok(section)
    }

    fn add_pseudo(
        &mut self,
        name: &[u8],
        value: HeaderValue,
        allowed: &[&'static str],
    ) -> Result<(), Malformed> {
        let name = allowed
            .iter()
            .find(|allowed| allowed.as_bytes() == name)
            .ok_or(Malformed("a pseudo-header field that is not allowed here"))?;
        if !self.fields.is_empty() {
            return Err(Malformed("a pseudo-header field after another field"));
        }
        if self.pseudo(name).is_some() {
            return Err(Malformed("a pseudo-header field twice"));
        }
        self.pseudo.push((name, value));
        Ok(())
    }

    fn add(&mut self, name: &[u8], value: HeaderValue) -> Result<(), Malformed> {
        let name = HeaderName::from_lowercase(name)
            .map_err(|_| Malformed("a field's name is not a token in lower case"))?;
        let is_of_connection = OF_CONNECTIONS.contains(&name.as_str())
            || (name == header::TE && !value.as_bytes().eq_ignore_ascii_case(b"trailers"));
        if is_of_connection {
            return Err(Malformed("a field about the connection"));
        }
        self.fields
            .try_append(name, value)
            .map_err(|_| Malformed("too many fields"))?;
        Ok(())
    }

    /// The value of a pseudo-header field.
    pub(crate) fn pseudo(&self, name: &str) -> Option<&HeaderValue> {
        let found = self.pseudo.iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| value)
    }

    /// The length of the content that the section promises (RFC 9110 §8.6).
    ///
    /// # Errors
    ///
    /// The field is there more than once, or is no number of bytes.
    pub(crate) fn content_length(&self) -> Result<Option<u64>, Malformed> {
        let mut values = self.fields.get_all(header::CONTENT_LENGTH).iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        let digits = Some(value.as_bytes())
            .filter(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
            .filter(|_| values.next().is_none())
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| digits.parse().ok()) {
            Some(length) => Ok(Some(length)),
            None => Err(Malformed("content-length is not one number of bytes")),
        }
    }
}

/// Without the white space around it (RFC 9110 §5.6.3).
fn trim(value: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
    match (
        value.iter().position(is_text),
        value.iter().rposition(is_text),
    ) {
        (Some(first), Some(last)) => &value[first..=last],
        _ => &[],
    }
}

/// Checks a trailer section.
///
/// # Errors
///
/// The rule that it breaks.
pub(crate) fn check_trailers(list: &[impl NameValue]) -> Result<(), Malformed> {
    Section::parse(list, &[]).map(drop)
}
