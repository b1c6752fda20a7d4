//! The format of experiment files: values that are read, and the messages about those that are
//! refused.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use gallop::stack::quiche::Selection;
use gallop_sim::experiment::{Experiment, Library};

const SOUND: &str = include_str!("experiments/fairness.toml");

fn parse(text: &str) -> Result<Experiment, String> {
    Experiment::parse("fairness", PathBuf::from("fairness.toml"), text)
        .map_err(|error| error.to_string())
}

/// The file with `old` replaced, which must be there once.
fn with(old: &str, new: &str) -> String {
    assert_eq!(SOUND.matches(old).count(), 1, "{old}");
    SOUND.replace(old, new)
}

#[test]
fn points_are_the_product_of_sweeps_and_runs() {
    let experiment = parse(SOUND).expect("sound");
    let labels: Vec<String> = experiment
        .points
        .iter()
        .map(|point| point.labels.join(" "))
        .collect();
    assert_eq!(
        labels,
        [
            "1ms 8p reno",
            "1ms 8p vegas",
            "1ms 20p reno",
            "1ms 20p vegas",
            "20ms 8p reno",
            "20ms 8p vegas",
            "20ms 20p reno",
            "20ms 20p vegas"
        ]
    );
    let setup = &experiment.points[5].setup;
    assert_eq!(setup.flows[0].cc, "vegas:alpha=1,beta=3,gamma=1");
    assert_eq!(setup.host_jitter.as_micros(), 120);
    assert_eq!(experiment.axes[0].numbers(), Some(vec![0.001, 0.02]));
    assert_eq!(experiment.axes[2].numbers(), None);
    let kept = |point: usize, flow, member| {
        experiment.keeps_trace(&experiment.points[point], flow, member)
    };
    assert!(kept(1, "short", 0));
    assert!(!kept(1, "short", 1) && !kept(1, "long", 0) && !kept(0, "short", 0));
    assert_eq!(
        experiment.trace_file(&experiment.points[1], "short", 0),
        Path::new("traces/1/short-0.server.sqlog")
    );
}

#[test]
fn the_fast_subset_keeps_the_points_numbers() {
    let fast = parse(SOUND).expect("sound").fast();
    let numbers: Vec<usize> = fast.points.iter().map(|point| point.number).collect();
    assert_eq!((numbers, fast.seeds), (vec![4, 5], 1));
    assert_eq!(fast.points[0].setup.duration.as_secs(), 2);
}

