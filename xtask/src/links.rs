//! Test that the links of the documentation lead somewhere: to a file, and to a heading in it.
//!
//! Links to other sites and those that rustdoc resolves are not followed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories whose documents are not of this repository.
const SKIPPED: [&str; 4] = ["target", "node_modules", "pkg", "pkg-testing"];

/// Returns the documents below a directory.
fn documents(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&&*name) {
                found.extend(documents(&path));
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    found
}

/// Returns the text without blocks of code.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the targets of the links and pictures.
fn targets(text: &str) -> Vec<String> {
    let text = prose(text);
    let links = text.split("](").skip(1);
    let targets = links.filter_map(|link| link.split(')').next());
    targets.map(str::to_owned).collect()
}

/// Returns the anchors of a document: one for each heading, as GitHub derives it, and the explicit
/// ones.
fn anchors(text: &str) -> BTreeSet<String> {
    let text = prose(text);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let derived = headings.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = |char: &char| char.is_alphanumeric() || "-_ ".contains(*char);
        title
            .replace('`', "")
            .chars()
            .filter(kept)
            .collect::<String>()
            .replace(' ', "-")
    });
    let own = text.split("<a id=\"").skip(1);
    let own = own.filter_map(|rest| rest.split('"').next());
    derived.chain(own.map(str::to_owned)).collect()
}

/// Returns the problem of a link in a document, if it has one.
fn problem(document: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.contains("::") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = match path {
        "" => document.to_owned(),
        path => document.parent().expect("a directory").join(path),
    };
    let failed = |what: &str| Some(format!("{}: {target}: {what}", document.display()));
    if !file.exists() {
        return failed("no such file");
    }
    if anchor.is_empty() {
        return None;
    }
    let text = fs::read_to_string(&file).unwrap_or_default();
    if anchors(&text).contains(anchor) {
        return None;
    }
    failed("no such heading")
}

#[test]
fn links_of_documents_lead_to_files_and_headings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut problems = Vec::new();
    let mut links = 0;
    for document in documents(&root) {
        let text = fs::read_to_string(&document).expect("a document");
        for target in targets(&text) {
            links += 1;
            problems.extend(problem(&document, &target));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(links > 100, "{links}");
}

#[test]
fn link_to_missing_file_or_heading_is_found() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    for (target, is_valid) in [
        ("docs/reference.md", true),
        ("docs/reference.md#authorisation", true),
        ("docs/none.md", false),
        ("docs/reference.md#nothing", false),
        ("#nothing", false),
        ("https://example.com/#nothing", true),
    ] {
        assert_eq!(problem(&document, target).is_none(), is_valid, "{target}");
    }
    assert_eq!(
        targets("![picture](a.png) [b](c.md)\n```\n[d](e)\n```"),
        ["a.png", "c.md"]
    );
    let found = anchors("# The `x`: a, b\n<a id=\"own\"></a>\n```\n# code\n```");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["own", "the-x-a-b"]);
}
