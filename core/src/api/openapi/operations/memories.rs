//! Memories.

use serde_json::json;

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::{
    BulkResult, BulkUpdate, MemoryDetails, MemoryFilter, MemorySummary, MemoryUpdate,
};
use crate::service::{CreateMemory, IngestBatch, IngestResult};

/// The memory that was just made.
const ID: &[(&str, &str)] = &[("id", "$response.body#/id")];

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::BulkUpdateMemories,
        "At least one attribute is set. The answer is `200` whenever the request was processed: one bad memory never \
         fails the others, its item has an `error` in place of the `memory`. Within 24 hours the same `Idempotency-Key` \
         with the same body returns the stored result; with another body it is refused.",
    )
    .needs("bulk_update")
    .idempotency_key()
    .body::<BulkUpdate>()
    .example(json!({
        "memoryIds": ["01890a5d-ac96-774b-bcce-b302099a8057"],
        "audienceTag": "team:platform",
        "sensitivityLabel": "confidential",
    }))
    .answers::<BulkResult>();
    all.describe(
        Operation::ListMemories,
        "Those that have every label that is asked for, in the order in which they were made. Who may relabel sees the \
         labels of all; what a memory says is shown to its readers, and `null` to others. A page looks through a bounded \
         number of memories: it may be short, or empty, and the list goes on all the same.",
    )
    .needs("list_memories")
    .query::<MemoryFilter>()
    .answers_page::<MemorySummary>()
    .leads_to(
        Operation::GetMemory,
        &[("id", "$response.body#/data/0/id")],
    );
    all.describe(
        Operation::CreateMemory,
        "It waits for review. A `sourceKey` that a memory from the source has already is refused: a batch updates.",
    )
    .needs("create_memory")
    .body::<CreateMemory>()
    .answers::<MemoryDetails>()
    .etag()
    .leads_to(Operation::GetMemory, ID)
    .leads_to(Operation::UpdateMemory, ID)
    .leads_to(Operation::DeleteMemory, ID);
    all.describe(
        Operation::IngestMemories,
        "All of the batch comes in, or none of it. A `source_key` seen before updates that memory.",
    )
    .needs("ingest")
    .body::<IngestBatch>()
    .answers::<IngestResult>();
    all.describe(
        Operation::UpdateMemory,
        "What is left out stays as it is; the labels follow the rules of a bulk update.",
    )
    .needs("update_memory")
    .if_match()
    .optional_body::<MemoryUpdate>()
    .answers::<MemoryDetails>()
    .etag();
    all.describe(
        Operation::DeleteMemory,
        "What it says is erased everywhere; the audit log keeps identifiers and labels.",
    )
    .needs("delete_memory");
    all.describe(
        Operation::GetMemory,
        "Who may relabel sees the labels of all; what a memory says is shown to its readers, and `null` to others.",
    )
    .needs("memory")
    .if_none_match()
    .answers::<MemoryDetails>()
    .etag();
}
