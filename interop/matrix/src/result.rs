//! The matrix in the result format of the QUIC interop runner, with what we know beyond it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::blame;
use crate::case::{CASES, Case};
use crate::cell::Cell;
use crate::endpoint::{Endpoint, OUR_URL};
use crate::outcome::{Outcome, Verdict};
use crate::programs::Programs;

/// The file. Fields named in the comment as ours are not the runner's.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Matrix {
    /// The start of the run, in seconds since 1970.
    pub start_time: f64,
    /// Its end.
    pub end_time: f64,
    /// The folder of logs.
    pub log_dir: String,
    /// Names of servers.
    pub servers: Vec<String>,
    /// Names of clients.
    pub clients: Vec<String>,
    /// The projects' URLs.
    pub urls: BTreeMap<String, String>,
    /// Ours: the versions that were run.
    pub versions: BTreeMap<String, String>,
    /// Test cases by their abbreviations.
    pub tests: BTreeMap<String, Test>,
    /// The version of QUIC.
    pub quic_version: String,
    /// A list for each client and each server: all servers with the first client, then those of
    /// the second.
    pub results: Vec<Vec<TestResult>>,
    /// The same for measurements.
    pub measurements: Vec<Vec<Measurement>>,
}

/// A test case.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// The property that it shows.
    pub desc: String,
}

/// The result of a test.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct TestResult {
    /// The abbreviation of the test.
    pub abbr: String,
    /// Its name.
    pub name: String,
    /// The verdict.
    pub result: Verdict,
    /// Ours: the reason why it did not succeed.
    #[serde(default)]
    pub reason: String,
    /// Ours: the party at fault for a failure.
    #[serde(default)]
    pub fault: String,
    /// Ours: the folder of logs, below `log_dir`.
    #[serde(default)]
    pub logs: String,
    /// Ours: the time that it took.
    #[serde(default)]
    pub seconds: f64,
}

/// The result of a measurement.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Measurement {
    /// The abbreviation of the measurement.
    pub abbr: String,
    /// Its name.
    pub name: String,
    /// The verdict.
    pub result: Verdict,
    /// The mean of its repetitions and their standard deviation, as in "9534 (± 25) kbps".
    pub details: String,
    /// Ours: the reason why it did not succeed.
    #[serde(default)]
    pub reason: String,
    /// Ours: the party at fault for a failure.
    #[serde(default)]
    pub fault: String,
    /// Ours: the mean in kbit/s.
    #[serde(default)]
    pub kbps: Option<f64>,
    /// Ours: the mean rate of the TCP flow beside it in kbit/s.
    #[serde(default)]
    pub tcp_kbps: Option<f64>,
    /// Ours: how many of its repetitions had a path that was late, however often they were tried.
    #[serde(default)]
    pub late: usize,
}

