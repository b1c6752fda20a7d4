//! From a preset and the flags to the experiments that are run.

use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use gallop::catalog::name_and_options;

use super::preset::{Contender, DEFAULT, Preset};
use super::{Arguments, CompareError};
use crate::experiment::Library;
use crate::experiment::network::Network;
use crate::experiment::{
    Axis, Claim, Experiment, PlainPath, Point, RUN_AXIS, Run, Series, Setup, Trace, Where,
};
use crate::invalid::Invalid;
use crate::queue::{DropTailSpec, QueueSpec};
use crate::stack::{Selection, Stack};
use crate::units::Span;

/// The folders of the two experiments.
const MAIN: &str = "main";
const QUIC_DEFAULTS: &str = "quic-defaults";

/// The finest distance of values over time.
const SERIES_EVERY: Duration = Duration::from_millis(10);

/// The approximate number of values over time that a run has of each metric, of all flows together.
const MOST_VALUES: u32 = 10_000;

/// The preset's name and the experiments, the main one first.
pub(super) fn experiments(
    arguments: &Arguments,
    library: &Library,
) -> Result<(String, Vec<Experiment>), CompareError> {
    let default = Preset::named(library, DEFAULT)?;
    let preset = match &arguments.experiment {
        Some(file) => Preset::read(library, file)?,
        None => Preset::named(library, &arguments.preset)?,
    };
    let given = contenders(&arguments.cc)?;
    let chosen = |preset: &Preset| {
        let own = match given.is_empty() {
            true => &preset.runs,
            false => &given,
        };
        let mut runs = with_options(own, preset)?;
        for run in &mut runs {
            in_stack(run, arguments.stack)?;
        }
        Ok::<_, CompareError>(runs)
    };
    let runs = chosen(&preset)?;
    let setup = changed(&preset, arguments)?;
    let mut main = Experiment {
        directory: PathBuf::from(MAIN),
        first_seed: arguments.seed.unwrap_or(1),
        seeds: arguments.seeds.get(),
        claims: claims(&preset, &runs, arguments),
        ..preset.experiment.clone()
    };
    if main.first_seed.checked_add(main.seeds).is_none() {
        return Err(flag(
            "--seed",
            "with --seeds it is beyond the largest seed, 2^64 − 1",
        ));
    }
    let command = arguments.command.clone();
    main.command = command.unwrap_or_else(|| format!("gallop-sim compare --preset {}", main.name));
    let mut experiments = vec![with_runs(&main, &setup, &runs)?];
    if preset.experiment.name != DEFAULT {
        let setup = Setup {
            datagram_bytes: default.path.datagram_bytes,
            initial_window_packets: default.path.initial_window_packets,
            ack_every: NonZeroU32::new(default.path.ack_every).unwrap_or(NonZeroU32::MIN),
            ..setup
        };
        let today = Experiment {
            directory: PathBuf::from(QUIC_DEFAULTS),
            title: "The same path with QUIC's defaults".to_owned(),
            analysis: None,
            claims: Vec::new(),
            ..main
        };
        experiments.push(with_runs(&today, &setup, &chosen(&default)?)?);
    }
    Ok((preset.experiment.name, experiments))
}

fn flag(flag: &'static str, problem: impl Into<String>) -> CompareError {
    CompareError::Flag {
        flag,
        problem: problem.into(),
    }
}

/// The controllers of the flags, each with a name for its folder.
fn contenders(controllers: &[String]) -> Result<Vec<Contender>, CompareError> {
    let mut seen = BTreeSet::new();
    let contender = |cc: &String| {
        let id = cc.replace([':', ',', '=', '/'], "-");
        match seen.insert(id.clone()) {
            true => Ok(Contender {
                id,
                title: cc.clone(),
                cc: cc.clone(),
            }),
            false => Err(CompareError::Twice(cc.clone())),
        }
    };
    controllers.iter().map(contender).collect()
}

/// Puts a controller into a stack, unless it names one itself.
fn in_stack(run: &mut Contender, stack: Stack) -> Result<(), CompareError> {
    let cc = stack.controller(&run.cc);
    if cc != run.cc {
        run.cc = cc;
        run.title = stack.controller(&run.title);
        run.id = format!("{}-{}", stack.as_str(), run.id);
    }
    run.cc.parse::<Selection>()?;
    Ok(())
}

/// Checks the controllers and completes their options with the preset's.
fn with_options(runs: &[Contender], preset: &Preset) -> Result<Vec<Contender>, CompareError> {
    let complete = |run: &Contender| {
        let (name, own) = name_and_options(&run.cc);
        let options = merged(preset.options(name), own);
        let cc = match options.is_empty() {
            true => name.to_owned(),
            false => format!("{name}:{options}"),
        };
        Ok(Contender { cc, ..run.clone() })
    };
    runs.iter().map(complete).collect()
}

