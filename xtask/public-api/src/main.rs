//! Prints the public API of a crate, one item a line, from the JSON that rustdoc has written.
//!
//! The list is made to be read as a diff: an implementation of a trait is one line, without the
//! items that the trait prescribes, and paths are short.

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;

use public_api::{Builder, PublicItem};

/// Crates whose paths are shortened to the last segment.
const STANDARD: [&str; 3] = ["alloc", "core", "std"];
/// Trait that the compiler implements beside `PartialEq`; it is not for use.
const MARKER: &str = "impl core::marker::StructuralPartialEq for ";

fn main() -> ExitCode {
    let Some(file) = std::env::args().nth(1) else {
        eprintln!("usage: xtask-public-api CRATE.json");
        return ExitCode::FAILURE;
    };
    match print(&file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The format changes with the compiler, and `public-api` reads only some formats.
            eprintln!("cannot read {file}: {error}");
            eprintln!("if the compiler is new, update `public-api` in xtask/public-api/Cargo.toml");
            ExitCode::FAILURE
        }
    }
}

fn print(file: &str) -> Result<(), public_api::Error> {
    let api = Builder::from_rustdoc_json(file)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()?;
    let crate_name = Path::new(file).file_stem().and_then(|stem| stem.to_str());
    let items: Vec<(&PublicItem, String)> =
        api.items().map(|item| (item, item.to_string())).collect();
    let implementations: HashSet<_> = items
        .iter()
        .filter(|(_, line)| line.starts_with("impl") && line.contains(" for "))
        .map(|(item, _)| item.id())
        .collect();
    for (item, line) in &items {
        let parent = item.parent_id();
        let is_prescribed = parent.is_some_and(|parent| implementations.contains(&parent));
        if !is_prescribed && !line.contains(MARKER) {
            println!("{}", shorten(line, crate_name.unwrap_or_default()));
        }
    }
    Ok(())
}

/// Shortens the paths of the standard library, and those of the crate, in a line.
fn shorten(line: &str, crate_name: &str) -> String {
    let is_of_path = |character: char| character.is_alphanumeric() || "_:".contains(character);
    let mut short = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let (path, after) = rest.split_at(rest.find(|c| !is_of_path(c)).unwrap_or(rest.len()));
        short.push_str(match path.split_once("::") {
            Some((first, below)) if first == crate_name => below,
            Some((first, below)) if STANDARD.contains(&first) => {
                below.rsplit("::").next().unwrap_or(below)
            }
            _ => path,
        });
        let (between, next) = after.split_at(after.find(is_of_path).unwrap_or(after.len()));
        short.push_str(between);
        rest = next;
    }
    short
}

#[cfg(test)]
mod tests {
    use super::shorten;

    #[test]
    fn paths_of_the_crate_and_of_the_standard_library_are_short() {
        let line = "pub fn this::A::b(&self, core::option::Option<other::C>) -> this::d::E";
        let short = "pub fn A::b(&self, Option<other::C>) -> d::E";
        assert_eq!(shorten(line, "this"), short);
        assert_eq!(shorten("pub mod this", "this"), "pub mod this");
    }
}
