//! Failures are named and leave nothing behind.

use std::fs;
use std::net::{TcpListener, UdpSocket};

use crate::setup::{Server, client_command, names, server_command, text};

/// A server that cannot start: its exit status and what it says.
fn refused(arguments: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    fs::write(folder.path().join("file"), "no certificate").unwrap();
    let output = server_command(&[])
        .args(["--listen", "127.0.0.1:0"])
        .args(arguments.iter().map(|text| text.replace("{}", place)))
        .env("XDG_DATA_HOME", folder.path())
        .output()
        .unwrap();
    (output.status.code().unwrap(), text(&output.stderr))
}

#[test]
fn a_server_that_cannot_start_says_why() {
    for (arguments, status, named) in [
        (&["--cc", "bic"][..], 2, "`bic`"),
        (&["--cc", "vegas:alpha=-1"], 2, "alpha"),
        (&["--cc", "reno:x=1"], 2, "no options"),
        (&["--listen", "localhost"], 2, "localhost"),
        (&["--nonsense"], 2, "--nonsense"),
        (&["--cert", "a.pem"], 2, "--key"),
        (&["--qlog", "full"], 2, "--qlog-dir"),
        (&["--idle-timeout", "soon"], 2, "such as 100ms"),
        (
            &["--idle-timeout", "30"],
            2,
            "it has no unit; use ns, us, ms, s, min, h",
        ),
        (&["--initial-rtt", "0s"], 2, "1ms to 10s"),
        (&["--initial-rtt", "10.1s"], 2, "1ms to 10s"),
        (&["--pacing", "often"], 2, "often"),
        (&["--root", "{}/none"], 1, "--root"),
        (&["--root", "{}/file"], 1, "--root"),
        (&["--cert", "{}/none", "--key", "{}/file"], 1, "certificate"),
        (&["--cert", "{}/file", "--key", "{}/file"], 1, "PEM"),
        (&["--cert-dir", "{}/file/below"], 1, "certificate"),
        (&["--upload-dir", "{}/none"], 1, "--upload-dir"),
        (&["--qlog-dir", "{}/file"], 1, "--qlog-dir"),
        (&["--keylog", "{}/none/keys"], 1, "--keylog"),
        (&["--cc-rules", "{}/none.toml"], 1, "none.toml"),
        (&["--cc-rules", "{}/file"], 1, "line 1"),
        (&["--listen", "192.0.2.1:4433"], 1, "192.0.2.1:4433"),
    ] {
        let (code, said) = refused(arguments);
        assert_eq!(code, status, "{arguments:?}: {said}");
        assert!(said.contains(named), "{arguments:?}: {said}");
    }
}

#[test]
fn a_port_in_use_is_named() {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = udp.local_addr().unwrap().to_string();
    let (code, said) = refused(&["--listen", &address]);
    assert_eq!(code, 1);
    assert!(said.contains(&address) && said.contains("in use"), "{said}");
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap().to_string();
    let (code, said) = refused(&["--metrics", &address]);
    assert_eq!(code, 1);
    assert!(said.contains(&address) && said.contains("in use"), "{said}");
}

#[test]
fn exit_statuses_of_the_client() {
    let server = Server::start(&[]);
    server.write("file", &[1; 1_000]);
    let url = server.url("/file");
    let none = server.url("/none");
    for (arguments, status, named) in [
        (&[url.as_str()][..], 0, ""),
        (&[&none], 1, "404"),
        (&["--hq", &none], 1, "reset"),
        (&["http://localhost/"], 2, "https"),
        (&["--cc", "bic", &url], 2, "bic"),
        (&["--parallel", "0", &url], 2, "0"),
        (&["--hq", "--upload", "x", &url], 2, "--upload"),
        (
            &["--connect-timeout", "200ms", "https://localhost:1/"],
            3,
            "no connection",
        ),
        (
            &["https://no-such-name.invalid/"],
            3,
            "no-such-name.invalid",
        ),
        (&["--timeout", "2", &url], 2, "it has no unit"),
        (&["--timeout", "0s", &url], 4, "not done after 0"),
        (&["--timeout", "0s", "--timeout", "60s", &url], 0, ""),
        (&["--output", "{}/none/x", &url], 6, "none"),
        (&["--upload", "{}/none", &url], 6, "none"),
        (&["--output", "{}/x", &url, &url], 6, "--dir"),
        (&["--dir", "{}/root/file/below", &url], 6, "below"),
    ] {
        let output = server.client(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(named), "{arguments:?}: {said}");
    }
    for (arguments, named) in [
        (&[url.as_str()][..], "not trusted"),
        (&["--insecure", &url], ""),
    ] {
        let output = client_command(arguments).output().unwrap();
        let expected = if named.is_empty() { 0 } else { 5 };
        assert_eq!(output.status.code(), Some(expected));
        assert!(text(&output.stderr).contains(named));
    }
    let broken = client_command(&["--ca", "/dev/null", &url])
        .output()
        .unwrap();
    assert_eq!(broken.status.code(), Some(6));
}

#[test]
fn a_failed_transfer_leaves_no_file() {
    let server = Server::start(&[]);
    let (_, status) = server.report(&["--dir", "{}/got", &server.url("/none")]);
    assert_eq!(status, 1);
    let output = server.client(&["--hq", "--dir", "{}/got", &server.url("/none")]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(names(&server.path("got")), [""; 0]);
}

#[test]
fn a_certificate_is_for_its_addresses() {
    let mut server = Server::start(&["--listen", "127.0.0.2:0"]);
    let second = server.log("listening")["address"]
        .as_str()
        .unwrap()
        .to_owned();
    server.write("file", b"x");
    for (address, status) in [(server.address.to_string(), 0), (second, 5)] {
        let output = server.client(&[&format!("https://{address}/file")]);
        assert_eq!(output.status.code(), Some(status), "{address}");
    }
}
