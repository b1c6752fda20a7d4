//! Results: real figures beside simulated ones.

use std::fmt::Write as _;

use serde::Serialize;

use super::figures::Figures;
use super::measured::Measured;
use super::plan::Plan;
use super::verdict::{Compared, Verdict, compare, is_late, verdict};

/// All results.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The command that makes them.
    pub command: String,
    /// The number of simulated seeds.
    pub seeds: u64,
    /// A row for each scenario and controller.
    pub rows: Vec<Row>,
    /// Scenarios that could not be run, and the reasons.
    pub left_out: Vec<String>,
}

/// A scenario with a controller.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The scenario's name.
    pub scenario: String,
    /// Its title.
    pub title: String,
    /// The name of the run.
    pub run: String,
    /// Its controller.
    pub cc: String,
    /// The kernel's controller of the flow beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<&'static str>,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason for which there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The number of real runs: more than one if paths were late.
    pub runs: usize,
    /// The mean lateness of packets that left the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness_s: Option<f64>,
    /// The figures that have bounds.
    pub compared: Vec<Compared>,
    /// The figures of the real run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub real: Option<Figures>,
    /// The figures of the simulated runs, by seed.
    pub simulated: Vec<Figures>,
}

impl Row {
    /// A row of the last of several real runs, or of their failure.
    #[must_use]
    pub fn new(
        (scenario, title): (&str, &str),
        plan: &Plan,
        runs: usize,
        outcome: Result<Measured, String>,
        simulated: Vec<Figures>,
    ) -> Row {
        let mut row = Row {
            scenario: scenario.to_owned(),
            title: title.to_owned(),
            run: plan.run.clone(),
            cc: plan.cc.clone(),
            neighbour: plan.neighbour.as_ref().map(|flow| flow.controller),
            verdict: Verdict::Failed,
            failure: None,
            runs,
            lateness_s: None,
            compared: Vec::new(),
            real: None,
            simulated,
        };
        match outcome {
            Ok(measured) => {
                row.compared = compare(&measured.figures, &row.simulated);
                let is_late = is_late(measured.lateness_s, plan.packet_time());
                row.verdict = verdict(is_late, &row.compared);
                row.lateness_s = Some(measured.lateness_s);
                row.real = Some(measured.figures);
            }
            Err(reason) => row.failure = Some(reason),
        }
        row
    }

    /// The real value of a figure, and the least and the greatest simulated one.
    fn cell(&self, digits: usize, figure: impl Fn(&Figures) -> Option<f64>) -> String {
        let text = |value: f64| format!("{value:.digits$}");
        let real = self.real.as_ref().and_then(&figure);
        let simulated: Vec<f64> = self.simulated.iter().filter_map(&figure).collect();
        let low = simulated.iter().copied().reduce(f64::min).map(text);
        let high = simulated.iter().copied().reduce(f64::max).map(text);
        match (real, low, high) {
            (None, None, None) => String::new(),
            (real, Some(low), Some(high)) if low == high => {
                format!("{} / {low}", real.map_or("–".to_owned(), text))
            }
            (real, low, high) => format!(
                "{} / {}–{}",
                real.map_or("–".to_owned(), text),
                low.unwrap_or_default(),
                high.unwrap_or_default()
            ),
        }
    }

    fn verdict_text(&self) -> String {
        match self.verdict {
            Verdict::Agrees => "agrees".to_owned(),
            Verdict::Differs => {
                let differing = self.compared.iter().filter(|one| !one.agrees());
                let names: Vec<&str> = differing.map(|one| one.figure).collect();
                format!("**differs**: {}", names.join(", "))
            }
            Verdict::Late => {
                let microseconds = self.lateness_s.unwrap_or_default() * 1e6;
                format!("late: {microseconds:.0} µs")
            }
            Verdict::Failed => {
                format!("failed: {}", self.failure.as_deref().unwrap_or_default())
            }
        }
    }
}

