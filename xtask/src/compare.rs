//! `cargo xtask compare`: controllers over one simulated path, and a report.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use gallop::stack::quiche::Selection;
use gallop_sim::comparison::{self, Comparison, Group, Invalid, Run};
use gallop_sim::units::{Buffer, LinkRate, Rate, Span};

use crate::experiment::{self, Preset};
use crate::job::{self, Steps};
use crate::{process, setup};

/// Compare congestion controllers over one simulated path
///
/// Each controller sends through a real quiche connection, with TLS, over a simulated path in
/// virtual time. A report with plots is made from the qlog traces. Without a flag: vegas,
/// gallop-vegas, cubic, reno and bbr2 over 50mbit, 100ms and a buffer of 100p for 60s, with
/// datagrams of 1350 bytes, an initial window of 10 and an ACK for every second packet. Rates, times
/// and buffers are written as tc(8) does: 50mbit, 100ms, 100p (packets) or 64kb.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo xtask compare
  cargo xtask compare --preset gallop/figure-4
  cargo xtask compare --cc gallop-vegas:alpha=1,beta=3 --cc cubic --rate 20mbit --rtt 40ms")]
pub struct Arguments {
    /// A setting in experiments/, for example gallop/figure-4 or gallop/figure-6
    #[arg(long, value_name = "NAME", default_value = experiment::DEFAULT)]
    preset: String,
    /// A controller: vegas, gallop-vegas (with options after a colon); reno, cubic or bbr2 as quiche
    /// has them; cubic-rfc9438 or reno-rfc9002, which follow their RFCs; may be given several times
    /// [default: the preset's]
    #[arg(long, value_name = "NAME[:options]")]
    cc: Vec<String>,
    /// The bottleneck's rate
    #[arg(long, allow_hyphen_values = true)]
    rate: Option<Rate>,
    /// Propagation delay there and back
    #[arg(long, allow_hyphen_values = true)]
    rtt: Option<Span>,
    /// What may wait at the bottleneck
    #[arg(long, allow_hyphen_values = true)]
    buffer: Option<Buffer>,
    /// How long to simulate
    #[arg(long, allow_hyphen_values = true)]
    duration: Option<Span>,
    /// Flows that share the bottleneck, all with the same controller
    #[arg(long, value_name = "N")]
    flows: Option<usize>,
    /// Determines everything random
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The largest datagram, in bytes of UDP payload
    #[arg(long, value_name = "BYTES")]
    datagram: Option<usize>,
    /// The initial window, in datagrams
    #[arg(long, value_name = "N")]
    initial_window: Option<usize>,
    /// One acknowledgment for so many packets
    #[arg(long, value_name = "N")]
    ack_every: Option<u32>,
    /// Where to write the traces and the report [default: target/compare/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also write the results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
///
/// Something is wrong with the arguments, a tool is missing, or a step fails.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = crate::root()?;
    let target = crate::target(&root);
    let preset = Preset::read(&root, &arguments.preset)?;
    let comparison = plan(&root, &preset, arguments)?;
    comparison.validate().map_err(named_by_flag)?;
    if let Some(json) = &arguments.json {
        job::check_json(json)?;
    }

    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| target.join("compare").join(&preset.name));
    prepare(&out)?;
    let plan = out.join(comparison::FILE_NAME);
    comparison.write(&plan)?;

    let mut steps = Steps::of(4);
    steps.next("Tools");
    setup::build_tools()?;
    let python = setup::python(&root, &target)?;
    steps.next("Simulator");
    let simulator = job::simulator(&root, &target)?;
    steps.next("Simulations");
    process::run(Command::new(simulator).arg("run").arg(&plan))?;
    steps.next("Report");
    let mut report = Command::new(&python);
    report.args(["-m", "qlog_analysis", "report"]).arg(&out);
    if let Some(json) = &arguments.json {
        report.arg("--json").arg(json);
    }
    process::run(&mut report)
}

/// Says a problem with the plan in terms of the flag that brought it in.
fn named_by_flag(invalid: Invalid) -> anyhow::Error {
    let field = invalid.place.rsplit('.').next().unwrap_or_default();
    let flag = match field {
        "rate_bps" => "--rate",
        "rtt_s" => "--rtt",
        "buffer" => "--buffer",
        "duration_s" => "--duration",
        "flows" => "--flows",
        "datagram_bytes" => "--datagram",
        "initial_window_packets" => "--initial-window",
        "ack_every" => "--ack-every",
        _ => return invalid.into(),
    };
    anyhow!("{flag}: {}", invalid.problem)
}

