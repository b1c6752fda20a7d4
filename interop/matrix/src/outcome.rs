//! The outcomes of cells.

use serde::{Deserialize, Serialize};

use crate::endpoint::Role;

/// The mean lateness that a measurement's path may have: a tenth of the time that a packet takes at
/// the runner's 10 Mbit/s. More would be jitter that the case does not ask for.
const LATE_S: f64 = 100e-6;

/// The verdict on a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All checks passed.
    Succeeded,
    /// A check failed.
    Failed,
    /// One of the two ends does not know the case.
    Unsupported,
}

/// The outcome of a cell, and its reason.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Outcome {
    /// The verdict.
    pub result: Verdict,
    /// The reason, unless it succeeded; for an unsupported case, the end that does not know it.
    #[serde(default)]
    pub reason: String,
    /// The end that crashed or did not start, if one did: evidence of the fault.
    #[serde(default)]
    pub suspect: Option<Role>,
    /// The time that the client took, in seconds.
    pub seconds: f64,
    /// The measured rate in kbit/s.
    #[serde(default)]
    pub kbps: Option<f64>,
    /// The rate of the TCP flow beside it, in kbit/s.
    #[serde(default)]
    pub tcp_kbps: Option<f64>,
    /// The mean lateness of packets that left the path, in seconds.
    #[serde(default)]
    pub lateness_s: Option<f64>,
}

impl Outcome {
    /// True if the path was too late for a measurement, because other work had the cores.
    pub fn is_late(&self) -> bool {
        self.lateness_s.is_some_and(|late_s| late_s > LATE_S)
    }

    pub(crate) fn unsupported(reason: String, seconds: f64) -> Self {
        Outcome {
            result: Verdict::Unsupported,
            reason,
            suspect: None,
            seconds,
            kbps: None,
            tcp_kbps: None,
            lateness_s: None,
        }
    }

    pub(crate) fn failed(reason: impl Into<String>, suspect: Option<Role>, seconds: f64) -> Self {
        Outcome {
            result: Verdict::Failed,
            reason: reason.into(),
            suspect,
            seconds,
            kbps: None,
            tcp_kbps: None,
            lateness_s: None,
        }
    }
}
