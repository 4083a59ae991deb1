//! Tests of the documentation of upgrades: its commands, versions and messages.

use std::fs;
use std::path::PathBuf;

use knowledge_core::service::{OpenError, SCHEMA};
use knowledge_storage_embedded::OpenError as DirectoryError;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::support::{AssertText, Scratch, knowledge, run_block, shell_blocks, start};

const DOCS: &str = include_str!("../../../docs/upgrading.md");

/// Returns the storage format of a new store of this engine.
fn format_of(engine: &str) -> u64 {
    let scratch = Scratch::new();
    let store = format!("--store={engine}:{}", scratch.arg("data"));
    knowledge(&["init", "--org-slug=acme", &store]).ok();
    let kind = fs::read_to_string(scratch.path("data/knowledge-store.json")).expect("the file");
    let kind: Value = serde_json::from_str(&kind).expect("JSON");
    kind["format"].as_u64().expect("a number")
}

/// Writes a dump of the present schema, and returns its path.
fn dump(scratch: &Scratch, name: &str) -> PathBuf {
    knowledge(&["backup", &scratch.arg(name), &scratch.data_dir()]).ok();
    scratch.path(name)
}

#[test]
fn upgrade_commands_work_as_documented() {
    let scratch = Scratch::new();
    let data_dir = format!("--data-dir={}", scratch.arg("knowledge-data"));
    knowledge(&["init", "--org-slug=acme", &data_dir]).ok();
    let server = start(&["serve", &data_dir, "--listen=127.0.0.1:0"]);
    server.base_url();
    let blocks = shell_blocks(DOCS);
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        let ran = run_block(block, &scratch, &[]);
        assert!(ran.status.success(), "{block}: {ran:?}");
    }
    assert_eq!(server.terminate(), 0);
    assert!(scratch.path("before-upgrade.key").exists());

    // The way back.
    let old_data = format!("--data-dir={}", scratch.arg("old-data"));
    let dump = scratch.arg("before-upgrade.jsonl");
    knowledge(&["restore", &dump, &old_data, "--keep-credentials"]).ok();
    fs::copy(
        scratch.path("before-upgrade.key"),
        scratch.path("old-data.key"),
    )
    .expect("copy");
    knowledge(&["verify", &old_data]).ok();
}

#[test]
fn versions_of_data_are_those_documented() {
    let (sled, fjall) = (format_of("sled"), format_of("fjall"));
    for row in [
        format!("| schema | {SCHEMA} |"),
        format!("| storage format of sled | {sled} |"),
        format!("| storage format of fjall | {fjall} |"),
    ] {
        assert!(DOCS.contains(&row), "{row}");
    }
    let later = OpenError::LaterSchema { found: SCHEMA + 1 };
    let earlier = OpenError::EarlierSchema { found: SCHEMA - 1 };
    let other_format = DirectoryError::UnknownFormat {
        path: "/var/lib/knowledge/data".into(),
        found: sled + 1,
        known: sled,
    };
    for message in [
        later.to_string(),
        earlier.to_string(),
        other_format.to_string(),
    ] {
        assert!(DOCS.contains(&message), "{message}");
    }
}

#[test]
fn dump_of_later_schema_is_rejected_and_leaves_nothing() {
    let scratch = Scratch::with_org();
    let dump = fs::read_to_string(dump(&scratch, "dump.jsonl")).expect("a dump");
    let (own, later) = (
        format!("\"schema\":{SCHEMA}"),
        format!("\"schema\":{}", SCHEMA + 1),
    );
    let dump = dump.replacen(&own, &later, 1);
    let (lines, end) = dump.trim_end().rsplit_once('\n').expect("a last line");
    let lines = format!("{lines}\n");
    let mut end: Value = serde_json::from_str(end).expect("JSON");
    let digest = Sha256::digest(&lines);
    end["sha256"] = digest
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        .into();
    let later = scratch.write("later.jsonl", &format!("{lines}{end}\n"));
    let new = format!("--data-dir={}", scratch.arg("new"));
    let error = knowledge(&["restore", &later, &new]).failed();
    error.assert_has(&format!("schemas up to {SCHEMA}"));
    // Nothing of it is in the way of another dump.
    knowledge(&["restore", &scratch.arg("dump.jsonl"), &new]).ok();
}