/// What to run, as the preset and the flags have it.
fn plan(root: &Path, preset: &Preset, arguments: &Arguments) -> Result<Comparison> {
    let default = Preset::read(root, experiment::DEFAULT)?;
    let mut setting = preset.setting.clone();
    if let Some(rate) = arguments.rate {
        setting.rate = LinkRate::Bits(rate);
    }
    replace(&mut setting.rtt, arguments.rtt);
    replace(&mut setting.buffer, arguments.buffer);
    replace(&mut setting.duration, arguments.duration);
    replace(&mut setting.flows, arguments.flows);
    replace(&mut setting.seed, arguments.seed);
    replace(&mut setting.datagram, arguments.datagram);
    replace(&mut setting.initial_window, arguments.initial_window);
    replace(&mut setting.ack_every, arguments.ack_every);

    let given = runs(&arguments.cc)?;
    let chosen = |own: &[Run]| {
        if given.is_empty() {
            own.to_vec()
        } else {
            given.clone()
        }
    };
    let main = Group {
        id: "main".into(),
        title: preset.title.clone(),
        scenario: setting.scenario()?,
        runs: with_options(&chosen(&preset.runs), preset)?,
    };
    // A run with other options has another name, so the paper's claims do not apply to it.
    let claims = if changes_path(arguments) {
        Vec::new()
    } else {
        preset.claims(&main.id, &chosen(&preset.runs))
    };
    let mut groups = vec![main];
    if preset.name != experiment::DEFAULT {
        let mut today = setting;
        today.datagram = default.setting.datagram;
        today.initial_window = default.setting.initial_window;
        today.ack_every = default.setting.ack_every;
        groups.push(Group {
            id: "quic-defaults".into(),
            title: "The same path with QUIC's defaults".into(),
            scenario: today.scenario()?,
            runs: with_options(&chosen(&default.runs), &default)?,
        });
    }
    Ok(Comparison {
        title: preset.title.clone(),
        command: command()?,
        groups,
        claims,
    })
}

fn replace<T>(value: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *value = given;
    }
}

/// Whether the flags change what a paper's claims rest on. The datagram size is none of it, since
/// papers count in packets.
fn changes_path(arguments: &Arguments) -> bool {
    arguments.rate.is_some()
        || arguments.rtt.is_some()
        || arguments.buffer.is_some()
        || arguments.duration.is_some()
        || arguments.flows.is_some()
        || arguments.initial_window.is_some()
        || arguments.ack_every.is_some()
}

/// The controllers of the flags, each with a name for its folder.
fn runs(controllers: &[String]) -> Result<Vec<Run>> {
    let mut seen = BTreeSet::new();
    controllers
        .iter()
        .map(|cc| {
            let id = cc.replace([':', ',', '='], "-");
            ensure!(seen.insert(id.clone()), "controller `{cc}` is given twice");
            Ok(Run { id, cc: cc.clone() })
        })
        .collect()
}

/// Checks the controllers and completes their options with the experiment's.
fn with_options(runs: &[Run], preset: &Preset) -> Result<Vec<Run>> {
    runs.iter()
        .map(|run| {
            let (name, own) = run.cc.split_once(':').unwrap_or((&run.cc, ""));
            let selection: Selection = run.cc.parse()?;
            if selection.algorithm().is_none() {
                return Ok(run.clone());
            }
            let defaults = preset.options(name);
            let options = merged(defaults, own);
            let cc = if options.is_empty() {
                name.into()
            } else {
                format!("{name}:{options}")
            };
            cc.parse::<Selection>()?;
            Ok(Run {
                id: run.id.clone(),
                cc,
            })
        })
        .collect()
}

/// Options with what `own` says in place of `defaults`.
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

/// The command line that runs this again.
fn command() -> Result<String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quoted = shlex::try_join(arguments.iter().map(String::as_str))?;
    Ok(format!("cargo xtask {quoted}"))
}

