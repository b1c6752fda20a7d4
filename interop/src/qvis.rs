//! Traces that qvis opens without conversion.
//!
//! qvis reads qlog as main-schema-03 had it, with that draft's names of events. quiche writes
//! main-schema-14, which qlog-dancer reads; no file is clean in both, as each takes an event by one
//! name only. `qlog-analysis convert` does the same to any trace; the expected results are in
//! `qlog-analysis/tests/fixtures/qvis/`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Map, Value, json};

const RS: u8 = 0x1e;

/// Slow start thresholds from here on mean "none yet".
const NO_SSTHRESH_BYTES: u64 = 1 << 63;

/// Rewrites the records that quiche writes, as they pass.
///
/// Text that is not JSON passes unchanged. A record is written when it is complete.
#[derive(Debug)]
pub struct Qvis<W> {
    inner: W,
    record: Vec<u8>,
    rules: Rules,
}

impl<W: Write> Qvis<W> {
    /// Writes to `inner`.
    pub fn new(inner: W) -> Self {
        Qvis {
            inner,
            record: Vec::new(),
            rules: Rules::default(),
        }
    }

    fn pass(&mut self) -> io::Result<()> {
        let record = std::mem::take(&mut self.record);
        let text = record.strip_prefix(&[RS]).unwrap_or(&record);
        match serde_json::from_slice(text) {
            Ok(Value::Object(record)) => {
                self.inner.write_all(&[RS])?;
                serde_json::to_writer(&mut self.inner, &self.rules.apply(record))?;
                self.inner.write_all(b"\n")
            }
            _ => self.inner.write_all(&record),
        }
    }
}

impl<W: Write> Write for Qvis<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // In JSON a line feed within a record is `\n`.
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.record.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.pass()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The changes to records, with the state that they need.
#[derive(Debug, Default)]
struct Rules {
    rtt_seen: bool,
    ssthresh_seen: bool,
    /// Bytes of packets sent and neither acknowledged nor lost, by space and number.
    lengths: BTreeMap<(Space, u64), Value>,
}

/// A packet number space (RFC 9000 §12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    Initial,
    Handshake,
    Application,
}

impl Space {
    fn of(packet: &Map<String, Value>) -> Self {
        match packet
            .get("header")
            .and_then(|header| header["packet_type"].as_str())
        {
            Some("initial") => Space::Initial,
            Some("handshake") => Space::Handshake,
            _ => Space::Application,
        }
    }
}

impl Rules {
    fn apply(&mut self, mut record: Map<String, Value>) -> Map<String, Value> {
        if record.contains_key("file_schema") {
            return header(&record);
        }
        let Some(name) = record.get("name").and_then(Value::as_str) else {
            return record;
        };
        let (schema, kind) = name.split_once(':').unwrap_or(("", name));
        let (schema, kind) = (schema.to_owned(), kind.to_owned());
        let Some(Value::Object(data)) = record.get_mut("data") else {
            return record;
        };
        if schema == "quic" {
            self.event(&kind, data);
        } else if schema == "http3" && matches!(kind.as_str(), "frame_created" | "frame_parsed") {
            // qvis leaves out frames without it.
            if let Some(length) = data.get("length").cloned() {
                data.insert("byte_length".to_owned(), length);
            }
        }
        let category = category(&schema, &kind);
        let name = format!("{category}:{}", old_name(&kind));
        record.insert("name".to_owned(), json!(name));
        record
    }

    fn event(&mut self, kind: &str, data: &mut Map<String, Value>) {
        match kind {
            "packet_sent" | "packet_received" => {
                self.follow(kind, data);
                packet(data);
            }
            "packet_lost" => {
                let key = (Space::of(data), number(data));
                if let (space, Some(number)) = key
                    && let Some(length) = self.lengths.remove(&(space, number))
                {
                    // qvis shows it, and fails if it is missing.
                    data.insert("raw".to_owned(), json!({ "length": length }));
                }
            }
            "recovery_metrics_updated" => self.metrics(data),
            "parameters_set" => {
                if let Some(initiator) = data.get("initiator").cloned() {
                    data.insert("owner".to_owned(), initiator);
                }
            }
            "stream_data_moved" => {
                if let Some(length) = data.get("raw").and_then(|raw| raw.get("length")).cloned() {
                    data.insert("length".to_owned(), length);
                }
            }
            _ => {}
        }
    }

