//! Paths as they are used. Where network namespaces are not permitted, these tests say so and check
//! nothing.

#![cfg(target_os = "linux")]

use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use gallop_path::settings::Direction;
use gallop_path::{Path, PathError, SERVER_IPV4, SERVER_IPV6, Settings, check};

/// The tests take turns: what they measure suffers when they run side by side.
static TURN: Mutex<()> = Mutex::new(());

/// A path, unless this place does not permit any.
fn path(settings: &Settings) -> Option<Path> {
    match Path::start(settings) {
        Ok(path) => Some(path),
        Err(
            error @ (PathError::Namespace { .. }
            | PathError::Device { .. }
            | PathError::IpMissing { .. }),
        ) => {
            eprintln!("SKIPPED, NOTHING IS CHECKED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_path_is_what_was_asked_for() {
    let _turn = TURN.lock();
    if path(&Settings::default()).is_none() {
        return;
    }
    // A machine that stands still for a while spoils a measurement; a path that is wrong is wrong
    // every time.
    let mut wrong = Vec::new();
    for _ in 0..3 {
        let measurements = check::run(|measurement| eprintln!("{measurement}"));
        wrong = measurements.expect("a path");
        assert!(wrong.len() > 10);
        wrong.retain(|measurement| !measurement.good);
        if wrong.is_empty() {
            return;
        }
    }
    panic!("{wrong:#?}");
}

#[test]
fn paths_side_by_side_do_not_mix() {
    let _turn = TURN.lock();
    let paths: Option<Vec<_>> = (0..4).map(|_| path(&Settings::default())).collect();
    let Some(paths) = paths else {
        return;
    };
    for (number, path) in paths.iter().enumerate() {
        for address in [IpAddr::from(SERVER_IPV4), IpAddr::from(SERVER_IPV6)] {
            let listener = path.server().run(|| TcpListener::bind((address, 80)));
            let listener = listener.expect("a namespace").expect("a listener");
            let place = listener.local_addr().expect("an address");
            let connected = path.client().run(|| TcpStream::connect(place));
            connected.expect("a namespace").expect("a connection");
        }
        let mut command = Command::new("ip");
        let command = command.args(["-oneline", "link"]).stdout(Stdio::piped());
        let child = path.client().spawn(command).expect("a process");
        let output = child.wait_with_output().expect("its output");
        let links = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(links.lines().count(), 2, "{number}: {links}");
        assert!(links.contains("client"), "{number}: {links}");
    }
    for path in paths {
        let report = path.stop().expect("a report");
        assert_eq!(report.to_server.dropped_packets, 0);
        // Two handshakes, and what ends the connections.
        assert!(report.to_server.delivered_packets >= 4, "{report}");
        assert!(report.to_client.delivered_packets >= 2, "{report}");
    }
}

#[test]
fn contradictions_and_missing_commands_are_named() {
    let _turn = TURN.lock();
    let Some(path) = path(&Settings::default()) else {
        return;
    };
    let error = path.client().spawn(&mut Command::new("no-such-command"));
    let error = error.expect_err("no such command").to_string();
    assert!(
        error.starts_with("cannot start no-such-command: "),
        "{error}"
    );

    let queue = gallop_path::settings::queue(
        "{ kind = \"red\", limit = \"50p\", min = \"20p\", max = \"10p\" }",
    );
    let direction = Direction {
        queue: queue.expect("a queue"),
        ..Direction::default()
    };
    let error = Path::start(&Settings::symmetric(direction)).expect_err("a contradiction");
    assert_eq!(error.to_string(), "queue.max: 10p is not above min, 20p");
}
