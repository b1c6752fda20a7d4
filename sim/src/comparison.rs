//! The file `comparison.json`: which controllers run over which paths, and what
//! the results are held against.
//!
//! The file lies in a directory of its own; next to it the simulator writes
//! `runs/<group>/<run>/` ([`record`](crate::record)).

pub use crate::invalid::Invalid;
use crate::invalid::require;
use crate::units::{Buffer, Rate, Span};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The name of the file in a comparison's directory.
pub const FILE_NAME: &str = "comparison.json";

/// What to run, and what to hold the results against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// What is compared, for people.
    pub title: String,
    /// The command that runs it again.
    pub command: String,
    /// Paths and the controllers to run over them, at least one.
    pub groups: Vec<Group>,
    /// What papers say about it.
    #[serde(default)]
    pub claims: Vec<Claim>,
}

/// Controllers that run over the same path, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Names the group's directory.
    pub id: String,
    /// What is special about it, for people.
    pub title: String,
    /// The path and what flows over it.
    pub scenario: Scenario,
    /// The controllers, at least one.
    pub runs: Vec<Run>,
}

/// A dumbbell, and equal endless flows over it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Rate of the bottleneck, in bits per second on the wire.
    pub rate_bps: Rate,
    /// Propagation delay there and back, in seconds.
    pub rtt_s: Span,
    /// What may wait at the bottleneck.
    pub buffer: Buffer,
    /// The largest datagram: UDP payload, in bytes.
    pub datagram_bytes: usize,
    /// Initial window (RFC 9002 §7.2), in datagrams.
    pub initial_window_packets: usize,
    /// One acknowledgement for so many packets.
    pub ack_every: u32,
    /// The longest time an acknowledgement is held, in seconds.
    pub max_ack_delay_s: Span,
    /// How long to simulate, in seconds.
    pub duration_s: Span,
    /// Flows that share the bottleneck, from the start.
    pub flows: usize,
    /// Determines everything random.
    pub seed: u64,
    /// The longest random time that a server takes before it sends a packet, in
    /// seconds. Without it, the simulator's default for several flows, and none
    /// for a flow alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_jitter_s: Option<Span>,
}

/// One controller over the group's path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Names the run's directory.
    pub id: String,
    /// The controller's name, and its options after a colon.
    pub cc: String,
}

impl Run {
    /// The controller's name and its options, which may be empty.
    #[must_use]
    pub fn name_and_options(&self) -> (&str, &str) {
        self.cc.split_once(':').unwrap_or((&self.cc, ""))
    }
}

/// What a paper says about one metric of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// A name for the claim, such as "gallop/figure-4/gallop-slow-start-exit".
    pub id: String,
    /// The run it is about: group and run, with a slash between.
    pub run: String,
    /// The metric, as the analysis calls it.
    pub metric: String,
    /// The claim in words.
    pub title: String,
    /// The paper's value.
    pub paper: f64,
    /// The least value that reproduces it; open without.
    pub low: Option<f64>,
    /// The greatest value that reproduces it; open without.
    pub high: Option<f64>,
    /// Unit of the values.
    pub unit: String,
    /// Where the paper says so.
    pub source: String,
    /// What else to know about it.
    pub note: Option<String>,
}

/// Why a comparison cannot be used.
#[derive(Debug, Error)]
pub enum ComparisonError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {path}: {error}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is not JSON, or not of the right shape.
    #[error("{path}: {error}")]
    Json {
        /// The file.
        path: PathBuf,
        /// What and where.
        error: serde_json::Error,
    },
    /// A value makes no sense.
    #[error("{path}: {problem}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What and where.
        problem: Invalid,
    },
}

impl Comparison {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Names the file, the place in it, what is wrong there and what would be
    /// right.
    pub fn read(path: &Path) -> Result<Comparison, ComparisonError> {
        let path_buf = || path.to_path_buf();
        let text = fs::read_to_string(path).map_err(|error| ComparisonError::Read {
            path: path_buf(),
            error,
        })?;
        let comparison: Comparison =
            serde_json::from_str(&text).map_err(|error| ComparisonError::Json {
                path: path_buf(),
                error,
            })?;
        comparison
            .validate()
            .map_err(|problem| ComparisonError::Invalid {
                path: path_buf(),
                problem,
            })?;
        Ok(comparison)
    }

