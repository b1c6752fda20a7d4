//! The matrix as a page and as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::case::{CASES, Case};
use crate::outcome::Verdict;
use crate::result::{Matrix, Measurement, TestResult};

const STYLE: &str = include_str!("page.css");

/// The beginning of our names.
const OURS: &str = "gallop:";

/// A row of the page: a peer and one of our controllers.
struct Row<'a> {
    peer: &'a str,
    controller: &'a str,
    tests: &'a [TestResult],
    measurements: &'a [Measurement],
}

/// The rows in which we have one role.
fn rows(matrix: &Matrix, is_server: bool) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = matrix
        .pairs()
        .filter_map(|(server, client, tests, measurements)| {
            let (ours, peer) = match is_server {
                true => (server, client),
                false => (client, server),
            };
            // Ourselves at both ends: once.
            let is_double = !is_server && peer.starts_with(OURS);
            let is_empty = tests.is_empty() && measurements.is_empty();
            let controller = ours.strip_prefix(OURS)?;
            (!is_double && !is_empty).then(|| Row {
                peer: match peer.starts_with(OURS) {
                    true => "gallop itself",
                    false => peer,
                },
                controller,
                tests,
                measurements,
            })
        })
        .collect();
    rows.sort_by_key(|row| (row.peer, row.controller));
    rows
}

/// The cases that occur in rows.
fn columns(rows: &[Row<'_>]) -> Vec<&'static Case> {
    let occurs = |case: &&Case| {
        rows.iter()
            .any(|row| row.tests.iter().any(|test| test.name == case.name))
    };
    CASES.iter().filter(occurs).collect()
}

fn heading(is_server: bool) -> &'static str {
    match is_server {
        true => "Our server, their clients",
        false => "Their servers, our client",
    }
}

fn symbol(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Succeeded => "✓",
        Verdict::Failed => "✗",
        Verdict::Unsupported => "–",
    }
}

