//! The TLS session that a run of the client keeps for the next one.
//!
//! A resumed session checks no certificate: the server proves only that it has the keys of the
//! session. So a session is bound to the host and the port that it was made with, and to the
//! certificates by which the server was trusted then. Under other conditions a session starts anew.

use std::path::Path;
use std::{fmt, fs, io};

use boring::sha;
use serde::{Deserialize, Serialize};
use url::Host;

/// The certificates by which a server is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Trust {
    /// Any: `--insecure`.
    Any,
    /// Those of the system.
    System,
    /// Those of a file, by its SHA-256.
    File([u8; 32]),
}

impl Trust {
    /// Trust in the certificates of a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(super) fn file(path: &Path) -> io::Result<Trust> {
        Ok(Trust::File(sha::sha256(&fs::read(path)?)))
    }
}

/// The conditions that a session was made under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Conditions {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) trust: Trust,
}

impl Conditions {
    pub(super) fn new(host: &Host<String>, port: u16, trust: &Trust) -> Conditions {
        Conditions {
            host: host.to_string(),
            port,
            trust: trust.clone(),
        }
    }
}

/// A session and its conditions, as they stand in a file.
#[derive(Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    conditions: Conditions,
    session: Vec<u8>,
}

/// The reason for which a kept session is not used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// There is no such file.
    Absent,
    /// The file cannot be read, or is none of the client's.
    Unreadable(String),
    /// It was made for another host or port, or by other trust.
    OtherConditions,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Absent => f.write_str("there is none yet"),
            Unusable::Unreadable(reason) => write!(f, "it cannot be read: {reason}"),
            Unusable::OtherConditions => {
                f.write_str("it was made for another host or port, or with other certificates")
            }
        }
    }
}

/// The session in a file, if it was made under these conditions.
///
/// # Errors
///
/// It cannot be used; a session then starts anew.
pub(super) fn read(path: &Path, conditions: &Conditions) -> Result<Vec<u8>, Unusable> {
    let text = fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Unusable::Absent,
        _ => Unusable::Unreadable(error.to_string()),
    })?;
    let kept: Kept =
        serde_json::from_slice(&text).map_err(|error| Unusable::Unreadable(error.to_string()))?;
    match kept.conditions == *conditions {
        true => Ok(kept.session),
        false => Err(Unusable::OtherConditions),
    }
}

/// Keeps a session, readable by its owner only.
///
/// # Errors
///
/// The file cannot be written.
pub(super) fn write(path: &Path, conditions: Conditions, session: &[u8]) -> io::Result<()> {
    let kept = Kept {
        conditions,
        session: session.to_vec(),
    };
    gallop_files::write_private(path, &serde_json::to_vec(&kept)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(host: &str, port: u16, trust: Trust) -> Conditions {
        Conditions::new(&Host::parse(host).unwrap(), port, &trust)
    }

    #[test]
    fn a_session_is_used_under_its_own_conditions_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session");
        let own = || conditions("a.org", 443, Trust::System);
        assert_eq!(read(&path, &own()), Err(Unusable::Absent));
        write(&path, own(), b"keys").unwrap();
        assert_eq!(read(&path, &own()), Ok(b"keys".to_vec()));
        for other in [
            conditions("b.org", 443, Trust::System),
            conditions("a.org", 444, Trust::System),
            conditions("a.org", 443, Trust::Any),
            conditions("a.org", 443, Trust::File([1; 32])),
        ] {
            assert_eq!(read(&path, &other), Err(Unusable::OtherConditions));
        }
    }

    #[test]
    fn other_files_are_not_taken_for_sessions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session");
        let own = conditions("a.org", 443, Trust::System);
        for text in [&b""[..], b"\x30\x82", b"{}", b"{\"host\":\"a.org\"}"] {
            fs::write(&path, text).unwrap();
            assert!(matches!(read(&path, &own), Err(Unusable::Unreadable(_))));
        }
        assert!(matches!(
            read(folder.path(), &own),
            Err(Unusable::Unreadable(_))
        ));
    }

    #[test]
    fn trust_is_in_the_contents_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        fs::write(&path, "one").unwrap();
        let one = Trust::file(&path).unwrap();
        assert_eq!(Trust::file(&path).unwrap(), one);
        fs::write(&path, "two").unwrap();
        assert_ne!(Trust::file(&path).unwrap(), one);
        Trust::file(&folder.path().join("none")).unwrap_err();
    }
}