/// The options `own`, completed by `defaults`.
fn merged(defaults: &str, own: &str) -> String {
    let name = |pair: &str| pair.split('=').next().unwrap_or_default().trim().to_owned();
    let own: Vec<&str> = own.split(',').filter(|pair| !pair.is_empty()).collect();
    let names: Vec<String> = own.iter().map(|pair| name(pair)).collect();
    let kept = defaults
        .split(',')
        .filter(|pair| !pair.is_empty() && !names.contains(&name(pair)));
    kept.chain(own.iter().copied())
        .collect::<Vec<_>>()
        .join(",")
}

/// The preset's setup as the flags change it.
fn changed(preset: &Preset, arguments: &Arguments) -> Result<Setup, CompareError> {
    let mut setup = match preset.experiment.points.first() {
        Some(point) => point.setup.clone(),
        None => return Err(flag("--preset", "it has no points")),
    };
    if let Network::Dumbbell(dumbbell) = &mut setup.network {
        if let Some(rate) = arguments.rate {
            dumbbell.rate = Some(rate);
        }
        if let Some(rtt) = arguments.rtt {
            positive("--rtt", rtt)?;
            dumbbell.rtt = rtt;
        }
        if let Some(limit) = arguments.buffer {
            dumbbell.queue = Some(QueueSpec::DropTail(DropTailSpec { limit }));
        }
    }
    if let Some(duration) = arguments.duration {
        positive("--duration", duration)?;
        setup.duration = duration.duration();
    }
    if let Some(bytes) = arguments.datagram {
        setup.datagram_bytes = bytes;
    }
    if let Some(packets) = arguments.initial_window {
        setup.initial_window_packets = packets;
    }
    if let Some(every) = arguments.ack_every {
        setup.ack_every = NonZeroU32::new(every)
            .ok_or_else(|| flag("--ack-every", "it is 0; it must be at least 1"))?;
    }
    if let Some(flows) = arguments.flows {
        setup.set_members(flows);
    }
    setup.check().map_err(named_by_flag)?;
    Ok(setup)
}

fn positive(name: &'static str, span: Span) -> Result<(), CompareError> {
    match span.duration().is_zero() {
        true => Err(flag(name, "it is 0; it must be positive")),
        false => Ok(()),
    }
}

/// Names the flag that caused a problem with the setup.
fn named_by_flag(invalid: Invalid) -> CompareError {
    let flag = match invalid.place.as_str() {
        "datagram" => "--datagram",
        "initial-window" => "--initial-window",
        "flow" => "--flows",
        "dumbbell.rate" => "--rate",
        place if place.starts_with("dumbbell.queue") => "--buffer",
        _ => "--rtt",
    };
    CompareError::Flag {
        flag,
        problem: invalid.problem,
    }
}

/// The experiment with these controllers over this path, and with the traces of all flows.
fn with_runs(
    experiment: &Experiment,
    setup: &Setup,
    runs: &[Contender],
) -> Result<Experiment, CompareError> {
    let setup = |cc: &str| {
        let mut setup = setup.clone();
        for flow in &mut setup.flows {
            cc.clone_into(&mut flow.cc);
        }
        setup
    };
    let point = |(number, run): (usize, &Contender)| Point {
        number,
        labels: vec![run.id.clone()],
        setup: setup(&run.cc),
    };
    let points: Vec<Point> = runs.iter().enumerate().map(point).collect();
    let first = points.first().map(|point| &point.setup);
    // The rate in bits depends on the datagrams of this path.
    if let Some(Err(reason)) = first.map(PlainPath::of) {
        return Err(flag("--rate", reason));
    }
    let flows = first.map_or(&[][..], |setup| &setup.flows);
    Ok(Experiment {
        axes: vec![Axis {
            name: RUN_AXIS.to_owned(),
            values: runs.iter().map(|run| run.id.clone()).collect(),
        }],
        runs: runs
            .iter()
            .map(|run| Run {
                id: run.id.clone(),
                title: run.title.clone(),
                cc: Some(run.cc.clone()),
            })
            .collect(),
        series: first.map(|setup| Series {
            every: series_every(setup),
            seeds: NonZeroU64::MIN,
        }),
        traces: flows
            .iter()
            .map(|flow| Trace {
                flow: flow.name.clone(),
                every_member: true,
                points: Where::default(),
            })
            .collect(),
        tables: Vec::new(),
        plots: Vec::new(),
        points,
        ..experiment.clone()
    })
}