    /// Keeps the lengths of packets in flight, for those that are lost.
    fn follow(&mut self, kind: &str, data: &Map<String, Value>) {
        let space = Space::of(data);
        if kind == "packet_sent" {
            if let (Some(number), Some(raw)) = (number(data), data.get("raw")) {
                self.lengths.insert((space, number), raw["length"].clone());
            }
            return;
        }
        let frames = data.get("frames").and_then(Value::as_array);
        for frame in frames.into_iter().flatten() {
            let ranges = frame.get("acked_ranges").and_then(Value::as_array);
            for range in ranges.into_iter().flatten().filter_map(Value::as_array) {
                let ends = (range.first(), range.last());
                if let (Some(first), Some(last)) = ends
                    && let (Some(first), Some(last)) = (first.as_u64(), last.as_u64())
                    && first <= last
                {
                    let acked = self.lengths.range((space, first)..=(space, last));
                    for key in acked.map(|(key, _)| *key).collect::<Vec<_>>() {
                        self.lengths.remove(&key);
                    }
                }
            }
        }
    }

    /// Removes values that stand for "none", and converts the pacing rate.
    fn metrics(&mut self, data: &mut Map<String, Value>) {
        self.rtt_seen |= data.contains_key("latest_rtt");
        if !self.rtt_seen {
            for name in ["min_rtt", "smoothed_rtt", "rtt_variance"] {
                data.remove(name);
            }
        }
        let ssthresh = data.get("ssthresh").and_then(Value::as_u64);
        self.ssthresh_seen |= ssthresh.is_some_and(|bytes| bytes < NO_SSTHRESH_BYTES);
        if !self.ssthresh_seen {
            data.remove("ssthresh");
        }
        // NOTE: quiche logs bytes per second, the draft (quic-events-13) says bits per second.
        if let Some(rate) = data.get("pacing_rate").and_then(Value::as_u64) {
            data.insert("pacing_rate".to_owned(), json!(rate.saturating_mul(8)));
        }
    }
}

fn header(record: &Map<String, Value>) -> Map<String, Value> {
    let trace = record.get("trace").unwrap_or(&Value::Null);
    let mut out = json!({
        "qlog_version": "0.3",
        "qlog_format": "JSON-SEQ",
        "converter": {
            "name": env!("CARGO_PKG_NAME"),
            "version": env!("CARGO_PKG_VERSION"),
            "for": "qvis",
            "program": "quiche",
            // qvis expects a number as reference_time, and loses all times without one.
            "reference_time": trace["common_fields"]["reference_time"],
        },
        "trace": {
            "vantage_point": trace["vantage_point"],
            "event_schemas": [
                "urn:ietf:params:qlog:events:quic-13",
                "urn:ietf:params:qlog:events:http3-13",
            ],
        },
    });
    for name in ["title", "description"] {
        if let Some(text) = record.get(name) {
            out[name] = text.clone();
            out["trace"][name] = text.clone();
        }
    }
    match out {
        Value::Object(out) => out,
        _ => Map::new(),
    }
}

fn number(packet: &Map<String, Value>) -> Option<u64> {
    packet.get("header")?.get("packet_number")?.as_u64()
}

/// Adds what qvis looks for where main-schema-03 had it.
fn packet(data: &mut Map<String, Value>) {
    if let Some(Value::String(version)) = data.get_mut("header").and_then(|h| h.get_mut("version"))
    {
        // The drafts want whole bytes.
        *version = format!("{version:0>8}");
    }
    if let Some(Value::Object(raw)) = data.get_mut("raw") {
        // NOTE: qvis takes the 16 bytes of the AEAD's tag for a part of payload_length, which today
        // leaves them out; without it qvis counts from the packet's length.
        raw.remove("payload_length");
    }
    let Some(Value::Array(frames)) = data.get_mut("frames") else {
        return;
    };
    for frame in frames.iter_mut().filter_map(Value::as_object_mut) {
        if let Some(length) = frame
            .get("raw")
            .and_then(|raw| raw.get("payload_length"))
            .cloned()
        {
            frame.insert("length".to_owned(), length);
        }
        let kind = frame.get("frame_type").and_then(Value::as_str);
        if matches!(kind, Some("reset_stream" | "stop_sending")) {
            frame.entry("error").or_insert(json!("unknown"));
        }
    }
    if frames.is_empty() {
        // qvis assumes that there is a first one.
        data.remove("frames");
    }
}

