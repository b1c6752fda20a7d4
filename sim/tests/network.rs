//! Networks as experiments' files describe them: the places of mistakes, and the flows over
//! networks that have none.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use gallop_sim::experiment::network::{
    Built, Circumstances, DumbbellSpec, FlowDirection, FlowPlace, LinkSpec, LossSpec, Network,
    PathFacts, StallsSpec,
};
use gallop_sim::queue::QueueSpec;
use gallop_sim::random::{STALL_PARTS, stream};
use gallop_sim::stalls::Stalls;
use gallop_sim::time::Time;
use gallop_sim::units::LinkRate;
use gallop_sim::{Controller, Flow, Observer, Side, Simulation, isolated};
use serde::Deserialize;

const SEED: u64 = 3;

/// UDP payload of a full datagram, in bytes.
const DATAGRAM: usize = 1350;

/// The part of a file that describes a network.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    dumbbell: Option<Box<DumbbellSpec>>,
    link: Option<Vec<LinkSpec>>,
}

fn parse(text: &str) -> Result<Network, String> {
    let file: File = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    match (file.dumbbell, file.link) {
        (Some(dumbbell), None) => Ok(Network::Dumbbell(dumbbell)),
        (None, Some(links)) => Ok(Network::Links(links)),
        _ => Err("neither a dumbbell nor links".to_owned()),
    }
}

fn network(text: &str) -> Network {
    parse(text).expect("a network")
}

fn place(name: &str, from: &str, to: &str) -> FlowPlace {
    FlowPlace {
        name: name.to_owned(),
        from: Some(from.to_owned()),
        to: Some(to.to_owned()),
        count: 1,
        ..FlowPlace::default()
    }
}

fn in_dumbbell(count: usize) -> FlowPlace {
    FlowPlace {
        name: "flow".to_owned(),
        count,
        ..FlowPlace::default()
    }
}

const DUMBBELL: &str = r#"
[dumbbell]
rate = "10mbit"
rtt = "40ms"
queue = "50p"
"#;

const CHAIN: &str = r#"
[[link]]
from = "a"
to = "b"
rate = "10mbit"
delay = "5ms"
[[link]]
name = "middle"
from = "b"
to = "c"
rate = "5mbit"
delay = "10ms"
queue = "20p"
"#;