impl Results {
    /// The number of rows with a verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows
            .iter()
            .filter(|row| row.verdict == verdict)
            .count()
    }

    /// The results in Markdown: what was counted, then a table.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "`{}`: of {} runs {} agree, {} differ, {} late, {} failed. In each cell the real \
             value stands before the simulated one, or before the least and the greatest of {} \
             seeds.\n\n\
             | scenario | controller | throughput, Mbit/s | share beside TCP | mean queue, packets \
             | its 95th percentile | mean RTT, ms | packets lost | verdict |\n\
             |---|---|---|---|---|---|---|---|---|\n",
            self.command,
            self.rows.len(),
            self.count(Verdict::Agrees),
            self.count(Verdict::Differs),
            self.count(Verdict::Late),
            self.count(Verdict::Failed),
            self.seeds,
        );
        let mut before = "";
        for row in &self.rows {
            let scenario = if row.scenario == before {
                ""
            } else {
                &row.scenario
            };
            before = &row.scenario;
            let cells = [
                scenario.to_owned(),
                row.cc.clone(),
                row.cell(2, |one| Some(one.throughput_bps / 1e6)),
                row.cell(2, Figures::share),
                row.cell(1, |one| Some(one.queue_mean_packets)),
                row.cell(0, |one| Some(one.queue_p95_packets)),
                row.cell(1, |one| Some(one.rtt_mean_s * 1e3)),
                row.cell(0, |one| Some(one.lost_packets)),
                row.verdict_text(),
            ];
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        for reason in &self.left_out {
            let _ = write!(text, "\nLeft out: {reason}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::real::plan::Scenario;

    fn plan() -> Plan {
        let text = "title = 'A'\nduration = '2s'\nack-every = 1\n\
            run = [{ id = 'a', cc = 'vegas' }]\n\
            [dumbbell]\nrate = '10mbit'\nrtt = '20ms'\nqueue = '20p'\n[[flow]]\nname = 'tested'";
        let scenario = Scenario::parse("a", Path::new("a.toml"), text).unwrap();
        scenario.plans[0].clone()
    }

    fn figures(throughput_bps: f64) -> Figures {
        Figures {
            throughput_bps,
            queue_mean_packets: 4.0,
            ..Figures::default()
        }
    }

    fn row(outcome: Result<Measured, String>) -> Row {
        let simulated = vec![figures(9.4e6), figures(9.41e6)];
        Row::new(("alone", "Alone"), &plan(), 1, outcome, simulated)
    }

    fn measured(throughput_bps: f64, lateness_s: f64) -> Result<Measured, String> {
        Ok(Measured {
            figures: figures(throughput_bps),
            lateness_s,
        })
    }

    #[test]
    fn each_row_has_its_verdict() {
        let results = Results {
            command: "cargo xtask evaluate --real".to_owned(),
            seeds: 2,
            rows: vec![
                row(measured(9.39e6, 0.0)),
                row(measured(5e6, 0.0)),
                row(measured(9.39e6, 200e-6)),
                row(Err("no server".to_owned())),
            ],
            left_out: vec!["bbr: the kernel has none".to_owned()],
        };
        let text = results.markdown();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("of 4 runs 1 agree, 1 differ, 1 late, 1 failed"));
        let expected = "| alone | vegas | 9.39 / 9.40–9.41 |  | 4.0 / 4.0 | 0 / 0 | 0.0 / 0.0 | 0 / 0 | agrees |";
        assert_eq!(lines[4], expected);
        assert!(lines[5].starts_with("|  | vegas | 5.00"), "{}", lines[5]);
        assert!(lines[5].ends_with("**differs**: throughput |"));
        assert!(lines[6].ends_with("late: 200 µs |"), "{}", lines[6]);
        assert!(lines[7].contains("| – / 9.40–9.41 |"), "{}", lines[7]);
        assert!(lines[7].ends_with("failed: no server |"));
        assert_eq!(lines[9], "Left out: bbr: the kernel has none");
    }
}
