//! The table of a comparison: for a terminal, and in Markdown for documents.

use std::fmt::Write as _;

use super::estimates::{Contender, Estimates};
use crate::experiment::metric::{self, Metric};
use crate::results::Estimate;

/// A column: subject, metric, and its heading in Markdown and in a terminal, line by line.
struct Column {
    subject: &'static str,
    metric: &'static str,
    heading: &'static str,
    lines: &'static [&'static str],
    /// True if it is in documents too.
    in_documents: bool,
}

const fn column(
    subject: &'static str,
    metric: &'static str,
    heading: &'static str,
    lines: &'static [&'static str],
    in_documents: bool,
) -> Column {
    Column {
        subject,
        metric,
        heading,
        lines,
        in_documents,
    }
}

const LINK: &str = "link/bottleneck";

/// The columns; those without any value are left out.
const COLUMNS: [Column; 10] = [
    column(
        "run",
        "slow_start_exit_s",
        "slow start left",
        &["slow", "start", "left"],
        true,
    ),
    column(
        "run",
        "available_window_reached_s",
        "window reached",
        &["window", "reached"],
        false,
    ),
    column(
        "run",
        "time_to_95_percent_s",
        "95 % of capacity at",
        &["95 %", "at"],
        true,
    ),
    column(
        "run",
        "throughput_sum_bps",
        "throughput",
        &["through-", "put"],
        false,
    ),
    column(
        LINK,
        "utilisation",
        "utilisation",
        &["utili-", "sation"],
        true,
    ),
    column(
        "run",
        "lost_packets",
        "packets lost",
        &["packets", "lost"],
        true,
    ),
    column("run", "rtt_mean_s", "mean RTT", &["RTT", "mean"], true),
    column("run", "rtt_p95_s", "RTT, p95", &["RTT", "p95"], false),
    column(
        LINK,
        "queue_mean_packets",
        "mean queue",
        &["queue", "mean"],
        true,
    ),
    column("run", "jain", "fairness", &["fair-", "ness"], true),
];

/// The text for an event that did not happen.
const NOTHING: &str = "–";

impl Column {
    fn estimate<'a>(&self, of: &'a Contender) -> Option<&'a Estimate> {
        of.metrics.get(self.subject)?.get(self.metric)
    }

    fn metric(&self) -> Option<&'static Metric> {
        metric::find(self.subject, self.metric, false)
    }

    fn cell(&self, of: &Contender, with_unit: bool) -> String {
        let (Some(estimate), Some(metric)) = (self.estimate(of), self.metric()) else {
            return NOTHING.to_owned();
        };
        let Some((mean, half)) = estimate.mean() else {
            let happened = estimate.values.iter().flatten().count();
            return format!("in {happened} of {} runs", estimate.values.len());
        };
        let shown = metric.shown;
        let mut text = shown.text(mean);
        if let Some(half) = half {
            let _ = write!(text, " ± {}", shown.text(half));
        }
        if with_unit && !shown.unit.is_empty() {
            let _ = write!(text, " {}", shown.unit);
        }
        text
    }
}

/// The columns that some controller has a value for.
fn columns(results: &Estimates) -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(|column| {
        let mut all = results.controllers.iter();
        all.any(|one| column.estimate(one).is_some())
    })
}

/// A description of the numbers.
fn caption(results: &Estimates) -> String {
    let Estimates {
        first_seed, seeds, ..
    } = *results;
    match seeds {
        1 => format!("One run each, seed {first_seed}."),
        _ => format!(
            "Mean and 95 % interval (Student's t) over {seeds} seeds, {first_seed} to {}.",
            first_seed.saturating_add(seeds - 1)
        ),
    }
}

