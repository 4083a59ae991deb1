//! Memories.

use serde_json::json;

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::{
    BulkResult, BulkUpdate, MemoryDetails, MemoryFilter, MemorySummary, MemoryUpdate,
};
use crate::service::{CreateMemory, IngestBatch, IngestResult};

/// Parameters of the operations on one memory, from the response to its creation.
const ID: &[(&str, &str)] = &[("id", "$response.body#/id")];

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::BulkUpdateMemories,
        "At least one attribute has to be set. The status is `200` whenever the request was processed: a memory that cannot \
         be changed does not fail the others, its item has an `error` instead of the `memory`. Within 24 hours the same \
         `Idempotency-Key` with the same body returns the stored result; with a different body it is rejected.",
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
        "Memories that match every filter, in order of creation. A caller that may relabel sees the labels of all of them; \
         the title is `null` for a caller that may not read the memory. A page examines a bounded number of memories, so \
         that it may be short or empty although more follow.",
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
        "The memory waits for review. A `sourceKey` that another memory from the source has is rejected; ingest a batch to update it.",
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
        "A batch is ingested completely or not at all. A known `source_key` updates that memory.",
    )
    .needs("ingest")
    .body::<IngestBatch>()
    .answers::<IngestResult>();
    all.describe(
        Operation::UpdateMemory,
        "Omitted fields are unchanged. Labels follow the rules of a bulk update.",
    )
    .needs("update_memory")
    .if_match()
    .optional_body::<MemoryUpdate>()
    .answers::<MemoryDetails>()
    .etag();
    all.describe(
        Operation::DeleteMemory,
        "Its title and content are erased everywhere; the audit log keeps identifiers and labels.",
    )
    .needs("delete_memory");
    all.describe(
        Operation::GetMemory,
        "A caller that may relabel sees the labels of every memory; title and content are `null` for a caller that may not read it.",
    )
    .needs("memory")
    .if_none_match()
    .answers::<MemoryDetails>()
    .etag();
}
