//! Shell blocks of a document, and the shell that runs them.

use std::path::Path;
use std::process::{Command, Output};

use super::{Scratch, text};

/// Returns the blocks marked `sh`, in order.
pub(crate) fn shell_blocks(document: &str) -> Vec<&str> {
    let mut parts = document.split("```");
    let mut blocks = Vec::new();
    while let (Some(_), Some(block)) = (parts.next(), parts.next()) {
        blocks.extend(block.strip_prefix("sh\n"));
    }
    blocks
}

/// Runs a block in a shell that ends at the first failure, with the binary on its path.
pub(crate) fn run_block(block: &str, scratch: &Scratch, environment: &[(&str, &str)]) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_knowledge"));
    let own = text(binary.parent().expect("a directory"));
    let path = std::env::var("PATH").expect("a path");
    Command::new("sh")
        .args(["-euc", block])
        .current_dir(scratch.path(""))
        .env("PATH", format!("{own}:{path}"))
        .env("XDG_STATE_HOME", scratch.path("state"))
        .envs(environment.iter().copied())
        .output()
        .expect("run a shell")
}
