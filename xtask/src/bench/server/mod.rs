//! Servers: ours with several controllers, and other people's.

mod contestants;
mod load;
mod path;
mod profile;
mod running;
mod threads;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{Outcome, Place, build};
use crate::process;
use contestants::Contestant;

/// Measures all servers.
///
/// # Errors
///
/// Our own programs cannot be built or fail, or there is one core only. A peer that cannot be built is
/// left out with a message, and the table has the failure of one that fails under a load.
pub(super) fn run(place: &Place) -> Result<Outcome> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    ensure!(
        cores > 1,
        "`server` needs two cores: one for the server, one for the client"
    );
    process::output(Command::new("taskset").arg("--version"))?;
    for (package, program) in [
        ("gallop-interop", "gallop-server"),
        ("gallop-examples", "tokio-quiche-server"),
        ("gallop-path", "gallop-path"),
    ] {
        build(place, package, program)?;
    }
    let folder = place.target.join("bench").join("server");
    prepare(place, &folder)?;
    let all = Contestant::all(place);
    let others = other_work();
    let ours: Vec<_> = Contestant::all_of_ours().collect();
    let profile = profile::measure(place, &folder)?;
    let threads = threads::measure(place, &folder)?;
    let path = path::measure(place, &folder, &all)?;
    let busy_loads = [&load::LOADS[0], &load::LOADS[2]];
    let busy = load::measure(place, &folder, &ours, busy_loads, load::Machine::Busy)?;
    let idle = load::measure(place, &folder, &all, &load::LOADS, load::Machine::Idle)?;
    let markdown = [
        format!(
            "Servers have one core, clients another; ratios are to the first line of a table. The \
             machine's load before: {others}.\n\n"
        ),
        load::markdown(&idle, "without other load"),
        load::markdown(&busy, "with two processes that burn both cores"),
        path::markdown(&path),
        threads::markdown(&threads),
        profile::markdown(&profile),
    ]
    .concat();
    Ok(Outcome {
        markdown,
        json: json!({
            "load_before": others,
            "idle": idle,
            "busy": busy,
            "path": path,
            "threads": threads,
            "profile": profile,
        }),
    })
}

/// The processes that want to run, on average over a minute: other work on the machine.
fn other_work() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// The folders of the QUIC interop runner, with the files to serve and a certificate.
fn prepare(place: &Place, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    for name in ["www", "downloads", "certs", "logs", "root"] {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    fs::write(folder.join("hosts"), "127.0.0.1 localhost\n")?;
    let tls = place.root.join("sim").join("tls");
    for (from, to) in [("cert.pem", "cert.pem"), ("key.pem", "priv.key")] {
        fs::copy(tls.join(from), folder.join("certs").join(to))?;
    }
    let over_paths = path::PATHS.iter().map(|path| &path.load);
    for load in load::LOADS.iter().chain([&threads::LOAD]).chain(over_paths) {
        fs::write(folder.join("www").join(load.file()), vec![b'g'; load.bytes])?;
    }
    Ok(())
}

/// The one in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
