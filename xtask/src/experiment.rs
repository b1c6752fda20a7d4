//! The files in `experiments/`: a path, the controllers to run over it, and what a paper says.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use gallop_sim::comparison::{Claim, Run, Scenario};
use gallop_sim::units::{Buffer, Rate, Span, WIRE_OVERHEAD_BYTES};
use serde::{Deserialize, Deserializer, de};

/// The experiment that others take what they do not say from.
pub const DEFAULT: &str = "default";

/// One experiment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// What is shown, for people.
    pub title: String,
    /// The path and what flows over it.
    pub scenario: Setting,
    /// Options of a controller that is named without them.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// The controllers.
    #[serde(rename = "run")]
    pub runs: Vec<Run>,
    /// What the paper says; here `run` is the run's name alone.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
}

/// A scenario as a person writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Setting {
    /// The bottleneck's rate …
    pub rate: Option<Rate>,
    /// … or its rate in full datagrams per second, whatever their size.
    pub packets_per_second: Option<u64>,
    /// Propagation delay there and back.
    pub rtt: Span,
    /// What may wait at the bottleneck.
    #[serde(deserialize_with = "buffer")]
    pub buffer: Buffer,
    /// The largest datagram, in bytes of UDP payload.
    pub datagram: usize,
    /// The initial window, in datagrams.
    pub initial_window: usize,
    /// One acknowledgment for so many packets.
    pub ack_every: u32,
    /// How long to simulate.
    pub duration: Span,
    /// Flows that share the bottleneck.
    pub flows: usize,
    /// Determines everything random.
    pub seed: u64,
}

/// Reads a buffer as tc writes it.
fn buffer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Buffer, D::Error> {
    String::deserialize(deserializer)?
        .parse()
        .map_err(de::Error::custom)
}

impl Experiment {
    /// Reads `experiments/<name>.toml`.
    ///
    /// # Errors
    ///
    /// An unknown name (the known ones are listed), or the place in the file that is wrong.
    pub fn read(root: &Path, name: &str) -> Result<Experiment> {
        let known = names(root)?;
        if !known.iter().any(|known| known == name) {
            bail!(
                "there is no preset `{name}`: the presets are {}",
                known.join(", ")
            );
        }
        let path = root.join("experiments").join(format!("{name}.toml"));
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is no experiment", path.display()))
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

/// The names of the experiments that there are.
///
/// # Errors
///
/// The folder cannot be read.
pub fn names(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("experiments");
    let mut names = Vec::new();
    for entry in
        fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
            && let Some(stem) = path.file_stem()
        {
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

impl Setting {
    /// The scenario for the simulator.
    ///
    /// # Errors
    ///
    /// Neither or both of `rate` and `packets-per-second` are given, or the rate is out of range.
    pub fn scenario(&self) -> Result<Scenario> {
        let rate_bps = match (self.rate, self.packets_per_second) {
            (Some(rate), None) => rate,
            (None, Some(packets)) => {
                let bits = (self.datagram + WIRE_OVERHEAD_BYTES) as f64 * 8.0;
                Rate::from_bps(packets as f64 * bits).context("packets-per-second")?
            }
            _ => bail!("a scenario has either `rate` or `packets-per-second`"),
        };
        ensure!(self.ack_every > 0, "ack-every is 0: it must be at least 1");
        Ok(Scenario {
            rate_bps,
            rtt_s: self.rtt,
            buffer: self.buffer,
            datagram_bytes: self.datagram,
            initial_window_packets: self.initial_window,
            ack_every: self.ack_every,
            max_ack_delay_s: MAX_ACK_DELAY.parse()?,
            duration_s: self.duration,
            flows: self.flows,
            seed: self.seed,
            host_jitter_s: None,
        })
    }
}

/// QUIC's default `max_ack_delay` (RFC 9000 §18.2).
const MAX_ACK_DELAY: &str = "25ms";
