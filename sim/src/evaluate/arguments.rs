//! The flags of an evaluation.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use clap::Args;

use crate::lab::Shard;
use crate::stack::Stack;

/// The flags of an evaluation.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// A controller, with its options after a colon; may be given several times [default: every
    /// controller]
    #[arg(long, value_name = "NAME[:options]")]
    pub cc: Vec<String>,
    /// The QUIC stack of all controllers that do not name one, as quinn/vegas does
    #[arg(long, value_enum, default_value = "quiche")]
    pub stack: Stack,
    /// A family of scenarios, a file in experiments/evaluation; may be given several times
    /// [default: all]
    #[arg(long, value_name = "NAME")]
    pub family: Vec<String>,
    /// A scenario, such as noise/uniform-5ms; may be given several times [default: all of the
    /// families]
    #[arg(long, value_name = "FAMILY/ID")]
    pub scenario: Vec<String>,
    /// Only the scenarios and seeds that the families' tables `[fast]` name, for a first look
    #[arg(long)]
    pub fast: bool,
    /// As many seeds for each scenario, in place of its family's
    #[arg(long, value_name = "N")]
    pub seeds: Option<NonZeroU64>,
    /// Draw every scenario's parameters anew from its family's ranges, by this seed
    #[arg(long, value_name = "SEED")]
    pub fresh: Option<u64>,
    /// Keep the qlogs of all tested flows, of the first seed
    #[arg(long)]
    pub traces: bool,
    /// The folder for the results [default: target/evaluation; target/evaluation-part with --cc,
    /// --family, --scenario, --fast, --seeds, --fresh or --traces]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Also write the verdicts to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the tables in Markdown into this document, between the lines
    /// `<!-- evaluate: measured -->` and `<!-- evaluate: end -->`; may be given several times
    #[arg(long, value_name = "FILE")]
    pub table: Vec<PathBuf>,
    /// Run only part K of N, of about equal size, for several machines
    #[arg(long, value_name = "K/N")]
    pub shard: Option<Shard>,
    /// Simulations at a time; as many as there are cores by default
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// Check everything, print as JSON what would be run and where results would go, and run
    /// nothing
    #[arg(long)]
    pub plan: bool,
    /// The folder of experiments; families are in evaluation/ there
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    pub library: PathBuf,
    /// The folder in which results go without --out
    #[arg(long, value_name = "DIR", default_value = "target", hide = true)]
    pub target: PathBuf,
    /// The command that the page names
    #[arg(long, value_name = "TEXT", hide = true)]
    pub command: Option<String>,
}

impl Arguments {
    /// True if it is the whole evaluation, which `target/evaluation` is for.
    pub(super) fn is_whole(&self) -> bool {
        self.cc.is_empty()
            && self.stack == Stack::Quiche
            && self.family.is_empty()
            && self.scenario.is_empty()
            && !self.fast
            && self.seeds.is_none()
            && self.fresh.is_none()
            && !self.traces
    }
}
