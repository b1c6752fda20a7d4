//! Plans of real runs, made from experiments.

use std::fs;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use gallop_network::queue::QueueSpec;
use gallop_network::units::{Buffer, Rate, Span, WIRE_OVERHEAD_BYTES};
use gallop_path::Settings;
use gallop_path::settings::{Direction, Errors, Jitter, Window};
use gallop_sim::experiment::network::{ChangeSpec, DumbbellSpec, JitterSpec, LossSpec, Network};
use gallop_sim::experiment::{Experiment, FlowSetup, RUN_AXIS, Setup};

/// The flow that is measured.
pub const TESTED: &str = "tested";

/// The flow beside it, for which the kernel's TCP stands.
pub const NEIGHBOUR: &str = "neighbour";

/// UDP payload of the programs' full datagrams.
const DATAGRAM_BYTES: usize = 1350;

/// The room of the queue on the way back, which the simulator gives where a file does not.
const REVERSE_PACKETS: u64 = 1000;

/// Access links of a dumbbell take 1/100 of its round trip one way, unless the file says otherwise.
const ACCESS_SHARE: u32 = 100;

/// The kernel's congestion controllers that stand for those of a file, by the beginnings of their
/// names.
const KERNEL: [(&str, &str); 3] = [("cubic", "cubic"), ("reno", "reno"), ("bbr", "bbr")];

/// A scenario: an experiment that is simulated and run in real time.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The experiment.
    pub experiment: Experiment,
    /// The real runs, one for each controller.
    pub plans: Vec<Plan>,
}

/// A real run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of the experiment's point.
    pub point: usize,
    /// The run's name.
    pub run: String,
    /// The controller under test.
    pub cc: String,
    /// The time at which its flow starts.
    pub start: Duration,
    /// The flow beside it.
    pub neighbour: Option<Neighbour>,
    /// The time that is measured.
    pub window: Window,
    /// The path, but for its seed.
    pub path: Settings,
}

/// A flow of the kernel's TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The kernel's controller.
    pub controller: &'static str,
    /// The time at which it starts.
    pub start: Duration,
}

impl Scenario {
    /// Reads a scenario. With `controllers`, these are run in place of the file's.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is no experiment, or no path of `gallop-path` is like its network.
    pub fn read(file: &Path, controllers: &[String]) -> Result<Scenario> {
        let place = || file.display().to_string();
        let mut text = fs::read_to_string(file).with_context(place)?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        // A text that is no TOML is refused below, with line and column.
        if let (Ok(mut table), false) = (text.parse::<toml::Table>(), controllers.is_empty()) {
            table.insert("run".to_owned(), runs(controllers));
            text = table.to_string();
        }
        Scenario::parse(&name, file, &text)
    }

    /// Makes a scenario of the text of an experiment.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    pub fn parse(name: &str, file: &Path, text: &str) -> Result<Scenario> {
        let place = || file.display().to_string();
        let experiment = Experiment::parse(name, file.to_path_buf(), text)?;
        let axes: Vec<&str> = experiment
            .axes
            .iter()
            .map(|axis| axis.name.as_str())
            .collect();
        ensure!(
            axes == [RUN_AXIS],
            "{}: only the controller may vary, by [[run]]; here vary: {}",
            file.display(),
            axes.join(", ")
        );
        let plans = experiment.points.iter().map(|point| {
            let run = point.labels.concat();
            Plan::new(point.number, run, &point.setup)
        });
        let plans = plans.collect::<Result<_>>().with_context(place)?;
        Ok(Scenario { experiment, plans })
    }
}

/// The tables `[[run]]` of controllers.
fn runs(controllers: &[String]) -> toml::Value {
    let run = |cc: &String| {
        // Names of runs have no other characters.
        let id = cc.replace(|char: char| !char.is_ascii_alphanumeric(), "-");
        let keys = [("id", id), ("cc", cc.clone())];
        let keys = keys.map(|(key, text)| (key.to_owned(), toml::Value::String(text)));
        toml::Value::Table(keys.into_iter().collect())
    };
    toml::Value::Array(controllers.iter().map(run).collect())
}