#[test]
fn what_is_wrong_is_named_with_line_column_and_what_is_allowed() {
    for (old, new, message) in [
        (
            "title = \"RTT",
            "titel = \"RTT",
            "fairness.toml:2:1: unknown key `titel`: did you mean `title`? there are title, source, about, duration, measure-from, change-at, seeds, datagram, initial-window, ack-every, max-ack-delay, stack, host-jitter, host-stalls, sweep, run, scenario, defaults, fresh, link, dumbbell, flow, analysis, series, trace, table, plot, claim, limit, goal, fast",
        ),
        (
            "seeds = 2",
            "seeds = 0",
            "fairness.toml:7:9: it is 0; it must be at least 1",
        ),
        (
            "duration = \"4s\"",
            "duration = \"4parsecs\"",
            "fairness.toml:5:12: \"4parsecs\" is not a time: unknown unit \"parsecs\"; use ns, us, ms, s, min, h",
        ),
        (
            "rate = \"187.5pps\"",
            "rate = \"-187.5pps\"",
            "fairness.toml:28:8: \"-187.5pps\" is not a rate: it is negative",
        ),
        (
            "rate = \"187.5pps\"",
            "rats = \"187.5pps\"",
            "fairness.toml:28:1: unknown key `rats`: did you mean `rate`? there are name, from, to, delay, reverse, rate, queue, loss, reorder, duplicate, corrupt, jitter, bundle, mtu, impaired-during, outages, changes, trace, course, keep-order",
        ),
        (
            "to = \"R2\"",
            "to = \"S1\"",
            "fairness.toml:33:8: link[1].from: it closes a loop: S1 – R1 – S1; links must form a tree, so that routes are unique",
        ),
        (
            "name = \"long\"",
            "name = \"short\"",
            "fairness.toml:57:8: flow[1].name: there is another flow \"short\"",
        ),
        (
            "queue = \"$buffer\"",
            "queue = \"$bufer\"",
            "fairness.toml:30:9: unknown axis `bufer`: did you mean `buffer`? there are buffer, run, x",
        ),
        (
            "subject = \"run\"",
            "subject = \"flow/shart\"",
            "fairness.toml:100:46: claim[0].value.subject: unknown subject `flow/shart`: did you mean `flow/short`? there are flow/short, flow/long, link/bottleneck, run, analysis",
        ),
        (
            "x = \"20ms\" } }",
            "x = \"30ms\" } }",
            "fairness.toml:100:82: claim[0].value.where.x: unknown value of the axis `x`, `30ms`: did you mean `20ms`? there are 1ms, 20ms",
        ),
        (
            "metric = \"lost_packets\"",
            "metric = \"lost_packet\"",
            "fairness.toml:100:20: claim[0].value.metric: unknown metric of run `lost_packet`: did you mean `lost_packets`? there are available_window_reached_s, events, jain, loss_ratio, lost_packets, power_ratio, ramp_up_rounds, ramp_up_s, recovered_s, retransmitted_bytes, rtt_mean_s, rtt_p95_s, sent_packets, share, simulated_s, slow_start_exit_s, slow_start_s, throughput_sum_bps, time_to_95_percent_s",
        ),
        (
            "cc = \"reno\"",
            "cc = \"renot\"",
            "fairness.toml:18:6: unknown congestion controller `renot`: did you mean `reno`? the controllers are CONTROLLERS",
        ),
        (
            "cc = \"vegas:alpha=1,beta=3,gamma=1\"",
            "cc = \"vegas:alfa=1\"",
            "fairness.toml:21:6: vegas: unknown option `alfa`: did you mean `alpha`? the options are alpha, beta, gamma, decrease, initial_window, rtt and host",
        ),
        (
            "from = \"S1\"\nto = \"K\"",
            "from = \"S9\"\nto = \"K\"",
            "fairness.toml:52:8: flow[0].from: no link ends at \"S9\"; the nodes are R1, R2, S1, S2, K",
        ),
        (
            "from = \"S1\"\nto = \"K\"",
            "to = \"K\"",
            "fairness.toml:50:1: flow[0]: flow \"short\" lacks the node it goes from",
        ),
        (
            "x = [\"1ms\", \"20ms\"]\n",
            "x = [\"1ms\", \"20ms\"]\ny = [1]\n",
            "fairness.toml:13:5: the axes of one [[sweep]] vary together, but `y` has 1 values and `x` has 2",
        ),
        (
            "x = [\"1ms\", \"20ms\"]\n",
            "x = \"1ms\"\n",
            "fairness.toml:12:5: the axis `x` must be a list of at least one value",
        ),
        (
            "x = [\"1ms\", \"20ms\"]\n",
            "seed = [1]\n",
            "fairness.toml:12:1: an axis cannot be called `seed`, as a column of the results is",
        ),
        (
            "seeds = 2",
            "seeds = 2\nseeds = 3",
            "fairness.toml:8:1: duplicate key",
        ),
        (
            "ack-every = 1",
            "ack-every = 1\nhost-stalls = { every = \"0s\", length = \"5ms\" }",
            "fairness.toml:10:25: host-stalls.every: 0ns is too short; the least is 100µs",
        ),
        (
            "title = \"RTT fairness over a drop-tail queue\"\n",
            "",
            "fairness.toml:1:1: the key `title` is missing",
        ),
        (
            "measure-from = \"1s\"",
            "measure-from = \"9s\"",
            "fairness.toml:6:16: measure-from: 9s is not before the end, 4s",
        ),
        (
            "measure-from = \"1s\"",
            "change-at = \"4s\"",
            "fairness.toml:6:13: change-at: 4s is not before the end, 4s",
        ),
        (
            "measure-from = \"1s\"",
            "change-at = \"3s\"",
            "fairness.toml:107:12: fast.duration: 2s is not after change-at",
        ),
        (
            "low = 0\nhigh = 0\n",
            "",
            "fairness.toml:93:1: claim[0]: it has neither `low` nor `high` nor `tolerance`, so that any value would reproduce it",
        ),
        (
            "low = 0\nhigh = 0\n",
            "low = 1\nhigh = 0\n",
            "fairness.toml:97:7: claim[0].low: it is 1, above `high`, 0",
        ),
        (
            "rows = \"x\"",
            "rows = \"z\"",
            "fairness.toml:74:8: table[0].rows: unknown axis `z`: did you mean `x`? there are x, buffer, run, metric, subject",
        ),
        (
            "[[trace]]\nflow = \"short\"",
            "[[trace]]\nflow = \"shore\"",
            "fairness.toml:66:8: trace[0].flow: unknown flow `shore`: did you mean `short`? there are short, long\nfairness.toml:90:8: plot[1].flow: unknown flow with a [[trace]] `short`: did you mean `shore`? there are shore",
        ),
        (
            "x = \"buffer\"\nlines",
            "x = \"run\"\nlines",
            "fairness.toml:84:5: plot[0].x: the values of the axis `run` are not numbers of one kind",
        ),
        (
            "queue = \"$buffer\"",
            "queue = { kind = \"red\", limit = \"50p\", min = \"15p\", max = \"5p\" }",
            "fairness.toml:30:59: link[0].queue.max: 5p is not above min, 15p",
        ),
        (
            "id = \"vegas\"",
            "id = \"reno\"",
            "fairness.toml:20:6: there is another run \"reno\"",
        ),
        (
            "ack-every = 1",
            "ack-every = 1\nmax-ack-delay = \"20s\"",
            "fairness.toml:10:17: max-ack-delay: 20s is too long; the most is 16383 ms (RFC 9000 §18.2)",
        ),
        (
            "start-jitter = \"100ms\"\n\n[series]",
            "start = \"5s\"\nstop = \"3s\"\n\n[series]",
            "fairness.toml:61:8: flow[1].stop: 3s is not after the start, 5s",
        ),
        (
            "start-jitter = \"100ms\"\n\n[series]",
            "traffic = \"bulky\"\n\n[series]",
            "fairness.toml:60:11: unknown value `bulky`: did you mean `bulk`? there are bulk, on-off, media, live, http, short-flows, pages, constant, tcplib, requests",
        ),
        (
            "start-jitter = \"100ms\"\n\n[series]",
            "direction = \"reverse\"\n\n[series]",
            "fairness.toml:60:13: flow[1].direction: only flows over a [dumbbell] have it; here the links say it",
        ),
        (
            "where = { x = \"20ms\", buffer = [\"8p\"] }",
            "where = { x = 20 }",
            "fairness.toml:106:15: fast.where.x: unknown value of the axis `x`, `20`: did you mean `20ms`? there are 1ms, 20ms",
        ),
    ] {
        let error = parse(&with(old, new)).expect_err(new);
        let message = message.replace("CONTROLLERS", &controllers());
        assert_eq!(error, message, "{new}");
    }
}

