//! Tests that no crate has a circle: files of a crate that import each other, directly or through others.
//!
//! An import of a re-exported item leads to the file that declares it. Re-exports themselves, tests
//! and paths outside `use` are not counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::process::Result;

/// Path of a module or an item, from the root of its crate.
type ModulePath = Vec<String>;

/// Imports of one file, each with its full path.
#[derive(Default)]
struct Imports {
    private: Vec<ModulePath>,
    reexported: Vec<ModulePath>,
}

/// Reads the files below a directory, without tests.
fn read(
    directory: &Path,
    module: &mut ModulePath,
    files: &mut BTreeMap<ModulePath, Imports>,
) -> Result {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if name == "tests" || name.ends_with("_tests") || name == "main" {
            continue;
        }
        let is_own = ["mod", "lib"].contains(&&*name);
        module.extend((!is_own).then(|| name.into_owned()));
        if path.is_dir() {
            read(&path, module, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.insert(module.clone(), imports(&fs::read_to_string(&path)?, module));
        }
        module.truncate(module.len() - usize::from(!is_own));
    }
    Ok(())
}

/// Returns the imports of a file. Its test module, the last one, is skipped.
fn imports(text: &str, module: &[String]) -> Imports {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut imports = Imports::default();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((before, start)) = line.split_once("use ") else {
            continue;
        };
        let is_public = before.starts_with("pub");
        if !(before.trim().is_empty() || is_public && !before.contains("//")) {
            continue;
        }
        let mut tree = start.to_owned();
        while !tree.contains(';') {
            let Some(line) = lines.next() else { break };
            tree.push_str(line);
        }
        let tree = tree.split(';').next().unwrap_or_default();
        for path in expand(tree) {
            // Within functions and inline modules `super` is another module.
            let is_relative = !line.starts_with(' ');
            match absolute(&path, module, text) {
                Some(path) if is_public => imports.reexported.push(path),
                Some(absolute) if is_relative || path.starts_with("crate::") => {
                    imports.private.push(absolute);
                }
                _ => {}
            }
        }
    }
    imports
}

/// Expands `a::{b, c::{d, e}}` to its paths.
fn expand(tree: &str) -> Vec<String> {
    let Some((head, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.trim().to_owned()];
    };
    let body = rest.rsplit_once('}').map_or(rest, |(body, _)| body);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for letter in body.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("one part at least").push(letter);
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    let paths = parts.flat_map(|part| expand(part));
    paths.map(|path| format!("{}{path}", head.trim())).collect()
}

/// Returns the path from the root of the crate; `None` for a path of another crate.
fn absolute(path: &str, module: &[String], text: &str) -> Option<ModulePath> {
    let mut segments = path.split("::").peekable();
    let mut base = module.to_vec();
    match segments.peek().copied() {
        Some("crate") => base.clear(),
        Some("super") => base.truncate(base.len().checked_sub(1)?),
        Some("self") => {}
        Some(child) if text.contains(&format!("mod {child};\n")) => {
            base.push(child.to_owned());
        }
        _ => return None,
    }
    segments.next();
    for segment in segments {
        match segment {
            "super" => drop(base.pop()),
            _ => base.push(segment.to_owned()),
        }
    }
    Some(base)
}

/// Returns the file that an import of `from` leads to; `None` for its own file, and for an
/// enclosing module as a whole.
fn target<'f>(
    files: &'f BTreeMap<ModulePath, Imports>,
    path: &[String],
    from: &[String],
) -> Option<&'f ModulePath> {
    let lengths = (0..=path.len()).rev();
    let mut known = lengths.filter_map(|length| files.get_key_value(&path[..length]));
    let (module, imports) = known.next()?;
    let item = path.get(module.len());
    if module == from || item.is_none() && from.starts_with(module) {
        return None;
    }
    let mut reexports = imports.reexported.iter();
    match reexports.find(|reexport| item.is_some() && reexport.last() == item) {
        Some(reexport) if reexport != path => target(files, reexport, from),
        _ => Some(module),
    }
}

/// Returns the files of a circle, if there is one.
fn circle(files: &BTreeMap<ModulePath, Imports>) -> Option<String> {
    let mut edges: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> = BTreeMap::new();
    for (from, imports) in files {
        let targets = imports.private.iter();
        let targets = targets.filter_map(|path| target(files, path, from));
        edges.insert(from, targets.collect());
    }
    // What imports nothing that is left is in no circle.
    while let Some(free) = edges.iter().find(|(_, to)| to.is_empty()) {
        let free = *free.0;
        edges.remove(free);
        for to in edges.values_mut() {
            to.remove(free);
        }
    }
    let (mut at, mut path) = (*edges.keys().next()?, Vec::new());
    while !path.contains(&at) {
        path.push(at);
        at = edges[at].first()?;
    }
    let names = path.iter().skip_while(|module| **module != at).chain([&at]);
    let names: Vec<_> = names.map(|module| module.join("::")).collect();
    Some(names.join(" -> "))
}

fn circle_of(sources: &[(&str, &str)]) -> Option<String> {
    let files = sources.iter().map(|(name, text)| {
        let segments = name.split("::").filter(|name| !name.is_empty());
        let module: ModulePath = segments.map(str::to_owned).collect();
        (module.clone(), imports(text, &module))
    });
    circle(&files.collect())
}

#[test]
fn circle_is_found_across_reexports() {
    let found = circle_of(&[
        ("", "mod a;\nmod b;\n"),
        ("a", "mod inner;\npub use self::inner::{Inner, Other};\n"),
        (
            "a::inner",
            "use std::fmt;\n\nuse crate::b::{\n    self, c::D,\n};\n",
        ),
        ("b", "use super::a::Inner;\n"),
    ]);
    assert_eq!(found.as_deref(), Some("a::inner -> b -> a::inner"));
}

#[test]
fn circle_is_found_between_module_and_enclosing_one() {
    let found = circle_of(&[
        ("", "mod a;\n"),
        ("a", "mod b;\nuse self::b::Part;\n"),
        ("a::b", "use super::Whole;\n"),
    ]);
    assert_eq!(found.as_deref(), Some("a -> a::b -> a"));
}

#[test]
fn circle_ignores_facades_tests_and_comments() {
    let found = circle_of(&[
        ("", "mod a;\npub use a::Item;\n"),
        (
            "a",
            "mod b;\nmod e;\npub use self::e::Whole;\nuse self::b::Part;\nuse crate::Item;\n",
        ),
        (
            "a::b",
            "use super::Whole;\n\n#[cfg(test)]\nmod tests {\n    use crate::c::X;\n}\n",
        ),
        ("a::e", "use std::fmt;\n"),
        ("c", "// use crate::d::Y;\nuse crate::a::b::Part;\n"),
        ("d", "use crate::c::X;\n"),
    ]);
    assert_eq!(found, None);
}

#[test]
fn workspace_has_no_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in fs::read_dir(root).expect("the workspace") {
        let source = entry.expect("an entry").path().join("src");
        let mut files = BTreeMap::new();
        if source.is_dir() {
            read(&source, &mut Vec::new(), &mut files).expect("read the sources");
        }
        assert_eq!(circle(&files), None, "{}", source.display());
    }
}