    /// Checks and writes a file.
    ///
    /// # Errors
    /// As [`read`](Comparison::read).
    pub fn write(&self, path: &Path) -> Result<(), ComparisonError> {
        let path_buf = || path.to_path_buf();
        self.validate()
            .map_err(|problem| ComparisonError::Invalid {
                path: path_buf(),
                problem,
            })?;
        let mut text =
            serde_json::to_string_pretty(self).map_err(|error| ComparisonError::Json {
                path: path_buf(),
                error,
            })?;
        text.push('\n');
        fs::write(path, text).map_err(|error| ComparisonError::Write {
            path: path_buf(),
            error,
        })
    }

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// Names the first value that makes no sense.
    pub fn validate(&self) -> Result<(), Invalid> {
        require(!self.groups.is_empty(), "groups", || {
            "it is empty; there must be at least one group".to_owned()
        })?;
        let mut groups = HashSet::new();
        let mut runs = HashSet::new();
        for (index, group) in self.groups.iter().enumerate() {
            let place = format!("groups[{index}]");
            check_id(&group.id, &format!("{place}.id"), &mut groups)?;
            group.scenario.validate(&format!("{place}.scenario"))?;
            require(!group.runs.is_empty(), &format!("{place}.runs"), || {
                "it is empty; there must be at least one run".to_owned()
            })?;
            let mut ids = HashSet::new();
            for (index, run) in group.runs.iter().enumerate() {
                let place = format!("{place}.runs[{index}]");
                check_id(&run.id, &format!("{place}.id"), &mut ids)?;
                let (name, _) = run.name_and_options();
                require(!name.is_empty(), &format!("{place}.cc"), || {
                    format!("\"{}\" names no controller", run.cc)
                })?;
                runs.insert(format!("{}/{}", group.id, run.id));
            }
        }
        let mut claims = HashSet::new();
        for (index, claim) in self.claims.iter().enumerate() {
            let place = format!("claims[{index}]");
            require(claims.insert(&claim.id), &format!("{place}.id"), || {
                format!("\"{}\" is there twice", claim.id)
            })?;
            claim.validate(&place, &runs)?;
        }
        Ok(())
    }
}

/// Identifiers name directories, on any file system.
fn check_id<'a>(id: &'a str, place: &str, seen: &mut HashSet<&'a str>) -> Result<(), Invalid> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let good = id.starts_with(|c: char| c.is_ascii_alphanumeric())
        && id.chars().all(allowed)
        && id.len() <= 100;
    require(good, place, || {
        format!(
            "\"{id}\" cannot name a directory; use up to 100 letters, digits, '.', '_' and '-', first a letter or digit"
        )
    })?;
    require(seen.insert(id), place, || {
        format!("\"{id}\" is there twice")
    })
}

/// The smallest datagram a QUIC path must carry (RFC 9000 §14).
const MIN_DATAGRAM_BYTES: usize = 1200;

/// The largest UDP payload over IPv4.
const MAX_DATAGRAM_BYTES: usize = 65_507;

/// max_ack_delay must be less than 2^14 ms (RFC 9000 §18.2).
const MAX_ACK_DELAY_MS: u128 = (1 << 14) - 1;

/// quiche's largest window.
const MAX_WINDOW_PACKETS: usize = 1 << 20;

/// Addresses are given out up to that many.
const MAX_FLOWS: usize = 100_000;

impl Scenario {
    fn validate(&self, place: &str) -> Result<(), Invalid> {
        let within = |field: &str, value: usize, low: usize, high: usize| {
            require(
                (low..=high).contains(&value),
                &format!("{place}.{field}"),
                || format!("{value} is not from {low} to {high}"),
            )
        };
        within(
            "datagram_bytes",
            self.datagram_bytes,
            MIN_DATAGRAM_BYTES,
            MAX_DATAGRAM_BYTES,
        )?;
        within(
            "initial_window_packets",
            self.initial_window_packets,
            1,
            MAX_WINDOW_PACKETS,
        )?;
        within("flows", self.flows, 1, MAX_FLOWS)?;
        require(self.ack_every >= 1, &format!("{place}.ack_every"), || {
            "it is 0; it must be at least 1".to_owned()
        })?;
        require(
            self.max_ack_delay_s.duration().as_millis() <= MAX_ACK_DELAY_MS,
            &format!("{place}.max_ack_delay_s"),
            || format!("{} is more than {MAX_ACK_DELAY_MS}ms", self.max_ack_delay_s),
        )?;
        for (field, span) in [("rtt_s", self.rtt_s), ("duration_s", self.duration_s)] {
            require(
                !span.duration().is_zero(),
                &format!("{place}.{field}"),
                || "it is 0; it must be positive".to_owned(),
            )?;
        }
        Ok(())
    }
}

impl Claim {
    fn validate(&self, place: &str, runs: &HashSet<String>) -> Result<(), Invalid> {
        require(runs.contains(&self.run), &format!("{place}.run"), || {
            format!(
                "there is no run \"{}\"; name a group and a run of it, with a slash between",
                self.run
            )
        })?;
        let low = self.low.unwrap_or(f64::NEG_INFINITY);
        let high = self.high.unwrap_or(f64::INFINITY);
        require(low <= high, place, || {
            format!("low ({low}) is above high ({high})")
        })
    }
}
