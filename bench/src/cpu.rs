//! The CPU time of a thread.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// The CPU time that this thread has used. Unlike the wall clock it does not count what other
/// programs do meanwhile.
///
/// # Errors
///
/// The kernel keeps no such figure.
pub fn time_of_this_thread() -> Result<Duration> {
    const FILE: &str = "/proc/thread-self/schedstat";
    let text = fs::read_to_string(FILE).with_context(|| format!("cannot read {FILE}"))?;
    let nanoseconds = text.split(' ').next().unwrap_or_default();
    let nanoseconds = nanoseconds
        .parse()
        .with_context(|| format!("{FILE}: `{text}` does not begin with a number"))?;
    Ok(Duration::from_nanos(nanoseconds))
}
