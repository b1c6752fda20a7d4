//! The flags of a comparison.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use clap::Args;

use super::preset::DEFAULT;
use crate::stack::Stack;
use crate::units::{Buffer, LinkRate, Span};

/// The flags of a comparison.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// The file of an experiment in which nothing varies but the controller, in place of a preset
    #[arg(value_name = "EXPERIMENT.toml", conflicts_with = "preset")]
    pub experiment: Option<PathBuf>,
    /// An experiment in experiments/, for example gallop/figure-4 or gallop/figure-6
    #[arg(long, value_name = "NAME", default_value = DEFAULT)]
    pub preset: String,
    /// A controller, with its options after a colon; may be given several times [default: the
    /// preset's]
    #[arg(long, value_name = "NAME[:options]")]
    pub cc: Vec<String>,
    /// The QUIC stack of all controllers that do not name one, as quinn/vegas does
    #[arg(long, value_enum, default_value = "quiche")]
    pub stack: Stack,
    /// The bottleneck's rate
    #[arg(long, allow_hyphen_values = true)]
    pub rate: Option<LinkRate>,
    /// Propagation delay there and back
    #[arg(long, allow_hyphen_values = true)]
    pub rtt: Option<Span>,
    /// The most that may wait at the bottleneck
    #[arg(long, allow_hyphen_values = true)]
    pub buffer: Option<Buffer>,
    /// Simulated time
    #[arg(long, allow_hyphen_values = true)]
    pub duration: Option<Span>,
    /// Flows that share the bottleneck, all with the same controller
    #[arg(long, value_name = "N")]
    pub flows: Option<usize>,
    /// The first seed, which determines everything random [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// The number of seeds, from the first one up; with more than one, values are means with 95 %
    /// intervals
    #[arg(long, value_name = "N", default_value = "1")]
    pub seeds: NonZeroU64,
    /// The largest datagram, in bytes of UDP payload
    #[arg(long, value_name = "BYTES")]
    pub datagram: Option<usize>,
    /// The initial window, in datagrams
    #[arg(long, value_name = "N")]
    pub initial_window: Option<usize>,
    /// The number of packets for one acknowledgement
    #[arg(long, value_name = "N")]
    pub ack_every: Option<u32>,
    /// The folder for the results and the traces [default: target/compare/NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Also write the results to this file, as JSON. The verdicts on a paper's claims are in claims.json
    /// of the folder
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the table in Markdown into this document, between the lines
    /// `<!-- compare: measured -->` and `<!-- compare: end -->`; may be given several times
    #[arg(long, value_name = "FILE")]
    pub table: Vec<PathBuf>,
    /// Simulations at a time; as many as there are cores by default
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// Check everything, print as JSON what would be run and where results would go, and run
    /// nothing
    #[arg(long)]
    pub plan: bool,
    /// The folder of presets
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    pub library: PathBuf,
    /// The folder in which results go without --out
    #[arg(long, value_name = "DIR", default_value = "target", hide = true)]
    pub target: PathBuf,
    /// The command line that reports give to run it again
    #[arg(long, value_name = "TEXT", hide = true)]
    pub command: Option<String>,
}

impl Arguments {
    /// True if the flags change a value on which a paper's claims rest. The datagram size is none,
    /// since papers count in packets.
    pub(super) fn change_path(&self) -> bool {
        self.rate.is_some()
            || self.rtt.is_some()
            || self.buffer.is_some()
            || self.duration.is_some()
            || self.flows.is_some()
            || self.initial_window.is_some()
            || self.ack_every.is_some()
    }
}
