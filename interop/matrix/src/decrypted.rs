//! Questions to tshark about the encrypted part of a capture.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::capture::copy_without_padding;

/// Asks for fields of the packets that a display filter selects: one line per packet, a column per
/// field, whose values are separated by commas when it occurs several times.
///
/// # Errors
///
/// The capture cannot be read or copied, or tshark is missing or does not know a field.
pub fn fields(
    capture: &Path,
    keys: &Path,
    filter: &str,
    fields: &[&str],
) -> Result<Vec<Vec<String>>> {
    let copy = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    copy_without_padding(capture, copy.path())?;
    let mut command = Command::new("tshark");
    command
        .args(["-n", "-d", "udp.port==443,quic", "-T", "fields", "-o"])
        .arg(format!("tls.keylog_file:{}", keys.display()))
        .arg("-r")
        .arg(copy.path())
        .args(["-Y", filter]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command
        .output()
        .context("cannot run tshark: is it installed (apt-get install tshark)?")?;
    ensure!(
        output.status.success(),
        "tshark: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let rows = text
        .lines()
        .map(|line| line.split('\t').map(str::to_owned).collect());
    Ok(rows.collect())
}
