//! Memories.

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::HandlerResult;
use crate::api::body::Body;
use crate::api::headers;
use crate::api::query::Query;
use crate::api::response::ApiResponse;
use crate::limits::{INGEST_MEMORIES_MAX, Limits};
use crate::model::{BulkUpdate, MemoryChange, MemoryFilter, MemoryUpdate};
use crate::service::{
    CHANGE_RULE, CreateMemory, IngestResult, NewMemory, WithEtag, check_memory_ids, check_together,
};

impl Call<'_> {
    pub(super) async fn bulk_update(&self, credential: &Credential) -> HandlerResult {
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
        let response = ApiResponse::json(StatusCode::OK, &result);
        Ok(if result.replayed {
            response.replayed()
        } else {
            response
        })
    }

    pub(super) async fn list_memories(&self, credential: &Credential) -> HandlerResult {
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
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn memory(&self, credential: &Credential) -> HandlerResult {
        let WithEtag { value, etag } = self.service.memory(credential, self.id("id")).await?;
        let response = if headers::has_current(self.request.headers(), &etag) {
            ApiResponse::empty(StatusCode::NOT_MODIFIED)
        } else {
            ApiResponse::json(StatusCode::OK, &value)
        };
        Ok(response.etag(&etag).revalidated())
    }

    pub(super) async fn create_memory(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        body.require("sourceId");
        body.require("title");
        body.require("content");
        let source_id = body.id("sourceId");
        let (title, content) = (body.text("title"), body.text("content"));
        let source_key = body.text("sourceKey");
        let audience_tag = body.parsed("audienceTag");
        let sensitivity_label = body.parsed("sensitivityLabel");
        // The placeholders are valid: missing fields are already reported, and the others are
        // checked too.
        let memory = NewMemory {
            title: title.clone().unwrap_or_else(|| "-".to_owned()),
            content: content.clone().unwrap_or_else(|| "-".to_owned()),
            source_key,
            audience_tag,
            sensitivity_label,
        };
        memory.check("", "sourceKey", self.service.limits(), body.problems());
        let request = source_id
            .zip(title.zip(content))
            .map(|(source_id, (title, content))| CreateMemory {
                source_id,
                title,
                content,
                source_key: memory.source_key,
                audience_tag: memory.audience_tag,
                sensitivity_label: memory.sensitivity_label,
            });
        let request = body.finish(request)?;
        let WithEtag { value, etag } = self
            .service
            .create_memory(credential, self.workspace(), &request)
            .await?;
        Ok(ApiResponse::json(StatusCode::CREATED, &value).etag(&etag))
    }

    pub(super) async fn ingest(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        body.require("source_id");
        let source = body.id("source_id");
        let memories = new_memories(&mut body, self.service.limits());
        let (source, memories) = body.finish(source.zip(memories))?;
        let memories = self
            .service
            .ingest(credential, self.workspace(), source, &memories)
            .await?;
        Ok(ApiResponse::json(
            StatusCode::OK,
            &IngestResult { memories },
        ))
    }

    pub(super) async fn update_memory(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse_optional(self.request.body())?;
        let update = MemoryUpdate {
            title: body.text("title"),
            content: body.text("content"),
            change: MemoryChange {
                audience_tag: body.parsed("audienceTag"),
                sensitivity_label: body.parsed("sensitivityLabel"),
                source_id: body.id("sourceId"),
                review_status: body.parsed("reviewStatus"),
            },
        };
        body.problems()
            .note(update.validate(self.service.limits()))?;
        let update = body.finish(Some(update))?;
        let if_match = headers::if_match(self.request.headers());
        let WithEtag { value, etag } = self
            .service
            .update_memory(credential, self.id("id"), &update, if_match.as_ref())
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &value).etag(&etag))
    }

    pub(super) async fn delete_memory(&self, credential: &Credential) -> HandlerResult {
        let id = self.id("id");
        self.service.delete_memory(credential, id).await?;
        Ok(ApiResponse::empty(StatusCode::NO_CONTENT))
    }
}

/// Reads the field `memories` of a batch.
pub(super) fn new_memories(body: &mut Body, limits: &Limits) -> Option<Vec<NewMemory>> {
    body.require("memories");
    let memories = body.objects("memories", INGEST_MEMORIES_MAX, |item| {
        item.require("title");
        item.require("content");
        let (title, content) = (item.text("title"), item.text("content"));
        let memory = NewMemory {
            title: title.clone().unwrap_or_else(|| "-".to_owned()),
            content: content.clone().unwrap_or_else(|| "-".to_owned()),
            source_key: item.text("source_key"),
            audience_tag: item.parsed("audience_tag"),
            sensitivity_label: item.parsed("sensitivity_label"),
        };
        memory.check("", "source_key", limits, item.problems());
        title.zip(content).map(|_| memory)
    })?;
    check_together(&memories, body.problems());
    Some(memories)
}
