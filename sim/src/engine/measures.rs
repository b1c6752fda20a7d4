//! The measurements of flows, from their meters and reports.
//!
//! `docs/metrics.md` has the meaning of each metric. Those of a media stream are its
//! [`Player`](crate::Player)'s, those of a live one its own.

use std::time::Duration;

use crate::endpoint::application::Answer;
use crate::engine::flow::FlowReport;
use crate::engine::running::Running;
use crate::engine::share::ShareWindow;
use crate::engine::simulation::Simulation;
use crate::measure::{self, Measure};
use crate::time::Time;
use crate::units::stream_bytes_per_packet;

impl Simulation {
    /// The measurements of a flow that is one connection. `fair_packets_per_s` is its share of the
    /// narrowest link on its way, in full datagrams; without it some metrics are absent.
    #[must_use]
    pub fn measure_flow(&self, flow: usize, fair_packets_per_s: Option<f64>) -> Vec<Measure> {
        let Some(running) = self.flow(flow) else {
            return Vec::new();
        };
        let (now, meter, report) = (self.now(), &running.meter, running.report());
        let start = report.started.unwrap_or(now);
        let end = report.finished.unwrap_or(now);
        let packet_bytes = match running.flow.load {
            Some(_) => running.flow.datagram_bytes as u64,
            None => stream_bytes_per_packet(running.flow.datagram_bytes),
        };
        let active = end - start.max(meter.since());
        let mut measures = counters(&meter.counted(&report), active, packet_bytes);
        let finished = f64::from(u8::from(report.finished.is_some()));
        measures.push(Measure::new("finished", "", finished));
        if report.finished.is_some() {
            let took = (end - start).as_secs_f64();
            measures.push(Measure::new("completion_s", "s", took));
        }
        measures.extend(meter.measures(start, now, &report, fair_packets_per_s));
        if running.answers().len() > 1 {
            measures.extend(responses(running.answers(), meter.since()));
        }
        if let Some(player) = &running.flow.player {
            measures.extend(player.measures(start, now));
        }
        if let Some(live) = &running.flow.live {
            measures.extend(live.measures(meter.since(), now));
        }
        let windows = running.flow.share_windows.iter();
        measures.extend(windows.filter_map(ShareWindow::measure));
        measures
    }

    /// The measurements of a flow that is many connections, those of these numbers.
    #[must_use]
    pub fn measure_flows(&self, flows: &[usize]) -> Vec<Measure> {
        let now = self.now();
        let running: Vec<&Running> = flows.iter().filter_map(|&flow| self.flow(flow)).collect();
        let Some(first) = running.first() else {
            return Vec::new();
        };
        let since = first.meter.since();
        let packet_bytes = stream_bytes_per_packet(first.flow.datagram_bytes);
        let reports: Vec<(&Running, FlowReport)> = running
            .iter()
            .map(|running| (*running, running.report()))
            .filter(|(_, report)| report.started.is_some())
            .collect();
        let mut sum = FlowReport::default();
        for (running, report) in &reports {
            sum.add(&running.meter.counted(report));
        }
        let mut measures = counters(&sum, now - since, packet_bytes);
        let started = reports
            .iter()
            .filter(|(_, report)| report.started >= Some(since));
        measures.push(Measure::new("connections", "", started.count() as f64));
        let completed = reports
            .iter()
            .filter_map(|(_, report)| Some((report.started?, report.finished?)))
            .filter(|(_, finished)| *finished >= since)
            .map(|(started, finished)| (finished - started).as_secs_f64())
            .collect();
        measures.extend(measure::times(
            completed,
            [
                "connections_finished",
                "completion_mean_s",
                "completion_p95_s",
                "completion_p99_s",
            ],
        ));
        measures
    }

    /// The state of a flow that is one connection: its window (`cwnd_packets`), its smoothed RTT
    /// (`srtt_s`), and the stream bytes that its client has read until now (`received_bytes`).
    #[must_use]
    pub fn observe_flow(&self, flow: usize) -> Vec<Measure> {
        let Some(running) = self.flow(flow) else {
            return Vec::new();
        };
        let [packets, smoothed_rtt] = running.meter.observed();
        [
            packets.map(|packets| Measure::new("cwnd_packets", "packets", packets)),
            smoothed_rtt.map(|rtt| Measure::new("srtt_s", "s", rtt)),
            Some(Measure::new(
                "received_bytes",
                "bytes",
                running.received_bytes() as f64,
            )),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Counters that are sums over one connection or many.
fn counters(counted: &FlowReport, active: Duration, packet_bytes: u64) -> Vec<Measure> {
    let packets = |bytes: u64| bytes as f64 / packet_bytes as f64;
    let active_s = active.as_secs_f64();
    let received = counted.received_bytes as f64;
    let mut measures = vec![
        Measure::new("received_bytes", "bytes", received),
        Measure::new(
            "received_packets",
            "packets",
            packets(counted.received_bytes),
        ),
        Measure::new("sent_packets", "packets", counted.packets_sent as f64),
        Measure::new("lost_packets", "packets", counted.packets_lost as f64),
    ];
    if !counted.hides_retransmissions {
        let again = counted.retransmitted_bytes;
        measures.extend([
            Measure::new("retransmitted_bytes", "bytes", again as f64),
            Measure::new("retransmitted_packets", "packets", packets(again)),
            Measure::new("timeouts", "", counted.timeouts as f64),
        ]);
        if counted.packets_sent > 0 {
            let ratio = packets(again) / counted.packets_sent as f64;
            measures.push(Measure::new("retransmit_ratio", "", ratio));
        }
    }
    if counted.packets_sent > 0 {
        let lost = counted.packets_lost as f64 / counted.packets_sent as f64;
        measures.push(Measure::new("loss_ratio", "", lost));
    }
    if active_s > 0.0 {
        let pps = packets(counted.received_bytes) / active_s;
        measures.extend([
            Measure::new("throughput_bps", "bit/s", received * 8.0 / active_s),
            Measure::new("throughput_pps", "packets/s", pps),
        ]);
    }
    measures
}

/// Response times of the answers that ended since then.
fn responses(answers: &[Answer], since: Time) -> Vec<Measure> {
    let ended = answers.iter().filter(|answer| answer.ended >= since);
    let took = ended.map(|answer| answer.took.as_secs_f64()).collect();
    measure::times(
        took,
        [
            "responses",
            "response_time_mean_s",
            "response_time_p95_s",
            "response_time_p99_s",
        ],
    )
}
