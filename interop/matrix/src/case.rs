//! The test cases and measurements of the QUIC interop runner, and two of our own.
//!
//! Sizes, paths and times are the runner's (quic-interop-runner, `testcases_quic.py` and
//! `testcase.py`), where not noted otherwise.

use std::time::Duration;

use gallop_path::Settings;
use gallop_path::settings::{Blackhole, Direction, Errors, Rebinding, Rebound};

use crate::endpoint::Role;

const KB: usize = 1 << 10;
const MB: usize = 1 << 20;

/// How the path differs from 15 ms, 10 Mbit/s, 25 packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Impairment {
    /// Not at all.
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

/// What a case looks at beside the files.
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
    /// What it shows.
    pub description: &'static str,
    /// TESTCASE of the server.
    pub server: &'static str,
    /// TESTCASE of the client.
    pub client: &'static str,
    /// The sizes of the files in bytes, with how many there are of each.
    pub files: &'static [(usize, usize)],
    /// The path.
    pub impairment: Impairment,
    /// How long it may take.
    pub timeout_s: u64,
    /// What is looked at beside the files.
    pub check: Check,
    /// How many times a measurement is made; none for a test.
    pub repetitions: Option<usize>,
    /// Whether a TCP flow (CUBIC) shares the path.
    pub has_cross_traffic: bool,
    /// Whether `--fast` runs it.
    pub is_fast: bool,
}

/// What most cases have in common.
const BASE: Case = Case {
    name: "",
    abbr: "",
    description: "",
    server: "transfer",
    client: "transfer",
    files: &[],
    impairment: Impairment::None,
    timeout_s: 60,
    check: Check::Handshakes(1),
    repetitions: None,
    has_cross_traffic: false,
    is_fast: false,
};