/// An empty folder, or one whose earlier comparison is replaced.
fn prepare(out: &Path) -> Result<()> {
    let context = || format!("--out {}", out.display());
    fs::create_dir_all(out).with_context(context)?;
    let is_empty = fs::read_dir(out).with_context(context)?.next().is_none();
    if is_empty {
        return Ok(());
    }
    ensure!(
        out.join(comparison::FILE_NAME).is_file(),
        "--out {}: there are files in it that no comparison wrote; give an empty folder",
        out.display()
    );
    for folder in ["runs", "plots"] {
        let folder = out.join(folder);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(context)?;
        }
    }
    for file in ["report.html", "summary.json", "summary.csv"] {
        let file = out.join(file);
        if file.exists() {
            fs::remove_file(&file).with_context(context)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn planned(line: &str) -> Result<Comparison> {
        let words = std::iter::once("compare").chain(line.split_whitespace());
        let root = crate::root()?;
        let arguments = Line::try_parse_from(words)?.arguments;
        plan(&root, &Preset::read(&root, &arguments.preset)?, &arguments)
    }

    fn controllers(group: &Group) -> Vec<&str> {
        group.runs.iter().map(|run| run.cc.as_str()).collect()
    }

    #[test]
    fn nothing_said_is_all_controllers_over_the_default_path() {
        let comparison = planned("").unwrap();
        assert_eq!(comparison.groups.len(), 1);
        let group = &comparison.groups[0];
        assert_eq!(
            controllers(group),
            [
                "gallop-vegas",
                "vegas",
                "copa",
                "cubic-rfc9438",
                "reno-rfc9002",
                "cubic",
                "reno",
                "bbr2"
            ]
        );
        let scenario = &group.scenario;
        assert_eq!(scenario.rate_bps, "50mbit".parse().unwrap());
        assert_eq!(scenario.rtt_s, "100ms".parse().unwrap());
        assert_eq!(scenario.buffer, "100p".parse().unwrap());
        assert_eq!(scenario.duration_s, "60s".parse().unwrap());
        assert_eq!(
            (scenario.datagram_bytes, scenario.initial_window_packets),
            (1350, 10)
        );
    }

    #[test]
    fn every_preset_is_sound() {
        let root = crate::root().unwrap();
        let presets = experiment::presets(&root).unwrap();
        for name in ["gallop/figure-4", "gallop/figure-6", "default"] {
            assert!(presets.iter().any(|preset| preset == name), "{name}");
        }
        for name in presets {
            let comparison = planned(&format!("--preset {name}")).unwrap();
            comparison.validate().unwrap();
        }
        assert!(planned("--preset gallop/figure-4").unwrap().claims.len() >= 8);
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
        let root = crate::root().unwrap();
        let earlier = Preset::read(&root, "003-fig4").unwrap();
        assert_eq!(earlier.name, "gallop/figure-4");
    }

    #[test]
    fn a_preset_keeps_the_papers_packets_per_second() {
        for datagram in [1200, 1350] {
            let comparison =
                planned(&format!("--preset gallop/figure-4 --datagram {datagram}")).unwrap();
            let bits = (datagram as u64 + 28) * 8;
            assert_eq!(comparison.groups[0].scenario.rate_bps.bps(), 6250 * bits);
        }
    }

    #[test]
    fn a_preset_gives_bare_names_its_options() {
        let comparison =
            planned("--preset gallop/figure-4 --cc vegas --cc vegas:gamma=3,rtt=min --cc reno")
                .unwrap();
        assert_eq!(
            controllers(&comparison.groups[0]),
            [
                "vegas:alpha=1,beta=3,gamma=1",
                "vegas:alpha=1,beta=3,gamma=3,rtt=min",
                "reno"
            ]
        );
        assert_eq!(
            controllers(&comparison.groups[1]),
            ["vegas", "vegas:gamma=3,rtt=min", "reno"]
        );
    }

    #[test]
    fn claims_are_about_the_papers_setting_only() {
        assert!(
            !planned("--preset gallop/figure-4 --cc gallop-vegas")
                .unwrap()
                .claims
                .is_empty()
        );
        assert!(
            planned("--preset gallop/figure-4 --rtt 20ms")
                .unwrap()
                .claims
                .is_empty()
        );
        assert!(
            planned("--preset gallop/figure-4 --cc gallop-vegas:beta=9")
                .unwrap()
                .claims
                .is_empty()
        );
    }

    #[test]
    fn errors_name_what_is_wrong_and_what_is_allowed() {
        for (line, message) in [
            (
                "--cc vega",
                "unknown congestion controller `vega`: did you mean `vegas`? the controllers are vegas, gallop-vegas, copa, cubic-rfc9438, reno-rfc9002, reno, cubic and bbr2",
            ),
            (
                "--cc reno:beta=1",
                "the controller `reno` has no options, but `beta=1` was given",
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
            ("--ack-every 0", "ack-every is 0: it must be at least 1"),
        ] {
            let error = format!("{:#}", planned(line).unwrap_err());
            assert!(error.starts_with(message), "{line}: {error}");
        }
    }

    #[test]
    fn values_out_of_range_are_named_by_their_flag() {
        for (line, message) in [
            ("--duration 0s", "--duration: it is 0; it must be positive"),
            ("--flows 0", "--flows: 0 is not from 1 to 100000"),
            (
                "--datagram 900",
                "--datagram: 900 is not from 1200 to 65507",
            ),
            (
                "--initial-window 0",
                "--initial-window: 0 is not from 1 to 1048576",
            ),
        ] {
            let invalid = planned(line).unwrap().validate().unwrap_err();
            assert_eq!(named_by_flag(invalid).to_string(), message, "{line}");
        }
    }

    #[test]
    fn a_folder_with_other_peoples_files_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.txt"), "important").unwrap();
        let error = prepare(folder.path()).unwrap_err();
        assert!(error.to_string().contains("no comparison wrote"), "{error}");
        assert!(folder.path().join("thesis.txt").exists());
    }

    #[test]
    fn an_earlier_comparison_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("runs").join("main");
        fs::create_dir_all(&old).unwrap();
        fs::write(folder.path().join(comparison::FILE_NAME), "{}").unwrap();
        prepare(folder.path()).unwrap();
        assert!(!old.exists());
    }
}
