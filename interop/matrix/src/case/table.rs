//! All cases.

use gallop_path::settings::Rebound;

use crate::case::{Case, Check, Impairment};

const KB: usize = 1 << 10;
const MB: usize = 1 << 20;

/// The values that most cases have in common.
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
    // NOTE: Not one of the runner's either: browsers speak HTTP/3 alone, and its case of that is
    // small.
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