/// All cases, in the runner's order.
pub const CASES: &[Case] = &[
    Case {
        name: "handshake",
        abbr: "H",
        description: "A handshake completes, and a small file arrives.",
        server: "handshake",
        client: "handshake",
        files: &[(KB, 1)],
        is_fast: true,
        ..BASE
    },
    Case {
        name: "longrtt",
        abbr: "LR",
        description: "A handshake completes although the RTT is 1.5 s.",
        server: "handshake",
        client: "handshake",
        files: &[(KB, 1)],
        impairment: Impairment::Long,
        check: Check::Long,
        ..BASE
    },
    Case {
        name: "transfer",
        abbr: "DC",
        description: "Files of 2, 3 and 5 MB arrive on one connection.",
        files: &[(2 * MB, 1), (3 * MB, 1), (5 * MB, 1)],
        is_fast: true,
        ..BASE
    },
    Case {
        name: "chacha20",
        abbr: "C20",
        description: "A transfer with ChaCha20 as the only cipher that is offered.",
        server: "chacha20",
        client: "chacha20",
        files: &[(3 * MB, 1)],
        check: Check::ChaCha20,
        ..BASE
    },
    Case {
        name: "multiplexing",
        abbr: "M",
        description: "1999 small files arrive although at most 1000 streams are open.",
        files: &[(32, 1999)],
        check: Check::Multiplexing,
        ..BASE
    },
    Case {
        name: "retry",
        abbr: "S",
        description: "The server sends a Retry, and the client returns its token.",
        server: "retry",
        client: "retry",
        files: &[(10 * KB, 1)],
        check: Check::Retry,
        is_fast: true,
        ..BASE
    },
    Case {
        name: "resumption",
        abbr: "R",
        description: "A second connection resumes the session of the first.",
        server: "resumption",
        client: "resumption",
        files: &[(5 * KB, 1), (10 * KB, 1)],
        check: Check::Resumption,
        is_fast: true,
        ..BASE
    },
    Case {
        name: "zerortt",
        abbr: "Z",
        description: "Requests go out with the first packets of a second connection.",
        server: "zerortt",
        client: "zerortt",
        files: &[(32, 40)],
        check: Check::ZeroRtt,
        is_fast: true,
        ..BASE
    },
    Case {
        name: "http3",
        abbr: "3",
        description: "Files arrive over HTTP/3.",
        server: "http3",
        client: "http3",
        files: &[(5 * KB, 1), (10 * KB, 1), (500 * KB, 1)],
        is_fast: true,
        ..BASE
    },
    Case {
        name: "blackhole",
        abbr: "B",
        description: "A transfer goes on after 2 s in which nothing passes.",
        files: &[(10 * MB, 1)],
        impairment: Impairment::Blackhole,
        ..BASE
    },
    Case {
        name: "keyupdate",
        abbr: "U",
        description: "The client updates the keys soon after the handshake.",
        client: "keyupdate",
        files: &[(3 * MB, 1)],
        check: Check::KeyUpdate,
        ..BASE
    },
    Case {
        name: "ecn",
        abbr: "E",
        description: "Both ends send ECN marks and report them.",
        server: "handshake",
        client: "handshake",
        files: &[(100 * KB, 1)],
        check: Check::Ecn,
        ..BASE
    },
    Case {
        name: "amplificationlimit",
        abbr: "A",
        description: "The server, with a long chain of certificates, sends at most three times \
                      what it got before it knows the client's address, of whom six packets are lost.",
        files: &[(5 * KB, 1)],
        impairment: Impairment::Silence,
        check: Check::Amplification,
        ..BASE
    },
    Case {
        name: "handshakeloss",
        abbr: "L1",
        description: "50 connections in turn, 30 % of the packets lost.",
        server: "multiconnect",
        client: "multiconnect",
        files: &[(KB, 50)],
        impairment: Impairment::Loss(0.3),
        timeout_s: 300,
        check: Check::Handshakes(50),
        ..BASE
    },
    Case {
        name: "transferloss",
        abbr: "L2",
        description: "A transfer of 2 MB, 2 % of the packets lost.",
        files: &[(2 * MB, 1)],
        impairment: Impairment::Loss(0.02),
        ..BASE
    },
    Case {
        name: "handshakecorruption",
        abbr: "C1",
        description: "50 connections in turn, 30 % of the packets damaged.",
        server: "multiconnect",
        client: "multiconnect",
        files: &[(KB, 50)],
        impairment: Impairment::Corruption(0.3),
        timeout_s: 300,
        check: Check::Handshakes(50),
        ..BASE
    },
    Case {
        name: "transfercorruption",
        abbr: "C2",
        description: "A transfer of 2 MB, 2 % of the packets damaged.",
        files: &[(2 * MB, 1)],
        impairment: Impairment::Corruption(0.02),
        ..BASE
    },
    Case {
        name: "ipv6",
        abbr: "6",
        description: "A transfer over IPv6.",
        files: &[(5 * KB, 1), (10 * KB, 1)],
        ..BASE
    },
    Case {
        name: "v2",
        abbr: "V2",
        description: "The server moves a connection of version 1 to version 2.",
        server: "v2",
        client: "v2",
        files: &[(KB, 1)],
        check: Check::V2,
        ..BASE
    },
    Case {
        name: "rebind-port",
        abbr: "BP",
        description: "A transfer goes on after a NAT gave the client another port, again and again.",
        files: &[(10 * MB, 1)],
        impairment: Impairment::Rebind(Rebound::Port),
        check: Check::Rebinding,
        ..BASE
    },
    Case {
        name: "rebind-addr",
        abbr: "BA",
        description: "A transfer goes on after a NAT gave the client another address and port, \
                      again and again.",
        files: &[(10 * MB, 1)],
        impairment: Impairment::Rebind(Rebound::Address),
        check: Check::Rebinding,
        ..BASE
    },
    Case {
        name: "connectionmigration",
        abbr: "CM",
        description: "The client moves to the address that the server prefers.",
        server: "connectionmigration",
        files: &[(2 * MB, 1)],
        check: Check::Migration,
        ..BASE
    },
    // NOTE: Not one of the runner's, which has downloads alone: without it no client's controller
    // would ever be at work.
    Case {
        name: "upload",
        abbr: "UP",
        description: "The client sends a file of 5 MB over HTTP/3 (PUT). Not one of the runner's.",
        server: "upload",
        client: "upload",
        files: &[(5 * MB, 1)],
        check: Check::Upload,
        is_fast: true,
        ..BASE
    },
    // NOTE: Not one of the runner's either: browsers speak HTTP/3 alone, and its case of that is small.
    Case {
        name: "browse",
        abbr: "W",
        description: "A page and a file of 10 MB arrive over HTTP/3. Not one of the runner's.",
        server: "http3",
        client: "http3",
        files: &[(2 * KB, 1), (10 * MB, 1)],
        check: Check::Browse,
        ..BASE
    },
    Case {
        name: "goodput",
        abbr: "G",
        description: "The rate of a download of 10 MB.",
        files: &[(10 * MB, 1)],
        check: Check::Goodput,
        repetitions: Some(5),
        ..BASE
    },
    Case {
        name: "crosstraffic",
        abbr: "C",
        description: "The rate of a download of 25 MB beside a TCP flow (CUBIC).",
        files: &[(25 * MB, 1)],
        timeout_s: 180,
        check: Check::Goodput,
        repetitions: Some(5),
        has_cross_traffic: true,
        ..BASE
    },
];

impl Case {
    /// The case of this name.
    pub fn named(name: &str) -> Option<&'static Case> {
        CASES.iter().find(|case| case.name == name)
    }

    /// Whether something is measured, not only seen to work.
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

    /// How long it may take.
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