/// The distance of values over time that makes neither too many of them nor too few.
fn series_every(setup: &Setup) -> Span {
    let flows = u32::try_from(setup.members()).unwrap_or(u32::MAX);
    let least = setup.duration.saturating_mul(flows) / MOST_VALUES;
    let steps = least.as_nanos().div_ceil(SERIES_EVERY.as_nanos()).max(1);
    let every = SERIES_EVERY.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX));
    Span::try_from(every).unwrap_or_default()
}

/// The claims that still apply: about runs that are there as the preset has them, on its path.
fn claims(preset: &Preset, runs: &[Contender], arguments: &Arguments) -> Vec<Claim> {
    if arguments.change_path() {
        return Vec::new();
    }
    let unchanged = |id: &str| {
        let own = preset.runs.iter().find(|own| own.id == id);
        own.is_some_and(|own| runs.iter().any(|run| run.id == own.id && run.cc == own.cc))
    };
    let applies = |claim: &&Claim| {
        let value = claim.value.points.values(RUN_AXIS);
        let other = claim.ratio_to.as_ref();
        let other = other.map_or(Vec::new(), |other| other.points.values(RUN_AXIS));
        match value.is_empty() {
            // A claim without runs is about all of them.
            true => {
                runs.len() == preset.runs.len() && preset.runs.iter().all(|own| unchanged(&own.id))
            }
            false => value.into_iter().chain(other).all(unchanged),
        }
    };
    preset
        .experiment
        .claims
        .iter()
        .filter(applies)
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::super::preset;
    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn library() -> Library {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments");
        Library::open(&folder).expect("the experiments")
    }

    fn planned(line: &str) -> Result<Vec<Experiment>, CompareError> {
        let words = std::iter::once("compare").chain(line.split_whitespace());
        let arguments = Line::try_parse_from(words).expect(line).arguments;
        experiments(&arguments, &library()).map(|(_, experiments)| experiments)
    }

    fn controllers(experiment: &Experiment) -> Vec<&str> {
        let flows = experiment
            .points
            .iter()
            .flat_map(|point| &point.setup.flows);
        flows.map(|flow| flow.cc.as_str()).collect()
    }

    #[test]
    fn without_flags_it_is_the_default_path() {
        let experiments = planned("").unwrap();
        let [main] = &experiments[..] else {
            panic!("{} experiments", experiments.len());
        };
        let path = PlainPath::of(&main.points[0].setup).unwrap();
        assert_eq!(path.resolved, "50mbit".parse().unwrap());
        assert_eq!(path.rtt, "100ms".parse().unwrap());
        assert_eq!(path.buffer, "100p".parse().unwrap());
        assert_eq!(path.duration, "60s".parse().unwrap());
        assert_eq!(
            (path.datagram_bytes, path.initial_window_packets),
            (1350, 10)
        );
        assert_eq!((main.first_seed, main.seeds), (1, 1));
        assert!(controllers(main).contains(&"cubic-rfc9438"));
        assert!(controllers(main).contains(&"bbr2"));
        let every = main.series.map(|series| series.every.duration());
        assert_eq!(every, Some(SERIES_EVERY));
    }

    #[test]
    fn every_preset_is_sound() {
        let presets = preset::names(&library()).unwrap();
        for name in ["gallop/figure-4", "gallop/figure-6", "default"] {
            assert!(presets.iter().any(|preset| preset == name), "{name}");
        }
        for name in presets {
            planned(&format!("--preset {name}")).expect(&name);
        }
        assert!(planned("--preset gallop/figure-4").unwrap()[0].claims.len() >= 8);
    }

    #[test]
    fn an_experiment_that_varies_is_no_preset() {
        let error = planned("--preset ns2/loss").unwrap_err().to_string();
        let expected =
            "the experiment `ns2/loss` is no preset, because its network is no [dumbbell]; ";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn an_earlier_name_is_the_same_preset() {
        assert_eq!(
            planned("--preset 003-fig4").unwrap()[0].name,
            "gallop/figure-4"
        );
    }

    #[test]
    fn a_preset_keeps_the_papers_packets_per_second() {
        for datagram in [1200, 1350] {
            let line = format!("--preset gallop/figure-4 --datagram {datagram}");
            let main = &planned(&line).unwrap()[0];
            let path = PlainPath::of(&main.points[0].setup).unwrap();
            let bits = (datagram as u64 + 28) * 8;
            assert_eq!(path.resolved.bps(), 6250 * bits);
        }
    }

    #[test]
    fn a_preset_gives_bare_names_its_options() {
        let line = "--preset gallop/figure-4 --cc vegas --cc vegas:gamma=3,rtt=min --cc reno";
        let experiments = planned(line).unwrap();
        assert_eq!(
            controllers(&experiments[0]),
            [
                "vegas:alpha=1,beta=3,gamma=1",
                "vegas:alpha=1,beta=3,gamma=3,rtt=min",
                "reno"
            ]
        );
        assert_eq!(
            controllers(&experiments[1]),
            ["vegas", "vegas:gamma=3,rtt=min", "reno"]
        );
        let ids: Vec<&str> = experiments[0]
            .runs
            .iter()
            .map(|run| run.id.as_str())
            .collect();
        assert_eq!(ids, ["vegas", "vegas-gamma-3-rtt-min", "reno"]);
    }

    #[test]
    fn a_preset_is_also_run_with_quics_defaults() {
        let experiments = planned("--preset gallop/figure-4 --rtt 20ms").unwrap();
        let [main, today] = &experiments[..] else {
            panic!("{} experiments", experiments.len());
        };
        let setup = |experiment: &Experiment| experiment.points[0].setup.clone();
        assert_eq!(setup(main).initial_window_packets, 2);
        assert_eq!(setup(today).initial_window_packets, 10);
        assert_eq!(
            (setup(main).ack_every.get(), setup(today).ack_every.get()),
            (1, 2)
        );
        let paths = [main, today].map(|one| PlainPath::of(&setup(one)).unwrap());
        assert_eq!(paths[0].rtt, paths[1].rtt);
        assert_eq!(controllers(today), controllers(&planned("").unwrap()[0]));
        assert!(today.claims.is_empty() && today.analysis.is_none());
    }

    #[test]
    fn claims_are_about_the_papers_setting_only() {
        let claims = |line: &str| planned(line).unwrap()[0].claims.len();
        let all = claims("--preset gallop/figure-4");
        let some = claims("--preset gallop/figure-4 --cc gallop-vegas");
        assert!(0 < some && some < all, "{some} of {all}");
        assert_eq!(
            claims("--preset gallop/figure-4 --datagram 1200 --seeds 3"),
            all
        );
        for flags in [
            "--rtt 20ms",
            "--rate 20mbit",
            "--buffer 10p",
            "--duration 5s",
            "--flows 2",
            "--initial-window 3",
            "--ack-every 2",
            "--cc gallop-vegas:beta=9",
        ] {
            assert_eq!(
                claims(&format!("--preset gallop/figure-4 {flags}")),
                0,
                "{flags}"
            );
        }
    }

    #[test]
    fn many_flows_have_fewer_values_over_time() {
        let every = |line: &str| planned(line).unwrap()[0].series.unwrap().every.duration();
        assert_eq!(every("--flows 2"), Duration::from_millis(20));
        assert_eq!(
            every("--flows 100 --duration 10s"),
            Duration::from_millis(100)
        );
        assert_eq!(every("--duration 1ms"), Duration::from_millis(10));
    }

    #[test]
    fn hosts_are_out_of_step_when_there_are_several_flows() {
        let jitter = |line: &str| planned(line).unwrap()[0].points[0].setup.host_jitter;
        assert_eq!(jitter(""), Duration::ZERO);
        assert_eq!(jitter("--flows 2"), Duration::from_micros(120));
    }

    #[test]
    fn errors_name_what_is_wrong_and_what_is_allowed() {
        for (line, message) in [
            (
                "--cc vega",
                "unknown congestion controller `vega`: did you mean `vegas`? the controllers are ",
            ),
            (
                "--cc reno:beta=1",
                "reno is built into quiche and takes no options, but `beta=1` was given",
            ),
            (
                "--cc vegas:alpha=9",
                "vegas: option `alpha` (9) is above `beta` (4): it must be at most beta",
            ),
            ("--cc vegas --cc vegas", "controller `vegas` is given twice"),
            (
                "--preset gallop/nothing",
                "there is no preset `gallop/nothing`: the presets are ",
            ),
            (
                "--ack-every 0",
                "--ack-every: it is 0; it must be at least 1",
            ),
            ("--duration 0s", "--duration: it is 0; it must be positive"),
            ("--rtt 0s", "--rtt: it is 0; it must be positive"),
            ("--flows 0", "--flows: 0 is not from 1 to 100000"),
            ("--flows 100001", "--flows: 100001 is not from 1 to 100000"),
            (
                "--datagram 900",
                "--datagram: 900 is not from 1200 to 65507",
            ),
            (
                "--initial-window 0",
                "--initial-window: 0 is not from 1 to 1048576",
            ),
            (
                "--seed 18446744073709551615 --seeds 2",
                "--seed: with --seeds it is beyond the largest seed",
            ),
        ] {
            let error = planned(line).unwrap_err().to_string();
            assert!(error.starts_with(message), "{line}: {error}");
        }
    }
}
