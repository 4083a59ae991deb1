//! Test that lines of code have at most 100 columns.
//!
//! rustfmt ensures that, unless a literal is too long: then it leaves the whole statement as it is,
//! and `cargo fmt --check` stays silent.

use std::fs;
use std::path::Path;

const COLUMNS_MAX: usize = 100;

/// Directories whose code is checked.
const CHECKED: [&str; 4] = [
    "benches/src",
    "server-warp/src",
    "storage-sled/src",
    "store/src",
];

/// Collects the places of longer lines below a directory. Comments may contain long links.
fn find_longer_lines(directory: &Path, places: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            find_longer_lines(&path, places);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a file");
            let lines = text.lines().enumerate();
            let longer = lines.filter(|(_, line)| {
                line.chars().count() > COLUMNS_MAX && !line.trim_start().starts_with("//")
            });
            places.extend(longer.map(|(index, _)| format!("{}:{}", path.display(), index + 1)));
        }
    }
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
