//! Memories.

use serde_json::json;

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::{BulkResult, BulkUpdate};

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
}
