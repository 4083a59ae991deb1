//! Defects put back over the correct service, as a test of the property itself.
//!
//! The first five are defects that the service once had. Each is planted outside the service: from
//! stored records that are hidden from the principal, it alters a response into that of the
//! defective service. The property has to find each defect.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::messages::Message;
use super::world::World;
use crate::call::{ApiCall, IDEMPOTENCY_KEY};
use knowledge_core::Error;
use knowledge_core::api::Operation;
use knowledge_core::model::MemoryId;
use knowledge_core::service::PageRequest;

/// A defect that [`cases_until_found`](super::cases_until_found) puts back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedDefect {
    /// Ingest updates a hidden memory with the key of a new one, and says whether the text was the
    /// stored one.
    IngestOverHidden,
    /// A bulk update answers `forbidden` for a hidden memory and `not_found` for an unknown one.
    ForbiddenForHidden,
    /// A limited credential lists the sources of all workspaces.
    SourcesOfOthers,
    /// A replay shows the stored result after the caller has lost access.
    ReplayWithoutAccess,
    /// The cursor of a page follows from hidden rows too.
    CursorOverHidden,
    /// A search ranks over all memories, and removes the hidden ones from the best of them.
    FilterAfterRanking,
    /// A search weighs words by the numbers of all memories.
    StatisticsOverEverything,
    /// A service account reads for a member what the member may read, and it may not.
    ActWithoutIntersection,
    /// The tool `fetch` answers `forbidden` for a hidden memory and `not_found` for an unknown one.
    FetchOfHidden,
}

impl PlantedDefect {
    /// All planted defects.
    pub const ALL: [Self; 9] = [
        Self::IngestOverHidden,
        Self::ForbiddenForHidden,
        Self::SourcesOfOthers,
        Self::ReplayWithoutAccess,
        Self::CursorOverHidden,
        Self::FilterAfterRanking,
        Self::StatisticsOverEverything,
        Self::ActWithoutIntersection,
        Self::FetchOfHidden,
    ];

    /// Operation whose responses it alters; `None` for results of a tool.
    #[must_use]
    pub fn operation(self) -> Option<Operation> {
        Some(match self {
            Self::IngestOverHidden => Operation::IngestMemories,
            Self::ForbiddenForHidden | Self::ReplayWithoutAccess => Operation::BulkUpdateMemories,
            Self::SourcesOfOthers => Operation::ListSources,
            Self::CursorOverHidden => Operation::ListMemories,
            Self::FilterAfterRanking | Self::StatisticsOverEverything => Operation::SearchRecalls,
            Self::ActWithoutIntersection => Operation::GetMemory,
            Self::FetchOfHidden => return None,
        })
    }

    /// Returns the response of a service with this defect.
    pub(super) async fn alter(
        self,
        world: &World,
        call: &ApiCall,
        response: Response<bytes::Bytes>,
    ) -> Result<Response<bytes::Bytes>, Error> {
        if self.operation() != Some(call.operation) {
            return Ok(response);
        }
        let (mut parts, body) = response.into_parts();
        let mut json: Value = serde_json::from_slice(&body).unwrap_or_default();
        let is_success = parts.status.is_success();
        match self {
            Self::IngestOverHidden if parts.status == StatusCode::FORBIDDEN => {
                let new = &call.json()["memories"][0];
                if let Some(known) = world.hidden_holder(&call.path, &new["source_key"]).await? {
                    let is_stored = new["title"] == known.title.as_str()
                        && new["content"] == known.text.as_str();
                    let outcome = if is_stored { "unchanged" } else { "updated" };
                    parts.status = StatusCode::OK;
                    json = json!({ "memories": [{ "id": known.id, "outcome": outcome }] });
                }
            }
            Self::ForbiddenForHidden if is_success => {
                for item in json["results"].as_array_mut().into_iter().flatten() {
                    let id: MemoryId = serde_json::from_value(item["memoryId"].clone())
                        .expect("an item names its memory");
                    let is_stored = world.labels(id).await?.is_some();
                    if item["error"]["code"] == "not_found" && is_stored {
                        item["error"] = json!({ "code": "forbidden", "message": "forbidden" });
                    }
                }
            }
            Self::SourcesOfOthers if is_success => {
                let page = PageRequest::default();
                let (service, owner) = (&world.seed.service, &world.seed.owner);
                let all = service.sources().list(owner, &page).await?;
                json = serde_json::to_value(all).expect("a page is JSON");
            }
            Self::ReplayWithoutAccess if json["replayed"] == true => {
                if let Some(first) = call
                    .header(&IDEMPOTENCY_KEY)
                    .and_then(|key| world.first_results.get(key))
                {
                    json["results"] = first["results"].clone();
                    json["summary"] = first["summary"].clone();
                }
            }
            Self::CursorOverHidden if is_success && json["next_cursor"].is_null() => {
                let last = json["data"]
                    .as_array()
                    .and_then(|data| data.last()?["id"].as_str());
                let last = last.unwrap_or_default().to_owned();
                let following = world.hidden_in(&call.path).await?.into_iter().max();
                if let Some(following) = following.filter(|id| id.to_string() > last) {
                    json["next_cursor"] = json!(following.0.simple().to_string());
                }
            }
            Self::FilterAfterRanking if is_success => {
                // As many places as hidden memories with a word of the query take.
                let hidden = world.hidden_in(&call.path).await?.len();
                let limit = usize::try_from(call.json()["limit"].as_u64().unwrap_or(10));
                let left = limit.unwrap_or(usize::MAX).saturating_sub(hidden);
                let results = json["results"].as_array_mut();
                results.into_iter().for_each(|found| found.truncate(left));
            }
            Self::StatisticsOverEverything if is_success => {
                let hidden = world.hidden_in(&call.path).await?.len() as f64;
                for found in json["results"].as_array_mut().into_iter().flatten() {
                    let score = found["score"].as_f64();
                    found["score"] = json!(score.map(|score| score * (1.0 + hidden)));
                }
            }
            Self::ActWithoutIntersection if world.pat.caller.via.is_some() => {
                let request = world.pat.request(call, &world.pat.full_token);
                return Ok(world.api.handle(request).await);
            }
            _ => return Ok(Response::from_parts(parts, body)),
        }
        parts.headers.remove("content-length");
        Ok(Response::from_parts(parts, json.to_string().into()))
    }

    /// Returns the response of a service with this defect to a message.
    pub(super) async fn alter_result(
        self,
        world: &World,
        message: &Message,
        response: Response<bytes::Bytes>,
    ) -> Result<Response<bytes::Bytes>, Error> {
        let fetched = message.fetched().filter(|_| self == Self::FetchOfHidden);
        let Some(id) = fetched else {
            return Ok(response);
        };
        let (mut parts, body) = response.into_parts();
        let mut json: Value = serde_json::from_slice(&body).unwrap_or_default();
        let is_refused = json["result"]["isError"] == true;
        if !is_refused || world.labels(id).await?.is_none() {
            return Ok(Response::from_parts(parts, body));
        }
        json["result"]["content"][0]["text"] = json!("forbidden: forbidden");
        parts.headers.remove("content-length");
        Ok(Response::from_parts(parts, json.to_string().into()))
    }
}