/// Every controller's name, as an error lists them.
fn controllers() -> String {
    let names = Selection::names();
    let (last, others) = names.split_last().expect("controllers");
    format!("{} and {last}", others.join(", "))
}

fn library() -> Library {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments");
    Library::open(&folder).expect("a folder of experiments")
}

#[test]
fn every_experiment_is_sound() {
    let experiments = library().experiments().expect("readable folders");
    let mut errors = String::new();
    for (name, path) in &experiments {
        match Experiment::read(path) {
            Ok(experiment) => assert_eq!(experiment.name, *name),
            Err(error) => errors += &format!("{error}\n"),
        }
    }
    assert!(errors.is_empty(), "{errors}");
    assert!(experiments.len() > 30, "{}", experiments.len());
}

#[test]
fn experiments_are_found_by_present_and_earlier_names() {
    let library = library();
    let found = library.find("gallop/figure-4").expect("an experiment");
    assert!(found.ends_with("experiments/gallop/figure-4.toml"));
    assert_eq!(library.find("003-fig4").expect("an alias"), found);
    let error = library.find("gallop/figure-44").expect_err("no experiment");
    let error = error.to_string();
    let expected = "unknown experiment `gallop/figure-44`: did you mean `gallop/figure-4`? there are default, ";
    assert!(error.starts_with(expected), "{error}");
    assert!(!error.contains("aliases"), "{error}");
}

