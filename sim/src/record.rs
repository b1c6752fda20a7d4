//! What a run leaves behind in `runs/<group>/<run>/`: `run.json`, whose types
//! are here, `queue.csv` and one qlog per flow.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of the file with a [`RunRecord`].
pub const RUN_FILE_NAME: &str = "run.json";

/// The name of the table of the bottleneck's queue over time.
pub const QUEUE_FILE_NAME: &str = "queue.csv";

/// The name of the qlog of the server of a flow.
#[must_use]
pub fn trace_file_name(flow: usize) -> String {
    format!("flow-{flow}.server.sqlog")
}

/// One controller over one path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// The run's name in the comparison.
    pub id: String,
    /// The controller's name.
    pub name: String,
    /// Its options as given; may be empty.
    pub options: String,
    /// Its thresholds by name, if it has any.
    pub parameters: Option<BTreeMap<String, f64>>,
    /// Bytes on the wire of the largest packet.
    pub packet_wire_bytes: usize,
    /// The flows, by number.
    pub flows: Vec<FlowRecord>,
    /// The bottleneck.
    pub bottleneck: BottleneckRecord,
    /// How long was simulated, in seconds.
    pub simulated_s: f64,
    /// Events of the simulation.
    pub events: u64,
}

/// What a flow has come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowRecord {
    /// The file with the server's qlog.
    pub trace: String,
    /// QUIC packets that the server sent.
    pub packets_sent: u64,
    /// QUIC packets that the server declared lost.
    pub packets_lost: u64,
    /// Bytes of UDP payload that the server sent.
    pub bytes_sent: u64,
    /// Bytes that the server declared lost.
    pub bytes_lost: u64,
    /// Stream bytes that the server sent again.
    pub retransmitted_bytes: u64,
    /// Stream bytes that the client's application got.
    pub received_bytes: u64,
    /// When the client connected, in seconds.
    pub start_s: f64,
}

/// The bottleneck over the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BottleneckRecord {
    /// Time-weighted mean of the packets that wait or are being sent.
    pub queue_mean_packets: f64,
    /// The most packets that waited or were being sent.
    pub queue_max_packets: u64,
    /// Packets that the queue dropped.
    pub drops: u64,
    /// Bytes on the wire that were sent to the end.
    pub forwarded_bytes: u64,
}
