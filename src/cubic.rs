//! The window of CUBIC (RFC 9438 §4), in packets and seconds as the RFC has it.

use std::time::{Duration, Instant};

use crate::controller::Figure;
use crate::loss_based::Avoidance;
use crate::options::{Allowed, DefaultValue, OptionSpec};

/// `C` (RFC 9438 §5.1), in packets per second cubed.
const C: f64 = 0.4;

/// `β_cubic` (RFC 9438 §4.6).
const BETA: f64 = 0.7;

/// `α_cubic`, with which the Reno-friendly window grows as fast as Reno's in the mean (RFC 9438
/// §4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The target is at most so many times the window (RFC 9438 §4.2).
const MAX_TARGET: f64 = 1.5;

/// The memory of CUBIC between congestion events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cubic {
    /// `W_max`, where the window's curve is flat; none before the first loss and after a timeout.
    w_max: Option<f64>,
    /// `cwnd_prior`, the window before the last reduction.
    window_prior: Option<f64>,
    /// The current congestion avoidance stage, once its first packet was acknowledged.
    stage: Option<Stage>,
}

/// A congestion avoidance stage: the time between two congestion events.
#[derive(Clone, Debug)]
struct Stage {
    /// `t_epoch`, moved on by every time that the application left the window unused.
    start: Instant,
    /// The latest acknowledgment in the stage.
    latest: Instant,
    w_max: f64,
    /// `K`, in seconds: the time at which the window is back at `W_max`.
    k: f64,
    /// `W_est`, the window that Reno would have.
    w_est: f64,
}

impl Stage {
    fn new(now: Instant, window: f64, w_max: f64) -> Stage {
        // A window above W_max is the new W_max, and K is 0 (RFC 9438 §4.8 and §4.10).
        let w_max = w_max.max(window);
        Stage {
            start: now,
            latest: now,
            w_max,
            // Not the C library's root, whose last bit depends on the processor.
            k: libm::cbrt((w_max - window) / C),
            w_est: window,
        }
    }

    /// `W_cubic(t)` (RFC 9438 equation 1).
    fn w_cubic(&self, t: Duration) -> f64 {
        let from_k = t.as_secs_f64() - self.k;
        C * (from_k * from_k * from_k) + self.w_max
    }
}

