//! The examples do what their README says.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const SERVER: &str = env!("CARGO_BIN_EXE_tokio-quiche-server");
const CLIENT: &str = env!("CARGO_BIN_EXE_quiche-client");
const TRANSFERS: [&str; 2] = [
    env!("CARGO_BIN_EXE_noq-transfer"),
    env!("CARGO_BIN_EXE_quinn-transfer"),
];
const OWN_CONTROLLER: &str = env!("CARGO_BIN_EXE_own-controller");
const EVALUATE_OWN: &str = env!("CARGO_BIN_EXE_evaluate-own");

/// A running server, which ends with the test.
struct Server {
    process: Child,
    /// The line that it writes when it is ready.
    greeting: String,
}

impl Server {
    fn start(root: &Path, flags: &[&str]) -> Server {
        let mut process = Command::new(SERVER)
            .args(["--address", "127.0.0.1:0", "--root"])
            .arg(root)
            .args(["--cert", "tls/cert.pem", "--key", "tls/key.pem"])
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut greeting = String::new();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        lines.read_line(&mut greeting).unwrap();
        Server { process, greeting }
    }

    fn port(&self) -> &str {
        let address = self.greeting.split(' ').nth(2).unwrap();
        address.rsplit(':').next().unwrap()
    }

    /// Runs the client with the URL of `path`.
    fn fetch(&self, path: &str, flags: &[&str]) -> Output {
        Command::new(CLIENT)
            .args(["--ca", "tls/cert.pem"])
            .args(flags)
            .arg(format!("https://localhost:{}/{path}", self.port()))
            .output()
            .unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Bytes without a pattern that would hide a piece in the wrong place.
fn content() -> Vec<u8> {
    let mut state: u32 = 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..2_000_000).map(|_| next()).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_client_fetches_from_the_server_and_uploads_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    let file = root.join("a file");
    fs::write(&file, content()).unwrap();
    fs::write(folder.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();

    // The last of two flags holds.
    let server = Server::start(&root, &["--cc", "vegas", "--cc", "gallop-vegas"]);
    assert!(
        server.greeting.contains("gallop-vegas"),
        "{}",
        server.greeting
    );

    let fetched = server.fetch("a%20file?query", &[]);
    assert!(fetched.status.success(), "{}", text(&fetched.stderr));
    assert!(fetched.stdout == content());

    let file = file.to_str().unwrap();
    let uploaded = server.fetch("", &["--cc", "vegas:alpha=2,beta=4", "--upload", file]);
    assert!(uploaded.status.success(), "{}", text(&uploaded.stderr));
    assert_eq!(text(&uploaded.stdout), "2000000\n");

    for outside in ["..%2fsecret", "%2fetc%2fpasswd", "link", "nothing", ""] {
        let refused = server.fetch(outside, &[]);
        assert_eq!(refused.status.code(), Some(1), "{outside}");
        assert!(text(&refused.stderr).contains("status 404"), "{outside}");
        assert_eq!(text(&refused.stdout), "not found\n", "{outside}");
    }
}

#[test]
fn the_client_trusts_only_certificates_that_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let url = format!("https://localhost:{}/", server.port());
    let output = Command::new(CLIENT).arg(url).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    // The alert unknown_ca.
    assert!(
        text(&output.stderr).contains("0x130"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_own_controller_runs_beside_another_and_is_plotted() {
    let folder = tempfile::tempdir().unwrap();
    let plot = |file: &Path| {
        let mut command = Command::new(OWN_CONTROLLER);
        command
            .args(["--cc", "copa", "--out"])
            .arg(file)
            .output()
            .unwrap()
    };
    let file = folder.path().join("plot.svg");
    let output = plot(&file);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let svg = fs::read_to_string(&file).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("Eighth") && svg.contains("copa"));
    // Both windows, with a point for most intervals of 20 ms in 30 s and in 20 s.
    let points = |line: &str| line.split("points=").nth(1).map(|it| it.split(' ').count());
    let points: Vec<usize> = svg
        .lines()
        .filter_map(points)
        .filter(|&it| it > 100)
        .collect();
    assert_eq!(points.len(), 2, "{points:?}");
    assert!(points[0] > 1000 && points[1] > 700, "{points:?}");

    let nowhere = plot(&folder.path().join("none").join("plot.svg"));
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(
        text(&nowhere.stderr).contains("--out"),
        "{}",
        text(&nowhere.stderr)
    );
}

#[test]
fn a_wrong_controller_is_refused_at_its_flag() {
    for program in [SERVER, CLIENT, OWN_CONTROLLER] {
        for (controller, named) in [("vega", "`vega`"), ("vegas:alpha=x", "`alpha`")] {
            let output = Command::new(program)
                .args(["--cc", controller])
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(2), "{program} {controller}");
            let error = text(&output.stderr);
            assert!(error.contains("--cc") && error.contains(named), "{error}");
        }
    }
}

#[test]
fn a_controller_of_ones_own_is_evaluated() {
    let folder = tempfile::tempdir().unwrap();
    let library = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments");
    let evaluated = Command::new(EVALUATE_OWN)
        .args([
            "--fast",
            "--cc",
            "eighth",
            "--cc",
            "vegas",
            "--library",
            library,
        ])
        .args(["--family", "loss", "--family", "extremes", "--out"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(evaluated.status.success(), "{}", text(&evaluated.stderr));
    let table = text(&evaluated.stdout);
    assert!(table.contains("\neighth "), "{table}");
    assert!(folder.path().join("evaluation.json").is_file());
}

#[test]
fn bytes_go_over_quinn_and_noq_with_every_controller() {
    for program in TRANSFERS {
        for entry in gallop::CATALOG {
            let transfer = Command::new(program)
                .args(["--bytes", "2000000", "--cc", entry.name])
                .output()
                .unwrap();
            let (said, error) = (text(&transfer.stdout), text(&transfer.stderr));
            assert!(
                transfer.status.success(),
                "{program} {}: {error}",
                entry.name
            );
            assert!(said.starts_with(entry.name), "{said}");
            assert!(said.contains(": 2000000 bytes in "), "{said}");
        }
        let wrong = Command::new(program)
            .args(["--cc", "vegass"])
            .output()
            .unwrap();
        assert!(text(&wrong.stderr).contains("did you mean `vegas`?"));
    }
}
