//! Test that what was erased stays erased in copies and restored stores.

use std::fs;

use knowledge_core::model::{Erasure, ErasureStatus};
use knowledge_core::service::{IngestOutcome, PageRequest};
use knowledge_testing::fixture::OrgFixture;
use knowledge_testing::requests::{new_memory, with};

use super::{complete_with_org, dumped, on, opened};
use crate::support::{Scratch, knowledge};

/// Receipts of a store, and what became of an erased key and of another one in an ingest.
struct Found {
    receipts: Vec<Erasure>,
    outcomes: Vec<IngestOutcome>,
}

impl Found {
    async fn of(scratch: &Scratch, directory: &str, org: &OrgFixture) -> Self {
        let (data, service) = opened(scratch, directory).await;
        let (owner, page) = (org.trusted_owner(), PageRequest::default());
        let listed = service.erasures().list(&owner, &page).await.unwrap();
        // The fixture has erased the first one.
        let batch = ["gone/1", "here/1"].map(|key| {
            with(new_memory("Page"), |new| {
                new.source_key = Some(key.to_owned());
            })
        });
        let memories = service.memories();
        let ingested = memories.ingest(&owner, org.main.id, org.sources[0], &batch);
        let ingested = ingested.await.unwrap();
        drop(service);
        drop(data);
        Self {
            receipts: listed.data,
            outcomes: ingested.iter().map(|memory| memory.outcome).collect(),
        }
    }
}

#[tokio::test]
async fn copied_and_restored_stores_suppress_what_was_erased() {
    let (scratch, org) = complete_with_org().await;
    let from = format!("--from=sled:{}", scratch.arg("data"));
    for (engine, directory) in [("fjall", "there"), ("sled", "again")] {
        let to = format!("--to={engine}:{}", scratch.arg(directory));
        knowledge(&["copy", &from, &to]).ok();
    }
    dumped(&scratch, "data", "whole.jsonl");
    let dump = scratch.arg("whole.jsonl");
    on(&scratch, "restored", &["restore", &dump]).ok();
    fs::copy(scratch.path("data.key"), scratch.path("restored.key")).unwrap();

    let source = Found::of(&scratch, "data", &org).await;
    assert_eq!(source.receipts.len(), 1);
    assert_eq!(source.receipts[0].status, ErasureStatus::Completed);
    assert_eq!(source.receipts[0].remains.source_key_hashes, Some(1));
    for directory in ["there", "again", "restored"] {
        let found = Found::of(&scratch, directory, &org).await;
        assert_eq!(found.receipts, source.receipts, "{directory}");
        let expected = [IngestOutcome::Erased, IngestOutcome::Created];
        assert_eq!(found.outcomes, expected, "{directory}");
        on(&scratch, directory, &["verify"]).ok();
    }
}
