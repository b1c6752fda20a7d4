//! The tables of docs/algorithms.md are those of the catalogue. `UPDATE_DOCS=1` writes them anew.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use gallop::CATALOG;
use gallop::options::OptionSpec;

const BEGIN: &str = "<!-- catalogue: begin, made by tests/documentation.rs -->\n";
const END: &str = "<!-- catalogue: end -->";

fn row(option: &OptionSpec) -> String {
    format!(
        "| `{}` | {} | {} | {} |\n",
        option.name,
        option.meaning,
        option.allowed_text(),
        option.default
    )
}

fn tables() -> String {
    let mut text = String::from("\n| name | |\n|---|---|\n");
    for entry in CATALOG {
        let _ = writeln!(text, "| `{}` | {} |", entry.name, entry.summary);
    }
    for entry in CATALOG.iter().filter(|entry| !entry.options.is_empty()) {
        let rows: String = entry.options.iter().map(row).collect();
        let _ = write!(
            text,
            "\nOptions of `{}`:\n\n| name | meaning | value | default |\n|---|---|---|---|\n{rows}",
            entry.name
        );
    }
    text.push('\n');
    text
}

#[test]
fn the_documented_catalogue_is_the_catalogue() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/algorithms.md");
    let text = fs::read_to_string(&path).expect("docs/algorithms.md");
    let (before, rest) = text.split_once(BEGIN).expect("the begin of the tables");
    let (documented, after) = rest.split_once(END).expect("the end of the tables");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", tables())).expect("written");
        return;
    }
    assert_eq!(
        documented,
        tables(),
        "docs/algorithms.md differs from src/catalog.rs: UPDATE_DOCS=1 cargo test --test documentation"
    );
}
