//! The server's trace: its RTT, and the packets that it declared lost.

use std::time::Duration;

use serde::Deserialize;

/// A record of a trace, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Record {
    /// Milliseconds since the connection began.
    time: f64,
    name: String,
    #[serde(default)]
    data: Data,
}

#[derive(Debug, Default, Deserialize)]
struct Data {
    /// In milliseconds.
    smoothed_rtt: Option<f64>,
}

/// The figures of a part of a trace's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Told {
    /// Mean over time of the smoothed RTT.
    pub(crate) rtt_mean_s: f64,
    /// The smoothed RTT that was not exceeded for 95 % of the time.
    pub(crate) rtt_p95_s: f64,
    /// Packets declared lost.
    pub(crate) lost_packets: u64,
}

/// Reads the part of a trace between two times since the connection began. `None` if it has no RTT
/// there. Lines that are no records are passed over: the last one may be torn.
pub(crate) fn read(trace: &str, from: Duration, until: Duration) -> Option<Told> {
    let (from_ms, until_ms) = (from.as_secs_f64() * 1e3, until.as_secs_f64() * 1e3);
    let mut lost_packets = 0;
    // Each RTT with the time for which it held, within the part.
    let mut held: Vec<(f64, f64)> = Vec::new();
    let mut current: Option<(f64, f64)> = None;
    let mut end = |(since, rtt): (f64, f64), at: f64| {
        let length = at.min(until_ms) - since.max(from_ms);
        if length > 0.0 {
            held.push((rtt, length));
        }
    };
    for line in trace.lines() {
        let record = line.trim_start_matches('\u{1e}');
        let Ok(record) = serde_json::from_str::<Record>(record) else {
            continue;
        };
        if record.name.ends_with(":packet_lost") && (from_ms..until_ms).contains(&record.time) {
            lost_packets += 1;
        }
        if let Some(rtt) = record.data.smoothed_rtt {
            if let Some(before) = current {
                end(before, record.time);
            }
            current = Some((record.time, rtt));
        }
    }
    end(current?, f64::INFINITY);
    held.sort_by(|one, other| one.0.total_cmp(&other.0));
    let all: f64 = held.iter().map(|(_, length)| length).sum();
    let area: f64 = held.iter().map(|(rtt, length)| rtt * length).sum();
    let mut until_here = 0.0;
    let p95 = held.iter().find(|(_, length)| {
        until_here += length;
        until_here >= 0.95 * all
    })?;
    Some(Told {
        rtt_mean_s: area / all / 1e3,
        rtt_p95_s: p95.0 / 1e3,
        lost_packets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn rtts_count_for_as_long_as_they_hold() {
        let trace = "\u{1e}{\"file_schema\":\"urn\"}\n\
            \u{1e}{\"time\":0.0,\"name\":\"quic:recovery_metrics_updated\",\"data\":{\"smoothed_rtt\":333.0}}\n\
            \u{1e}{\"time\":500.0,\"name\":\"quic:recovery_metrics_updated\",\"data\":{\"smoothed_rtt\":100.0}}\n\
            {\"time\":900.0,\"name\":\"quic:packet_lost\",\"data\":{}}\n\
            {\"time\":1500.0,\"name\":\"quic:packet_lost\",\"data\":{}}\n\
            {\"time\":1600.0,\"name\":\"quic:recovery_metrics_updated\",\"data\":{\"congestion_window\":1}}\n\
            {\"time\":4000.0,\"name\":\"quic:recovery_metrics_updated\",\"data\":{\"smoothed_rtt\":200.0}}\n\
            {\"time\":5000.0,\"name\":\"quic:packet_lost\",\"data\":{}}\n\
            {\"time\":50";
        let told = read(trace, second(1), second(5)).unwrap();
        let expected = Told {
            rtt_mean_s: 0.125,
            rtt_p95_s: 0.2,
            lost_packets: 1,
        };
        assert_eq!(told, expected);
    }

    #[test]
    fn a_trace_without_rtts_tells_nothing() {
        assert_eq!(read("", second(0), second(1)), None);
        let late = "{\"time\":5000.0,\"name\":\"a:b\",\"data\":{\"smoothed_rtt\":1.0}}";
        assert_eq!(read(late, second(0), second(1)), None);
    }
}
