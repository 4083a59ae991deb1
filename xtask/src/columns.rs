//! Test that lines of code have at most 100 columns.
//!
//! rustfmt ensures that, unless a literal is too long: then it leaves the whole statement as it is,
//! and `cargo fmt --check` stays silent.

use std::fs;
use std::path::Path;

const COLUMNS_MAX: usize = 100;

/// Directories whose code is checked.
const CHECKED: [&str; 14] = [
    "benches/src",
    "cli/src",
    "core/src",
    "server-warp/src",
    "server-warp/tests",
    "storage-embedded/src",
    "storage-fjall/src",
    "storage-postgres/src",
    "storage-postgres/tests",
    "storage-sled/src",
    "store/src",
    "testing/src",
    "wasm/src",
    "xtask/src",
];

/// Collects the places of longer lines below a directory.
fn find_longer_lines(directory: &Path, places: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            find_longer_lines(&path, places);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a file");
            let longer = longer_lines(&text).into_iter();
            places.extend(longer.map(|number| format!("{}:{number}", path.display())));
        }
    }
}

/// Returns the numbers of longer lines, except for comments, which may contain long links, and raw
/// literals, which cannot be broken.
fn longer_lines(text: &str) -> Vec<usize> {
    let mut longer = Vec::new();
    let mut is_raw = false;
    for (index, line) in text.lines().enumerate() {
        let begins = line.rfind("r#\"");
        let ends = line.rfind("\"#");
        let is_exempt = is_raw || begins.is_some() || line.trim_start().starts_with("//");
        if line.chars().count() > COLUMNS_MAX && !is_exempt {
            longer.push(index + 1);
        }
        // The beginning of a raw literal contains no end, and the end no beginning.
        is_raw = match (begins, ends) {
            (None, None) => is_raw,
            (begins, ends) => begins.map(|at| at + 1) > ends,
        };
    }
    longer
}

#[test]
fn code_has_at_most_100_columns() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut places = Vec::new();
    for directory in CHECKED {
        find_longer_lines(&workspace.join(directory), &mut places);
    }
    places.sort();
    assert!(
        places.is_empty(),
        "break the literals with a backslash:\n{}",
        places.join("\n")
    );
}

#[test]
fn raw_literals_and_comments_may_be_longer() {
    let long = "x".repeat(COLUMNS_MAX);
    let text = format!(
        "a{long}\n// {long}\nf(r#\"{long}\n{long}1\n\"#);\nb{long}\nr#\"{long}\"#\nc{long}"
    );
    assert_eq!(longer_lines(&text), [1, 6, 8]);
}
