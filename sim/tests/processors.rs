//! The same seed gives the same bytes on every processor.
//!
//! BoringSSL takes the properties of the processor from `OPENSSL_ia32cap` if that is set. So one
//! machine can stand for many: a simulation runs as a child process under each value, and every
//! byte of its files must be the same.

#![cfg(target_arch = "x86_64")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The properties of processors, as `OPENSSL_ia32cap` writes them: `|` adds bits, `~` takes bits
/// away. Before the colon are EDX and ECX of CPUID leaf 1, after it EBX and ECX of leaf 7. Bit 30
/// of the first word is set for Intel's processors.
const PROCESSORS: [(&str, &str); 5] = [
    ("Intel's", "|0x40000000"),
    ("not Intel's", "~0x40000000"),
    ("without RDRAND", "~0x4000000000000000"),
    ("without AES-NI", "~0x0200000000000000"),
    ("without AVX", "~0x1000000000000000:~0xc0010020"),
];

const EXPERIMENT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/experiments/processors.toml"
);

const PRESETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments");

/// A short comparison of controllers of every origin.
const COMPARISON: &str = "compare --rate 20mbit --rtt 40ms --buffer 30p --duration 3s --flows 2 \
                          --seed 7 --threads 1 --out compared --json compared.json --cc cubic \
                          --cc reno --cc bbr2 --cc cubic-rfc9438 --cc gallop-vegas";

/// Every file below `folder` by its path.
fn files(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            let bytes = fs::read(&path).expect("a file");
            found.insert(path, bytes);
        }
    }
}

/// Runs the simulator's commands on such a processor; returns every file that they wrote.
fn simulated(processor: Option<&str>) -> BTreeMap<PathBuf, Vec<u8>> {
    let folder = TempDir::new().expect("a folder");
    let simulator = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gallop-sim"));
        match processor {
            Some(value) => command.env("OPENSSL_ia32cap", value),
            None => command.env_remove("OPENSSL_ia32cap"),
        };
        command.current_dir(folder.path());
        command
    };
    for command in [
        simulator()
            .args(COMPARISON.split_whitespace())
            .args(["--library", PRESETS]),
        simulator().args(["sweep", "--threads", "1", "--out", "sweep", EXPERIMENT]),
    ] {
        let output = command.output().expect("the simulator starts");
        assert!(output.status.success(), "{output:?}");
    }
    let mut found = BTreeMap::new();
    files(folder.path(), &mut found);
    found
        .into_iter()
        .map(|(path, bytes)| {
            let path = path.strip_prefix(folder.path()).expect("below the folder");
            (path.to_path_buf(), bytes)
        })
        .collect()
}

#[test]
fn same_bytes_on_every_processor() {
    let here = simulated(None);
    let traces = here
        .keys()
        .filter(|path| path.extension().is_some_and(|end| end == "sqlog"));
    assert_eq!(traces.count(), 10);
    for file in [
        "compared.json",
        "compared/main/results.parquet",
        "compared/main/series.parquet",
        "sweep/processors/results.parquet",
    ] {
        assert!(here.contains_key(Path::new(file)), "{file}");
    }
    for (processor, value) in PROCESSORS {
        let there = simulated(Some(value));
        assert!(here.keys().eq(there.keys()), "{processor}: other files");
        for (path, bytes) in &here {
            let path = path.display();
            assert!(
                *bytes == there[Path::new(&path.to_string())],
                "{processor}: {path} differs"
            );
        }
    }
}
