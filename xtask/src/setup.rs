//! Tools that must be on the machine before anything can be built or analysed.

#[path = "../../quiche/toolcheck/tools.rs"]
#[expect(
    dead_code,
    reason = "the message is for the build script; here packages are installed"
)]
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;

/// Makes sure that quiche can be built: installs Debian's packages, or names them.
///
/// # Errors
///
/// A tool is missing and cannot be installed; the error has the line that installs it.
pub fn build_tools() -> Result<()> {
    let missing = || {
        let variable = |name: &str| match name {
            "HOST" | "TARGET" => None,
            _ => std::env::var_os(name),
        };
        let mut packages: Vec<&str> = tools::missing(variable, clang_sys::load().is_ok())
            .iter()
            .map(|missing| missing.debian)
            .collect();
        if !works(Command::new("c++").arg("--version")) {
            packages.push("g++");
        }
        packages
    };
    install(&missing(), "quiche with BoringSSL")?;
    let still = missing();
    if still.is_empty() {
        return Ok(());
    }
    bail!(
        "apt-get installed {}, but the tools are not found",
        still.join(" ")
    );
}

/// Makes sure that there are the tools with which the matrix makes paths and reads their packets.
///
/// # Errors
///
/// A tool is missing and cannot be installed; the error has the line that installs it.
pub fn packet_tools() -> Result<()> {
    path_tools()?;
    if works(Command::new("tshark").arg("--version")) {
        return Ok(());
    }
    install(&["tshark"], "reading packets")
}

/// Makes sure that there is the tool with which paths are made.
///
/// # Errors
///
/// It is missing and cannot be installed; the error has the line that installs it.
pub fn path_tools() -> Result<()> {
    if works(Command::new("ip").arg("-V")) {
        return Ok(());
    }
    install(&["iproute2"], "emulated paths")
}

/// Makes sure that there is valgrind, whose tool callgrind counts instructions.
///
/// # Errors
///
/// It is missing and cannot be installed; the error has the line that installs it.
pub fn instruction_counter() -> Result<()> {
    if works(Command::new("valgrind").arg("--version")) {
        return Ok(());
    }
    install(&["valgrind"], "counting instructions")
}

/// Makes sure that there is a browser, in which reports are tested. If there is none and none can
/// be installed, those tests are left out.
pub fn browser() {
    let names = ["chromium", "chromium-browser"];
    if names
        .iter()
        .any(|name| works(Command::new(name).arg("--version")))
    {
        return;
    }
    if let Err(error) = install(&["chromium"], "looking at reports in a browser") {
        eprintln!("No report is looked at in a browser: {error:#}");
    }
}

/// The Python of a virtual environment that has qlog-analysis and the packages that it needs. The
/// environment is made if it is missing, or differs from the lock file.
///
/// # Errors
///
/// Python is missing or too old, or the packages cannot be installed.
pub fn python(root: &Path, target: &Path) -> Result<PathBuf> {
    let package = root.join("qlog-analysis");
    let lock = package.join("requirements.lock");
    let manifest = package.join("pyproject.toml");
    let environment = target.join("python");
    let python = environment.join("bin").join("python");
    let stamp = environment.join("installed");
    let mut wanted = String::new();
    for file in [&lock, &manifest] {
        wanted +=
            &fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    wanted += &package.to_string_lossy();
    if python.exists() && fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }

    check_python_version()?;
    eprintln!("Setting up Python packages in {}", environment.display());
    let make = || {
        let mut command = Command::new("python3");
        command.args(["-m", "venv", "--clear"]).arg(&environment);
        command
    };
    if !works(&mut make()) {
        // Debian keeps what `venv` needs in a package of its own.
        install(&["python3-venv"], "a Python environment")?;
        process::run(&mut make())?;
    }
    let pip = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args(arguments);
        command
    };
    process::run(pip(&["--require-hashes", "--requirement"]).arg(&lock))?;
    process::run(pip(&["--no-deps", "--no-build-isolation", "--editable"]).arg(&package))?;
    gallop_files::write(&stamp, wanted.as_bytes())
        .with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(python)
}

fn check_python_version() -> Result<()> {
    let check = "import sys; print('.'.join(map(str, sys.version_info[:3]))); \
                 sys.exit(sys.version_info < (3, 11))";
    let output = Command::new("python3")
        .args(["-c", check])
        .output()
        .context("cannot run python3: install Python 3.11 or newer (apt-get install python3)")?;
    if !output.status.success() {
        let version = String::from_utf8_lossy(&output.stdout);
        bail!(
            "python3 is Python {}: 3.11 or newer is needed",
            version.trim()
        );
    }
    Ok(())
}

/// Makes sure that there is Prometheus, which is asked the dashboard's queries. If there is none and
/// it cannot be installed, that test is left out.
pub fn prometheus() {
    if works(Command::new("prometheus").arg("--version")) {
        return;
    }
    if let Err(error) = install(&["prometheus"], "asking a real Prometheus") {
        eprintln!("No Prometheus is asked the dashboard's queries: {error:#}");
    }
}

/// Installs Debian packages if we may, or fails with the command that installs them.
fn install(packages: &[&str], purpose: &str) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let line = format!("apt-get install --yes {}", packages.join(" "));
    let is_root = process::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !is_root || !works(Command::new("apt-get").arg("--version")) {
        bail!("{purpose} needs packages that are missing; on Debian: sudo {line}");
    }
    eprintln!("Installing for {purpose}: {}", packages.join(" "));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .args(["--quiet", "--quiet", "--yes"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdout(Stdio::null());
        command
    };
    process::run(&mut apt(&["update"]))?;
    process::run(apt(&["install"]).args(packages))
}

fn works(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