/// The table for a terminal: one line per controller under headings with units.
#[must_use]
pub fn terminal(results: &Estimates) -> String {
    let mut all: Vec<(Vec<String>, Vec<String>)> = vec![(
        vec!["controller".to_owned()],
        results
            .controllers
            .iter()
            .map(|one| one.id.clone())
            .collect(),
    )];
    for column in columns(results) {
        let mut heading: Vec<String> = column.lines.iter().map(|&line| line.to_owned()).collect();
        let unit = column.metric().map_or("", |metric| metric.shown.unit);
        heading.extend(Some(unit.to_owned()).filter(|unit| !unit.is_empty()));
        let cells = results.controllers.iter();
        all.push((heading, cells.map(|one| column.cell(one, false)).collect()));
    }
    let height = all.iter().map(|(heading, _)| heading.len()).max();
    let height = height.unwrap_or(0);
    let width = |(heading, cells): &(Vec<String>, Vec<String>)| {
        let texts = heading.iter().chain(cells);
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = all.iter().map(width).collect();
    let mut lines = vec![results.title.clone(), String::new()];
    let mut line = |texts: &mut dyn Iterator<Item = String>| {
        let padded = texts.zip(&widths).enumerate();
        let padded = padded.map(|(number, (text, &width))| match number {
            0 => format!("{text:width$}"),
            _ => format!("{text:>width$}"),
        });
        let text = padded.collect::<Vec<_>>().join("  ");
        lines.push(text.trim_end().to_owned());
    };
    for row in 0..height {
        line(
            &mut all
                .iter()
                .map(|(heading, _)| heading.get(row).cloned().unwrap_or_default()),
        );
    }
    line(&mut widths.iter().map(|&width| "-".repeat(width)));
    for row in 0..results.controllers.len() {
        line(&mut all.iter().map(|(_, cells)| cells[row].clone()));
    }
    lines.extend([String::new(), caption(results)]);
    lines.join("\n") + "\n"
}

/// The tables in Markdown; of several paths each has its title before it.
#[must_use]
pub fn markdown(all: &[Estimates]) -> String {
    let mut text = String::new();
    for results in all {
        if !text.is_empty() {
            text.push('\n');
        }
        if all.len() > 1 {
            let _ = writeln!(text, "**{}**\n", results.title);
        }
        let shown: Vec<&Column> = columns(results)
            .filter(|column| column.in_documents)
            .collect();
        let headings: Vec<&str> = shown.iter().map(|column| column.heading).collect();
        let _ = writeln!(text, "| | {} |", headings.join(" | "));
        let _ = writeln!(text, "|---|{}", "---|".repeat(shown.len()));
        for one in &results.controllers {
            let cells: Vec<String> = shown.iter().map(|column| column.cell(one, true)).collect();
            let title = one.title.replace('|', "\\|");
            let _ = writeln!(text, "| {title} | {} |", cells.join(" | "));
        }
        let _ = writeln!(text, "\n{}", caption(results));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn contender(id: &str, lost: &[Option<f64>], jain: Option<f64>) -> Contender {
        let estimate = |unit, values: &[Option<f64>]| Estimate {
            unit,
            values: values.to_vec(),
        };
        let mut run = BTreeMap::from([("lost_packets".to_owned(), estimate("packets", lost))]);
        if let Some(jain) = jain {
            run.insert(
                "jain".to_owned(),
                estimate("", &vec![Some(jain); lost.len()]),
            );
        }
        Contender {
            id: id.to_owned(),
            title: format!("{id}'s title"),
            cc: id.to_owned(),
            metrics: BTreeMap::from([("run".to_owned(), run)]),
        }
    }

    fn results(seeds: u64, controllers: Vec<Contender>) -> Estimates {
        Estimates {
            id: "main".to_owned(),
            title: "A path".to_owned(),
            first_seed: 3,
            seeds,
            path: None,
            controllers,
        }
    }

    #[test]
    fn one_seed_has_values_and_several_have_intervals() {
        let one = results(1, vec![contender("reno", &[Some(7.0)], None)]);
        assert_eq!(
            markdown(&[one]),
            "| | packets lost |\n|---|---|\n| reno's title | 7 packets |\n\nOne run each, seed 3.\n"
        );
        let three = results(
            3,
            vec![
                contender("reno", &[Some(10.0), Some(20.0), Some(30.0)], Some(1.0)),
                contender("cubic", &[Some(1.0), None, None], None),
            ],
        );
        assert_eq!(
            markdown(std::slice::from_ref(&three)),
            "| | packets lost | fairness |\n|---|---|---|\n\
             | reno's title | 20 ± 25 packets | 1.000 ± 0.000 |\n\
             | cubic's title | in 1 of 3 runs | – |\n\n\
             Mean and 95 % interval (Student's t) over 3 seeds, 3 to 5.\n"
        );
        assert_eq!(
            terminal(&three),
            "A path\n\n\
             controller         packets          fair-\n\
             \x20                     lost           ness\n\
             \x20                  packets\n\
             ----------  --------------  -------------\n\
             reno               20 ± 25  1.000 ± 0.000\n\
             cubic       in 1 of 3 runs              –\n\n\
             Mean and 95 % interval (Student's t) over 3 seeds, 3 to 5.\n"
        );
    }
}
