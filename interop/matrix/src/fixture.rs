//! Files to serve and certificates, which all cells of a run share.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use gallop_interop::server::certificate::Certificate;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::case::{Case, Check};

/// The length of file names in the case zerortt, which makes requests large enough to matter.
const LONG_NAME_LETTERS: usize = 250;

/// The copies of the server's certificate in the long chain. Clients look only at the first.
const CHAIN_LENGTH: usize = 12;

/// Files and certificates in a folder.
#[derive(Debug)]
pub struct Fixture {
    folder: PathBuf,
}

impl Fixture {
    /// Makes them in `folder`, in place of those of an earlier run.
    ///
    /// # Errors
    ///
    /// A file cannot be written, or a certificate not be made.
    pub fn make(folder: &Path, cases: &[&Case]) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        let fixture = Fixture {
            folder: folder.to_owned(),
        };
        for case in cases {
            write_files(&fixture.files(case), case)
                .with_context(|| format!("cannot write files below {}", folder.display()))?;
        }
        certificates(&folder.join("certs"), 1)?;
        certificates(&folder.join("long-certs"), CHAIN_LENGTH)?;
        Ok(fixture)
    }

    /// The folder with the files of a case.
    pub fn files(&self, case: &Case) -> PathBuf {
        self.folder.join("www").join(case.name)
    }

    /// The folder with the certificates of a case.
    pub fn certificates(&self, case: &Case) -> PathBuf {
        self.folder.join(match case.check {
            Check::Amplification => "long-certs",
            _ => "certs",
        })
    }
}

/// The names of a case's files, in order, with their sizes in bytes.
pub fn names(case: &Case) -> Vec<(String, usize)> {
    let sizes = case
        .files
        .iter()
        .flat_map(|&(size, count)| std::iter::repeat_n(size, count));
    let length = match case.check {
        Check::ZeroRtt => LONG_NAME_LETTERS,
        _ => 0,
    };
    sizes
        .enumerate()
        .map(|(number, size)| {
            let name = match case.check {
                Check::Upload => "upload".to_owned(),
                Check::Browse if number == 0 => "page.html".to_owned(),
                _ => format!("file{number}"),
            };
            (format!("{name:x<length$}"), size)
        })
        .collect()
}

fn write_files(folder: &Path, case: &Case) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut random = SmallRng::seed_from_u64(1);
    for (name, size) in names(case) {
        let mut content = vec![0; size];
        random.fill_bytes(&mut content);
        if name.ends_with(".html") {
            content = format!("<!doctype html><title>Page</title>{:x<size$}", "").into_bytes();
            content.truncate(size);
        }
        fs::write(folder.join(name), content)?;
    }
    Ok(())
}

fn certificates(folder: &Path, length: usize) -> Result<()> {
    let made = Certificate::self_signed(folder)?;
    fs::rename(made.key, folder.join("priv.key"))?;
    let chain = fs::read_to_string(&made.chain)?.repeat(length);
    fs::write(folder.join("cert.pem"), chain)?;
    Ok(())
}
