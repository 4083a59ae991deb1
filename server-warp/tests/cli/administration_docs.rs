//! What the documentation of administration says to type is typed here.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Scratch, start, text};

const DOCS: &str = include_str!("../../../docs/administration.md");

/// The blocks that are for a shell.
fn blocks() -> Vec<&'static str> {
    let mut parts = DOCS.split("```");
    let mut blocks = Vec::new();
    while let (Some(_), Some(block)) = (parts.next(), parts.next()) {
        blocks.extend(block.strip_prefix("sh\n"));
    }
    blocks
}

/// Runs a block as a shell does that ends at the first failure, with the binary on its path.
fn run(block: &str, scratch: &Scratch, url: &str) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_knowledge"));
    let own = text(binary.parent().expect("a directory"));
    let path = std::env::var("PATH").expect("a path");
    Command::new("sh")
        .args(["-euc", block])
        .current_dir(scratch.path(""))
        .env("PATH", format!("{own}:{path}"))
        .env("KNOWLEDGE_URL", url)
        .env("XDG_STATE_HOME", scratch.path("state"))
        .output()
        .expect("run a shell")
}

#[test]
fn what_the_documentation_says_to_type_works() {
    let scratch = Scratch::new();
    let blocks = blocks();
    assert!(blocks.len() >= 7, "{blocks:?}");
    let first = run(blocks[0], &scratch, "");
    assert!(first.status.success(), "{first:?}");
    let data_dir = format!("--data-dir={}", scratch.arg("knowledge-data"));
    let server = start(&["serve", &data_dir, "--listen=127.0.0.1:0"]);
    let url = server.base_url();
    for block in &blocks {
        let output = run(block, &scratch, &url);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{block}\n{said}");
    }
    assert_eq!(server.terminate(), 0);
}
