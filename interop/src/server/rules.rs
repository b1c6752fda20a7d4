//! The choice of a connection's congestion controller by rules.
//!
//! A connection keeps the controller that it begins with. Criteria are the facts that are known
//! then: the host that the client names (SNI), its address, the server's address, and chance. The
//! path of a URL is not: it comes later, and one connection may carry many.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use gallop::AlgorithmError;
use gallop::stack::quiche::Selection;
use ipnet::IpNet;
use serde::Deserialize;

/// The rules of an operator; the first that matches decides.
#[derive(Clone, Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    otherwise: Selection,
}

/// The facts about a connection that are known when it begins.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The client's address.
    pub client: SocketAddr,
    /// The server's address.
    pub local: SocketAddr,
    /// A number from 0 to 1 that is random per connection.
    pub chance: f64,
}

#[derive(Clone, Debug)]
struct Rule {
    controller: Selection,
    hosts: Option<Vec<Host>>,
    clients: Option<Vec<IpNet>>,
    locals: Option<Vec<Local>>,
    share: Option<f64>,
}

/// `example.org`, or `*.example.org` for every name below it.
#[derive(Clone, Debug, PartialEq)]
enum Host {
    Name(String),
    Below(String),
}

/// An address, or a port of any address.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Local {
    Address(IpAddr),
    Socket(SocketAddr),
    Port(u16),
}

/// A rules file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The file cannot be read.
    #[error("rules file {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// The file is not TOML of the right form.
    #[error("rules file {path}: {error}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The place, and what was expected there.
        error: Box<toml::de::Error>,
    },
    /// A rule has a value that cannot be used.
    #[error("rules file {path}, rule {number}: {what}")]
    Value {
        /// The file.
        path: PathBuf,
        /// The rule, counted from 1.
        number: usize,
        /// The mistake.
        what: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    cc: String,
    host: Option<OneOrMore>,
    client: Option<OneOrMore>,
    local: Option<OneOrMore>,
    share: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a text or a list of texts")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn parse<T>(self, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
        let texts = match self {
            OneOrMore::One(text) => vec![text],
            OneOrMore::More(texts) => texts,
        };
        texts.iter().map(|text| parse(text)).collect()
    }
}

fn client(text: &str) -> Result<IpNet, String> {
    text.parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map(|net| net.trunc())
        .map_err(|_| {
            format!("client {text:?} is neither an address nor a prefix such as 192.0.2.0/24")
        })
}

fn local(text: &str) -> Result<Local, String> {
    if let Some(port) = text.strip_prefix(':')
        && let Ok(port) = port.parse()
    {
        return Ok(Local::Port(port));
    }
    text.parse()
        .map(Local::Socket)
        .or_else(|_| text.parse().map(Local::Address))
        .map_err(|_| {
            format!("local {text:?} is none of 192.0.2.1, 192.0.2.1:443 and :443 (IPv6 likewise)")
        })
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let host = match text.strip_prefix("*.") {
            Some(below) => Host::Below(format!(".{}", below.to_ascii_lowercase())),
            None => Host::Name(text.to_ascii_lowercase()),
        };
        let (Host::Name(name) | Host::Below(name)) = &host;
        if name.trim_matches('.').is_empty() || name.contains('*') {
            return Err(format!(
                "host {text:?} is neither a name nor a name after \"*.\""
            ));
        }
        Ok(host)
    }
}

impl Host {
    fn fits(&self, name: &str) -> bool {
        match self {
            Host::Name(host) => host == name,
            Host::Below(domain) => name.ends_with(domain.as_str()),
        }
    }
}

impl Local {
    fn fits(self, address: SocketAddr) -> bool {
        match self {
            Local::Address(ip) => ip == address.ip(),
            Local::Socket(socket) => socket == address,
            Local::Port(port) => port == address.port(),
        }
    }
}

impl Rule {
    fn new(entry: Entry) -> Result<Self, String> {
        let controller = entry
            .cc
            .parse()
            .map_err(|error: AlgorithmError| error.to_string())?;
        if let Some(share) = entry.share
            && !(0.0..=1.0).contains(&share)
        {
            return Err(format!("share {share} is not between 0 and 1"));
        }
        Ok(Rule {
            controller,
            hosts: entry
                .host
                .map(|texts| texts.parse(str::parse))
                .transpose()?,
            clients: entry.client.map(|texts| texts.parse(client)).transpose()?,
            locals: entry.local.map(|texts| texts.parse(local)).transpose()?,
            share: entry.share,
        })
    }

    /// True if the rule matches, as far as that is known without the host.
    fn fits(&self, facts: &Facts) -> bool {
        self.clients
            .as_ref()
            .is_none_or(|nets| nets.iter().any(|net| net.contains(&facts.client.ip())))
            && self
                .locals
                .as_ref()
                .is_none_or(|locals| locals.iter().any(|local| local.fits(facts.local)))
            && self.share.is_none_or(|share| facts.chance < share)
    }

    fn fits_host(&self, name: Option<&str>) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| {
            name.is_some_and(|name| {
                let name = name.to_ascii_lowercase();
                hosts.iter().any(|host| host.fits(&name))
            })
        })
    }
}

