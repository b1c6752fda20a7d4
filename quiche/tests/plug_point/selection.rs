//! Selection of a controller.

use std::sync::{Arc, Mutex};

use boring::ssl::{SslContextBuilder, SslMethod, SslRef};
use quiche::{Config, Connection};

use crate::pair::{config, in_virtual_time, with_certificate, Pair};
use crate::recorder::Recorder;
use crate::support::WIDE;

/// Registers recording controllers whose window is their option, in packets; the option "" is
/// refused.
fn register(name: &str) -> Arc<Mutex<Vec<(String, Recorder)>>> {
    let selected = Arc::new(Mutex::new(Vec::new()));
    let made = Arc::clone(&selected);
    quiche::register_cc_algorithm(name, move |options| {
        let packets: usize = options
            .strip_prefix("packets=")
            .unwrap_or(options)
            .parse()?;
        let recorder = Recorder::new(packets * 1200);
        made.lock()
            .unwrap()
            .push((options.to_owned(), recorder.clone()));
        Ok(recorder.factory())
    })
    .unwrap();
    selected
}

#[test]
fn a_registered_algorithm_is_selected_by_name_with_options() {
    in_virtual_time(|| {
        let selected = register("by-name");
        let mut server = config();
        server.set_cc_algorithm_name("by-name:packets=17").unwrap();
        let pair = Pair::connected(&mut config(), &mut server);
        assert_eq!(pair.server.path_stats().next().unwrap().cwnd, 17 * 1200);
        assert_eq!(selected.lock().unwrap().len(), 1);
        assert_eq!(selected.lock().unwrap()[0].0, "packets=17");

        // Only the first colon ends the name.
        let error = server.set_cc_algorithm_name("by-name:packets=1:2");
        assert_eq!(error, Err(quiche::Error::CongestionControl));
    });
}

#[test]
fn unknown_names_and_refused_options_are_errors() {
    register("errors");
    let mut config = config();
    for name in [
        "errors",
        "errors:",
        "errors:many",
        "error",
        "",
        ":",
        "cubic:fast",
        "Reno",
    ] {
        let result = config.set_cc_algorithm_name(name);
        assert_eq!(result, Err(quiche::Error::CongestionControl), "{name:?}");
    }
    assert_eq!(config.set_cc_algorithm_name("errors:12"), Ok(()));
}

#[test]
fn names_that_could_not_be_selected_are_not_registered() {
    for name in [
        "reno",
        "cubic",
        "bbr",
        "bbr2",
        "bbr2_gcongestion",
        "",
        "a:b",
    ] {
        let result = quiche::register_cc_algorithm(name, |_| Err("never made".into()));
        assert_eq!(result, Err(quiche::Error::CongestionControl), "{name:?}");
    }
}

#[test]
fn the_last_registration_and_the_last_selection_count() {
    in_virtual_time(|| {
        let first = register("again");
        let second = register("again");
        let mut server = config();
        server.set_cc_algorithm_name("again:9").unwrap();
        assert_eq!(first.lock().unwrap().len(), 0);
        assert_eq!(second.lock().unwrap().len(), 1);

        server.set_cc_algorithm_name("reno").unwrap();
        let recorder = Recorder::new(WIDE);
        server.set_cc_controller_factory(recorder.factory());
        server.set_cc_algorithm(quiche::CongestionControlAlgorithm::Reno);
        let _pair = Pair::connected(&mut config(), &mut server);
        assert_eq!(
            recorder.log().paths.len(),
            0,
            "the built-in one was chosen last"
        );
        assert!(second.lock().unwrap()[0].1.log().paths.is_empty());
    });
}

/// A server that chooses its controller when it has seen the ClientHello.
fn choosing(choose: impl Fn(&mut SslRef) + Send + Sync + 'static) -> Config {
    let mut context = SslContextBuilder::new(SslMethod::tls()).unwrap();
    context.set_select_certificate_callback(move |mut hello| {
        choose(hello.ssl_mut());
        Ok(())
    });
    let version = quiche::PROTOCOL_VERSION;
    with_certificate(Config::with_boring_ssl_ctx_builder(version, context).unwrap())
}

#[test]
fn a_controller_can_be_chosen_in_the_handshake() {
    in_virtual_time(|| {
        let selected = register("in-handshake");
        let mut server = choosing(|ssl| {
            let choose = <Connection>::set_cc_algorithm_name_in_handshake;
            let unknown = choose(ssl, "no-such-algorithm");
            assert_eq!(unknown, Err(quiche::Error::CongestionControl));
            let refused = choose(ssl, "in-handshake:many");
            assert_eq!(refused, Err(quiche::Error::CongestionControl));
            assert_eq!(choose(ssl, "in-handshake:23"), Ok(()));
        });
        let pair = Pair::connected(&mut config(), &mut server);
        assert_eq!(pair.server.path_stats().next().unwrap().cwnd, 23 * 1200);
        let selected = selected.lock().unwrap();
        assert_eq!(selected.len(), 1);
        assert!(!selected[0].1.log().paths[0].acked.is_empty());
    });
}

#[test]
fn a_factory_can_be_chosen_in_the_handshake() {
    in_virtual_time(|| {
        let recorder = Recorder::new(19 * 1200);
        let chosen = recorder.clone();
        let mut server = choosing(move |ssl| {
            <Connection>::set_cc_controller_factory_in_handshake(ssl, chosen.factory()).unwrap();
        });
        let pair = Pair::connected(&mut config(), &mut server);
        assert_eq!(pair.server.path_stats().next().unwrap().cwnd, 19 * 1200);
        assert_eq!(recorder.log().paths.len(), 1);
    });
}

#[test]
fn a_built_in_algorithm_can_replace_a_factory_in_the_handshake() {
    in_virtual_time(|| {
        let recorder = Recorder::new(WIDE);
        let mut server = choosing(|ssl| {
            <Connection>::set_cc_algorithm_name_in_handshake(ssl, "reno").unwrap();
        });
        server.set_cc_controller_factory(recorder.factory());
        let pair = Pair::connected(&mut config(), &mut server);
        assert_eq!(pair.server.path_stats().next().unwrap().cwnd, 10 * 1200);
        assert!(recorder.log().paths[0].dropped);
        assert_eq!(recorder.log().paths.len(), 1);
    });
}
