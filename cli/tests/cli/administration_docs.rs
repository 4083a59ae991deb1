//! Test of the commands in the documentation of administration.

use crate::support::{Scratch, run_block, shell_blocks, start};

const DOCS: &str = include_str!("../../../docs/administration.md");

#[test]
fn administration_commands_work_as_documented() {
    let scratch = Scratch::new();
    let blocks = shell_blocks(DOCS);
    assert!(blocks.len() >= 7, "{blocks:?}");
    let first = run_block(blocks[0], &scratch, &[]);
    assert!(first.status.success(), "{first:?}");
    let data_dir = format!("--data-dir={}", scratch.arg("knowledge-data"));
    let server = start(&["serve", &data_dir, "--listen=127.0.0.1:0"]);
    let url = server.base_url();
    for block in &blocks {
        let output = run_block(block, &scratch, &[("KNOWLEDGE_URL", &url)]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{block}\n{said}");
    }
    assert_eq!(server.terminate(), 0);
}
