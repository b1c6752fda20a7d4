//! Files that come and go, under every controller.

use std::fs;
use std::path::Path;

use gallop::stack::quiche::Selection;
use gallop_interop::server::certificate::Certificate;
use serde_json::Value;

use crate::setup::{Server, client_command, first_answer, names, text};

/// Some windows' worth.
const BYTES: usize = 500_000;

fn bytes(length: usize) -> Vec<u8> {
    (0..length as u32)
        .flat_map(u32::to_le_bytes)
        .take(length)
        .collect()
}

#[test]
fn every_controller_serves_and_uploads() {
    let controllers = Selection::names().into_iter();
    for controller in controllers.chain(["gallop-vegas:alpha=1,beta=3"]) {
        let mut server = Server::start(&[
            "--cc",
            controller,
            "--qlog-dir",
            "{}/qlog",
            "--metrics",
            "127.0.0.1:0",
            "--upload-dir",
            "{}",
        ]);
        server.write("file", &bytes(BYTES));
        let (report, status) =
            server.report(&["--dir", "{}/got", "--cc", controller, &server.url("/file")]);
        assert_eq!(status, 0, "{controller}: {report:#}");
        assert_eq!(report["transfers"][0]["received_bytes"], BYTES);
        assert_eq!(fs::read(server.path("got/file")).unwrap(), bytes(BYTES));
        let (report, status) = server.report(&[
            "--upload",
            "{}/got/file",
            "--cc",
            controller,
            &server.url("/sent"),
        ]);
        assert_eq!(status, 0, "{controller}: {report:#}");
        assert_eq!(report["transfers"][0]["status"], 201);
        assert_eq!(fs::read(server.path("sent")).unwrap(), bytes(BYTES));

        let scraped = server.scrape();
        let counted = format!("gallop_connections_total{{controller=\"{controller}\"}} 2\n");
        assert!(scraped.contains(&counted), "{scraped}");
        assert_eq!(server.end(), 0);
        let traces = names(&server.path("qlog"));
        assert_eq!(traces.len(), 2);
        for trace in traces {
            let trace = fs::read_to_string(server.path("qlog").join(trace)).unwrap();
            assert!(trace.contains(&format!("\"title\":\"{controller}\"")));
            assert!(trace.contains("recovery_metrics_updated"));
            assert!(
                !trace.contains("packet_sent"),
                "sparse traces have no packets"
            );
            // There is one for every piece of data: a quarter of the CPU time of a transfer.
            assert!(!trace.contains("http3:frame_"), "and no frames of HTTP/3");
        }
    }
}

#[test]
fn raw_requests_many_at_once() {
    let server = Server::start(&[]);
    let urls: Vec<String> = (0..300)
        .map(|number| {
            server.write(&format!("f{number}"), &bytes(32 + number));
            server.url(&format!("/f{number}"))
        })
        .collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    for protocol in [&["--hq"][..], &[]] {
        let flags = ["--dir", "{}/got", "--parallel", "100", "--connections", "3"];
        let (report, status) = server.report(&[&flags, protocol, &urls].concat());
        assert_eq!(status, 0);
        assert_eq!(report["connections"].as_array().unwrap().len(), 3);
        assert_eq!(report["transfers"].as_array().unwrap().len(), 300);
        for number in 0..300 {
            let file = server.path("got").join(format!("f{number}"));
            assert_eq!(fs::read(file).unwrap(), bytes(32 + number));
        }
        fs::remove_dir_all(server.path("got")).unwrap();
    }
}

#[test]
fn standard_output_repetition_and_addresses() {
    let server = Server::start(&[]);
    server.write("file", b"hello");
    let output = server.client(&["--output", "-", "--repeat", "3", &server.url("/file")]);
    assert_eq!(output.stdout, b"hellohellohello");
    let address = format!("https://{}/file", server.address);
    assert_eq!(server.client(&["-o", "-", &address]).stdout, b"hello");
}

#[test]
fn sessions_are_resumed_with_early_data() {
    let server = Server::start(&["--qlog-dir", "{}/qlog", "--qlog", "full"]);
    server.write("file", b"hello");
    let fetch = |flags: &[&str]| {
        let url = server.url("/file");
        server.report(&[&["--session", "{}/session"], flags, &[&url]].concat())
    };
    let (report, status) = fetch(&[]);
    assert_eq!(
        (status, &report["connections"][0]["resumed"]),
        (0, &false.into())
    );
    for flags in [&[][..], &["--early-data"]] {
        let (report, status) = fetch(flags);
        assert_eq!(
            (status, &report["connections"][0]["resumed"]),
            (0, &true.into())
        );
        assert_eq!(report["transfers"][0]["received_bytes"], 5);
    }
    let early = names(&server.path("qlog")).into_iter().filter(|name| {
        let trace = fs::read_to_string(server.path("qlog").join(name)).unwrap();
        trace.contains("\"packet_type\":\"0RTT\"")
    });
    assert_eq!(early.count(), 1);
}

