//! `gallop-matrix`: see `--help`. `cargo xtask interop` runs it.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use gallop::Algorithm;
use gallop::stack::quiche::Selection;
use gallop_matrix::case::{CASES, Case};
use gallop_matrix::endpoint::{Peer, Role, peers};
use gallop_matrix::fixture::Fixture;
use gallop_matrix::outcome::Verdict;
use gallop_matrix::plan::{DEFAULT_CONTROLLER, Plan};
use gallop_matrix::programs::Programs;
use gallop_matrix::result::Matrix;
use gallop_matrix::{lanes, page};

/// Run other QUIC implementations against ours
///
/// Server by client by congestion controller by test case of the QUIC interop runner, over an
/// emulated path (15 ms, 10 Mbit/s, a buffer of 25 packets). Foreign implementations are built
/// first, from the package registries; one that cannot be built is left out and named at the end.
///
/// matrix.html shows the result, interop.json has it in the interop runner's format; each cell's
/// logs, traces (qlog) and TLS keys are in cells/SERVER_CLIENT/CASE.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask interop",
    bin_name = "cargo xtask interop",
    args_override_self = true,
    after_help = "\
Examples:
  cargo xtask interop
  cargo xtask interop --list
  cargo xtask interop --peers quic-go,aioquic --cases transfer,http3 --cc vegas
  cargo xtask interop --fast --json interop.json
  cargo xtask interop --resume

Exit status: 0 if no cell failed; 1 if one did, whoever is to blame, or the matrix could not be run; \
2 for a wrong flag; 3 if the system does not permit network namespaces."
)]
struct Arguments {
    /// Foreign implementations [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    peers: Vec<String>,
    /// Test cases and measurements [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    cases: Vec<String>,
    /// Our congestion controllers, as in --cc vegas gallop-vegas:gamma=2
    #[arg(
        long,
        num_args = 1..,
        default_values = ["canter", "vegas", "gallop-vegas", "cubic", "reno"],
        value_name = "NAME[:OPTIONS]"
    )]
    cc: Vec<Selection>,
    /// The congestion controller of peers that take ours: quinn and s2n-quic [default: their own]
    #[arg(long, value_name = "NAME[:OPTIONS]")]
    peer_cc: Option<Algorithm>,
    /// Our role [default: both]
    #[arg(long, value_enum)]
    role: Option<OurRole>,
    /// A few implementations, cases and controllers, for a first look
    #[arg(long)]
    fast: bool,
    /// Repetitions of measurements [default: 5, as in the interop runner]
    #[arg(long, value_name = "N")]
    repetitions: Option<NonZeroUsize>,
    /// Cells at a time
    #[arg(long, default_value = "4", value_name = "N")]
    lanes: NonZeroUsize,
    /// Keep the outcomes that an interrupted run left in --out, and run the other cells
    #[arg(long)]
    resume: bool,
    /// List implementations, cases and the number of cells, and run nothing
    #[arg(long)]
    list: bool,
    /// Also write the result to this file, in the interop runner's format
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Folder for results and logs [default: target/interop, with --fast target/interop-fast]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The checkout
    #[arg(long, default_value = ".", hide = true)]
    root: PathBuf,
    /// Folder for builds
    #[arg(long, default_value = "target", hide = true)]
    target: PathBuf,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OurRole {
    Server,
    Client,
}

/// The controller of `--fast`.
const FAST_CONTROLLERS: [&str; 2] = ["vegas", DEFAULT_CONTROLLER];

