//! The table of a comparison: for a terminal, and in Markdown for documents.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::CompareError;
use super::estimates::{Contender, Estimate, Estimates};
use crate::experiment::metric::{self, Metric};

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

/// The line before a table in a document, and the one after it.
const MARKERS: [&str; 2] = ["<!-- compare: measured -->", "<!-- compare: end -->"];

/// A document with a place for the table.
#[derive(Debug)]
pub(super) struct Document {
    path: PathBuf,
    /// The text up to the first marker, with it.
    before: String,
    /// The text from the second marker on, with it.
    after: String,
}

impl Document {
    /// Reads a document and finds the place.
    pub(super) fn read(path: &Path) -> Result<Document, CompareError> {
        let refuse = |problem: String| CompareError::Flag {
            flag: "--table",
            problem: format!("{}: {problem}", path.display()),
        };
        let text = fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
        gallop_files::check(path).map_err(|error| refuse(error.to_string()))?;
        let place = |marker: &str| {
            let mut places = text.match_indices(marker);
            match (places.next(), places.next()) {
                (Some((at, _)), None) => Ok(at),
                (None, _) => Err(refuse(format!(
                    "there is no line `{marker}`; expected the table's place between `{}` and `{}`",
                    MARKERS[0], MARKERS[1]
                ))),
                (Some(_), Some(_)) => Err(refuse(format!(
                    "`{marker}` stands there twice; expected one place for the table"
                ))),
            }
        };
        let (start, end) = (place(MARKERS[0])? + MARKERS[0].len(), place(MARKERS[1])?);
        if end < start {
            return Err(refuse(format!(
                "`{}` stands before `{}`; expected it after",
                MARKERS[1], MARKERS[0]
            )));
        }
        Ok(Document {
            path: path.to_path_buf(),
            before: text[..start].to_owned(),
            after: text[end..].to_owned(),
        })
    }

    /// Writes the document with the table in its place, whole or not at all.
    pub(super) fn write(&self, table: &str) -> Result<(), CompareError> {
        let text = format!("{}\n{table}{}", self.before, self.after);
        gallop_files::write(&self.path, text.as_bytes()).map_err(|error| CompareError::Write {
            path: self.path.clone(),
            error,
        })
    }
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
            point: 0,
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

    #[test]
    fn a_document_is_changed_between_the_markers_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("README.md");
        let [start, end] = MARKERS;
        fs::write(&path, format!("a\n{start}\nold\n{end}\nb\n")).expect("a document");
        let document = Document::read(&path).expect("a place");
        document.write("| new |\n").expect("it is written");
        let text = fs::read_to_string(&path).expect("a text");
        assert_eq!(text, format!("a\n{start}\n| new |\n{end}\nb\n"));
    }

    #[test]
    fn a_document_without_a_place_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("README.md");
        let [start, end] = MARKERS;
        for (text, problem) in [
            (
                String::new(),
                "there is no line `<!-- compare: measured -->`",
            ),
            (start.to_owned(), "there is no line `<!-- compare: end -->`"),
            (format!("{start}{end}{start}"), "stands there twice"),
            (format!("{end}\n{start}"), "stands before"),
        ] {
            fs::write(&path, text).expect("a document");
            let error = Document::read(&path).expect_err(problem).to_string();
            assert!(error.starts_with("--table: "), "{error}");
            assert!(error.contains("README.md: "), "{error}");
            assert!(error.contains(problem), "{error}");
        }
        let error = Document::read(&folder.path().join("none.md")).expect_err("no file");
        assert!(error.to_string().contains("none.md: "), "{error}");
    }
}
