//! Embeds the files of the console, if it has the feature `console`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Directory of the page.
const PAGE: &str = "../console/page";
/// The style sheet that is embedded. Those in `styles` are in it.
const STYLE: &str = "console.css";
/// Extensions of the files that are served, with their media types. Others only describe types.
const TYPES: [(&str, &str); 4] = [
    ("css", "text/css; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("svg", "image/svg+xml"),
];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_CONSOLE").is_none() {
        return Ok(());
    }
    println!("cargo::rerun-if-changed={PAGE}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut list = String::from("[\n");
    for (path, content_type) in files(Path::new(PAGE))? {
        let relative = path.strip_prefix(PAGE).expect("it is below the directory");
        let name = relative.to_str().expect("names are ASCII");
        let text = match name {
            "index.html" => page(&fs::read_to_string(&path)?),
            STYLE => style()?,
            _ => fs::read_to_string(&path)?,
        };
        let embedded = out.join("console").join(relative);
        fs::create_dir_all(embedded.parent().expect("a file has a directory"))?;
        fs::write(&embedded, without_comments(&text))?;
        writeln!(
            list,
            "    ({name:?}, {content_type:?}, include_str!({embedded:?})),"
        )
        .expect("a string can be written");
    }
    list.push(']');
    fs::write(out.join("console.rs"), list)
}

/// Returns the files below a directory that are served, with their media types, sorted by path.
fn files(directory: &Path) -> io::Result<Vec<(PathBuf, &'static str)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.ends_with("styles") {
            continue;
        } else if path.is_dir() {
            found.extend(files(&path)?);
        } else if !path.to_string_lossy().ends_with(".d.ts") {
            let extension = path.extension().unwrap_or_default();
            let known = TYPES.iter().find(|(known, _)| *known == extension);
            found.extend(known.map(|(_, content_type)| (path.clone(), *content_type)));
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the style sheet that a line of the page links.
fn sheet(line: &str) -> Option<&str> {
    let link = r#"<link rel="stylesheet" href="console/"#;
    line.trim().strip_prefix(link)?.split('"').next()
}

/// Returns the page with one style sheet, which has the rules of all.
fn page(text: &str) -> String {
    let is_kept = |line: &&str| sheet(line).is_none_or(|name| name == STYLE);
    text.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
}

/// Returns the rules of all style sheets in the order of the page: in one file they are a fifth
/// smaller when it is compressed.
fn style() -> io::Result<String> {
    let page = fs::read_to_string(Path::new(PAGE).join("index.html"))?;
    let sheets = page.lines().filter_map(sheet);
    sheets
        .map(|name| fs::read_to_string(Path::new(PAGE).join(name)))
        .collect()
}

/// Returns a text without block comments, lines of comment, blank lines and indentation, which no
/// text of the page depends on: they are a third of it.
fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some((before, after)) = rest.split_once("/*") {
        // The licence of a library stays with it.
        let (comment, after) = after.split_once("*/").unwrap_or((after, ""));
        kept.push_str(before);
        if comment.contains("@license") {
            kept.extend(["/*", comment, "*/"]);
        }
        rest = after;
    }
    kept.push_str(rest);
    let lines = kept.lines().map(str::trim_start);
    let mut shown = String::with_capacity(kept.len());
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("//")) {
        shown.push_str(line);
        shown.push('\n');
    }
    shown
}