impl Plan {
    fn new(point: usize, run: String, setup: &Setup) -> Result<Plan> {
        check(setup)?;
        let window = Window {
            from: setup.measure_from,
            until: setup.duration,
        };
        let tested = setup.flows.first().context("flow: there is none")?;
        let neighbour = setup.flows.get(1);
        Ok(Plan {
            point,
            run,
            cc: tested.cc.clone(),
            start: tested.start,
            neighbour: neighbour.map(Neighbour::new).transpose()?,
            window,
            path: path(setup, window)?,
        })
    }

    /// The bottleneck's rate.
    pub fn rate(&self) -> Rate {
        self.path.to_client.rate
    }

    /// The time that a full packet takes on the bottleneck.
    pub fn packet_time(&self) -> Duration {
        self.rate()
            .time_to_send((DATAGRAM_BYTES + WIRE_OVERHEAD_BYTES) as u64)
    }
}

impl Neighbour {
    fn new(flow: &FlowSetup) -> Result<Neighbour> {
        let stand_in = KERNEL.iter().find(|(cc, _)| flow.cc.starts_with(cc));
        let (_, controller) = stand_in.with_context(|| {
            format!(
                "flow \"{NEIGHBOUR}\": the kernel's TCP has no \"{}\"; CUBIC, Reno and BBR can be had",
                flow.cc
            )
        })?;
        Ok(Neighbour {
            controller,
            start: flow.start,
        })
    }
}

/// A file with nothing but what every file must have.
const PLAINEST: &str = "title = 'plain'\nduration = '1s'\nack-every = 1\n\
                        run = [{ id = 'reno', cc = 'reno' }]\n\
                        [dumbbell]\nrate = '1mbit'\nrtt = '1ms'\nqueue = '1p'\n\
                        [[flow]]\nname = 'plain'";

/// Refuses what the programs and the path cannot do. Network and flows are looked at apart.
fn check(setup: &Setup) -> Result<()> {
    let plainest = Experiment::parse("plain", "plain.toml".into(), PLAINEST)?;
    let [point] = &plainest.points[..] else {
        bail!("{} points in the plainest file", plainest.points.len());
    };
    let plain = &point.setup;
    for (key, wanted, programs) in [
        ("datagram", setup.datagram_bytes, plain.datagram_bytes),
        (
            "initial-window",
            setup.initial_window_packets,
            plain.initial_window_packets,
        ),
        (
            "ack-every",
            setup.ack_every.get() as usize,
            plain.ack_every.get() as usize,
        ),
    ] {
        ensure!(
            wanted == programs,
            "{key}: the programs have {programs}, not {wanted}"
        );
    }
    let names = [TESTED, NEIGHBOUR];
    ensure!(
        setup.flows.len() <= names.len(),
        "flow: there may be one beside the first, not {}",
        setup.flows.len() - 1
    );
    for (flow, name) in setup.flows.iter().zip(names) {
        check_flow(flow, name, &plain.flows)?;
    }
    for place in &setup.places {
        ensure!(
            place.count == 1 && place.direction.is_none() && place.access_delay.is_none(),
            "flow \"{}\": it may have cc and start, nothing else",
            place.name
        );
    }
    let as_plain = Setup {
        duration: setup.duration,
        measure_from: setup.measure_from,
        host_jitter: setup.host_jitter,
        network: setup.network.clone(),
        places: setup.places.clone(),
        flows: setup.flows.clone(),
        ..plain.clone()
    };
    ensure!(
        *setup == as_plain,
        "beside its network and flows it may have duration, measure-from and host-jitter, nothing else"
    );
    Ok(())
}

/// Refuses a flow with more than a controller and a start.
fn check_flow(flow: &FlowSetup, name: &str, plain: &[FlowSetup]) -> Result<()> {
    ensure!(
        flow.name == name,
        "flow \"{}\": the first is called \"{TESTED}\", one beside it \"{NEIGHBOUR}\"",
        flow.name
    );
    let is_plain = plain.iter().all(|plain| {
        let as_plain = FlowSetup {
            name: flow.name.clone(),
            cc: flow.cc.clone(),
            start: flow.start,
            tested: flow.tested,
            ..plain.clone()
        };
        *flow == as_plain
    });
    ensure!(
        is_plain,
        "flow \"{name}\": it may have cc and start, nothing else"
    );
    Ok(())
}