#[test]
fn what_makes_no_sense_is_refused_by_its_place() {
    let chain = [place("f", "a", "c")];
    let dumbbell = [in_dumbbell(1)];
    let cases: &[(&str, &str, &[FlowPlace], &str)] = &[
        (
            CHAIN,
            "[[link]]\nfrom = \"c\"\nto = \"a\"\nrate = \"1mbit\"\ndelay = \"1ms\"",
            &chain,
            "link[2].from: it closes a loop: c – b – a – c; links must form a tree, so that routes are unique",
        ),
        (
            CHAIN,
            "[[link]]\nfrom = \"c\"\nto = \"c\"\nrate = \"1mbit\"\ndelay = \"1ms\"",
            &chain,
            "link[2].to: it links \"c\" to itself",
        ),
        (
            CHAIN,
            "[[link]]\nname = \"middle\"\nfrom = \"c\"\nto = \"d\"\nrate = \"1mbit\"\ndelay = \"1ms\"",
            &chain,
            "link[2].name: there is another link \"middle\"",
        ),
        (
            CHAIN,
            "[[link]]\nfrom = \"c\"\nto = \"d\"\ndelay = \"1ms\"",
            &chain,
            "link[2]: it has neither a rate nor a trace nor a course",
        ),
        (
            CHAIN,
            "",
            &[place("f", "a", "x")],
            "flow[0].to: no link ends at \"x\"; the nodes are a, b, c",
        ),
        (
            CHAIN,
            "",
            &[place("f", "b", "b")],
            "flow[0].to: it leads from \"b\" to itself",
        ),
        (
            CHAIN,
            "[[link]]\nfrom = \"d\"\nto = \"e\"\nrate = \"1mbit\"\ndelay = \"1ms\"",
            &[place("f", "a", "c"), place("g", "a", "e")],
            "flow[1].to: no links lead from \"a\" to \"e\"",
        ),
        (
            CHAIN,
            "",
            &dumbbell,
            "flow[0]: flow \"flow\" lacks the node it goes from",
        ),
        (
            DUMBBELL,
            "",
            &chain,
            "flow[0].from: in a [dumbbell] every flow has hosts of its own; leave it out, or say direction = \"reverse\"",
        ),
        (
            DUMBBELL,
            "access-delay = \"11ms\"",
            &dumbbell,
            "dumbbell.access-delay: the four access links of a round trip take longer than it, 40ms",
        ),
        (
            DUMBBELL,
            "loss = -0.1",
            &dumbbell,
            "dumbbell.loss: -0.1 is not a probability: it must lie between 0 and 1",
        ),
        (
            DUMBBELL,
            "reverse.loss = { kind = \"gilbert-elliott\", p = 0.1, r = 2 }",
            &dumbbell,
            "dumbbell.reverse.loss.r: 2 is not a probability: it must lie between 0 and 1",
        ),
        (
            DUMBBELL,
            "reverse.queue = { kind = \"red\", limit = \"50p\", min = \"15p\", max = \"15p\" }",
            &dumbbell,
            "dumbbell.reverse.queue.max: 15p is not above min, 15p",
        ),
        (
            DUMBBELL,
            "reverse.queue = { kind = \"red\", limit = \"50p\", min = \"5kb\", max = \"15p\" }",
            &dumbbell,
            "dumbbell.reverse.queue.min: 5kb is in another unit than the limit, 50p; use packets or bytes for both",
        ),
        (
            DUMBBELL,
            "reverse.queue = { kind = \"codel\", limit = \"50p\", target = \"200ms\" }",
            &dumbbell,
            "dumbbell.reverse.queue.interval: 100ms is not above the target, 200ms",
        ),
        (
            DUMBBELL,
            "changes = [{ at = \"2s\", delay = \"1ms\" }, { at = \"1s\", rate = \"1mbit\" }]",
            &dumbbell,
            "dumbbell.changes[1].at: 1s is not after the change before it",
        ),
        (
            DUMBBELL,
            "changes = [{ at = \"2s\" }]",
            &dumbbell,
            "dumbbell.changes[0]: it changes neither rate nor delay",
        ),
        (
            DUMBBELL,
            "outages = [{ from = \"2s\", to = \"1s\" }]",
            &dumbbell,
            "dumbbell.outages[0].to: 1s is not after its start, 2s",
        ),
        (
            DUMBBELL,
            "reverse.impaired-during = { from = \"2s\", to = \"2s\" }",
            &dumbbell,
            "dumbbell.reverse.impaired-during.to: 2s is not after its start, 2s",
        ),
        (
            DUMBBELL,
            "bundle = \"0s\"",
            &dumbbell,
            "dumbbell.bundle: it is 0; it must be positive",
        ),
        (
            DUMBBELL,
            "jitter = { kind = \"slots\", slot = \"0s\" }",
            &dumbbell,
            "dumbbell.jitter.slot: it is 0; it must be positive",
        ),
        (
            DUMBBELL,
            "jitter = { kind = \"slots\", slot = \"5ms\", retransmission = 2 }",
            &dumbbell,
            "dumbbell.jitter.retransmission: 2 is not a probability: it must lie between 0 and 1",
        ),
        (
            DUMBBELL,
            "reverse.jitter = { kind = \"bursts\", every = \"1us\", length = \"1ms\" }",
            &dumbbell,
            "dumbbell.reverse.jitter.every: 1us is too short; the least is 100µs",
        ),
        (
            DUMBBELL,
            "course = { kind = \"cellular\", mean = \"5mbit\" }",
            &dumbbell,
            "dumbbell.rate: the link has a course, which says the rate",
        ),
        (
            DUMBBELL,
            "reverse.trace = \"a\"\nreverse.course = { kind = \"cellular\", mean = \"5mbit\" }",
            &dumbbell,
            "dumbbell.reverse.trace: the link has a course, which says the rate",
        ),
        (
            DUMBBELL,
            "reverse.course = { kind = \"cellular\", mean = \"5mbit\", spread = 9 }",
            &dumbbell,
            "dumbbell.reverse.course.spread: 9 is not above 0, or makes steps of 1.27 of the mean; the most is 0.5",
        ),
        (
            DUMBBELL,
            "reverse.course = { kind = \"constellation\", low = \"5mbit\", high = \"9mbit\", gap = \"15s\" }",
            &dumbbell,
            "dumbbell.reverse.course.gap: 15s is not shorter than every, 15s",
        ),
        (
            &DUMBBELL.replace(
                "rate = \"10mbit\"",
                "course = { kind = \"constellation\", low = \"5mbit\", high = \"9mbit\" }",
            ),
            "changes = [{ at = \"1s\", delay = \"5ms\" }]",
            &dumbbell,
            "dumbbell.changes[0].delay: the link has a course, which says the delay",
        ),
        (
            DUMBBELL,
            "trace = \"lte.mahimahi\"",
            &dumbbell,
            "dumbbell.rate: the link has a trace, which says the rate",
        ),
    ];
    for (base, addition, flows, message) in cases {
        let network = network(&format!("{base}{addition}"));
        let error = network.validate(flows).expect_err(message);
        assert_eq!(error.to_string(), *message);
    }
}

