//! Tests of `knowledge config`, and of the configuration of the other commands.

mod checked;
mod in_force;
mod network;
mod shown;

use serde_json::Value;

use crate::support::{Scratch, knowledge_in};

/// Returns the settings as `knowledge config show` reports them to programs.
fn shown(environment: &[(&str, &str)], args: &[&str]) -> Vec<Value> {
    let args = [&["config", "show", "--output=json"], args].concat();
    let run = knowledge_in(environment, &args).ok();
    serde_json::from_str(&run.stdout).expect("a list")
}

/// Returns one of the settings.
fn setting<'s>(shown: &'s [Value], path: &str) -> &'s Value {
    let found = shown.iter().find(|setting| setting["setting"] == path);
    found.unwrap_or_else(|| panic!("there is no {path}"))
}

/// Returns all lines of a configuration error, without the directory of the test.
fn problems(scratch: &Scratch, stderr: &str) -> Vec<String> {
    let directory = format!("{}/", scratch.arg("").trim_end_matches('/'));
    let mut lines = stderr.lines().map(|line| line.replace(&directory, ""));
    assert_eq!(
        lines.next().as_deref(),
        Some("error: the configuration cannot be used:"),
        "{stderr}"
    );
    lines.collect()
}
