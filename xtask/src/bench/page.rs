//! docs/benchmarks.md: the sections that are measured, between those that are written by hand.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const FILE: &str = "docs/benchmarks.md";

/// Replaces the section of that name by the measured one.
///
/// # Errors
///
/// The page cannot be read or written, or has no such section.
pub fn replace(root: &Path, name: &str, machine: &str, section: &str) -> Result<()> {
    let file = root.join(FILE);
    let page = fs::read_to_string(&file).with_context(|| format!("cannot read {FILE}"))?;
    let section = format!(
        "`cargo xtask bench {name}` on {machine}:\n\n{}",
        section.trim()
    );
    let page = replaced(&page, name, &section)
        .with_context(|| format!("{FILE} has no lines `{}` and `{}`", begin(name), end(name)))?;
    gallop_files::write(&file, page.as_bytes()).with_context(|| format!("cannot write {FILE}"))
}

fn begin(name: &str) -> String {
    format!("<!-- {name}: measured -->")
}

fn end(name: &str) -> String {
    format!("<!-- {name}: end -->")
}

fn replaced(page: &str, name: &str, section: &str) -> Option<String> {
    let (before, rest) = page.split_once(&begin(name))?;
    let (_, after) = rest.split_once(&end(name))?;
    Some(format!(
        "{before}{}\n\n{section}\n\n{}{after}",
        begin(name),
        end(name)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_the_rest_stays() {
        let page = "# A\n\n<!-- a: measured -->\nold\n<!-- a: end -->\n\ntext\n";
        let expected = "# A\n\n<!-- a: measured -->\n\nnew\n\n<!-- a: end -->\n\ntext\n";
        let once = replaced(page, "a", "new").unwrap();
        assert_eq!(once, expected);
        assert_eq!(replaced(&once, "a", "new").unwrap(), expected);
        assert_eq!(replaced(page, "b", "new"), None);
    }

    #[test]
    fn the_page_has_a_section_for_each_benchmark() {
        use clap::ValueEnum;
        let page = fs::read_to_string(crate::root().unwrap().join(FILE)).unwrap();
        for benchmark in super::super::Benchmark::value_variants() {
            let name = benchmark.name();
            assert!(replaced(&page, &name, "").is_some(), "{name}");
        }
    }
}