impl Rules {
    /// One controller for all.
    pub fn all(controller: Selection) -> Self {
        Rules {
            rules: Vec::new(),
            otherwise: controller,
        }
    }

    /// The rules of a TOML file, and a controller for connections that match none.
    ///
    /// # Errors
    ///
    /// [`RulesError`] names the file, the place and the mistake.
    pub fn read(path: &Path, otherwise: Selection) -> Result<Self, RulesError> {
        let at = || path.to_owned();
        let text = std::fs::read_to_string(path)
            .map_err(|error| RulesError::Read { path: at(), error })?;
        let file: File = toml::from_str(&text).map_err(|error| RulesError::Syntax {
            path: at(),
            error: Box::new(error),
        })?;
        let rules = (1..).zip(file.rule).map(|(number, entry)| {
            Rule::new(entry).map_err(|what| RulesError::Value {
                path: at(),
                number,
                what,
            })
        });
        Ok(Rules {
            rules: rules.collect::<Result<_, _>>()?,
            otherwise,
        })
    }

    /// The controller of a connection whose host is not known yet; `None` if that decides.
    pub fn choose_before_handshake(&self, facts: &Facts) -> Option<&Selection> {
        match self.rules.iter().find(|rule| rule.fits(facts)) {
            Some(rule) => rule.hosts.is_none().then_some(&rule.controller),
            None => Some(&self.otherwise),
        }
    }

    /// The controller of a connection for `host`.
    pub fn choose(&self, facts: &Facts, host: Option<&str>) -> &Selection {
        self.rules
            .iter()
            .find(|rule| rule.fits(facts) && rule.fits_host(host))
            .map_or(&self.otherwise, |rule| &rule.controller)
    }

    /// The controller that new configurations begin with.
    pub fn otherwise(&self) -> &Selection {
        &self.otherwise
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Result<Rules, RulesError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Rules::read(file.path(), "cubic".parse().unwrap())
    }

    fn facts(client: &str, chance: f64) -> Facts {
        Facts {
            client: client.parse().unwrap(),
            local: "192.0.2.1:443".parse().unwrap(),
            chance,
        }
    }

    const EXAMPLE: &str = r#"
        [[rule]]
        cc = "reno"
        client = ["10.0.0.0/8", "2001:db8::/32"]

        [[rule]]
        cc = "gallop-vegas:alpha=1,beta=3"
        host = ["video.example.org", "*.cdn.example.org"]

        [[rule]]
        cc = "vegas"
        share = 0.25
        local = ":443"
    "#;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = rules(EXAMPLE).unwrap();
        let choose = |client, chance, host| rules.choose(&facts(client, chance), host).as_str();
        assert_eq!(choose("10.1.2.3:9", 0.0, Some("video.example.org")), "reno");
        assert_eq!(choose("[2001:db8::1]:9", 0.9, None), "reno");
        let gallop = "gallop-vegas:alpha=1,beta=3";
        assert_eq!(
            choose("192.0.2.9:9", 0.9, Some("Video.example.org")),
            gallop
        );
        assert_eq!(
            choose("192.0.2.9:9", 0.9, Some("a.b.cdn.example.org")),
            gallop
        );
        assert_eq!(choose("192.0.2.9:9", 0.9, Some("cdn.example.org")), "cubic");
        assert_eq!(choose("192.0.2.9:9", 0.2, Some("example.org")), "vegas");
        assert_eq!(choose("192.0.2.9:9", 0.3, None), "cubic");
    }

    #[test]
    fn a_choice_waits_for_the_host_only_if_it_matters() {
        let rules = rules(EXAMPLE).unwrap();
        let early = |client| {
            rules
                .choose_before_handshake(&facts(client, 0.0))
                .map(Selection::as_str)
        };
        assert_eq!(early("10.1.2.3:9"), Some("reno"));
        assert_eq!(early("192.0.2.9:9"), None);
        let all = Rules::all("vegas".parse().unwrap());
        let chosen = all.choose_before_handshake(&facts("192.0.2.9:9", 0.0));
        assert_eq!(chosen.map(Selection::as_str), Some("vegas"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("[[rule]]\ncc = \"bic\"", "`bic`"),
            ("[[rule]]\ncc = \"reno\"\n[[rule]]\ncc = \"bic\"", "rule 2"),
            ("[[rule]]\ncc = \"reno\"\nshare = 7", "share 7"),
            (
                "[[rule]]\ncc = \"reno\"\nclient = \"10.0.0.0/99\"",
                "10.0.0.0/99",
            ),
            ("[[rule]]\ncc = \"reno\"\nlocal = \"eth0\"", "eth0"),
            ("[[rule]]\ncc = \"reno\"\nhost = \"a*.org\"", "a*.org"),
            ("[[rule]]\ncc = \"reno\"\npath = \"/video\"", "path"),
            ("[[rule]]\nhost = \"a.org\"", "cc"),
        ] {
            let error = rules(text).unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
        let error = Rules::read(Path::new("/nowhere/rules.toml"), "reno".parse().unwrap());
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("/nowhere/rules.toml")
        );
    }
}