/// The path that is like the network.
fn path(setup: &Setup, window: Window) -> Result<Settings> {
    let Network::Dumbbell(dumbbell) = &setup.network else {
        bail!("link: a path in real time has one bottleneck; use [dumbbell]");
    };
    let plain = DumbbellSpec {
        rate: dumbbell.rate,
        rtt: dumbbell.rtt,
        queue: dumbbell.queue.clone(),
        loss: dumbbell.loss.clone(),
        jitter: dumbbell.jitter.clone(),
        changes: dumbbell.changes.clone(),
        access_delay: dumbbell.access_delay,
        ..DumbbellSpec::default()
    };
    let (Some(rate), Some(queue), true) = (dumbbell.rate, &dumbbell.queue, plain == **dumbbell)
    else {
        bail!(
            "dumbbell: a path in real time has rate, rtt and queue, and may have access-delay, loss, jitter and changes"
        );
    };
    let loss = match &dumbbell.loss {
        None => None,
        Some(LossSpec::Uniform(probability)) => Some(Errors {
            probability: *probability,
            burst: None,
        }),
        Some(_) => bail!("dumbbell.loss: a path in real time has one probability"),
    };
    let jitter = match &dumbbell.jitter {
        None => None,
        Some(JitterSpec::Uniform(uniform)) => Some(Jitter {
            max: uniform.max.duration(),
            in_order: uniform.in_order,
        }),
        Some(_) => bail!("dumbbell.jitter: a path in real time has uniform times"),
    };
    let rtt = dumbbell.rtt.duration();
    let access = dumbbell
        .access_delay
        .map_or(rtt / ACCESS_SHARE, Span::duration);
    let change = |change: &ChangeSpec| {
        let (Some(delay), None) = (change.delay, change.rate) else {
            bail!("dumbbell.changes: a path in real time changes its delay alone");
        };
        Ok((change.at.duration(), delay.duration() + 2 * access))
    };
    let room = NonZeroU64::new(REVERSE_PACKETS).context("no room on the way back")?;
    let to_client = Direction {
        rate: rate.resolve(setup.datagram_bytes)?,
        delay: rtt / 2,
        queue: queue.clone(),
        changes: dumbbell.changes.iter().map(change).collect::<Result<_>>()?,
        jitter,
        loss,
        ..Direction::default()
    };
    let to_server = Direction {
        queue: QueueSpec::drop_tail(Buffer::Packets(room)),
        jitter: None,
        loss: None,
        ..to_client.clone()
    };
    Ok(Settings {
        to_server,
        to_client,
        window: Some(window),
        ..Settings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        title = "A"
        duration = "12s"
        measure-from = "2s"
        ack-every = 1
        run = [{ id = "a", cc = "vegas" }, { id = "b", cc = "bbr2" }]
        [dumbbell]
        rate = "10mbit"
        rtt = "40ms"
        queue = "8p"
        [[flow]]
        name = "tested"
        start = "3s"
        [[flow]]
        name = "neighbour"
        cc = "reno-rfc9002"
    "#;

    fn parsed(text: &str) -> Result<Scenario> {
        Scenario::parse("a", Path::new("a.toml"), text)
    }

    fn with(from: &str, to: &str) -> Result<Scenario> {
        assert!(FILE.contains(from), "{from}");
        parsed(&FILE.replace(from, to))
    }

    #[test]
    fn a_plan_is_what_the_file_says() {
        let scenario = parsed(FILE).unwrap();
        let ccs: Vec<&str> = scenario.plans.iter().map(|plan| plan.cc.as_str()).collect();
        assert_eq!(ccs, ["vegas", "bbr2"]);
        let plan = &scenario.plans[1];
        assert_eq!((plan.point, plan.run.as_str()), (1, "b"));
        assert_eq!(plan.start, Duration::from_secs(3));
        let neighbour = Neighbour {
            controller: "reno",
            start: Duration::ZERO,
        };
        assert_eq!(plan.neighbour, Some(neighbour));
        let window = Window {
            from: Duration::from_secs(2),
            until: Duration::from_secs(12),
        };
        assert_eq!((plan.window, plan.path.window), (window, Some(window)));
        let Settings {
            to_client,
            to_server,
            ..
        } = &plan.path;
        assert_eq!(to_client.rate, "10mbit".parse().unwrap());
        assert_eq!(to_client.delay, Duration::from_millis(20));
        assert_eq!(to_client.queue, gallop_path::settings::queue("8p").unwrap());
        assert_eq!(to_server.delay, to_client.delay);
        let room = gallop_path::settings::queue("1000p").unwrap();
        assert_eq!(to_server.queue, room);
        assert_eq!(plan.packet_time(), Duration::from_nanos(1_102_400));
    }

    #[test]
    fn impairments_are_on_the_way_to_the_client() {
        let more = "rtt = \"40ms\"\nloss = 0.01\njitter = \"2ms\"\naccess-delay = \"1ms\"\n\
                    changes = [{ at = \"5s\", delay = \"28ms\" }]";
        let scenario = with("rtt = \"40ms\"", more).unwrap();
        let Settings {
            to_client,
            to_server,
            ..
        } = &scenario.plans[0].path;
        assert_eq!(to_client.loss.unwrap().probability, 0.01);
        let jitter = Jitter {
            max: Duration::from_millis(2),
            in_order: true,
        };
        assert_eq!(to_client.jitter, Some(jitter));
        assert_eq!((to_server.loss, to_server.jitter), (None, None));
        let changes = [(Duration::from_secs(5), Duration::from_millis(30))];
        assert_eq!(to_client.changes, changes);
        assert_eq!(to_server.changes, changes);
    }

    #[test]
    fn a_network_that_no_path_is_like_is_refused() {
        for (from, to, culprit) in [
            ("ack-every = 1", "", "ack-every"),
            (
                "ack-every = 1",
                "ack-every = 1\ndatagram = 1200",
                "datagram",
            ),
            (
                "ack-every = 1",
                "ack-every = 1\ninitial-window = 4",
                "initial-window",
            ),
            (
                "rtt = \"40ms\"",
                "rtt = \"40ms\"\nbundle = \"1ms\"",
                "dumbbell",
            ),
            ("queue = \"8p\"", "", "dumbbell"),
            (
                "rtt = \"40ms\"",
                "rtt = \"40ms\"\nchanges = [{ at = \"5s\", rate = \"5mbit\" }]",
                "dumbbell.changes",
            ),
            (
                "rtt = \"40ms\"",
                "rtt = \"40ms\"\nloss = { kind = \"given\", packets = [1] }",
                "dumbbell.loss",
            ),
            ("\"reno-rfc9002\"", "\"vegas\"", "neighbour"),
            ("\"neighbour\"", "\"other\"", "other"),
            ("start = \"3s\"", "stop = \"3s\"", "tested"),
            ("start = \"3s\"", "count = 2", "tested"),
            (
                "ack-every = 1",
                "ack-every = 1\nmax-ack-delay = \"5ms\"",
                "nothing else",
            ),
            (
                "title = \"A\"",
                "title = \"A\"\nsweep = [{ x = [1, 2] }]",
                "x",
            ),
        ] {
            let error = format!("{:#}", with(from, to).unwrap_err());
            assert!(error.starts_with("a.toml"), "{error}");
            assert!(error.contains(culprit), "{culprit}: {error}");
        }
    }

    #[test]
    fn controllers_may_be_given_in_place_of_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("late.toml");
        fs::write(&file, FILE).unwrap();
        let given = ["copa:compete=on".to_owned()];
        let scenario = Scenario::read(&file, &given).unwrap();
        assert_eq!(scenario.experiment.name, "late");
        let [plan] = &scenario.plans[..] else {
            panic!("{:?}", scenario.plans);
        };
        assert_eq!(plan.cc, given[0]);
        assert!(Scenario::read(&file, &["no-such".to_owned()]).is_err());
        assert_eq!(Scenario::read(&file, &[]).unwrap().plans.len(), 2);
    }

    #[test]
    fn all_scenarios_of_the_repository_can_be_run() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/real");
        let mut number = 0;
        for entry in fs::read_dir(&folder).unwrap() {
            let file = entry.unwrap().path();
            let scenario = Scenario::read(&file, &[]).unwrap();
            assert!(scenario.plans.len() >= 6, "{}", file.display());
            number += 1;
        }
        assert!(number >= 12, "{number}");
    }
}
