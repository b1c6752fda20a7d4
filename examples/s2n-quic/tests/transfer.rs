//! A real s2n-quic client downloads from a real s2n-quic server with every controller.

use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const TRANSFER: &str = env!("CARGO_BIN_EXE_s2n-quic-transfer");

/// A hundred times as long as a transfer takes on a busy machine. With two packets for each
/// delayed acknowledgment it takes twice as long.
const PATIENCE: Duration = Duration::from_secs(100);

fn transfer(arguments: &[&str]) -> Child {
    Command::new(TRANSFER)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

#[test]
fn no_controller_stands_still() {
    let (done, outputs) = mpsc::channel();
    for entry in gallop::CATALOG {
        let process = transfer(&["--bytes", "100000000", "--cc", entry.name]);
        let done = done.clone();
        thread::spawn(move || done.send((entry.name, process.wait_with_output())));
        let finished = outputs.recv_timeout(PATIENCE);
        let (name, output) = finished.unwrap_or_else(|_| panic!("{} stands still", entry.name));
        let Output {
            status,
            stdout,
            stderr,
        } = output.unwrap();
        let said = text(&stdout);
        assert!(status.success(), "{name}: {}", text(&stderr));
        assert!(said.starts_with(name), "{said}");
        assert!(said.contains(": 100000000 bytes in "), "{said}");
        println!("{said}");
    }
}

#[test]
fn a_wrong_controller_is_refused_at_its_flag() {
    let wrong = transfer(&["--cc", "vegass"]).wait_with_output();
    let error = text(&wrong.unwrap().stderr);
    assert!(
        error.contains("--cc") && error.contains("did you mean `vegas`?"),
        "{error}"
    );
}