/// The exit status where namespaces are not permitted.
const NOT_PERMITTED: u8 = 3;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let known = peers(&arguments.root.join("interop").join("peers"))?;
    let chosen = chosen_peers(arguments, &known)?;
    let cases = chosen_cases(arguments)?;
    let mut plan = Plan {
        peers: chosen,
        cases,
        controllers: controllers(arguments),
        roles: match arguments.role {
            None => vec![Role::Server, Role::Client],
            Some(OurRole::Server) => vec![Role::Server],
            Some(OurRole::Client) => vec![Role::Client],
        },
        repetitions: arguments.repetitions.map(NonZeroUsize::get),
    };
    if arguments.list {
        list(&plan);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(json) = &arguments.json {
        gallop_files::check(json).with_context(|| format!("--json {}", json.display()))?;
    }
    if let Err(error) = gallop_path::Path::start(&gallop_path::Settings::default()) {
        eprintln!("NO CELL IS RUN: a path cannot be made. {error}");
        return Ok(ExitCode::from(NOT_PERMITTED));
    }
    let out = arguments.out.clone().unwrap_or_else(|| {
        arguments.target.join(match arguments.fast {
            true => "interop-fast",
            false => "interop",
        })
    });
    fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
    let out = fs::canonicalize(&out)?;
    let programs = Programs {
        interop: fs::canonicalize(arguments.root.join("interop"))?,
        ours: fs::canonicalize(arguments.target.join("release"))?,
        built: absolute(&arguments.target.join("peers"))?,
        peers_controller: arguments.peer_cc.as_ref().map(Algorithm::to_string),
        peers: known.clone(),
    };
    let missing = build(&mut plan, &programs);
    let cells = plan.cells();
    ensure!(!cells.is_empty(), "no cell is left to run");

    let start = now();
    let fixture = Fixture::make(&out.join("files"), &plan.cases)?;
    let outcomes = lanes::run(
        &cells,
        arguments.lanes.get(),
        arguments.resume,
        &out.join("cells"),
        &fixture,
        &programs,
    )?;
    let cells: Vec<_> = cells.into_iter().zip(outcomes).collect();
    let matrix = Matrix::of(&cells, &programs, "cells".to_owned(), (start, now()));
    let json = serde_json::to_string_pretty(&matrix)?;
    write(&out.join("interop.json"), &json)?;
    write(&out.join("matrix.html"), &page::html(&matrix))?;
    write(&out.join("matrix.md"), &page::markdown(&matrix))?;
    if let Some(path) = &arguments.json {
        write(path, &json)?;
    }
    print!("{}", page::markdown(&matrix));
    let failed = matrix.count(Verdict::Failed);
    println!(
        "{} succeeded, {failed} failed, {} unsupported: {}",
        matrix.count(Verdict::Succeeded),
        matrix.count(Verdict::Unsupported),
        out.join("matrix.html").display()
    );
    for (name, reason) in &missing {
        println!("LEFT OUT: {name}: {reason}");
    }
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn chosen_peers<'a>(
    arguments: &Arguments,
    known: &'a BTreeMap<String, Peer>,
) -> Result<Vec<&'a Peer>> {
    if arguments.peers.is_empty() {
        let is_wanted = |peer: &&Peer| peer.fast || !arguments.fast;
        return Ok(known.values().filter(is_wanted).collect());
    }
    let names = arguments.peers.iter().map(|name| {
        known.get(name).with_context(|| {
            let names: Vec<&str> = known.keys().map(String::as_str).collect();
            format!(
                "--peers: unknown peer `{name}`; the peers are {}",
                names.join(", ")
            )
        })
    });
    names.collect()
}

fn chosen_cases(arguments: &Arguments) -> Result<Vec<&'static Case>> {
    if arguments.cases.is_empty() {
        let is_wanted = |case: &&Case| case.is_fast || !arguments.fast;
        return Ok(CASES.iter().filter(is_wanted).collect());
    }
    let cases = arguments.cases.iter().map(|name| {
        Case::named(name).with_context(|| {
            let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
            format!(
                "--cases: unknown case `{name}`; the cases are {}",
                names.join(", ")
            )
        })
    });
    cases.collect()
}

fn controllers(arguments: &Arguments) -> Vec<String> {
    let names = arguments.cc.iter().map(ToString::to_string);
    match arguments.fast {
        true => names
            .filter(|name| FAST_CONTROLLERS.contains(&name.as_str()))
            .collect(),
        false => names.collect(),
    }
}

fn list(plan: &Plan<'_>) {
    println!("Implementations:");
    for peer in &plan.peers {
        let roles: Vec<&str> = peer.roles.iter().map(|role| role.name()).collect();
        println!(
            "  {:20} {:12} {}",
            peer.name,
            peer.version,
            roles.join(", ")
        );
    }
    println!("Cases:");
    for case in &plan.cases {
        println!("  {:20} {}", case.name, case.description);
    }
    println!("{} cells", plan.cells().len());
}

/// Builds all peers; those that cannot be built leave the plan. Gives these, with the reason.
fn build(plan: &mut Plan<'_>, programs: &Programs) -> Vec<(String, String)> {
    let mut missing = Vec::new();
    plan.peers.retain(|peer| {
        eprintln!("Building {} {}", peer.name, peer.version);
        match programs.build(peer) {
            Ok(()) => true,
            Err(error) => {
                eprintln!("LEFT OUT: {}: {error:#}", peer.name);
                missing.push((peer.name.clone(), format!("{error:#}")));
                false
            }
        }
    });
    missing
}

fn write(path: &Path, text: &str) -> Result<()> {
    gallop_files::write(path, text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    match std::path::absolute(path) {
        Ok(path) => Ok(path),
        Err(error) => bail!("{}: {error}", path.display()),
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_repeated_flag_holds() {
        let line = "matrix --lanes 2 --role server --json a --lanes 3 --role client --json b";
        let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
        assert_eq!(arguments.lanes.get(), 3);
        assert!(matches!(arguments.role, Some(OurRole::Client)));
        assert_eq!(arguments.json, Some(PathBuf::from("b")));
    }
}
