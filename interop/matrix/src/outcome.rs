//! How a cell ended.

use serde::{Deserialize, Serialize};

use crate::endpoint::Role;

/// How late a measurement's path may be in the mean: a tenth of the time that a packet takes at the
/// runner's 10 Mbit/s. More is jitter that was not asked for.
const LATE_S: f64 = 100e-6;

/// How a cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should.
    Succeeded,
    /// Not as it should.
    Failed,
    /// One of the two does not know the case.
    Unsupported,
}

/// How a cell ended, and why.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Outcome {
    /// How.
    pub result: Verdict,
    /// Why, if it did not succeed; who does not know the case, if it is unsupported.
    #[serde(default)]
    pub reason: String,
    /// Who ended it, if one end did by crashing or by not starting: evidence of whose fault it is.
    #[serde(default)]
    pub suspect: Option<Role>,
    /// How long the client took, in seconds.
    pub seconds: f64,
    /// What was measured, in kbit/s.
    #[serde(default)]
    pub kbps: Option<f64>,
    /// What the TCP flow beside it got, in kbit/s.
    #[serde(default)]
    pub tcp_kbps: Option<f64>,
    /// How much later than due packets left the path, in the mean, in seconds.
    #[serde(default)]
    pub lateness_s: Option<f64>,
}

impl Outcome {
    /// Whether the path was too late to measure anything over it: other work had the cores.
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