#[test]
fn every_earlier_name_leads_to_a_present_one() {
    let library = library();
    let text = include_str!("../../experiments/aliases.toml");
    let aliases: BTreeMap<String, BTreeMap<String, String>> = toml::from_str(text).expect("TOML");
    for (before, now) in &aliases["experiments"] {
        assert_eq!(library.present_name(before), now);
        library.find(before).expect(before);
    }
    let files = library.experiments().expect("readable folders");
    let experiments = files
        .values()
        .map(|file| Experiment::read(file).expect("an experiment"));
    let claims: Vec<String> = experiments
        .flat_map(|experiment| experiment.claims)
        .map(|claim| claim.id)
        .collect();
    let before: BTreeSet<String> = claims
        .iter()
        .filter_map(|id| library.earlier_claim(id))
        .collect();
    for prefix in aliases["claims"].keys() {
        let start = format!("{prefix}/");
        assert!(before.iter().any(|id| id.starts_with(&start)), "{prefix}");
    }
    let exit = "gallop/figure-4/gallop-slow-start-exit";
    assert!(claims.iter().any(|id| id == exit));
    assert_eq!(
        library.earlier_claim(exit).as_deref(),
        Some("003/fig4/gallop-slow-start-exit")
    );
    assert_eq!(library.earlier_claim("gallop/figure-40/x"), None);
}

#[test]
fn an_experiment_elsewhere_has_the_name_of_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("own.toml");
    std::fs::write(&file, SOUND).expect("a written file");
    assert_eq!(Experiment::read(&file).expect("an experiment").name, "own");

    std::fs::write(folder.path().join("aliases.toml"), "").expect("a written file");
    let inner = folder.path().join("a paper");
    std::fs::create_dir(&inner).expect("a folder");
    std::fs::copy(&file, inner.join("own.toml")).expect("a copied file");
    let error = Experiment::read(&inner.join("own.toml")).expect_err("a space in a name");
    assert!(error.to_string().contains("a paper/own.toml: "), "{error}");
}

#[test]
fn a_folder_without_aliases_is_no_library() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = Library::open(folder.path()).expect_err("no aliases");
    assert!(error.to_string().contains("aliases.toml: "), "{error}");
    std::fs::write(folder.path().join("aliases.toml"), "[experiment]\n").expect("a written file");
    let error = Library::open(folder.path()).expect_err("an unknown key");
    assert!(error.to_string().contains("experiment"), "{error}");
}

#[test]
fn a_missing_file_is_named() {
    let error = Experiment::read(Path::new("nowhere/none.toml")).expect_err("no file");
    assert!(
        error
            .to_string()
            .starts_with("cannot read nowhere/none.toml: ")
    );
    let error = Experiment::read(Path::new("nowhere/none.json")).expect_err("another name");
    assert!(error.to_string().contains(".toml"));
}
