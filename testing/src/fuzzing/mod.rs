//! Checks of whatever bytes a fuzzer finds.
//!
//! Inputs are text, so that a seed can be read, a fuzzer can splice them by the line, and an
//! unknown line does not make the rest worthless. The seeds in `fuzz/seeds` are run by tests too.
//!
//! - [`check_decisions`]: roles and scopes of credentials.
//! - [`check_requests`]: scripts of HTTP requests of several callers.
//! - [`check_parsers`]: bodies of bulk updates, keys of the store, signed messages.
//! - [`check_commands`]: commits and reads of a store, which may be reopened in between.

mod bulk;
mod commands;
mod decisions;
mod entries;
mod messages;
mod observed;
mod requests;
mod script;
mod world;

use std::path::Path;

pub use self::commands::check_commands;
pub use self::decisions::check_decisions;
pub use self::requests::{Handled, check_requests};

/// Checks one input of a parser, which its first line names.
///
/// # Panics
/// If a property does not hold.
pub async fn check_parsers(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n');
    let (parser, rest) = input.split_at(end.map_or(input.len(), |end| end + 1));
    match parser.trim_ascii() {
        b"bulk" => bulk::check(rest).await,
        b"entry" => entries::check_entry(rest).await,
        b"keys" => entries::check_order(rest),
        b"message" => messages::check(rest).await,
        _ => {}
    }
}

/// Returns the seeds of a fuzz target by their names.
///
/// # Panics
/// If there are none, or they cannot be read.
#[must_use]
pub fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
    let listed = std::fs::read_dir(directory.join(target)).expect("the target has seeds");
    let seed = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("the directory can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let bytes = std::fs::read(&path).expect("the seed can be read");
        (name.into_owned(), bytes)
    };
    let mut seeds: Vec<_> = listed.map(seed).collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "{target} has no seeds");
    seeds
}