/// One page, with nothing outside of it but the logs that it links to.
pub fn html(matrix: &Matrix) -> String {
    let mut body = String::new();
    let minutes = (matrix.end_time - matrix.start_time) / 60.0;
    let _ = write!(
        body,
        "<h1>Gallop among others</h1>\n\
         <p>{} succeeded, {} failed, {} unsupported; {minutes:.0} min. Rows: the other \
         implementation, and the congestion controller of ours. A cell leads to its logs; ✓ \
         succeeded, ✗ failed, – not supported by one of the two.</p>\n",
        matrix.count(Verdict::Succeeded),
        matrix.count(Verdict::Failed),
        matrix.count(Verdict::Unsupported),
    );
    for is_server in [true, false] {
        let rows = rows(matrix, is_server);
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(body, "<h2>{}</h2>", heading(is_server));
        html_tests(&mut body, matrix, &rows);
        html_measurements(&mut body, &rows);
        html_failures(&mut body, &rows);
    }
    html_legend(&mut body, matrix);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>Gallop among others</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

fn html_tests(body: &mut String, matrix: &Matrix, rows: &[Row<'_>]) {
    let columns = columns(rows);
    if columns.is_empty() {
        return;
    }
    body.push_str("<div class=\"wide\"><table>\n<thead><tr><th>with</th><th>cc</th>");
    for case in &columns {
        let (name, description) = (case.name, escaped(case.description));
        let _ = write!(body, "<th title=\"{description}\"><span>{name}</span></th>");
    }
    body.push_str("</tr></thead>\n<tbody>\n");
    let mut before = "";
    for row in rows {
        let peer = if row.peer == before { "" } else { row.peer };
        before = row.peer;
        let _ = write!(
            body,
            "<tr{}><th scope=\"row\">{peer}</th><td>{}</td>",
            if peer.is_empty() {
                ""
            } else {
                " class=\"first\""
            },
            escaped(row.controller)
        );
        for case in &columns {
            match row.tests.iter().find(|test| test.name == case.name) {
                None => body.push_str("<td></td>"),
                Some(test) => {
                    let class = match test.result {
                        Verdict::Succeeded => "good",
                        Verdict::Failed => "bad",
                        Verdict::Unsupported => "none",
                    };
                    let mut title = format!("{} s", (test.seconds * 10.0).round() / 10.0);
                    if !test.reason.is_empty() {
                        title = format!("{title}; {}", test.reason);
                    }
                    let _ = write!(
                        body,
                        "<td class=\"{class}\"><a href=\"{}/{}/\" title=\"{}\">{}</a></td>",
                        escaped(&matrix.log_dir),
                        escaped(&test.logs),
                        escaped(&title),
                        symbol(test.result)
                    );
                }
            }
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</tbody>\n</table></div>\n");
}

fn html_measurements(body: &mut String, rows: &[Row<'_>]) {
    let table = measured(rows);
    if table.is_empty() {
        return;
    }
    for (name, lines) in table {
        let case = Case::named(name).map_or("", |case| case.description);
        let _ = writeln!(body, "<h3>{name}</h3><p>{} In kbit/s.</p>", escaped(case));
        body.push_str("<div class=\"wide\"><table class=\"figures\">\n");
        for (index, line) in lines.iter().enumerate() {
            let tag = if index == 0 { "th" } else { "td" };
            body.push_str("<tr>");
            for word in line {
                let _ = write!(body, "<{tag}>{}</{tag}>", escaped(word));
            }
            body.push_str("</tr>\n");
        }
        body.push_str("</table></div>\n");
    }
}

/// The lines of a table for each measurement: peers by controllers, the head first.
fn measured(rows: &[Row<'_>]) -> Vec<(&'static str, Vec<Vec<String>>)> {
    let mut tables = Vec::new();
    for case in CASES.iter().filter(|case| case.is_measurement()) {
        let mut controllers = Vec::new();
        let mut values: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
        for row in rows {
            let Some(one) = row.measurements.iter().find(|one| one.name == case.name) else {
                continue;
            };
            if !controllers.contains(&row.controller) {
                controllers.push(row.controller);
            }
            let mut text = match (one.kbps, one.tcp_kbps) {
                (Some(_), Some(tcp)) => {
                    format!("{}, TCP {tcp:.0}", one.details.trim_end_matches(" kbps"))
                }
                (Some(_), None) => one.details.trim_end_matches(" kbps").to_owned(),
                _ => symbol(one.result).to_owned(),
            };
            if one.late > 0 {
                let _ = write!(text, ", path late {}×", one.late);
            }
            values
                .entry(row.peer)
                .or_default()
                .insert(row.controller, text);
        }
        if values.is_empty() {
            continue;
        }
        let mut lines = vec![vec!["with".to_owned()]];
        lines[0].extend(controllers.iter().map(|&name| name.to_owned()));
        for (peer, texts) in values {
            let mut line = vec![peer.to_owned()];
            line.extend(
                controllers
                    .iter()
                    .map(|controller| texts.get(controller).cloned().unwrap_or_default()),
            );
            lines.push(line);
        }
        tables.push((case.name, lines));
    }
    tables
}

/// Failures of rows: the same ones of several controllers together.
fn failures(rows: &[Row<'_>]) -> Vec<(String, String, String)> {
    let mut failures: BTreeMap<(&str, &str, &str), (Vec<&str>, &str)> = BTreeMap::new();
    for row in rows {
        let tests = row
            .tests
            .iter()
            .map(|test| (&test.name, test.result, &test.reason, &test.fault));
        let measured = row
            .measurements
            .iter()
            .map(|one| (&one.name, one.result, &one.reason, &one.fault));
        for (name, result, reason, fault) in tests.chain(measured) {
            if result == Verdict::Failed {
                let entry = failures.entry((row.peer, name, reason)).or_default();
                entry.0.push(row.controller);
                entry.1 = fault;
            }
        }
    }
    failures
        .into_iter()
        .map(|((peer, case, reason), (controllers, fault))| {
            let what = format!("{case} with {peer} ({})", controllers.join(", "));
            (what, reason.to_owned(), fault.to_owned())
        })
        .collect()
}

fn html_failures(body: &mut String, rows: &[Row<'_>]) {
    let failures = failures(rows);
    if failures.is_empty() {
        return;
    }
    body.push_str("<h3>Failed</h3>\n<dl>\n");
    for (what, reason, fault) in failures {
        let _ = writeln!(
            body,
            "<dt>{}</dt><dd>{}<br><em>Fault: {}</em></dd>",
            escaped(&what),
            escaped(&reason),
            escaped(&fault)
        );
    }
    body.push_str("</dl>\n");
}

fn html_legend(body: &mut String, matrix: &Matrix) {
    body.push_str("<h2>Cases</h2>\n<dl>\n");
    for case in CASES {
        let _ = writeln!(
            body,
            "<dt>{}</dt><dd>{}</dd>",
            case.name,
            escaped(case.description)
        );
    }
    body.push_str("</dl>\n<h2>Implementations</h2>\n<ul>\n");
    for (name, url) in matrix
        .urls
        .iter()
        .filter(|(name, _)| !name.starts_with(OURS))
    {
        let version = matrix.versions.get(name).map_or("", String::as_str);
        let (name, url) = (escaped(name), escaped(url));
        let _ = writeln!(
            body,
            "<li><a href=\"{url}\">{name}</a> {}</li>",
            escaped(version)
        );
    }
    body.push_str("</ul>\n");
}

/// The matrix for documents: a line for each peer; controllers are named where they differ.
pub fn markdown(matrix: &Matrix) -> String {
    let mut text = String::new();
    for is_server in [true, false] {
        let rows = rows(matrix, is_server);
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(text, "### {}\n", heading(is_server));
        markdown_tests(&mut text, &rows);
        for (name, lines) in measured(&rows) {
            let _ = writeln!(text, "{name}, kbit/s:\n");
            for (index, line) in lines.iter().enumerate() {
                let _ = writeln!(text, "| {} |", line.join(" | "));
                if index == 0 {
                    let _ = writeln!(text, "|{}", "---|".repeat(line.len()));
                }
            }
            text.push('\n');
        }
        for (what, reason, fault) in failures(&rows) {
            let _ = writeln!(text, "- {what}: {reason}. Fault: {fault}.");
        }
        text.push('\n');
    }
    text
}

fn markdown_tests(text: &mut String, rows: &[Row<'_>]) {
    let mut peers: Vec<&str> = rows.iter().map(|row| row.peer).collect();
    peers.dedup();
    let columns = columns(rows);
    if columns.is_empty() {
        return;
    }
    let _ = writeln!(text, "| | {} |", peers.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(peers.len()));
    for case in columns {
        let _ = write!(text, "| {} |", case.name);
        for peer in &peers {
            let results: Vec<(&str, Verdict)> = rows
                .iter()
                .filter(|row| row.peer == *peer)
                .filter_map(|row| {
                    let test = row.tests.iter().find(|test| test.name == case.name)?;
                    Some((row.controller, test.result))
                })
                .collect();
            let _ = write!(text, " {} |", together(&results));
        }
        text.push('\n');
    }
    text.push('\n');
}

/// One symbol where all agree, else one for each controller.
fn together(results: &[(&str, Verdict)]) -> String {
    match results {
        [] => String::new(),
        [(_, first), rest @ ..] if rest.iter().all(|(_, result)| result == first) => {
            symbol(*first).to_owned()
        }
        _ => {
            let each = results
                .iter()
                .map(|(controller, result)| format!("{} {controller}", symbol(*result)));
            each.collect::<Vec<_>>().join("<br>")
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_named_where_they_differ() {
        let good = Verdict::Succeeded;
        assert_eq!(together(&[("a", good), ("b", good)]), "✓");
        assert_eq!(
            together(&[("a", good), ("b", Verdict::Failed)]),
            "✓ a<br>✗ b"
        );
        assert_eq!(together(&[]), "");
    }

    #[test]
    fn what_programs_say_is_no_markup() {
        assert_eq!(
            escaped("<a href=\"x\">&"),
            "&lt;a href=&quot;x&quot;&gt;&amp;"
        );
    }
}
