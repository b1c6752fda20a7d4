//! The format of experiment files: what is read, and what is refused in which
//! words.

use gallop_sim::experiment::Experiment;
use std::path::{Path, PathBuf};

const SOUND: &str = include_str!("experiments/fairness.toml");

fn parse(text: &str) -> Result<Experiment, String> {
    Experiment::parse("fairness", PathBuf::from("fairness.toml"), text.to_owned())
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
    assert_eq!(setup.flows[0].cc, "vegas:alpha=1,beta=3");
    assert_eq!(setup.host_jitter.as_micros(), 120);
    assert_eq!(experiment.axes[0].numbers(), Some(vec![0.001, 0.02]));
    assert_eq!(experiment.axes[2].numbers(), None);
    assert_eq!(experiment.traces_of(&experiment.points[1]), ["short"]);
    assert!(experiment.traces_of(&experiment.points[0]).is_empty());
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
            "fairness.toml:2:1: unknown key `titel`: did you mean `title`? there are title, source, about, duration, measure-from, seeds, datagram, initial-window, ack-every, max-ack-delay, host-jitter, sweep, run, link, dumbbell, flow, analysis, series, trace, table, plot, claim, fast",
        ),
        (
            "seeds = 2",
            "seeds = 0",
            "fairness.toml:7:9: it is 0; it must be at least 1",
        ),
        (
            "duration = \"4s\"",
            "duration = \"4parsecs\"",
            "fairness.toml:5:12: \"4parsecs\" is not a time: unknown unit \"parsecs\"; use ns, us, ms, s",
        ),
        (
            "rate = \"187.5pps\"",
            "rate = \"-187.5pps\"",
            "fairness.toml:28:8: \"-187.5pps\" is not a rate: it is negative",
        ),
        (
            "rate = \"187.5pps\"",
            "rats = \"187.5pps\"",
            "fairness.toml:28:1: unknown key `rats`: did you mean `rate`? there are name, from, to, delay, reverse, rate, queue, loss, reorder, duplicate, corrupt, jitter, outages, changes, trace, keep-order",
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
            "cc = \"reno\"",
            "cc = \"renot\"",
            "fairness.toml:18:6: unknown controller `renot`: did you mean `reno`? there are vegas, gallop-vegas, cubic-rfc9438, reno-whole, reno, cubic, bbr2",
        ),
        (
            "cc = \"vegas:alpha=1,beta=3\"",
            "cc = \"vegas:alfa=1\"",
            "fairness.toml:21:6: vegas: unknown option `alfa`: the options are alpha, beta, gamma, decrease, initial_window and rtt",
        ),
    ] {
        let error = parse(&with(old, new)).expect_err(new);
        assert_eq!(error, message, "{new}");
    }
}

#[test]
fn every_experiment_is_sound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments");
    let mut errors = String::new();
    let mut files = 0;
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|end| end == "toml") {
            files += 1;
            let error = Experiment::read(&path).err();
            errors.extend(error.map(|error| format!("{error}\n")));
        }
    }
    assert!(errors.is_empty(), "{errors}");
    assert!(files > 0);
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
