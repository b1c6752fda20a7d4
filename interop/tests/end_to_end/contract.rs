//! `run_endpoint.sh` as the QUIC interop runner calls it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::relay::{Fate, From, Relay};
use crate::setup::{Server, first_answer, names};

fn script(role: &str, case: &str, folder: &Path) -> Command {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("run_endpoint.sh");
    let bin = Path::new(env!("CARGO_BIN_EXE_gallop-server")).parent();
    let mut command = Command::new(path);
    command
        .env("ROLE", role)
        .env("TESTCASE", case)
        .env("BIN", bin.unwrap())
        .env("WWW", folder.join("root"))
        .env("DOWNLOADS", folder.join("downloads"))
        .env("CERTS", folder.join("certs"))
        .env("PORT", "0")
        .env("QLOGDIR", folder.join(format!("qlog-{role}")))
        .env("SSLKEYLOGFILE", folder.join("keys.log"))
        // CLIENT_PARAMS overrides CC, as SERVER_PARAMS does in `serve`.
        .env("CC", "reno")
        .env("CLIENT_PARAMS", "--cc vegas")
        .env_remove("RUST_LOG");
    command
}

/// A server by the script, with the runner's folders.
fn serve(case: &str) -> Server {
    let folder = tempfile::tempdir().unwrap();
    for name in ["root", "downloads"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let certs = folder.path().join("certs");
    let made = gallop_interop::server::certificate::Certificate::self_signed(&certs).unwrap();
    fs::rename(made.key, certs.join("priv.key")).unwrap();
    let mut command = script("server", case, folder.path());
    command
        .env("SERVER_PARAMS", "--log json --cc vegas --threads 2")
        .stderr(Stdio::piped());
    let mut server = Server::spawn(command, folder);
    let port = server.address.port();
    server.address = SocketAddr::from(([127, 0, 0, 1], port));
    server
}

/// Runs a case over a path; returns how many connections the client made.
fn run(
    case: &str,
    sizes: &[usize],
    path: impl Fn(From, usize) -> Fate + Send + Sync + 'static,
) -> usize {
    let mut server = serve(case);
    let relay = Relay::start(server.address, path);
    let mut requests = Vec::new();
    for (number, size) in sizes.iter().enumerate() {
        let bytes: Vec<u8> = (0..*size).map(|byte| (byte % 251) as u8).collect();
        server.write(&format!("file{number}"), &bytes);
        requests.push(format!("https://{}/file{number}", relay.address));
    }
    let output = script("client", case, server.folder.path())
        .env("REQUESTS", requests.join(" "))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{case}: {said}");
    for number in 0..sizes.len() {
        let name = format!("file{number}");
        let got = fs::read(server.path("downloads").join(&name)).unwrap();
        assert!(got == fs::read(server.path("root").join(&name)).unwrap());
    }
    if case.starts_with("rebind") {
        assert!(relay.moves() > 1);
    }
    assert_eq!(server.end(), 0);
    let keys = fs::read_to_string(server.path("keys.log")).unwrap();
    assert!(keys.contains("SERVER_TRAFFIC_SECRET_0 "));
    for folder in ["qlog-server", "qlog-client"] {
        for trace in names(&server.path(folder)) {
            let trace = fs::read_to_string(server.path(folder).join(trace)).unwrap();
            assert!(trace.contains("\"title\":\"vegas\""));
        }
    }
    names(&server.path("qlog-client")).len()
}

fn clean(_: From, _: usize) -> Fate {
    Fate::Pass
}

#[test]
fn cases_of_a_clean_path() {
    for case in [
        "handshake",
        "longrtt",
        "ipv6",
        "amplificationlimit",
        "retry",
    ] {
        assert_eq!(run(case, &[1_000], clean), 1, "{case}");
    }
    for case in ["transfer", "http3"] {
        assert_eq!(run(case, &[200_000, 300_000, 500_000], clean), 1, "{case}");
    }
    assert_eq!(run("multiplexing", &[32; 1_999], clean), 1);
    assert_eq!(run("multiconnect", &[1_000; 5], clean), 5);
}

#[test]
fn a_second_connection_resumes_the_first() {
    assert_eq!(run("resumption", &[5_000, 10_000], clean), 2);
    assert_eq!(run("zerortt", &[32; 40], clean), 2);
}

#[test]
fn retry_is_the_servers_first_answer() {
    assert_eq!(first_answer(serve("retry").address), quiche::Type::Retry);
    assert_eq!(
        first_answer(serve("handshake").address),
        quiche::Type::Initial
    );
}

#[test]
fn what_is_not_supported_is_127() {
    let folder = tempfile::tempdir().unwrap();
    for (role, case) in [
        ("server", "iJ0qqqq"),
        ("client", "iJ0qqqq"),
        ("server", "v2"),
        ("client", "v2"),
        ("server", "ecn"),
        ("client", "ecn"),
        ("server", "connectionmigration"),
        ("client", "keyupdate"),
        ("client", "chacha20"),
    ] {
        let status = script(role, case, folder.path())
            .env("REQUESTS", "https://localhost:1/x")
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(127), "{role} {case}");
    }
    for case in ["chacha20", "keyupdate"] {
        assert_eq!(serve(case).end(), 0);
    }
}

#[test]
fn a_failed_transfer_is_1() {
    let server = serve("transfer");
    let output = script("client", "transfer", server.folder.path())
        .env("REQUESTS", format!("https://{}/none", server.address))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
}

/// Three of ten packets, in a pattern that no retransmission stays in step with.
fn three_of_ten(number: usize) -> bool {
    number.wrapping_mul(2_654_435_761) >> 8 & 0x3ff < 307
}

#[test]
fn losses_and_damage() {
    for fate in [Fate::Lose, Fate::Damage] {
        let path = move |_, number| {
            if three_of_ten(number) {
                fate
            } else {
                Fate::Pass
            }
        };
        run("multiconnect", &[1_000], path);
        let path = move |_, number: usize| if number % 50 == 17 { fate } else { Fate::Pass };
        run("transfer", &[1_000_000], path);
    }
    // Nothing comes through for a while: all that is under way, and some probes. Of those there are
    // one or two per timeout, which doubles each time.
    let path = |from, number| match (from, number) {
        (From::Server, 100..110) => Fate::Lose,
        _ => Fate::Pass,
    };
    run("blackhole", &[1_000_000], path);
}

#[test]
fn a_client_whose_address_changes() {
    for (case, fate) in [("rebind-port", Fate::Rebind), ("rebind-addr", Fate::Move)] {
        let path = move |from, number: usize| match from {
            From::Client if number % 25 == 24 && number < 125 => fate,
            _ => Fate::Pass,
        };
        run(case, &[3_000_000], path);
    }
}
