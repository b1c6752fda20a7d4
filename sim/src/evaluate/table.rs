//! The tables of an evaluation: for a terminal, and in Markdown for documents.

use std::fmt::Write as _;

use super::goal::{GoalResult, ShownGoal};
use super::report::{Cell, Family, Passed, Report, Shown};
use super::verdict::{Judged, Verdict};
use crate::experiment::metric;

/// The text for what was not run.
const NOTHING: &str = "–";

fn passed(of: Passed) -> String {
    match of.of {
        0 => NOTHING.to_owned(),
        _ => format!("{} of {}", of.passed, of.of),
    }
}

/// Controllers by families: passed scenarios.
fn summary(report: &Report) -> Vec<Vec<String>> {
    let mut heading = vec!["controller".to_owned(), "all".to_owned()];
    heading.extend(report.families.iter().map(|family| family.id.clone()));
    let mut rows = vec![heading];
    for own in &report.summary {
        let all = Passed {
            passed: own.passed,
            of: own.of,
        };
        let mut row = vec![own.controller.clone(), passed(all)];
        row.extend(report.families.iter().map(|family| {
            let of_family = own.families.get(&family.id).copied();
            passed(of_family.unwrap_or_default())
        }));
        rows.push(row);
    }
    rows
}

/// A sentence about seeds, and one for everything that was not run.
fn caption(report: &Report) -> String {
    let seeds: Vec<String> = report
        .families
        .iter()
        .filter_map(|family| Some(format!("{} {}", family.id, family.scenarios.first()?.seeds)))
        .collect();
    let mut text = format!("Scenarios passed. Seeds: {}.", seeds.join(", "));
    if let Some(seed) = report.fresh {
        let _ = write!(text, " Parameters drawn anew by seed {seed}.");
    }
    for sentence in &report.not_run {
        let _ = write!(text, " {sentence}");
    }
    text
}

/// The summary for a terminal.
#[must_use]
pub fn terminal(report: &Report) -> String {
    let rows = summary(report);
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(number, (cell, &width))| match number {
            0 => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let _ = writeln!(text, "\n{}", caption(report));
    text
}

/// The tables in Markdown: the summary, every family by scenario, and the goals. The scenarios'
/// names tell their parameters; when those were drawn anew, there are the summary and the goals.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let mut text = format!("`{}`\n\n", report.command);
    table(&mut text, &summary(report));
    let _ = writeln!(text, "\n{}", caption(report));
    if report.fresh.is_none() {
        for family in &report.families {
            let _ = writeln!(text, "\n### {}\n", family.title);
            table(&mut text, &of_family(report, family));
        }
    }
    let goals = goals(report);
    if goals.len() > 1 {
        let _ = writeln!(text, "\n### Goals\n");
        table(&mut text, &goals);
    }
    text
}

/// Goals by controllers: scenarios that meet them, and the one farthest from it.
fn goals(report: &Report) -> Vec<Vec<String>> {
    let mut heading = vec!["goal".to_owned()];
    heading.extend(report.controllers.iter().map(|tried| tried.id().to_owned()));
    let mut rows = vec![heading];
    for (family, goal) in (report.families.iter())
        .flat_map(|family| family.goals.iter().map(move |goal| (family, goal)))
        .filter(|(_, goal)| !goal.results.is_empty())
    {
        let mut row = vec![format!("`{}`: {}", family.id, goal.title)];
        row.extend(report.controllers.iter().map(|tried| {
            let mut results = goal.results.iter();
            let result = results.find(|result| result.controller == tried.id());
            result.map_or_else(|| NOTHING.to_owned(), |result| way(goal, result))
        }));
        rows.push(row);
    }
    rows
}

/// A controller's way to a goal.
fn way(goal: &ShownGoal, result: &GoalResult) -> String {
    let mark = match result.is_reached {
        true => "✓",
        false => "✗",
    };
    let value = shown(&goal.subject, &goal.metric, result.value);
    match &result.scenario {
        None => format!("{mark} {value}"),
        Some(scenario) => {
            let GoalResult { met, of, .. } = result;
            format!("{mark} {met} of {of}; {value} (`{scenario}`)")
        }
    }
}

/// A value of a metric with its unit, for people.
fn shown(subject: &str, name: &str, value: Option<f64>) -> String {
    match (metric::find(subject, name, false), value) {
        (Some(metric), Some(value)) => {
            let text = format!("{} {}", metric.shown.text(value), metric.shown.unit);
            text.trim_end().to_owned()
        }
        _ => "never".to_owned(),
    }
}

fn table(text: &mut String, rows: &[Vec<String>]) {
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
        if number == 0 {
            let _ = writeln!(text, "|{}", "---|".repeat(row.len()));
        }
    }
}

fn of_family(report: &Report, family: &Family) -> Vec<Vec<String>> {
    let mut heading = vec!["scenario".to_owned()];
    heading.extend(report.controllers.iter().map(|tried| tried.id().to_owned()));
    let mut rows = vec![heading];
    for scenario in &family.scenarios {
        let mut row = vec![format!("`{}`: {}", scenario.id, scenario.title)];
        row.extend(report.controllers.iter().map(|tried| {
            let mut cells = scenario.cells.iter();
            let cell = cells.find(|cell| cell.controller == tried.id());
            cell.map_or_else(|| NOTHING.to_owned(), |cell| mark(scenario, cell))
        }));
        rows.push(row);
    }
    rows
}

/// A cell: passed, or the limit that was missed most, with what was measured.
fn mark(scenario: &Shown, cell: &Cell) -> String {
    match cell.verdict {
        Verdict::Pass => "✓".to_owned(),
        Verdict::Broken => "✗ a run failed".to_owned(),
        Verdict::Missing => NOTHING.to_owned(),
        Verdict::Fail => {
            let limits = scenario.limits.iter().zip(&cell.limits);
            let distance = |judged: &Judged| judged.distance.unwrap_or(f64::INFINITY);
            let worst =
                limits.min_by(|(_, one), (_, other)| distance(one).total_cmp(&distance(other)));
            let Some((limit, judged)) = worst else {
                return "✗".to_owned();
            };
            let known = metric::find(&limit.subject, &limit.metric, false);
            let Some(metric) = known else {
                return "✗".to_owned();
            };
            let mean = judged.value.as_ref().and_then(|value| value.mean());
            let value = shown(&limit.subject, &limit.metric, mean.map(|(mean, _)| mean));
            format!("✗ {}: {value}", metric.label.to_lowercase())
        }
    }
}
