//! The measurements of a flow.
//!
//! `docs/metrics.md` has the meaning of each metric. Those of a media stream are its
//! [`Player`](crate::Player)'s.

use std::collections::BTreeMap;
use std::time::Duration;

use gallop::Algorithm;

use crate::endpoint::Connection;
use crate::endpoint::application::Answer;
use crate::engine::Simulation;
use crate::engine::flow::FlowReport;
use crate::engine::running::Running;
use crate::measure::Measure;
use crate::time::Time;
use crate::units::stream_bytes_per_packet;

/// The number of BaseRTTs after slow start after which the window has settled: Ho et al. 2006 §V.B
/// sees it within 4.
const SETTLED_RTTS: u32 = 10;

/// The least interval between two looks at the connection's statistics, which are not free.
const SAMPLE_EVERY: Duration = Duration::from_millis(5);

/// Watches one connection's server.
#[derive(Debug)]
pub(crate) struct FlowMeter {
    datagram_bytes: u64,
    /// α and β of a controller that has them.
    thresholds: Option<(f64, f64)>,
    since: Time,
    mark: FlowReport,
    sampled_at: Option<Time>,
    window: Mean,
    smoothed_rtt: Mean,
    rtt_spread: Spread,
    slow_start: SlowStart,
    exit: Option<Exit>,
    settled_bytes: Option<f64>,
    /// Times at which the window, in whole datagrams, was larger than ever.
    peaks: Vec<(Time, u64)>,
    /// Times at which the window changed; kept for controllers of ours.
    changes: Vec<(Time, u64)>,
}

/// The end of slow start.
#[derive(Clone, Copy, Debug)]
struct Exit {
    at: Time,
    window_before_bytes: f64,
    lost: u64,
    base_rtt: Option<Duration>,
}

/// A mean over time of a value that stays until it changes.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    current: Option<(Time, f64)>,
    area: f64,
    duration: f64,
}

impl Mean {
    fn record(&mut self, now: Time, value: f64) {
        self.advance(now);
        self.current = Some((now, value));
    }

    fn advance(&mut self, now: Time) {
        if let Some((since, value)) = self.current {
            let duration = (now - since).as_secs_f64();
            self.area += value * duration;
            self.duration += duration;
            self.current = Some((now, value));
        }
    }

    /// Forgets the past.
    fn restart(&mut self, now: Time) {
        self.current = self.current.map(|(_, value)| (now, value));
        (self.area, self.duration) = (0.0, 0.0);
    }

    fn value(&self) -> Option<f64> {
        self.current.map(|(_, value)| value)
    }

    fn mean(mut self, now: Time) -> Option<f64> {
        self.advance(now);
        (self.duration > 0.0).then(|| self.area / self.duration)
    }
}

/// The times for which a value that stays until it changes had each of its values, to a thousandth
/// of the value.
#[derive(Clone, Debug, Default)]
struct Spread {
    current: Option<(Time, u64)>,
    held: BTreeMap<u64, Duration>,
}

impl Spread {
    /// The number of leading bits of a value that are kept.
    const BITS: u32 = 10;

    fn record(&mut self, now: Time, value: Duration) {
        self.advance(now);
        let nanoseconds = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        let rest = nanoseconds
            .checked_ilog2()
            .map_or(0, |bits| bits.saturating_sub(Self::BITS));
        self.current = Some((now, nanoseconds >> rest << rest));
    }

    fn advance(&mut self, now: Time) {
        if let Some((since, value)) = self.current {
            *self.held.entry(value).or_default() += now - since;
            self.current = Some((now, value));
        }
    }

    /// Forgets the past.
    fn restart(&mut self, now: Time) {
        self.current = self.current.map(|(_, value)| (now, value));
        self.held.clear();
    }

    /// The least value that was not exceeded for 95 % of the time, in seconds.
    fn p95_s(mut self, now: Time) -> Option<f64> {
        self.advance(now);
        let all: Duration = self.held.values().sum();
        let mut left = all.mul_f64(0.95);
        let mut last = None;
        for (&value, &held) in &self.held {
            last = Some(Duration::from_nanos(value).as_secs_f64());
            if held >= left {
                break;
            }
            left -= held;
        }
        last.filter(|_| !all.is_zero())
    }
}

/// The total time in slow start, of a controller that tells its state.
#[derive(Clone, Copy, Debug, Default)]
struct SlowStart {
    current: Option<(Time, bool)>,
    total: Duration,
}

impl SlowStart {
    fn record(&mut self, now: Time, slow: bool) {
        if let Some((since, true)) = self.current {
            self.total += now - since;
        }
        self.current = Some((now, slow));
    }

    fn total(mut self, until: Time) -> Option<Duration> {
        let (since, slow) = self.current?;
        self.record(until.max(since), slow);
        Some(self.total)
    }
}

