//! Memories.

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::Handled;
use crate::api::body::Body;
use crate::api::headers;
use crate::api::response::Answer;
use crate::model::{BulkUpdate, MemoryChange};
use crate::service::{CHANGE_RULE, check_memory_ids};

impl Call<'_> {
    pub(super) async fn bulk_update(&self, credential: &Credential) -> Handled {
        let key = headers::idempotency_key(self.request.headers())?;
        let mut body = Body::parse(self.request.body())?;
        body.require("memoryIds");
        let memory_ids = body.ids("memoryIds");
        if let Some(ids) = &memory_ids {
            check_memory_ids(body.problems(), ids, self.service.limits());
        }
        let change = MemoryChange {
            audience_tag: body.parsed("audienceTag"),
            sensitivity_label: body.parsed("sensitivityLabel"),
            source_id: body.id("sourceId"),
            review_status: body.parsed("reviewStatus"),
        };
        let attributes = [
            "audienceTag",
            "sensitivityLabel",
            "sourceId",
            "reviewStatus",
        ];
        body.require_any(&attributes, CHANGE_RULE);
        let update = body.finish(memory_ids.map(|memory_ids| BulkUpdate { memory_ids, change }))?;
        let result = self.service.bulk_update(credential, &key, &update).await?;
        let answer = Answer::json(StatusCode::OK, &result);
        Ok(if result.replayed {
            answer.replayed()
        } else {
            answer
        })
    }
}
