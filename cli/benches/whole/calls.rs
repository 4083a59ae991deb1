//! Requests of the rows, and their responses.

use http::Method;
use knowledge_core::model::{MemoryId, WorkspaceId};
use serde_json::json;

use crate::load::{Answer, Call};
use crate::spec::Recorded;

/// Headers that differ from response to response, or that the HTTP library adds.
const ADDED_HEADERS: [&str; 4] = ["connection", "content-length", "date", "transfer-encoding"];

pub(crate) fn dashboard_path(workspace: WorkspaceId) -> String {
    format!("/v1/workspaces/{workspace}/dashboard-summary")
}

/// Returns a request of the holder of a token without a body.
pub(crate) fn call(token: &str, method: Method, path: String) -> Call {
    Call::new(method, path).with("authorization", format!("Bearer {token}"))
}

/// Returns a bulk update of one attribute, by the holder of a token.
pub(crate) fn patch(
    token: &str,
    key: &str,
    memories: &[MemoryId],
    field: &str,
    value: &str,
) -> Call {
    let update = call(token, Method::PATCH, "/v1/memories/bulk".to_owned());
    let update = update.with("idempotency-key", key);
    update.json(&json!({ "memoryIds": memories, field: value }))
}

/// Panics unless an update changed this number of memories.
pub(crate) fn assert_succeeded(answer: &Answer, count: usize) {
    let result = answer.json();
    assert_eq!(result["summary"]["succeeded"], count, "{result}");
}

/// Returns a response as the reference repeats it.
pub(crate) fn record(answer: &Answer) -> Recorded {
    let headers = answer.headers.iter();
    let headers = headers.filter(|(name, _)| !ADDED_HEADERS.contains(&name.as_str()));
    let text = |value: &http::HeaderValue| value.to_str().expect("ASCII").to_owned();
    Recorded {
        status: answer.status.as_u16(),
        headers: headers
            .map(|(name, value)| (name.as_str().to_owned(), text(value)))
            .collect(),
        body: answer.body.to_vec(),
    }
}