/// The sender's estimate of the RTT without queues: the controller's BaseRTT, or the least RTT.
pub(crate) fn base_rtt(connection: &Connection) -> Option<Duration> {
    let mut base_rtt_ms = None;
    if let Some(controller) = connection.congestion_controller() {
        controller.metrics(&mut |name, value| {
            if name == "vegas_base_rtt_ms" {
                base_rtt_ms = Some(value);
            }
        });
    }
    match base_rtt_ms {
        Some(milliseconds) => Duration::try_from_secs_f64(milliseconds / 1e3).ok(),
        None => connection.path_stats().find(|path| path.active)?.min_rtt,
    }
}

fn is_slow_start(state: &str) -> bool {
    matches!(state, "slow_start" | "stable_growth")
}

impl FlowMeter {
    /// A meter of a connection with `controller` and datagrams of that size.
    pub(crate) fn new(controller: Option<&str>, datagram_bytes: usize) -> FlowMeter {
        let algorithm: Option<Algorithm> = controller.and_then(|name| name.parse().ok());
        let thresholds = algorithm.and_then(|algorithm| {
            let option = |name| algorithm.options().number_if_any(name);
            Some((option("alpha")?, option("beta")?))
        });
        FlowMeter {
            datagram_bytes: datagram_bytes as u64,
            thresholds,
            since: Time::ZERO,
            mark: FlowReport::default(),
            sampled_at: None,
            window: Mean::default(),
            smoothed_rtt: Mean::default(),
            rtt_spread: Spread::default(),
            slow_start: SlowStart::default(),
            exit: None,
            settled_bytes: None,
            peaks: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Restarts counters and means; `report` is the flow's report until now.
    pub(crate) fn start(&mut self, now: Time, report: FlowReport) {
        self.since = now;
        self.mark = report;
        self.window.restart(now);
        self.smoothed_rtt.restart(now);
        self.rtt_spread.restart(now);
    }

    /// Notes an action of the connection that may have changed its window.
    pub(crate) fn look(&mut self, now: Time, connection: &Connection) {
        let controller = connection.congestion_controller();
        let sample = self
            .sampled_at
            .is_none_or(|last| now - last >= SAMPLE_EVERY);
        let mut left_slow_start = false;
        let mut window_bytes = None;
        if let Some(controller) = controller {
            window_bytes = Some(controller.congestion_window() as f64);
            if self.exit.is_none() || sample {
                let slow = is_slow_start(controller.state_str(std::time::Instant::now()));
                left_slow_start = self.exit.is_none() && !slow;
                self.slow_start.record(now, slow);
            }
        }
        if sample {
            self.sampled_at = Some(now);
            if let Some(stats) = connection.path_stats().find(|path| path.active) {
                // Before the first sample the RTT is only a guess.
                if stats.min_rtt.is_some() {
                    self.smoothed_rtt.record(now, stats.rtt.as_secs_f64());
                    self.rtt_spread.record(now, stats.rtt);
                }
                if controller.is_none() {
                    window_bytes = Some(stats.cwnd as f64);
                    left_slow_start = self.exit.is_none() && stats.startup_exit.is_some();
                }
            }
        }
        let Some(window_bytes) = window_bytes else {
            return;
        };
        let before = self.window.value();
        self.note_settled(now, before);
        if left_slow_start {
            self.exit = Some(Exit {
                at: now,
                window_before_bytes: before.unwrap_or(window_bytes),
                lost: connection.stats().lost as u64,
                base_rtt: base_rtt(connection),
            });
        }
        if before != Some(window_bytes) {
            self.note_window(now, window_bytes);
        }
    }

    /// Keeps the last window before the flow had settled.
    fn note_settled(&mut self, now: Time, window_bytes: Option<f64>) {
        if let Some(exit) = &self.exit
            && self.settled_bytes.is_none()
            && let Some(base_rtt) = exit.base_rtt
            && now >= exit.at + base_rtt * SETTLED_RTTS
        {
            self.settled_bytes = window_bytes;
        }
    }

    fn note_window(&mut self, now: Time, window_bytes: f64) {
        self.window.record(now, window_bytes);
        let packets = window_bytes as u64 / self.datagram_bytes;
        if self.peaks.last().is_none_or(|&(_, most)| packets > most) {
            self.peaks.push((now, packets));
        }
        if self.thresholds.is_some() && self.changes.last().is_none_or(|&(_, last)| packets != last)
        {
            self.changes.push((now, packets));
        }
    }

    /// The time since which it measures.
    fn since(&self) -> Time {
        self.since
    }

    /// The flow's report since then, given its report since its start.
    fn counted(&self, report: &FlowReport) -> FlowReport {
        report.since(&self.mark)
    }

    /// The metrics of windows and RTTs; times count from `start`.
    fn measures(
        &self,
        start: Time,
        now: Time,
        report: &FlowReport,
        fair_packets_per_s: Option<f64>,
    ) -> Vec<Measure> {
        let packets = |bytes: f64| bytes / self.datagram_bytes as f64;
        let seconds = |time: Time| (time - start).as_secs_f64();
        let until = report.finished.unwrap_or(now);
        let exit = self.exit.as_ref();
        let share = fair_packets_per_s.zip(report.base_rtt);
        let in_flight = share.map(|(rate, base_rtt)| rate * base_rtt.as_secs_f64());
        let available = in_flight.zip(self.thresholds);
        let available =
            available.map(|(in_flight, (alpha, beta))| (in_flight + alpha, in_flight + beta));
        // The window counts ten BaseRTTs later, even if nothing happened in between.
        let settled = self.settled_bytes.or_else(|| {
            let exit = exit?;
            (now >= exit.at + exit.base_rtt? * SETTLED_RTTS)
                .then(|| self.window.value())
                .flatten()
        });
        [
            self.window
                .mean(until)
                .map(|bytes| Measure::new("cwnd_mean_packets", "packets", packets(bytes))),
            self.smoothed_rtt
                .mean(until)
                .map(|rtt| Measure::new("rtt_mean_s", "s", rtt)),
            self.rtt_spread
                .clone()
                .p95_s(until)
                .map(|rtt| Measure::new("rtt_p95_s", "s", rtt)),
            report
                .min_rtt
                .map(|rtt| Measure::new("rtt_min_s", "s", rtt.as_secs_f64())),
            exit.map(|exit| Measure::new("slow_start_exit_s", "s", seconds(exit.at))),
            self.slow_start
                .total(until)
                .map(|total| Measure::new("slow_start_s", "s", total.as_secs_f64())),
            exit.map(|exit| {
                let window = packets(exit.window_before_bytes);
                Measure::new("window_at_exit_packets", "packets", window)
            }),
            exit.map(|exit| {
                Measure::new("lost_in_slow_start_packets", "packets", exit.lost as f64)
            }),
            settled.map(|bytes| Measure::new("window_settled_packets", "packets", packets(bytes))),
            available.map(|(low, _)| Measure::new("available_window_low_packets", "packets", low)),
            available
                .map(|(_, high)| Measure::new("available_window_high_packets", "packets", high)),
            in_flight
                .and_then(|in_flight| self.reached(in_flight))
                .map(|time| Measure::new("available_window_reached_s", "s", seconds(time))),
            share
                .and_then(|(rate, base_rtt)| self.converged(rate, base_rtt, until))
                .map(|time| Measure::new("converged_s", "s", seconds(time))),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The first time at which the window was the available one.
    fn reached(&self, in_flight_packets: f64) -> Option<Time> {
        let alpha = self.thresholds.map(|(alpha, _)| alpha);
        let available = in_flight_packets + alpha.map_or(0.0, |alpha| alpha - 1.0);
        let reached = |&&(_, packets): &&(Time, u64)| packets as f64 >= available;
        self.peaks.iter().find(reached).map(|&(time, _)| time)
    }

    /// The time from which the window stayed in the available range.
    fn converged(&self, packets_per_s: f64, base_rtt: Duration, until: Time) -> Option<Time> {
        let (alpha, beta) = self.thresholds?;
        let in_flight = packets_per_s * base_rtt.as_secs_f64();
        let range = in_flight + alpha - 1.0..=in_flight + beta + 1.0;
        let mut inside_since = None;
        for &(time, packets) in &self.changes {
            if inside_since.is_some_and(|since| time - since >= base_rtt * SETTLED_RTTS) {
                return inside_since;
            }
            inside_since = match range.contains(&(packets as f64)) {
                true => inside_since.or(Some(time)),
                false => None,
            };
        }
        inside_since.filter(|&since| until - since >= base_rtt * SETTLED_RTTS)
    }
}

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
        let packet_bytes = stream_bytes_per_packet(running.flow.datagram_bytes);
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
        measures.extend(times(
            completed,
            [
                "connections_finished",
                "completion_mean_s",
                "completion_p95_s",
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
        let meter = &running.meter;
        let window = meter.window.value();
        let packets = window.map(|bytes| bytes / meter.datagram_bytes as f64);
        [
            packets.map(|packets| Measure::new("cwnd_packets", "packets", packets)),
            meter
                .smoothed_rtt
                .value()
                .map(|rtt| Measure::new("srtt_s", "s", rtt)),
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
        Measure::new(
            "retransmitted_bytes",
            "bytes",
            counted.retransmitted_bytes as f64,
        ),
        Measure::new(
            "retransmitted_packets",
            "packets",
            packets(counted.retransmitted_bytes),
        ),
        Measure::new("timeouts", "", counted.timeouts as f64),
    ];
    if counted.packets_sent > 0 {
        let ratio = packets(counted.retransmitted_bytes) / counted.packets_sent as f64;
        measures.push(Measure::new("retransmit_ratio", "", ratio));
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

/// Number, mean and 95th percentile (nearest rank) of some times.
fn times(mut times_s: Vec<f64>, [count, mean, p95]: [&'static str; 3]) -> Vec<Measure> {
    let number = times_s.len();
    let mut measures = vec![Measure::new(count, "", number as f64)];
    times_s.sort_by(f64::total_cmp);
    let rank = (number as f64 * 0.95).ceil() as usize;
    if let Some(&time) = times_s.get(rank.saturating_sub(1)) {
        let sum: f64 = times_s.iter().sum();
        measures.extend([
            Measure::new(mean, "s", sum / number as f64),
            Measure::new(p95, "s", time),
        ]);
    }
    measures
}

/// Response times of the answers that ended since then.
fn responses(answers: &[Answer], since: Time) -> Vec<Measure> {
    let ended = answers.iter().filter(|answer| answer.ended >= since);
    let took = ended.map(|answer| answer.took.as_secs_f64()).collect();
    times(
        took,
        ["responses", "response_time_mean_s", "response_time_p95_s"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Duration::from_millis(milliseconds).into()
    }

    #[test]
    fn means_are_weighted_by_time_and_begin_anew() {
        let mut mean = Mean::default();
        assert_eq!(mean.mean(at(10)), None);
        mean.record(at(10), 4.0);
        mean.record(at(20), 1.0);
        let close =
            |mean: Mean, value: f64| (mean.mean(at(50)).expect("a mean") - value).abs() < 1e-9;
        assert!(close(mean, 1.75));
        mean.restart(at(30));
        mean.record(at(40), 3.0);
        assert!(close(mean, 2.0));
    }

    #[test]
    fn the_95th_percentile_over_time_is_weighted_by_time() {
        let mut spread = Spread::default();
        assert_eq!(spread.clone().p95_s(at(10)), None);
        let milliseconds = |value: u64| Duration::from_millis(value);
        // The values are 40 ms for 940 ms, 80 ms for 20 ms and 120 ms for 40 ms.
        for (time, rtt) in [(0, 40), (500, 120), (540, 40), (980, 80)] {
            spread.record(at(time), milliseconds(rtt));
        }
        let close = |spread: &Spread, expected: f64| {
            let found = spread.clone().p95_s(at(1000)).expect("a percentile");
            assert!((found / expected - 1.0).abs() < 1e-3, "{found}");
        };
        close(&spread, 0.080);
        spread.restart(at(990));
        close(&spread, 0.080);
        spread.record(at(990), milliseconds(40));
        close(&spread, 0.040);
    }

    #[test]
    fn time_in_slow_start_counts_every_stay() {
        let mut slow_start = SlowStart::default();
        assert_eq!(slow_start.total(at(10)), None);
        for (time, slow) in [(0, true), (100, false), (300, true), (350, false)] {
            slow_start.record(at(time), slow);
        }
        assert_eq!(slow_start.total(at(1000)), Some(Duration::from_millis(150)));
        slow_start.record(at(1000), true);
        assert_eq!(slow_start.total(at(1020)), Some(Duration::from_millis(170)));
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let names = ["n", "mean", "p95"];
        let values = |n: u32| -> Vec<f64> {
            let all = (1..=n).rev().map(f64::from).collect();
            times(all, names).iter().map(|m| m.value).collect()
        };
        assert_eq!(values(0), [0.0]);
        assert_eq!(values(1), [1.0, 1.0, 1.0]);
        assert_eq!(values(100), [100.0, 50.5, 95.0]);
    }

    #[test]
    fn convergence_counts_from_when_the_window_stays() {
        let mut meter = FlowMeter::new(Some("vegas:alpha=1,beta=3"), 1000);
        // 100 packets in flight at 1000 packets per second and 100 ms.
        for (milliseconds, packets) in [(0, 2), (100, 102), (200, 140), (300, 103), (800, 102)] {
            meter.note_window(at(milliseconds), f64::from(packets) * 1e3);
        }
        let rtt = Duration::from_millis(100);
        assert_eq!(meter.reached(100.0), Some(at(100)));
        assert_eq!(meter.converged(1000.0, rtt, at(1200)), None);
        assert_eq!(meter.converged(1000.0, rtt, at(1300)), Some(at(300)));
        assert_eq!(
            FlowMeter::new(Some("reno"), 1000).converged(1.0, rtt, at(9)),
            None
        );
    }
}