#[test]
fn a_session_is_not_resumed_for_another_host_or_by_other_trust() {
    let server = Server::start(&[]);
    server.write("file", b"hello");
    let session = server.path("session");
    let session = ["--session", session.to_str().unwrap()];
    let resumed = |flags: &[&str], url: &str| {
        let output = client_command(&[&session, flags, &["--json", url]].concat())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["connections"][0]["resumed"].clone()
    };
    let certificate = server.path("certificates/cert.pem");
    let trusted = ["--ca", certificate.to_str().unwrap()];
    let localhost = server.url("/file");
    let address = format!("https://{}/file", server.address);
    assert_eq!(resumed(&trusted, &localhost), false);
    assert_eq!(resumed(&trusted, &localhost), true);
    assert_eq!(resumed(&trusted, &address), false, "another host");
    assert_eq!(resumed(&trusted, &address), true);
    assert_eq!(resumed(&["--insecure"], &address), false, "by no trust");
    assert_eq!(resumed(&["--insecure"], &address), true);

    // The session that was made without trust does not stand in for a certificate.
    Certificate::self_signed(&server.path("other")).unwrap();
    let output = server.client(&[&session[..], &["--ca", "{}/other/cert.pem", &address]].concat());
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
}

#[test]
fn clients_prove_their_address_when_asked() {
    for (flags, kind) in [
        (&["--retry"][..], quiche::Type::Retry),
        (&[], quiche::Type::Initial),
    ] {
        let server = Server::start(flags);
        server.write("file", &bytes(BYTES));
        assert_eq!(first_answer(server.address), kind);
        let (report, status) = server.report(&[&server.url("/file")]);
        assert_eq!(status, 0, "{report:#}");
        assert_eq!(report["transfers"][0]["received_bytes"], BYTES);
    }
}

#[test]
fn rules_choose_by_host_address_and_share() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("rules.toml"),
        "[[rule]]\ncc = \"vegas:alpha=1\"\nhost = \"localhost\"\n\
         [[rule]]\ncc = \"cubic\"\nclient = \"10.0.0.0/8\"\n\
         [[rule]]\ncc = \"bbr2\"\nclient = \"127.0.0.0/8\"\nshare = 1\n",
    )
    .unwrap();
    let mut server = Server::start_in(
        folder,
        &[
            "--cc",
            "reno",
            "--cc-rules",
            "{}/rules.toml",
            "--qlog-dir",
            "{}/qlog",
            "--qlog",
            "full",
        ],
    );
    server.write("file", &bytes(BYTES));
    let address = format!("https://{}/file", server.address);
    for (url, controller) in [
        (server.url("/file").as_str(), "vegas:alpha=1"),
        (&address, "bbr2"),
    ] {
        assert_eq!(server.report(&[url]).1, 0);
        assert_eq!(server.log("connection")["controller"], controller);
    }
    server.end();
    let vegas = names(&server.path("qlog")).into_iter().filter(|name| {
        let trace = fs::read_to_string(server.path("qlog").join(name)).unwrap();
        trace.contains("vegas:alpha=1") && trace.contains("vegas_base_rtt_ms")
    });
    assert_eq!(vegas.count(), 1);
}

#[test]
fn an_initial_rtt_can_be_given() {
    let traces = ["--qlog-dir", "{}/qlog"];
    for (flags, milliseconds) in [(&[][..], 333.0), (&["--initial-rtt", "50ms"], 50.0)] {
        let mut server = Server::start(&[&traces, flags].concat());
        server.write("file", &bytes(1_000));
        let url = server.url("/file");
        let (report, status) = server.report(&[&traces, flags, &[&url]].concat());
        assert_eq!(status, 0, "{report:#}");
        assert_eq!(server.end(), 0);
        let traces = names(&server.path("qlog"));
        assert_eq!(traces.len(), 2, "one of each end");
        for trace in traces {
            assert_eq!(
                initial_rtt_ms(&server.path("qlog").join(trace)),
                milliseconds
            );
        }
    }
}

/// Its value in a trace.
fn initial_rtt_ms(trace: &Path) -> f64 {
    let trace = fs::read_to_string(trace).unwrap();
    let (_, value) = trace.split_once("\"initial_rtt\":").unwrap();
    let end = value.find([',', '}']).unwrap();
    value[..end].parse().unwrap()
}

#[test]
fn traces_for_qvis_are_written_on_demand() {
    let mut server = Server::start(&["--qlog-dir", "{}/qlog", "--qvis"]);
    server.write("file", &bytes(BYTES));
    let traces = ["--qlog-dir", "{}/qlog", "--qvis"];
    let url = server.url("/file");
    let (report, status) = server.report(&[&traces[..], &["--dir", "{}/got", &url]].concat());
    assert_eq!(status, 0, "{report:#}");
    assert_eq!(server.end(), 0);
    let traces = names(&server.path("qlog"));
    assert_eq!(traces.len(), 2);
    for trace in traces {
        let text = fs::read_to_string(server.path("qlog").join(trace)).unwrap();
        assert!(text[..1024].contains(r#""qlog_version":"0.3""#), "{text}");
        assert!(text.contains(r#""name":"recovery:metrics_updated""#));
        assert!(text.ends_with("}\n"));
    }
}
