//! Memories.

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::Handled;
use crate::api::body::Body;
use crate::api::headers;
use crate::api::query::Query;
use crate::api::response::Answer;
use crate::model::{BulkUpdate, MemoryChange, MemoryFilter};
use crate::service::{CHANGE_RULE, Tagged, check_memory_ids};

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

    pub(super) async fn list_memories(&self, credential: &Credential) -> Handled {
        let mut query = Query::parse(self.request.uri());
        let filter = MemoryFilter {
            audience_tag: query.parsed("audienceTag"),
            sensitivity_label: query.parsed("sensitivityLabel"),
            review_status: query.parsed("reviewStatus"),
            source_id: query.parsed("sourceId"),
        };
        let page = query.page();
        let page = query.finish(page)?;
        let found = self
            .service
            .list_memories(credential, self.workspace(), &filter, &page)
            .await?;
        Ok(Answer::json(StatusCode::OK, &found))
    }

    pub(super) async fn memory(&self, credential: &Credential) -> Handled {
        let Tagged { value, etag } = self.service.memory(credential, self.id("id")).await?;
        let answer = if headers::has_current(self.request.headers(), &etag) {
            Answer::empty(StatusCode::NOT_MODIFIED)
        } else {
            Answer::json(StatusCode::OK, &value)
        };
        Ok(answer.etag(&etag).revalidated())
    }
}
