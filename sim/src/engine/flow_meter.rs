//! A meter that watches the window and the RTT of a flow.

use std::time::Duration;

use gallop::Algorithm;

use crate::endpoint::Sender;
use crate::engine::flow::FlowReport;
use crate::engine::over_time::{Mean, SlowStart, Spread};
use crate::measure::Measure;
use crate::stack::Stack;
use crate::time::Time;

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

fn is_slow_start(state: &str) -> bool {
    matches!(state, "slow_start" | "stable_growth")
}

impl FlowMeter {
    /// A meter of a connection with `controller` and datagrams of that size.
    pub(crate) fn new(controller: Option<&str>, datagram_bytes: usize) -> FlowMeter {
        let algorithm: Option<Algorithm> =
            controller.and_then(|name| Stack::of(name).1.parse().ok());
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
    pub(crate) fn look(&mut self, now: Time, sender: &dyn Sender) {
        let sample = self
            .sampled_at
            .is_none_or(|last| now - last >= SAMPLE_EVERY);
        let mut left_slow_start = false;
        let mut window_bytes = sender.window_bytes();
        let shows_window = window_bytes.is_some();
        if shows_window
            && (self.exit.is_none() || sample)
            && let Some(phase) = sender.phase_name()
        {
            let slow = is_slow_start(phase);
            left_slow_start = self.exit.is_none() && !slow;
            self.slow_start.record(now, slow);
        }
        if sample {
            self.sampled_at = Some(now);
            if let Some(path) = sender.path() {
                if let Some(rtt) = path.rtt {
                    self.smoothed_rtt.record(now, rtt.as_secs_f64());
                    self.rtt_spread.record(now, rtt);
                }
                if !shows_window {
                    window_bytes = Some(path.window_bytes);
                    left_slow_start = self.exit.is_none() && path.left_slow_start;
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
                lost: sender.lost_packets(),
                base_rtt: sender.base_rtt(),
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
    pub(super) fn since(&self) -> Time {
        self.since
    }

    /// The flow's report since then, given its report since its start.
    pub(super) fn counted(&self, report: &FlowReport) -> FlowReport {
        report.since(&self.mark)
    }

    /// The window, in datagrams, and the smoothed RTT, as last seen.
    pub(super) fn observed(&self) -> [Option<f64>; 2] {
        let window = self.window.value();
        [
            window.map(|bytes| bytes / self.datagram_bytes as f64),
            self.smoothed_rtt.value(),
        ]
    }

    /// The metrics of windows and RTTs; times count from `start`.
    pub(super) fn measures(
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Duration::from_millis(milliseconds).into()
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
