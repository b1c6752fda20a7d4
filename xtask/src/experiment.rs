//! The files in `experiments/`, and those of them that `compare` can take as a preset: all flows are
//! alike and endless and cross one dumbbell, and nothing varies but the controller.

use std::path::Path;

use anyhow::{Result, bail};
use gallop_sim::comparison::{Claim, Run, Scenario};
use gallop_sim::experiment::network::{DumbbellSpec, Network};
use gallop_sim::experiment::traffic::TrafficSpec;
use gallop_sim::experiment::{
    self, Across, AcrossName, Experiment, Library, LibraryError, RUN_AXIS, Setup,
};
use gallop_sim::queue::QueueSpec;
use gallop_sim::units::{Buffer, LinkRate, Span};

/// The preset that others take what they do not say from.
pub const DEFAULT: &str = "default";

/// A preset of `compare`.
#[derive(Debug)]
pub struct Preset {
    /// The experiment's present name.
    pub name: String,
    /// What is shown, for people.
    pub title: String,
    /// The path and what flows over it.
    pub setting: Setting,
    /// The controllers.
    pub runs: Vec<Run>,
    /// What the paper says; here `run` is the run's name alone.
    claims: Vec<Claim>,
}

/// A path and what flows over it.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The bottleneck's rate.
    pub rate: LinkRate,
    /// Propagation delay there and back.
    pub rtt: Span,
    /// What may wait at the bottleneck.
    pub buffer: Buffer,
    /// The largest datagram, in bytes of UDP payload.
    pub datagram: usize,
    /// The initial window, in datagrams.
    pub initial_window: usize,
    /// One acknowledgment for so many packets.
    pub ack_every: u32,
    /// The longest time an acknowledgment is held.
    pub max_ack_delay: Span,
    /// How long to simulate.
    pub duration: Span,
    /// Flows that share the bottleneck.
    pub flows: usize,
    /// Determines everything random.
    pub seed: u64,
}

/// The folder of the experiments.
///
/// # Errors
///
/// Its table of earlier names cannot be read.
pub fn library(root: &Path) -> Result<Library> {
    Ok(Library::open(&root.join("experiments"))?)
}

/// The names of the experiments that are presets.
///
/// # Errors
///
/// The folder cannot be read.
pub fn presets(root: &Path) -> Result<Vec<String>> {
    let files = library(root)?.experiments()?;
    let experiments = files
        .values()
        .filter_map(|file| Experiment::read(file).ok());
    Ok(experiments
        .filter(|experiment| Preset::new(experiment).is_ok())
        .map(|experiment| experiment.name)
        .collect())
}

impl Preset {
    /// Reads the experiment of this present or earlier name.
    ///
    /// # Errors
    ///
    /// An unknown name (the known ones are listed), an experiment that is no preset, or the place in
    /// the file that is wrong.
    pub fn read(root: &Path, name: &str) -> Result<Preset> {
        let path = match library(root)?.find(name) {
            Ok(path) => path,
            Err(LibraryError::Unknown(_)) => bail!(
                "there is no preset `{name}`: the presets are {}",
                presets(root)?.join(", ")
            ),
            Err(error) => return Err(error.into()),
        };
        let experiment = Experiment::read(&path)?;
        Preset::new(&experiment).map_err(|reason| {
            let presets = presets(root).unwrap_or_default().join(", ");
            anyhow::anyhow!(
                "the experiment `{name}` is no preset, because {reason}; run it with `cargo xtask papers {name}`: the presets are {presets}",
                name = experiment.name
            )
        })
    }

    fn new(experiment: &Experiment) -> Result<Preset, &'static str> {
        let mut settings = experiment.points.iter().map(|point| setting(&point.setup));
        let first = settings.next().unwrap_or(Err("it has no points"))?;
        for setting in settings {
            if setting? != first {
                return Err("more varies than the controller");
            }
        }
        let ccs = experiment.runs.iter().map(|run| run.cc.clone());
        let ccs: Option<Vec<String>> = ccs.collect();
        let (Some(ccs), [_]) = (ccs, &experiment.axes[..]) else {
            return Err("more varies than the controller");
        };
        let ids = experiment.runs.iter().map(|run| run.id.clone());
        Ok(Preset {
            name: experiment.name.clone(),
            title: experiment.title.clone(),
            setting: first,
            runs: ids.zip(ccs).map(|(id, cc)| Run { id, cc }).collect(),
            claims: experiment.claims.iter().filter_map(claim).collect(),
        })
    }

    /// The options of the first of the runs that have the controller `name`.
    pub fn options(&self, name: &str) -> &str {
        let mut runs = self.runs.iter().map(Run::name_and_options);
        runs.find(|(own, _)| *own == name)
            .map_or("", |(_, options)| options)
    }

    /// The claims about the runs of group `group` that are there.
    pub fn claims(&self, group: &str, runs: &[Run]) -> Vec<Claim> {
        self.claims
            .iter()
            .filter(|claim| runs.iter().any(|run| run.id == claim.run))
            .cloned()
            .map(|claim| Claim {
                run: format!("{group}/{}", claim.run),
                ..claim
            })
            .collect()
    }
}