/// The category of today's event in main-schema-03.
fn category<'a>(schema: &'a str, kind: &str) -> &'a str {
    match (schema, kind) {
        (
            "quic",
            "recovery_metrics_updated"
            | "recovery_parameters_set"
            | "congestion_state_updated"
            | "loss_timer_updated"
            | "timer_updated"
            | "packet_lost"
            | "marked_for_retransmit"
            | "ecn_state_updated"
            | "mtu_updated",
        ) => "recovery",
        ("quic", "key_updated" | "key_discarded") => "security",
        (
            "quic",
            "server_listening"
            | "connection_started"
            | "connection_closed"
            | "connection_id_updated"
            | "connection_state_updated"
            | "spin_bit_updated"
            | "tuple_assigned",
        ) => "connectivity",
        ("quic", _) => "transport",
        ("http3", _) => "http",
        (other, _) => other,
    }
}

/// The name of an event in main-schema-03, without its category.
fn old_name(kind: &str) -> &str {
    match kind {
        "recovery_metrics_updated" => "metrics_updated",
        "recovery_parameters_set" => "parameters_set",
        "stream_data_moved" => "data_moved",
        "udp_datagrams_sent" => "datagrams_sent",
        "udp_datagrams_received" => "datagrams_received",
        "udp_datagram_dropped" => "datagram_dropped",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = include_str!("../../qlog-analysis/tests/fixtures/qvis/trace.sqlog");
    const CONVERTED: &str = include_str!("../../qlog-analysis/tests/fixtures/qvis/converted.sqlog");

    fn records(text: &str) -> Vec<Value> {
        text.split('\u{1e}')
            .skip(1)
            .map(|record| serde_json::from_str(record).expect("a record is JSON"))
            .collect()
    }

    fn rewritten(trace: &[u8], write_bytes: usize) -> String {
        let mut out = Qvis::new(Vec::new());
        for part in trace.chunks(write_bytes) {
            out.write_all(part).expect("memory takes all");
        }
        String::from_utf8(out.inner).expect("it is text")
    }

    #[test]
    fn it_is_what_qlog_analysis_makes_of_a_trace() {
        let out = rewritten(TRACE.as_bytes(), 7);
        let (mut ours, mut theirs) = (records(&out), records(CONVERTED));
        for header in [&mut ours[0], &mut theirs[0]] {
            header["converter"]["name"] = Value::Null;
            header["converter"]["version"] = Value::Null;
        }
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn qvis_knows_a_file_by_its_first_1024_bytes() {
        let out = rewritten(TRACE.as_bytes(), 4096);
        let start = &out[..1024];
        assert!(start.contains(r#""qlog_version":"0.3""#), "{start}");
        assert!(start.contains(r#""qlog_format":"JSON-SEQ""#), "{start}");
    }

    #[test]
    fn acknowledged_packets_are_forgotten() {
        let mut out = Qvis::new(Vec::new());
        out.write_all(TRACE.as_bytes()).expect("memory takes all");
        let sent = TRACE.matches("quic:packet_sent").count();
        assert!(out.rules.lengths.len() < sent / 2);
    }

    #[test]
    fn what_is_no_event_passes_as_it_is() {
        for text in [
            "\u{1e}no JSON\n",
            "\u{1e}[1]\n",
            "\u{1e}{\"time\":1}\n",
            "\u{1e}{\"name\":\"quic:packet_sent\"}\n",
        ] {
            assert_eq!(rewritten(text.as_bytes(), 3), text);
        }
    }
}