impl Matrix {
    /// Puts cells in their places.
    pub fn of(
        cells: &[(Cell, Outcome)],
        programs: &Programs,
        log_dir: String,
        (start_time, end_time): (f64, f64),
    ) -> Self {
        let servers: BTreeSet<&Endpoint> = cells.iter().map(|(cell, _)| &cell.server).collect();
        let clients: BTreeSet<&Endpoint> = cells.iter().map(|(cell, _)| &cell.client).collect();
        let mut results = Vec::new();
        let mut measurements = Vec::new();
        for client in &clients {
            for server in &servers {
                let of = |case: &Case| -> Vec<&(Cell, Outcome)> {
                    let is_it = |cell: &Cell| {
                        &cell.server == *server
                            && &cell.client == *client
                            && cell.case.name == case.name
                    };
                    cells.iter().filter(|(cell, _)| is_it(cell)).collect()
                };
                let (measured, tests): (Vec<&Case>, Vec<&Case>) =
                    CASES.iter().partition(|case| case.is_measurement());
                let tests = tests.into_iter().filter_map(|case| {
                    let (cell, outcome) = of(case).pop()?;
                    Some(test_result(cell, outcome, cells, programs))
                });
                results.push(tests.collect());
                let measured = measured.into_iter().filter_map(|case| {
                    let mut repetitions = of(case);
                    repetitions.sort_by_key(|(cell, _)| cell.repetition);
                    measurement(case, &repetitions, cells, programs)
                });
                measurements.push(measured.collect());
            }
        }
        let everyone: BTreeSet<&Endpoint> = servers.union(&clients).copied().collect();
        let about = |ours: &str, theirs: fn(&crate::endpoint::Peer) -> &String| {
            let about = everyone.iter().map(|endpoint| {
                let text = match endpoint {
                    Endpoint::Gallop(_) => ours.to_owned(),
                    Endpoint::Peer(name) => programs
                        .peers
                        .get(name)
                        .map(theirs)
                        .cloned()
                        .unwrap_or_default(),
                };
                (endpoint.to_string(), text)
            });
            about.collect()
        };
        Matrix {
            start_time,
            end_time,
            log_dir,
            servers: servers.iter().map(ToString::to_string).collect(),
            clients: clients.iter().map(ToString::to_string).collect(),
            urls: about(OUR_URL, |peer| &peer.url),
            versions: about(env!("CARGO_PKG_VERSION"), |peer| &peer.version),
            tests: CASES
                .iter()
                .map(|case| {
                    let test = Test {
                        name: case.name.to_owned(),
                        desc: case.description.to_owned(),
                    };
                    (case.abbr.to_owned(), test)
                })
                .collect(),
            quic_version: format!("{:#x}", quiche::PROTOCOL_VERSION),
            results,
            measurements,
        }
    }

    /// All pairs with what they did: server, client, tests, measurements.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str, &[TestResult], &[Measurement])> {
        let pairs = self.clients.iter().flat_map(|client| {
            let servers = self.servers.iter();
            servers.map(move |server| (server.as_str(), client.as_str()))
        });
        pairs.zip(self.results.iter().zip(&self.measurements)).map(
            |((server, client), (tests, measurements))| {
                (server, client, tests.as_slice(), measurements.as_slice())
            },
        )
    }

    /// The number of tests and measurements with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        let tests = self.results.iter().flatten().map(|test| test.result);
        let measured = self.measurements.iter().flatten().map(|one| one.result);
        tests.chain(measured).filter(|&one| one == verdict).count()
    }
}

fn test_result(
    cell: &Cell,
    outcome: &Outcome,
    cells: &[(Cell, Outcome)],
    programs: &Programs,
) -> TestResult {
    TestResult {
        abbr: cell.case.abbr.to_owned(),
        name: cell.case.name.to_owned(),
        result: outcome.result,
        reason: outcome.reason.clone(),
        fault: match outcome.result {
            Verdict::Failed => blame::fault(cell, outcome, cells, programs),
            _ => String::new(),
        },
        logs: cell.folder().display().to_string(),
        seconds: outcome.seconds,
    }
}

fn measurement(
    case: &Case,
    repetitions: &[&(Cell, Outcome)],
    cells: &[(Cell, Outcome)],
    programs: &Programs,
) -> Option<Measurement> {
    // One that did not succeed speaks for all.
    let (cell, outcome) = repetitions
        .iter()
        .find(|(_, outcome)| outcome.result != Verdict::Succeeded)
        .or(repetitions.first())?;
    let values = |value: fn(&Outcome) -> Option<f64>| -> Vec<f64> {
        let values = repetitions.iter().filter_map(|(_, outcome)| value(outcome));
        values.collect()
    };
    let rates = values(|outcome| outcome.kbps);
    let is_complete = outcome.result == Verdict::Succeeded;
    let kbps = mean(&rates).filter(|_| is_complete);
    Some(Measurement {
        abbr: case.abbr.to_owned(),
        name: case.name.to_owned(),
        result: outcome.result,
        details: match kbps {
            Some(mean) => format!("{mean:.0} (± {:.0}) kbps", deviation(&rates, mean)),
            None => String::new(),
        },
        reason: outcome.reason.clone(),
        fault: match outcome.result {
            Verdict::Failed => blame::fault(cell, outcome, cells, programs),
            _ => String::new(),
        },
        kbps,
        tcp_kbps: mean(&values(|outcome| outcome.tcp_kbps)).filter(|_| is_complete),
        late: repetitions
            .iter()
            .filter(|(_, outcome)| outcome.is_late())
            .count(),
    })
}

