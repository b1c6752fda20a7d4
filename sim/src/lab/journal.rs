//! The journal of an experiment: one line for every finished run, so that a sweep that was
//! interrupted goes on where it was.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::outcome::RunOutcome;
use crate::experiment::Experiment;

/// The journal's file in an experiment's directory.
pub(super) const FILE_NAME: &str = "journal.ndjson";

/// The first line. Runs of a journal with another one do not count.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    experiment: String,
    fingerprint: String,
}

/// A journal that is open for more runs.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

/// The values that determine the results of all runs: the points and the data that are kept of
/// them, the program, and the choice of a subset. The contents of the report do not count, so that
/// a claim can be changed without running anything again.
pub(super) fn fingerprint(experiment: &Experiment, program: u64, fast: bool) -> String {
    let Experiment {
        points,
        analysis,
        series,
        traces,
        first_seed,
        ..
    } = experiment;
    let mut hasher = DefaultHasher::new();
    hasher.write(format!("{points:?} {analysis:?} {series:?} {traces:?} {first_seed}").as_bytes());
    hasher.write_u64(program);
    hasher.write_u8(fast.into());
    for file in experiment.trace_files() {
        hasher.write(&fs::read(file).unwrap_or_default());
    }
    format!("{:016x}", hasher.finish())
}

/// A number that stands for this program.
pub(super) fn program() -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read(std::env::current_exe()?)?);
    Ok(hasher.finish())
}

impl Journal {
    /// Opens the journal in `directory` and returns it with its runs that finished well. A journal
    /// of other points or of another program is replaced; a last line that was torn is cut off.
    pub(super) fn open(
        directory: &Path,
        experiment: &str,
        fingerprint: String,
    ) -> io::Result<(Journal, Vec<(usize, u64)>)> {
        let path = directory.join(FILE_NAME);
        let header = Header {
            experiment: experiment.to_owned(),
            fingerprint,
        };
        let (kept, runs) = match fs::read(&path) {
            Ok(bytes) => whole_lines(&bytes, &header),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (0, Vec::new()),
            Err(error) => return Err(error),
        };
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        file.set_len(kept)?;
        if kept == 0 {
            write_line(&mut file, &header)?;
        }
        let done = runs.iter().filter(|run| run.failed.is_none());
        let done = done.map(|run| (run.point, run.seed)).collect();
        let file = Mutex::new(file);
        Ok((Journal { path, file }, done))
    }

    /// Adds a run.
    pub(super) fn add(&self, run: &RunOutcome) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        write_line(&mut file, run)
    }

    /// All runs, the last of each.
    pub(super) fn read(&self) -> io::Result<BTreeMap<(usize, u64), RunOutcome>> {
        let bytes = fs::read(&self.path)?;
        let lines = bytes.split(|&byte| byte == b'\n').skip(1);
        let runs = lines.filter_map(|line| serde_json::from_slice::<RunOutcome>(line).ok());
        Ok(runs.map(|run| ((run.point, run.seed), run)).collect())
    }
}

/// Writes a line at once, so that at most the last one can be torn.
fn write_line(file: &mut File, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    file.write_all(&line)
}

/// The length of the part of a journal that can be kept, and the runs in it.
fn whole_lines(bytes: &[u8], header: &Header) -> (u64, Vec<RunOutcome>) {
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let same = serde_json::from_slice::<Header>(first).is_ok_and(|found| found == *header);
    if !same || !first.ends_with(b"\n") {
        return (0, Vec::new());
    }
    let mut length = first.len();
    let mut runs = Vec::new();
    for line in lines {
        let run = serde_json::from_slice(line);
        let (Ok(run), true) = (run, line.ends_with(b"\n")) else {
            break;
        };
        length += line.len();
        runs.push(run);
    }
    (length as u64, runs)
}