impl Avoidance for Cubic {
    const CONTROLLER: &'static str = "cubic-rfc9438";
    const SUMMARY: &'static str = "CUBIC as RFC 9438 has it, with HyStart++ (RFC 9406)";
    const OPTIONS: &'static [OptionSpec] = &[OptionSpec {
        name: "hystart",
        meaning: "slow start ends when the RTT rises",
        unit: "",
        allowed: Allowed::Word(&["on", "off"]),
        default: DefaultValue::Word("on"),
    }];
    const DECREASE: f64 = BETA;
    const UNDOES: bool = true;

    fn on_congestion(&mut self, window: f64) {
        self.window_prior = Some(window);
        // Fast convergence (RFC 9438 §4.7).
        let shrinks = self.w_max.is_some_and(|w_max| window < w_max);
        self.w_max = Some(if shrinks {
            window * (1.0 + BETA) / 2.0
        } else {
            window
        });
        self.stage = None;
    }

    /// RFC 9438 §4.8: the next stage begins at its own window.
    fn on_persistent_congestion(&mut self) {
        self.w_max = None;
        self.stage = None;
    }

    /// RFC 9438 §5.8: such times are not part of `t`.
    fn on_app_limited(&mut self, now: Instant) {
        if let Some(stage) = &mut self.stage {
            stage.start += now.saturating_duration_since(stage.latest);
            stage.latest = now;
        }
    }

    /// RFC 9438 §4.3 to §4.5.
    ///
    /// NOTE: the RFC adds (target − cwnd) / cwnd "for each received new ACK"; here it is for each
    /// acknowledged packet, as in Linux, since a QUIC ACK stands for two packets or more.
    fn on_acked(&mut self, window: f64, acked: f64, now: Instant, rtt: Duration) -> f64 {
        let window_prior = *self.window_prior.get_or_insert(window);
        let w_max = *self.w_max.get_or_insert(window);
        let stage = self
            .stage
            .get_or_insert_with(|| Stage::new(now, window, w_max));
        self.w_max = Some(stage.w_max);
        stage.latest = now;
        let alpha = if stage.w_est >= window_prior {
            1.0
        } else {
            ALPHA
        };
        stage.w_est += alpha * acked / window;

        let t = now.saturating_duration_since(stage.start);
        if stage.w_cubic(t) < stage.w_est {
            // NOTE: the RFC sets the window to W_est; where W_cubic(t + RTT) has brought it higher,
            // it stays, since an acknowledgment is no reason to shrink.
            return stage.w_est.max(window);
        }
        let target = stage.w_cubic(t + rtt).clamp(window, MAX_TARGET * window);
        window + (target - window) / window * acked
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        if let Some(w_max) = self.w_max {
            sink(Figure::packets("cubic_w_max_packets", w_max));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// Acknowledges one window's worth of packets per round trip, and loses one in so many.
    struct Flow {
        cubic: Cubic,
        window: f64,
        start: Instant,
        now: Instant,
        rtt: Duration,
    }

    impl Flow {
        fn new(window: f64, rtt: Duration) -> Flow {
            let start = Instant::now();
            Flow {
                cubic: Cubic::default(),
                window,
                start,
                now: start,
                rtt,
            }
        }

        fn lose(&mut self) {
            self.cubic.on_congestion(self.window);
            self.window *= Cubic::DECREASE;
        }

        fn acked(&mut self) {
            self.now += self.rtt.div_f64(self.window);
            self.window = self.cubic.on_acked(self.window, 1.0, self.now, self.rtt);
        }

        fn seconds(&self) -> f64 {
            self.now.duration_since(self.start).as_secs_f64()
        }
    }

    /// The mean window, over time, at one loss in `period` packets.
    fn mean_window(period: u32, rtt: Duration) -> f64 {
        let mut flow = Flow::new(100.0, rtt);
        let mut mean = 0.0;
        for _ in 0..40 {
            let begin = flow.seconds();
            (0..period).for_each(|_| flow.acked());
            flow.lose();
            mean = f64::from(period) * rtt.as_secs_f64() / (flow.seconds() - begin);
        }
        mean
    }

    #[test]
    fn the_mean_windows_of_rfc_9438_tables_1_and_2() {
        for (period, rtt_ms, window) in [
            (100, 100, 12.0),
            (1000, 100, 38.0),
            (10_000, 100, 187.0),
            (100_000, 100, 1054.0),
            (1000, 10, 38.0),
            (10_000, 10, 120.0),
        ] {
            // The RFC takes the larger of two formulas; where the window follows each for a part of
            // the time, it is a little above both.
            let mean = mean_window(period, Duration::from_millis(rtt_ms));
            assert!(
                (mean / window - 1.0).abs() < 0.1,
                "1/{period}, {rtt_ms} ms: {mean} instead of {window}"
            );
        }
    }

    #[test]
    fn the_window_is_back_at_w_max_after_k() {
        let mut flow = Flow::new(1000.0, RTT);
        flow.lose();
        assert_eq!(flow.window, 700.0);
        // K = ∛(300 / 0.4) (RFC 9438 equation 2).
        let k = (300.0_f64 / 0.4).cbrt();
        while flow.seconds() < k {
            flow.acked();
            assert!(flow.window <= 1000.1, "concave up to W_max");
        }
        assert!((flow.window - 1000.0).abs() < 1.0, "{}", flow.window);
        let plateau = flow.seconds();
        while flow.seconds() < plateau + k {
            flow.acked();
        }
        // The window runs ahead by a round trip: W_cubic(2K + RTT).
        assert!((1300.0..1340.0).contains(&flow.window), "{}", flow.window);
    }

    #[test]
    fn fast_convergence_remembers_less_than_the_window_was() {
        let mut cubic = Cubic::default();
        cubic.on_congestion(100.0);
        assert_eq!(
            (cubic.w_max, cubic.window_prior),
            (Some(100.0), Some(100.0))
        );
        cubic.on_congestion(90.0);
        assert_eq!(cubic.w_max, Some(90.0 * 0.85));
        assert_eq!(cubic.window_prior, Some(90.0));
        cubic.on_congestion(90.0);
        assert_eq!(cubic.w_max, Some(90.0));
    }

    #[test]
    fn a_target_is_at_most_half_a_window_away() {
        let mut flow = Flow::new(10.0, RTT);
        flow.acked();
        flow.now += Duration::from_secs(100);
        let before = flow.window;
        flow.acked();
        assert!((flow.window - before - 0.5).abs() < 1e-9, "{}", flow.window);
    }

    #[test]
    fn time_without_data_does_not_count() {
        let [busy, idle] = [false, true].map(|idle| {
            let mut flow = Flow::new(100.0, RTT);
            flow.lose();
            (0..500).for_each(|_| flow.acked());
            if idle {
                flow.now += Duration::from_secs(60);
                flow.cubic.on_app_limited(flow.now);
            }
            (0..500).for_each(|_| flow.acked());
            flow.window
        });
        assert!((busy - idle).abs() < 1e-6, "{busy} {idle}");
    }

    #[test]
    fn after_persistent_congestion_a_stage_begins_at_its_own_window() {
        let mut flow = Flow::new(1000.0, RTT);
        flow.lose();
        flow.cubic.on_persistent_congestion();
        flow.window = 50.0;
        flow.acked();
        let stage = flow.cubic.stage.as_ref().expect("a stage");
        assert_eq!((stage.w_max, stage.k), (50.0, 0.0));
        assert_eq!(flow.cubic.window_prior, Some(1000.0), "Reno's part is slow");
    }
}