/// A point in the terms of `compare`.
fn setting(setup: &Setup) -> Result<Setting, &'static str> {
    let Network::Dumbbell(dumbbell) = &setup.network else {
        return Err("its network is no [dumbbell]");
    };
    let (Some(rate), Some(QueueSpec::DropTail(queue))) = (dumbbell.rate, &dumbbell.queue) else {
        return Err("its bottleneck has no constant rate and drop-tail queue");
    };
    let plain = DumbbellSpec {
        rate: Some(rate),
        rtt: dumbbell.rtt,
        queue: dumbbell.queue.clone(),
        ..DumbbellSpec::default()
    };
    if **dumbbell != plain {
        return Err("its dumbbell has more than rate, rtt and queue");
    }
    let ([flow], [place]) = (&setup.flows[..], &setup.places[..]) else {
        return Err("its flows differ");
    };
    if !setup.measure_from.is_zero() {
        return Err("it does not measure from the start");
    }
    if flow.traffic != TrafficSpec::default() || !flow.start.is_zero() || flow.stop.is_some() {
        return Err("its flows do not send all the time");
    }
    let span = |duration| Span::try_from(duration).map_err(|_| "it takes too long");
    Ok(Setting {
        rate,
        rtt: dumbbell.rtt,
        buffer: queue.limit,
        datagram: setup.datagram_bytes,
        initial_window: setup.initial_window_packets,
        ack_every: setup.ack_every.get(),
        max_ack_delay: span(setup.max_ack_delay)?,
        duration: span(setup.duration)?,
        flows: place.count,
        seed: 1,
    })
}

/// Metrics of experiments that the analysis of traces has as well, and what they are called there.
const METRICS: [(&str, &str); 11] = [
    ("slow_start_exit_s", "slow_start_exit_s"),
    ("available_window_reached_s", "available_window_reached_s"),
    ("window_at_exit_packets", "window_at_exit_packets"),
    ("window_settled_packets", "window_settled_packets"),
    ("throughput_bps", "throughput_bps"),
    ("utilisation", "utilisation"),
    ("retransmitted_bytes", "retransmitted_bytes"),
    ("sent_packets", "packets_sent"),
    ("lost_packets", "packets_lost"),
    ("queue_mean_packets", "queue_mean_packets"),
    ("queue_max_packets", "queue_max_packets"),
];

/// A claim as the report of `compare` has it, if it is about one run and can be told from traces.
fn claim(claim: &experiment::Claim) -> Option<Claim> {
    let plain = matches!(
        claim.across,
        None | Some(Across::Named(
            AcrossName::Mean | AcrossName::Min | AcrossName::Max
        ))
    );
    if !plain || claim.ratio_to.is_some() || claim.value.subject == "analysis" {
        return None;
    }
    let [run] = claim.value.points.values(RUN_AXIS)[..] else {
        return None;
    };
    let (_, metric) = METRICS
        .iter()
        .find(|(name, _)| *name == claim.value.metric)?;
    let (low, high) = claim.bounds();
    Some(Claim {
        id: claim.id.clone(),
        run: run.to_owned(),
        metric: (*metric).to_owned(),
        title: claim.title.clone(),
        paper: claim.paper?,
        low,
        high,
        unit: claim.unit.clone(),
        source: claim.source.clone(),
        note: Some(claim.note.clone()).filter(|note| !note.is_empty()),
    })
}

impl Setting {
    /// The scenario for the simulator.
    ///
    /// # Errors
    ///
    /// The rate is out of range, or `ack_every` is 0.
    pub fn scenario(&self) -> Result<Scenario> {
        if self.ack_every == 0 {
            bail!("ack-every is 0: it must be at least 1");
        }
        Ok(Scenario {
            rate_bps: self.rate.resolve(self.datagram)?,
            rtt_s: self.rtt,
            buffer: self.buffer,
            datagram_bytes: self.datagram,
            initial_window_packets: self.initial_window,
            ack_every: self.ack_every,
            max_ack_delay_s: self.max_ack_delay,
            duration_s: self.duration,
            flows: self.flows,
            seed: self.seed,
            host_jitter_s: None,
        })
    }
}
