//! The metrics that claims, tables and plots may name. docs/experiments.md says
//! what they mean.

use super::document::unknown_name;

/// Of flows.
const FLOW: [&str; 32] = [
    "available_window_reached_s",
    "buffer_fill_s",
    "completion_mean_s",
    "completion_p95_s",
    "completion_s",
    "connections",
    "connections_finished",
    "converged_s",
    "cwnd_mean_packets",
    "finished",
    "late_packets_ratio",
    "lost_in_slow_start_packets",
    "lost_packets",
    "received_bytes",
    "received_packets",
    "response_time_mean_s",
    "response_time_p95_s",
    "responses",
    "retransmit_ratio",
    "retransmitted_bytes",
    "retransmitted_packets",
    "rtt_mean_s",
    "rtt_min_s",
    "sent_packets",
    "slow_start_exit_s",
    "stalls",
    "throughput_bps",
    "throughput_pps",
    "timeouts",
    "viable",
    "window_at_exit_packets",
    "window_settled_packets",
];

/// Of links.
const LINK: [&str; 12] = [
    "drop_ratio",
    "drops",
    "duplicated",
    "forwarded_bytes",
    "forwarded_packets",
    "impaired",
    "marks",
    "queue_max_packets",
    "queue_mean_delay_s",
    "queue_mean_packets",
    "queue_sd_packets",
    "utilisation",
];

/// Of all flows together.
const RUN: [&str; 5] = [
    "events",
    "jain",
    "lost_packets",
    "simulated_s",
    "throughput_sum_bps",
];

/// Of a paper's formulas.
const ANALYSIS: [&str; 13] = [
    "gallop_available_window_corrected_rtts",
    "gallop_available_window_rtts",
    "gallop_brakes_rounded_rtts",
    "gallop_brakes_rounded_window_packets",
    "gallop_brakes_rtts",
    "gallop_brakes_window_packets",
    "gallop_exit_rtts",
    "gallop_exit_s",
    "gallop_exit_window_packets",
    "vegas_available_window_rtts",
    "vegas_available_window_s",
    "vegas_exit_rtts",
    "vegas_exit_window_packets",
];

/// Of flows, over time.
const FLOW_SERIES: [&str; 3] = ["cwnd_packets", "srtt_s", "throughput_bps"];

/// Of links, over time.
const LINK_SERIES: [&str; 2] = ["drops", "queue_packets"];

/// The metrics of a subject, of whole runs or over time.
#[must_use]
pub fn names(subject: &str, over_time: bool) -> &'static [&'static str] {
    match (subject.split('/').next(), over_time) {
        (Some("flow"), false) => &FLOW,
        (Some("link"), false) => &LINK,
        (Some("run"), false) => &RUN,
        (Some("analysis"), false) => &ANALYSIS,
        (Some("flow"), true) => &FLOW_SERIES,
        (Some("link"), true) => &LINK_SERIES,
        _ => &[],
    }
}

/// Checks that one of the subjects has the metric.
pub(super) fn check(metric: &str, subjects: &[&str], over_time: bool) -> Result<(), String> {
    let all = subjects
        .iter()
        .flat_map(|subject| names(subject, over_time));
    let mut known: Vec<&str> = all.copied().collect();
    if known.contains(&metric) {
        return Ok(());
    }
    known.sort_unstable();
    known.dedup();
    let what = format!("metric of {}", subjects.join(", "));
    Err(unknown_name(&what, metric, &known))
}
