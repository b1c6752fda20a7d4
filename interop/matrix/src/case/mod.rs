//! The test cases and measurements of the QUIC interop runner, and two of our own.
//!
//! Sizes, paths and times are the runner's (quic-interop-runner, `testcases_quic.py` and
//! `testcase.py`), where not noted otherwise.

mod table;

use std::time::Duration;

use gallop_path::Settings;
use gallop_path::settings::{Blackhole, Direction, Errors, Rebinding, Rebound};

use crate::endpoint::Role;
pub use table::CASES;

/// The difference of the path from 15 ms, 10 Mbit/s, 25 packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Impairment {
    /// None.
    None,
    /// 750 ms.
    Long,
    /// Packets are lost, this share of them, at most three in a row.
    Loss(f64),
    /// Packets are damaged, this share of them, at most three in a row.
    Corruption(f64),
    /// Nothing passes for 2 s, after 5 s.
    Blackhole,
    /// A NAT gives the client another port (or address) after 1 s and then every 5 s.
    Rebind(Rebound),
    /// The second to seventh packet of the client are lost.
    Silence,
}

/// The checks of a case beside its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// So many handshakes.
    Handshakes(usize),
    /// One handshake, of more than one ClientHello: the first timeout comes before an answer can.
    Long,
    /// A Retry, and a client that returned its token.
    Retry,
    /// Two handshakes, the second without a certificate.
    Resumption,
    /// Requests in 0-RTT packets, few after them.
    ZeroRtt,
    /// The cipher suite of all ServerHellos.
    ChaCha20,
    /// At most 1000 streams at once.
    Multiplexing,
    /// Both ends use a second generation of keys.
    KeyUpdate,
    /// Marks from both ends, and both report them.
    Ecn,
    /// QUIC version 2 after an attempt with version 1.
    V2,
    /// At most three times of what came before the address was validated.
    Amplification,
    /// The server sent to more than one port or address, and validated it.
    Rebinding,
    /// The client moved to the address that the server prefers.
    Migration,
    /// The bytes that arrived at the server.
    Upload,
    /// One handshake; the first file is a page.
    Browse,
    /// The rate of the download.
    Goodput,
}

/// A test case or a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// The runner's abbreviation.
    pub abbr: &'static str,
    /// The property that it shows.
    pub description: &'static str,
    /// TESTCASE of the server.
    pub server: &'static str,
    /// TESTCASE of the client.
    pub client: &'static str,
    /// The sizes of the files in bytes, with how many there are of each.
    pub files: &'static [(usize, usize)],
    /// The path.
    pub impairment: Impairment,
    /// The time that it may take.
    pub timeout_s: u64,
    /// The checks beside the files.
    pub check: Check,
    /// The number of times that a measurement is repeated; none for a test.
    pub repetitions: Option<usize>,
    /// True if a TCP flow (CUBIC) shares the path.
    pub has_cross_traffic: bool,
    /// True if `--fast` runs it.
    pub is_fast: bool,
}

impl Case {
    /// The case of this name.
    pub fn named(name: &str) -> Option<&'static Case> {
        CASES.iter().find(|case| case.name == name)
    }

    /// True for a measurement, false for a test.
    pub fn is_measurement(&self) -> bool {
        self.repetitions.is_some()
    }

    /// TESTCASE of this end.
    pub fn testcase(&self, role: Role) -> &'static str {
        match role {
            Role::Server => self.server,
            Role::Client => self.client,
        }
    }

    /// The time that it may take.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_s)
    }

    /// The name of the server in URLs.
    pub fn host(&self) -> &'static str {
        match self.name {
            "ipv6" => "server6",
            _ => "server4",
        }
    }

    /// All bytes of its files.
    pub fn total_bytes(&self) -> usize {
        self.files.iter().map(|(size, count)| size * count).sum()
    }

    /// The path.
    pub fn path(&self, seed: u64) -> Settings {
        let mut direction = Direction::default();
        let mut rebinding = None;
        match self.impairment {
            Impairment::None => {}
            Impairment::Long => direction.delay = Duration::from_millis(750),
            Impairment::Loss(probability) => direction.loss = Some(errors(probability)),
            Impairment::Corruption(probability) => direction.corruption = Some(errors(probability)),
            Impairment::Blackhole => {
                direction.blackhole = Some(Blackhole {
                    on: Duration::from_secs(5),
                    off: Duration::from_secs(2),
                    times: 1,
                });
            }
            Impairment::Rebind(what) => {
                rebinding = Some(Rebinding {
                    what,
                    first: Duration::from_secs(1),
                    every: Some(Duration::from_secs(5)),
                });
            }
            Impairment::Silence => {}
        }
        let mut settings = Settings::symmetric(direction);
        if self.impairment == Impairment::Silence {
            settings.to_server.lost = (2..=7).collect();
        }
        settings.rebinding = rebinding;
        settings.seed = seed;
        settings
    }
}

fn errors(probability: f64) -> Errors {
    Errors {
        probability,
        burst: Some(3),
    }
}
