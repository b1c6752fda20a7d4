//! The folders of one end, as the runner's containers have them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::case::{Case, Check};
use crate::endpoint::Role;
use crate::fixture::Fixture;

/// Makes the folders of one end, as the runner's containers have them.
pub(crate) fn prepare(
    case: &Case,
    folder: &Path,
    role: Role,
    fixture: &Fixture,
) -> Result<PathBuf> {
    let folder = folder.join(role.name());
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let make = || -> std::io::Result<()> {
        for name in ["root", "downloads", "logs/qlog"] {
            fs::create_dir_all(folder.join(name))?;
        }
        // The server of an upload takes it; the client has it.
        let is_empty = role == Role::Client && case.check != Check::Upload;
        let files = match is_empty {
            true => folder.join("empty"),
            false => fixture.files(case),
        };
        if is_empty {
            fs::create_dir(&files)?;
        }
        std::os::unix::fs::symlink(files, folder.join("www"))?;
        std::os::unix::fs::symlink(fixture.certificates(case), folder.join("certs"))?;
        fs::write(folder.join("hosts"), hosts())
    };
    make().with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// /etc/hosts, with the runner's names.
fn hosts() -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost\n");
    let names: [(&dyn std::fmt::Display, &str); 4] = [
        (&gallop_path::SERVER_IPV4, "server4 server46"),
        (&gallop_path::SERVER_IPV6, "server6 server46"),
        (&gallop_path::CLIENT_IPV4, "client4"),
        (&gallop_path::CLIENT_IPV6, "client6"),
    ];
    for (address, names) in names {
        let _ = writeln!(text, "{address} {names}");
    }
    text
}