fn mean(values: &[f64]) -> Option<f64> {
    match values.len() {
        0 => None,
        count => Some(values.iter().sum::<f64>() / count as f64),
    }
}

/// The standard deviation of a sample; 0 for a single value.
fn deviation(values: &[f64], mean: f64) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(server: &str, client: &str, case: &str, repetition: usize) -> Cell {
        let endpoint = |name: &str| match name.strip_prefix("gallop:") {
            Some(controller) => Endpoint::Gallop(controller.to_owned()),
            None => Endpoint::Peer(name.to_owned()),
        };
        Cell {
            server: endpoint(server),
            client: endpoint(client),
            case: Case::named(case).unwrap(),
            repetition,
        }
    }

    fn outcome(result: Verdict, kbps: Option<f64>) -> Outcome {
        Outcome {
            result,
            reason: String::new(),
            suspect: None,
            seconds: 1.0,
            kbps,
            tcp_kbps: None,
            lateness_s: None,
        }
    }

    fn matrix(cells: &[(Cell, Outcome)]) -> Matrix {
        let programs = Programs {
            interop: Default::default(),
            ours: Default::default(),
            built: Default::default(),
            peers_controller: None,
            peers: BTreeMap::new(),
        };
        Matrix::of(cells, &programs, "logs".to_owned(), (1.0, 2.0))
    }

    #[test]
    fn lists_are_clients_by_servers() {
        let good = outcome(Verdict::Succeeded, None);
        let cells = [
            (cell("gallop:vegas", "a", "transfer", 0), good.clone()),
            (cell("b", "gallop:vegas", "http3", 0), good),
        ];
        let matrix = matrix(&cells);
        assert_eq!(matrix.servers, ["gallop:vegas", "b"]);
        assert_eq!(matrix.clients, ["gallop:vegas", "a"]);
        let abbreviations: Vec<Vec<&str>> = matrix
            .results
            .iter()
            .map(|tests| tests.iter().map(|test| test.abbr.as_str()).collect())
            .collect();
        assert_eq!(abbreviations, [vec![], vec!["3"], vec!["DC"], vec![]]);
        assert_eq!(matrix.quic_version, "0x1");
    }

    #[test]
    fn repetitions_become_a_mean() {
        let rates = [9000.0, 9100.0, 9200.0];
        let mut cells: Vec<(Cell, Outcome)> = (0..3)
            .map(|index| {
                let outcome = outcome(Verdict::Succeeded, Some(rates[index]));
                (cell("gallop:vegas", "a", "goodput", index), outcome)
            })
            .collect();
        let details = |cells: &[(Cell, Outcome)]| {
            let matrix = matrix(cells);
            let one = &matrix.measurements[0][0];
            (one.details.clone(), one.result)
        };
        let good = ("9100 (± 100) kbps".to_owned(), Verdict::Succeeded);
        assert_eq!(details(&cells), good);
        for (cell, late_s) in cells.iter_mut().zip([90e-6, 110e-6, 1e-3]) {
            cell.1.lateness_s = Some(late_s);
        }
        assert_eq!(matrix(&cells).measurements[0][0].late, 2);
        cells[1].1 = outcome(Verdict::Failed, None);
        assert_eq!(details(&cells), (String::new(), Verdict::Failed));
    }
}