#[test]
fn what_is_no_network_is_refused_while_reading() {
    for (addition, message) in [
        (
            "color = \"red\"",
            "unknown field `color`, expected one of `rtt`, `access-rate`",
        ),
        (
            "access-rate = \"-3mbit\"",
            "\"-3mbit\" is not a rate: it is negative",
        ),
        (
            "access-rate = \"3potatoes\"",
            "\"3potatoes\" is not a rate: unknown unit \"potatoes\"; use bit, kbit, mbit, gbit, tbit (bits per second), pps (full datagrams per second)",
        ),
        (
            "access-rate = \"0pps\"",
            "\"0pps\" is not a rate: it is zero",
        ),
        (
            "reverse.queue = { kind = \"sfq\" }",
            "unknown variant `sfq`, expected one of `drop-tail`, `red`, `codel`, `fq-codel`",
        ),
        (
            "reverse.queue = { kind = \"red\", limit = \"5p\", min = \"1p\" }",
            "missing field `max`",
        ),
        (
            "reverse.queue = { kind = \"codel\", limit = \"5p\", max-p = 1 }",
            "unknown field `max-p`, expected one of `limit`, `target`, `interval`, `ecn`",
        ),
        (
            "jitter = { kind = \"bursts\", max = \"1ms\" }",
            "unknown field `max`, expected `every` or `length`",
        ),
        (
            "jitter = { mean = \"1ms\" }",
            "unknown field `mean`, expected `max` or `in-order`",
        ),
        ("jitter = { kind = \"slots\" }", "missing field `slot`"),
        (
            "jitter = { kind = \"gaussian\" }",
            "unknown variant `gaussian`, expected one of `uniform`, `exponential`, `bursts`, `slots`",
        ),
        (
            "jitter = 1",
            "expected a time such as \"2ms\", or a table with the kind uniform, exponential, bursts or slots",
        ),
        (
            "reverse.queue = 5",
            "invalid type: integer `5`, expected a queue",
        ),
        (
            "reverse.queue = \"1.5p\"",
            "\"1.5p\" is not a buffer: it has a fraction",
        ),
    ] {
        let error = parse(&format!("{DUMBBELL}{addition}")).expect_err(message);
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn queues_and_losses_have_short_forms() {
    let text = format!("{DUMBBELL}loss = 0.01\nreverse.queue = \"unlimited\"\n");
    let Network::Dumbbell(dumbbell) = network(&text) else {
        panic!("a dumbbell")
    };
    assert!(
        matches!(&dumbbell.queue, Some(QueueSpec::DropTail(spec)) if spec.limit.to_string() == "50p")
    );
    assert_eq!(dumbbell.loss, Some(LossSpec::Uniform(0.01)));
    let reverse = dumbbell.reverse.expect("a reverse");
    assert_eq!(reverse.queue, Some(QueueSpec::Unlimited));
    for (text, rate) in [
        ("187.5pps", LinkRate::Packets(187.5)),
        ("8kbit", LinkRate::Bits("8kbit".parse().expect("a rate"))),
    ] {
        assert_eq!(text.parse(), Ok(rate));
        assert_eq!(rate.to_string(), text);
    }
    let rate = LinkRate::Packets(187.5).resolve(DATAGRAM).expect("a rate");
    assert_eq!(rate.bps(), 1378 * 8 * 375 / 2);
}

fn build(network: &Network, flows: &[FlowPlace], directory: &Path) -> Built {
    network
        .build(flows, circumstances(directory))
        .expect("it can be built")
}

fn circumstances(directory: &Path) -> Circumstances<'_> {
    Circumstances {
        datagram_bytes: DATAGRAM,
        duration: Duration::from_secs(12),
        host_jitter: Duration::from_micros(120),
        host_stalls: None,
        seed: SEED,
        directory,
    }
}

/// The results of one Reno flow per route and of the links after ten seconds: stream bytes
/// received, and per measured link its metrics.
struct Outcome {
    received: Vec<u64>,
    lost: Vec<u64>,
    links: Vec<(String, Vec<(&'static str, f64)>)>,
}

impl Outcome {
    fn metric(&self, link: &str, metric: &str) -> f64 {
        let measures = self.links.iter().find(|(name, _)| name == link);
        let measures = &measures.expect("a measured link").1;
        let value = measures.iter().find(|(name, _)| *name == metric);
        value.expect("a metric").1
    }
}

fn run(text: &str, flows: &[FlowPlace], ecn: bool) -> Outcome {
    let members: usize = flows.iter().map(|flow| flow.count).sum();
    isolated(SEED, || {
        let built = build(&network(text), flows, Path::new("."));
        let mut simulation = Simulation::new(built.topology).expect("isolated");
        for _ in 0..members {
            let flow = Flow {
                ecn,
                ..Flow::new(Controller::named("reno"))
            };
            simulation.add_flow(flow).expect("there is a route");
        }
        simulation
            .run_until(Duration::from_secs(2))
            .expect("it makes progress");
        simulation.start_measuring();
        simulation
            .run_until(Duration::from_secs(12))
            .expect("it makes progress");
        let report = |flow| simulation.report(flow).expect("a flow");
        let links = built.links.iter().map(|(name, id)| {
            let link = simulation.link(*id).expect("a link");
            let measures = link.measures(simulation.now());
            let values = measures
                .iter()
                .map(|measure| (measure.metric, measure.value));
            (name.clone(), values.collect())
        });
        Outcome {
            received: (0..members)
                .map(|flow| report(flow).received_bytes)
                .collect(),
            lost: (0..members).map(|flow| report(flow).packets_lost).collect(),
            links: links.collect(),
        }
    })
    .expect("clock and entropy are linked")
}

#[test]
fn three_bottlenecks_in_a_row() {
    // One flow goes over all links, and one over each.
    let link = |from: &str, to: &str| {
        format!(
            "[[link]]\nname = \"{from}{to}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"4mbit\"\ndelay = \"5ms\"\nqueue = \"20p\"\n"
        )
    };
    let text = link("a", "b") + &link("b", "c") + &link("c", "d");
    let flows = [
        place("long", "a", "d"),
        place("one", "a", "b"),
        place("two", "b", "c"),
        place("three", "c", "d"),
    ];
    let built = build(&network(&text), &flows, Path::new("."));
    let round_trips: Vec<_> = built.paths.iter().map(|path| path.round_trip).collect();
    assert_eq!(round_trips, [30, 10, 10, 10].map(Duration::from_millis));
    let names: Vec<_> = built.links.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["ab", "bc", "cd"]);

    let outcome = run(&text, &flows, false);
    for link in ["ab", "bc", "cd"] {
        assert!(outcome.metric(link, "utilisation") > 0.9, "{link}");
        assert!(outcome.metric(link, "drops") > 0.0, "{link}");
        assert!(outcome.metric(link, "queue_max_packets") <= 21.0, "{link}");
    }
    let [long, short @ ..] = &outcome.received[..] else {
        panic!("four flows")
    };
    assert!(*long > 100_000 && short.iter().all(|one| one > long));
}

#[test]
fn flows_go_both_ways_over_a_dumbbell_with_access_of_their_own() {
    let flows = [
        in_dumbbell(2),
        FlowPlace {
            access_delay: Some("30ms".parse().expect("a time")),
            direction: Some(FlowDirection::Reverse),
            ..in_dumbbell(1)
        },
    ];
    let text = format!("{DUMBBELL}reverse = {{ rate = \"2mbit\", queue = \"20p\" }}\n");
    let network = network(&text);
    let built = build(&network, &flows, Path::new("."));
    assert_eq!(network.measured_links(), ["bottleneck", "reverse"]);
    let facts: Vec<_> = built
        .paths
        .iter()
        .map(|path| (path.rate.to_string(), path.round_trip.as_micros()))
        .collect();
    // 40 ms with 0.4 ms of access at each of four places, or with 30 ms there.
    let [fast, slow] = [("10mbit", 40_000), ("2mbit", 158_400)];
    let facts: Vec<_> = facts
        .iter()
        .map(|(rate, rtt)| (rate.as_str(), *rtt))
        .collect();
    assert_eq!(facts, [fast, fast, slow]);

    let outcome = run(&text, &flows, false);
    // Acknowledgements wait behind data, and some are dropped.
    assert!(outcome.metric("bottleneck", "utilisation") > 0.6);
    assert!(outcome.metric("reverse", "utilisation") > 0.6);
    assert!(outcome.metric("reverse", "drops") > 0.0);
    assert!(outcome.received[2] < outcome.received[0]);
}

#[test]
fn a_path_has_the_rates_and_delays_of_its_time() {
    let changes = r#"changes = [{ at = "2s", rate = "5mbit" }, { at = "4s", delay = "28ms" }]"#;
    let flows = [in_dumbbell(1)];
    let built = build(
        &network(&format!("{DUMBBELL}{changes}\n")),
        &flows,
        Path::new("."),
    );
    let facts = |seconds: f64| {
        let paths = built.paths_at(Duration::from_secs_f64(seconds));
        (
            paths[0].rate.to_string(),
            paths[0].round_trip.as_micros(),
            paths[0].base_rtt.as_micros(),
        )
    };
    // Access links have 1 Gbit/s and 0.4 ms; the bottleneck 19.2 ms, as the way back after it too.
    // A full packet has 1378 bytes.
    let access = 2 * 11_024;
    let base_rtt = |delay: u128, sending: u128| (delay * 1000 + sending * 1000 + access) / 1000;
    let [first, slow, long] = [
        ("10mbit".to_owned(), 40_000, base_rtt(40_000, 1102)),
        ("5mbit".to_owned(), 40_000, base_rtt(40_000, 2204)),
        ("5mbit".to_owned(), 57_600, base_rtt(57_600, 2204)),
    ];
    assert_eq!(facts(1.9), first);
    assert_eq!(facts(2.0), slow);
    assert_eq!(facts(9.0), long);
    assert!(!built.paths[0].steady);
    assert_eq!(built.paths[0].rate.to_string(), "10mbit");
    let constant = build(&network(DUMBBELL), &flows, Path::new("."));
    assert!(constant.paths[0].steady);
    assert_eq!(constant.paths, constant.paths_at(Duration::from_secs(9)));
}

#[test]
fn every_impairment_happens_and_does_no_harm_beyond_itself() {
    for (impairment, metric) in [
        ("loss = 0.01", Some("impaired")),
        (
            "loss = { kind = \"gilbert-elliott\", p = 0.002, r = 0.5 }",
            Some("impaired"),
        ),
        (
            "loss = { kind = \"given\", packets = [3000, 3001] }",
            Some("impaired"),
        ),
        (
            "outages = [{ from = \"5s\", to = \"5.2s\" }]",
            Some("impaired"),
        ),
        ("duplicate = 0.02", Some("duplicated")),
        ("reorder = { probability = 0.01, delay = \"3ms\" }", None),
        ("jitter = \"4ms\"", None),
        ("jitter = { max = \"2ms\", in-order = false }", None),
        ("jitter = { kind = \"exponential\", mean = \"1ms\" }", None),
        (
            "jitter = { kind = \"exponential\", mean = \"1ms\", in-order = false }",
            None,
        ),
        (
            "jitter = { kind = \"bursts\", every = \"200ms\", length = \"10ms\" }",
            None,
        ),
        (
            "reverse.jitter = { kind = \"slots\", slot = \"5ms\", retransmission = 0.1 }",
            None,
        ),
        ("corrupt = 0.01", None),
        ("reverse.bundle = \"20ms\"", None),
        (
            "loss = 1\nimpaired-during = { from = \"5s\", to = \"5.2s\" }",
            Some("impaired"),
        ),
        (
            "mtu = 600\nimpaired-during = { from = \"5s\", to = \"5.2s\" }",
            Some("impaired"),
        ),
        (
            "corrupt = 0.01\nreverse.corrupt = 0.05\nreverse.duplicate = 0.1",
            None,
        ),
        (
            "changes = [{ at = \"5s\", rate = \"5mbit\", delay = \"2ms\" }]",
            None,
        ),
        (
            "changes = [{ at = \"5s\", delay = \"2ms\" }]\nkeep-order = true",
            None,
        ),
        (
            "changes = [{ at = \"4s\", delay = \"80ms\" }]\nreverse.loss = 0.05",
            None,
        ),
    ] {
        let outcome = run(
            &format!("{DUMBBELL}{impairment}\n"),
            &[in_dumbbell(1)],
            false,
        );
        if let Some(metric) = metric {
            assert!(outcome.metric("bottleneck", metric) > 0.0, "{impairment}");
        }
        assert!(
            outcome.received[0] > 1_000_000,
            "{impairment}: {:?}",
            outcome.received
        );
    }
}

#[test]
fn corrupted_packets_count_as_lost_and_duplicates_do_not() {
    let lost = |impairment: &str| {
        let wide = DUMBBELL.replace("50p", "unlimited");
        let outcome = run(&format!("{wide}{impairment}\n"), &[in_dumbbell(1)], false);
        (outcome.lost[0], outcome.metric("bottleneck", "drops"))
    };
    let (corrupted, drops) = lost("corrupt = 0.01");
    assert!(corrupted > 20 && drops == 0.0, "{corrupted}, {drops}");
    assert_eq!(lost("duplicate = 0.05"), (0, 0.0));
}

#[test]
fn queues_mark_what_allows_it() {
    for queue in [
        r#"{ kind = "red", limit = "50p", min = "5p", max = "15p", gentle = true, ecn = true }"#,
        r#"{ kind = "codel", limit = "50p", ecn = true }"#,
        r#"{ kind = "fq-codel", limit = "50p", ecn = true }"#,
    ] {
        let text = DUMBBELL.replace("\"50p\"", queue);
        let marking = run(&text, &[in_dumbbell(2)], true);
        assert!(marking.metric("bottleneck", "marks") > 0.0, "{queue}");
        let dropping = run(&text, &[in_dumbbell(2)], false);
        assert_eq!(dropping.metric("bottleneck", "marks"), 0.0, "{queue}");
        assert!(dropping.metric("bottleneck", "drops") > 0.0, "{queue}");
    }
}

#[test]
fn a_policer_lets_its_rate_through() {
    let queue = |burst| {
        let queue =
            format!(r#"{{ kind = "policer", rate = "5mbit", burst = "{burst}", limit = "50p" }}"#);
        DUMBBELL.replace("\"50p\"", &queue)
    };
    let outcome = run(&queue("20kb"), &[in_dumbbell(2)], false);
    assert!(outcome.metric("bottleneck", "drops") > 0.0);
    // 10 s at half of the link's rate, and a bucket.
    let bytes = outcome.metric("bottleneck", "forwarded_bytes");
    let most = 6_250_000.0;
    assert!((0.7 * most..=most + 20_480.0).contains(&bytes), "{bytes}");

    let small = network(&queue("1kb")).build(&[in_dumbbell(1)], circumstances(Path::new(".")));
    assert_eq!(
        small.expect_err("no packet would pass").to_string(),
        "dumbbell.queue.burst: 1kb is less than a full packet of 1378 bytes on the wire, so that none would pass"
    );
}

#[test]
fn a_stalled_host_does_nothing_and_then_everything() {
    let spec = StallsSpec {
        every: "100ms".parse().expect("a time"),
        length: "20ms".parse().expect("a time"),
    };
    let (received, digest, acts) = isolated(SEED, || {
        let stalling = Circumstances {
            host_stalls: Some(spec),
            ..circumstances(Path::new("."))
        };
        let network = network(DUMBBELL);
        let built = network.build(&[in_dumbbell(2)], stalling);
        let topology = built.expect("it can be built").topology;
        let mut simulation = Simulation::new(topology).expect("isolated");
        simulation.keep_digest();
        let acts = Rc::new(RefCell::new(Vec::new()));
        for number in 0..2 {
            let acts = Rc::clone(&acts);
            let observer: Observer = Box::new(move |observation| {
                let act = (number, observation.side, observation.time);
                acts.borrow_mut().push(act);
            });
            let flow = Flow {
                observer: Some(observer),
                ..Flow::new(Controller::named("reno"))
            };
            simulation.add_flow(flow).expect("there is a route");
        }
        let ran = simulation.run_until(Duration::from_secs(10));
        ran.expect("it makes progress");
        let received = [0, 1].map(|flow| simulation.report(flow).expect("a flow").received_bytes);
        let acts = acts.take();
        (received, simulation.digest(), acts)
    })
    .expect("clock and entropy are linked");
    assert!(
        received.iter().all(|&bytes| bytes > 2_000_000),
        "{received:?}"
    );
    assert!(digest.is_some());

    for number in 0..2 {
        let random = stream(SEED, STALL_PARTS + number);
        let mut stalls = Stalls::new(spec.every.duration(), spec.length.duration(), random);
        let ends: Vec<(Side, Time, Option<Time>)> = acts
            .iter()
            .filter(|(flow, ..)| *flow == number)
            .map(|&(_, side, time)| (side, time, stalls.end(time)))
            .collect();
        let of = |wanted| ends.iter().filter(move |(side, ..)| *side == wanted);
        assert!(
            of(Side::Server).all(|(_, _, end)| end.is_none()),
            "{number}"
        );
        // The client goes on, and the server takes its packets when the stall ends.
        let waited: BTreeSet<Time> = of(Side::Client).filter_map(|(_, _, end)| *end).collect();
        assert!(waited.len() > 40, "{}", waited.len());
        let at = |end: &Time| of(Side::Server).filter(|(_, time, _)| time == end).count();
        let at_ends: usize = waited.iter().map(at).sum();
        assert!(at_ends > 10 * waited.len(), "{at_ends}");
    }
}

/// One Reno flow's part of the first measured link in a window of time, and its RTT at the end.
struct Window {
    forwarded_bytes: f64,
    utilisation: f64,
    rtt: Duration,
    path: PathFacts,
}

fn windows(text: &str, flow: &FlowPlace, windows_ms: &[(u64, u64)]) -> Vec<Window> {
    let ms = Duration::from_millis;
    isolated(SEED, || {
        let built = build(&network(text), std::slice::from_ref(flow), Path::new("."));
        let paths: Vec<_> = windows_ms
            .iter()
            .map(|&(from, _)| built.paths_at(ms(from))[0])
            .collect();
        let mut simulation = Simulation::new(built.topology).expect("isolated");
        let reno = Flow::new(Controller::named("reno"));
        simulation.add_flow(reno).expect("there is a route");
        let mut measure = |(&(from, to), path): (&(u64, u64), PathFacts)| {
            simulation.run_until(ms(from)).expect("it makes progress");
            simulation.start_measuring();
            simulation.run_until(ms(to)).expect("it makes progress");
            let link = simulation.link(built.links[0].1).expect("a link");
            let server = simulation.connection(0, Side::Server).expect("it is open");
            Window {
                forwarded_bytes: link.meter().forwarded_bytes() as f64,
                utilisation: link.utilisation(simulation.now()),
                rtt: server.path_stats().next().expect("a path").rtt,
                path,
            }
        };
        windows_ms.iter().zip(paths).map(&mut measure).collect()
    })
    .expect("clock and entropy are linked")
}

/// A dumbbell, and a chain of links whose second is measured, with these keys; and a flow over each.
fn both_forms(keys: &str) -> [(String, FlowPlace); 2] {
    let wide = |text: &str, queue| text.replace(queue, "200p");
    [
        (format!("{}{keys}\n", wide(DUMBBELL, "50p")), in_dumbbell(1)),
        (
            format!("{}{keys}\n", wide(CHAIN, "20p")),
            place("f", "a", "c"),
        ),
    ]
}

#[test]
fn steps_of_rate_and_delay_hold_from_their_times_on() {
    let changes = r#"changes = [
        { at = "6s", rate = "3mbit" },
        { at = "12s", rate = "8mbit" },
        { at = "18s", delay = "60ms" },
        { at = "24s", delay = "1ms" },
    ]"#;
    let rates = [3e6, 8e6, 8e6, 8e6];
    for (text, flow) in both_forms(changes) {
        let all = windows(
            &text,
            &flow,
            &[9, 15, 21, 27].map(|s| (1000 * s, 1000 * s + 3000)),
        );
        for (number, (window, bps)) in all.iter().zip(rates).enumerate() {
            let name = format!("{number} of {text}");
            assert_eq!(window.path.rate.bps() as f64, bps, "{name}");
            let share = window.forwarded_bytes * 8.0 / 3.0 / bps;
            assert!((0.5..1.01).contains(&share), "{name}: {share}");
            assert!((share - window.utilisation).abs() < 0.01, "{name}: {share}");
            // At most a full queue more, as the smoothed RTT follows.
            let queue = Duration::from_secs_f64(202.0 * 1378.0 * 8.0 / bps);
            let base = window.path.base_rtt;
            let within = base.mul_f64(0.99)..base + queue + Duration::from_millis(5);
            assert!(
                within.contains(&window.rtt),
                "{name}: {:?}, {base:?}",
                window.rtt
            );
        }
        let delays: Vec<_> = all.iter().map(|window| window.path.round_trip).collect();
        assert!(delays[0] == delays[1] && delays[1] < delays[2] && delays[3] < delays[1]);
    }
}

#[test]
fn an_outage_lets_nothing_through_and_then_everything() {
    for (text, flow) in both_forms(r#"outages = [{ from = "5s", to = "6s" }]"#) {
        let all = windows(
            &text,
            &flow,
            &[(3000, 5000), (5600, 6000), (10_000, 14_000)],
        );
        let used: Vec<f64> = all.iter().map(|window| window.utilisation).collect();
        assert!(used[0] > 0.5 && used[1] == 0.0 && used[2] > 0.5, "{used:?}");
    }
}

#[test]
fn packets_overtake_on_a_shorter_way_unless_their_order_is_kept() {
    let lost = |keys: &str| {
        let wide = DUMBBELL.replace("50p", "unlimited");
        let changes = r#"changes = [{ at = "1s", delay = "60ms" }, { at = "4s", delay = "5ms" }]"#;
        let text = format!("{wide}{changes}\n{keys}");
        run(&text, &[in_dumbbell(1)], false).lost[0]
    };
    assert_eq!(lost("keep-order = true"), 0);
    assert!(lost("") > 0);
}

/// A flow of Reno over links whose rates are courses: utilisation of all links, received bytes, and
/// the facts of the path.
fn over_a_course(text: &str, seed: u64) -> (Vec<f64>, u64, PathFacts) {
    isolated(seed, || {
        let circumstances = Circumstances {
            duration: Duration::from_secs(40),
            seed,
            ..circumstances(Path::new("."))
        };
        let built = network(text).build(&[in_dumbbell(1)], circumstances);
        let built = built.expect("it can be built");
        let mut simulation = Simulation::new(built.topology).expect("isolated");
        let flow = Flow::new(Controller::named("reno"));
        simulation.add_flow(flow).expect("there is a route");
        let ran = simulation.run_until(circumstances.duration);
        ran.expect("it makes progress");
        let links = built.links.iter().map(|(_, id)| simulation.link(*id));
        let links = links.map(|link| link.expect("a link"));
        let utilisation = links.map(|link| link.utilisation(simulation.now()));
        let utilisation = utilisation.collect();
        let report = simulation.report(0).expect("a flow");
        (utilisation, report.received_bytes, built.paths[0])
    })
    .expect("clock and entropy are linked")
}

#[test]
fn courses_set_the_pace() {
    let cellular = "course = { kind = \"cellular\", mean = \"10mbit\", outage = \"200ms\" }";
    let satellites = "course = { kind = \"constellation\", low = \"4mbit\", high = \"20mbit\", every = \"5s\", delay-spread = \"10ms\", gap = \"50ms\" }";
    for course in [cellular, satellites] {
        let text = DUMBBELL.replace("rate = \"10mbit\"", course);
        let mut received = BTreeSet::new();
        for seed in 1..=4 {
            let (utilisation, bytes, path) = over_a_course(&text, seed);
            assert_eq!(over_a_course(&text, seed).1, bytes);
            assert!(!path.steady);
            // All that the course allowed was used: its mean over the run.
            let used = utilisation[0];
            assert!((0.5..=1.0).contains(&used), "{seed}: {utilisation:?}");
            let share = bytes as f64 * 8.0 / 40.0 / path.rate.bps() as f64;
            // Headers, and what waits or was lost, make the difference.
            assert!(
                (0.8 * used..used).contains(&share),
                "{seed}: {share} of {used}"
            );
            received.insert(bytes);
        }
        assert_eq!(received.len(), 4, "every seed has a course of its own");
    }
}

#[test]
fn the_way_back_has_the_course_of_the_way_there_unless_it_has_its_own() {
    let satellites = "{ kind = \"constellation\", low = \"4mbit\", high = \"20mbit\", every = \"5s\", delay-spread = \"10ms\" }";
    let text = DUMBBELL.replace("rate = \"10mbit\"", &format!("course = {satellites}"));
    let built = build(&network(&text), &[in_dumbbell(1)], Path::new("."));
    let round_trip =
        |built: &Built, second| built.paths_at(Duration::from_secs(second))[0].round_trip;
    let own = format!("{text}reverse.course = {satellites}\n");
    let own = build(&network(&own), &[in_dumbbell(1)], Path::new("."));
    let steady = format!("{text}reverse = {{ rate = \"10mbit\", delay = \"20ms\" }}\n");
    let steady = build(&network(&steady), &[in_dumbbell(1)], Path::new("."));
    let base = Duration::from_millis(40);
    assert_eq!(built.paths[0].round_trip, base);
    for second in [0, 5, 10] {
        let both = round_trip(&built, second);
        let one = round_trip(&steady, second);
        let two = round_trip(&own, second);
        // 0.8 ms of access links are not in the 20 ms of the way back.
        let one = one - Duration::from_micros(800);
        assert!(base < both && both < base + Duration::from_millis(20));
        assert_eq!(both - base, 2 * (one - base));
        assert_ne!(both, two);
    }
}

#[test]
fn courses_of_too_many_changes_are_refused() {
    let course = "course = { kind = \"cellular\", mean = \"10mbit\", every = \"1us\" }";
    let text = DUMBBELL.replace("rate = \"10mbit\"", course);
    let error = network(&text).build(&[in_dumbbell(1)], circumstances(Path::new(".")));
    let error = error.expect_err("12 million changes").to_string();
    let message = "dumbbell.course.every: in 12s there are 12000000 times 1us; the most is 1048576";
    assert_eq!(error, message);
}

#[test]
fn a_trace_sets_the_pace() {
    let directory = tempfile::tempdir().expect("a directory");
    // 3000 bytes every 5 ms are 4.8 Mbit/s.
    fs::write(directory.path().join("cell"), "5\n5\n").expect("it can be written");
    let text = DUMBBELL.replace("rate = \"10mbit\"", "trace = \"cell\"");
    let utilisation = isolated(SEED, || {
        let built = build(&network(&text), &[in_dumbbell(1)], directory.path());
        assert_eq!(built.paths[0].rate.to_string(), "4.8mbit");
        let (_, bottleneck) = built.links[0].clone();
        let mut simulation = Simulation::new(built.topology).expect("isolated");
        let reno = Flow::new(Controller::named("reno"));
        simulation.add_flow(reno).expect("there is a route");
        simulation
            .run_until(Duration::from_secs(10))
            .expect("it makes progress");
        let link = simulation.link(bottleneck).expect("a link");
        link.utilisation(simulation.now())
    })
    .expect("clock and entropy are linked");
    assert!((0.85..=1.0).contains(&utilisation), "{utilisation}");

    let missing = network(&text.replace("cell", "nowhere"));
    let error = missing
        .build(&[in_dumbbell(1)], circumstances(directory.path()))
        .expect_err("no such file");
    let message = error.to_string();
    assert!(
        message.starts_with("dumbbell.trace: cannot read "),
        "{message}"
    );
}
